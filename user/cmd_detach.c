// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom detach: take filters off devices. The filters stay, and so do programs of others.
 */
#include "cli.h"

static const struct option options[] = { COMMON_OPTIONS };

static int run(int argc, char **argv)
{
	struct xbloom_error err = { "" };
	bool json = false;
	int c;

	while ((c = next_option(&verb_detach, argc, argv, options)) != -1) {
		if (c != OPT_JSON)
			return EXIT_FAILED;
		json = true;
	}
	if (optind == argc)
		return fail("detach needs a device (xdp-bloom detach --help)");
	if (xbloom_detach((const char *const *)argv + optind, (size_t)(argc - optind), &err))
		return fail_err(&err);
	print_devices_done("detached", argv + optind, (size_t)(argc - optind), json);
	return EXIT_DONE;
}

const struct verb verb_detach = {
	.name = "detach",
	.summary = "take filters off devices",
	.help = "usage: xdp-bloom detach DEV...\n"
		"\n"
		"Takes off what xdp-bloom attached; another XDP program stays, and is named. Of "
		"several\n"
		"devices either all are changed or none.\n"
		"\n"
		"  --json  one JSON object\n",
	.run = run,
};
