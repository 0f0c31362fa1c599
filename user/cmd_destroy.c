// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom destroy: detach a filter and remove all of it, whatever state it is in.
 */
#include "cli.h"

static const struct option options[] = { COMMON_OPTIONS };

static int run(int argc, char **argv)
{
	struct xbloom_error err = { "" };
	struct json_object *o;
	bool json = false;
	int c, ret;

	while ((c = next_option(&verb_destroy, argc, argv, options)) != -1) {
		if (c != OPT_JSON)
			return EXIT_FAILED;
		json = true;
	}
	if (argc - optind != 1)
		return fail("destroy needs the name of one filter (xdp-bloom destroy --help)");
	/* Whole or not at all: half of it would be a filter that drops and has no name. */
	hold_signals();
	ret = xbloom_destroy(argv[optind], cli_options(), &err);
	release_signals();
	if (ret)
		return fail_err(&err);
	if (json) {
		o = json_object_new_object();
		json_add(o, "destroyed", json_object_new_string(argv[optind]));
		print_json(o);
	} else {
		printf("%s: destroyed\n", argv[optind]);
	}
	return EXIT_DONE;
}

const struct verb verb_destroy = {
	.name = "destroy",
	.summary = "detach a filter and remove it",
	.help = "usage: xdp-bloom destroy NAME\n"
		"\n"
		"Also removes what is left of a filter that is half-made or damaged.\n"
		"\n"
		"  --json  one JSON object\n",
	.run = run,
};
