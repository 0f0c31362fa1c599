// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom detach: take filters off devices. The filters stay, and so do programs of others.
 */
#include "exemptions.h"

static const struct option options[] = { COMMON_OPTIONS };

static int run(int argc, char **argv)
{
	const char *const *devices;
	struct xbloom_error err = { "" };
	struct leaving *leaving = NULL;
	bool json = false;
	size_t n;
	int c, ret;

	while ((c = next_option(&verb_detach, argc, argv, options)) != -1) {
		if (c != OPT_JSON)
			return EXIT_FAILED;
		json = true;
	}
	if (optind == argc)
		return fail("detach needs a device (xdp-bloom detach --help)");
	devices = (const char *const *)argv + optind;
	n = (size_t)(argc - optind);
	ret = leaving_look(devices, n, &leaving, &err);
	if (!ret)
		ret = xbloom_detach(devices, n, &err);
	if (!ret) {
		/* Not before: as long as a filter is there, its guard is. */
		leaving_forget(leaving);
		print_devices_done("detached", argv + optind, n, json);
	}
	leaving_free(leaving);
	return ret ? fail_err(&err) : EXIT_DONE;
}

const struct verb verb_detach = {
	.name = "detach",
	.summary = "take filters off devices",
	.help = "usage: xdp-bloom detach DEV...\n"
		"\n"
		"Takes off what xdp-bloom attached; another XDP program stays, and is named. Of "
		"several\n"
		"devices either all are changed or none. What the guard of attach exempted "
		"for\n"
		"their sake is exempt no more.\n"
		"\n"
		"  --json  one JSON object\n",
	.run = run,
};
