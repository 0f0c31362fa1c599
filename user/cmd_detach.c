// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom detach: take filters off devices. The filters stay, and so do programs of others.
 */
#include "cli.h"

static const struct option options[] = { COMMON_OPTIONS };

static int run(int argc, char **argv)
{
	struct xbloom_error err = { "" };
	struct json_object *o, *names;
	bool json = false;
	int c, i, status = EXIT_DONE;

	while ((c = next_option(&verb_detach, argc, argv, options)) != -1) {
		if (c != OPT_JSON)
			return EXIT_FAILED;
		json = true;
	}
	if (optind == argc)
		return fail("detach needs a device (xdp-bloom detach --help)");
	names = json_object_new_array();
	for (i = optind; i < argc; i++) {
		if (xbloom_detach(argv[i], &err)) {
			status = fail_err(&err);
			continue;
		}
		json_object_array_add(names, json_object_new_string(argv[i]));
		if (!json)
			printf("%s: detached\n", argv[i]);
	}
	if (json && status == EXIT_DONE) {
		o = json_object_new_object();
		json_add(o, "detached", names);
		print_json(o);
	} else {
		json_object_put(names);
	}
	return status;
}

const struct verb verb_detach = {
	.name = "detach",
	.summary = "take filters off devices",
	.help = "usage: xdp-bloom detach DEV...\n"
		"\n"
		"Takes off what xdp-bloom attached; another XDP program stays, and is named.\n"
		"\n"
		"  --json  one JSON object\n",
	.run = run,
};
