// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom set: change how a filter treats packets, from one packet to the next. The bits and
 * the counters stay.
 */
#include <string.h>

#include "cli.h"

enum { OPT_SHADOW = OPT_FIRST, OPT_POLICY, OPT_UNKEYED };

static const struct option options[] = {
	{ "shadow", required_argument, NULL, OPT_SHADOW },
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "unkeyed", required_argument, NULL, OPT_UNKEYED },
	COMMON_OPTIONS,
};

struct request {
	int shadow; /* -1: leave it */
	bool set_policy;
	uint32_t policy;
	const char *unkeyed;
};

static bool parse_shadow(const char *text, int *shadow)
{
	if (!strcmp(text, "on"))
		*shadow = 1;
	else if (!strcmp(text, "off"))
		*shadow = 0;
	else {
		fail("--shadow is on or off, not '%s'", text);
		return false;
	}
	return true;
}

/* The new rules; treatment of unkeyed packets that was the old policy's usual one follows it. */
static bool change(const struct request *r, struct xbloom_rules *rules)
{
	if (r->shadow >= 0)
		rules->shadow = r->shadow;
	if (r->set_policy) {
		if (rules->unkeyed_drop == xbloom_unkeyed_default(rules->policy))
			rules->unkeyed_drop = xbloom_unkeyed_default(r->policy);
		rules->policy = r->policy;
	}
	return !r->unkeyed || parse_unkeyed(r->unkeyed, &rules->unkeyed_drop);
}

static int set(const char *name, const struct request *r, bool json)
{
	struct xbloom_error err = { "" };
	struct json_object *o = NULL;
	char unkeyed[UNKEYED_TEXT];
	struct xbloom_rules rules;
	struct xbloom *f = NULL;
	int ret = xbloom_open(name, XBLOOM_OPEN_WRITE, cli_options(), &f, &err);

	if (ret)
		return fail_err(&err);
	xbloom_rules(f, &rules);
	if (!change(r, &rules)) {
		xbloom_close(f);
		return EXIT_FAILED;
	}
	ret = xbloom_set_rules(f, &rules, &err);
	if (!ret && json) {
		o = filter_json(f, &err);
		ret = o ? 0 : -1;
	}
	xbloom_close(f);
	if (ret)
		return fail_err(&err);
	if (json)
		print_json(o);
	else
		printf("%s: policy %s, shadow %s, unkeyed packets %s\n", name,
		       policy_name(rules.policy), rules.shadow ? "on" : "off",
		       unkeyed_text(rules.unkeyed_drop, unkeyed));
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct request r = { .shadow = -1 };
	bool json = false, good = true;
	int c;

	while (good && (c = next_option(&verb_set, argc, argv, options)) != -1) {
		switch (c) {
		case OPT_SHADOW:
			good = parse_shadow(optarg, &r.shadow);
			break;
		case OPT_POLICY:
			good = parse_policy(optarg, &r.policy);
			r.set_policy = true;
			break;
		case OPT_UNKEYED:
			r.unkeyed = optarg;
			break;
		case OPT_JSON:
			json = true;
			break;
		default:
			return EXIT_FAILED;
		}
	}
	if (!good)
		return EXIT_FAILED;
	if (argc - optind != 1)
		return fail("set needs the name of one filter (xdp-bloom set --help)");
	if (r.shadow < 0 && !r.set_policy && !r.unkeyed)
		return fail("set needs something to set: --shadow, --policy or --unkeyed "
			    "(xdp-bloom set --help)");
	return set(argv[optind], &r, json);
}

const struct verb verb_set = {
	.name = "set",
	.summary = "change policy, shadow, or what becomes of unkeyed packets",
	.help = "usage: xdp-bloom set NAME [--shadow on|off] [--policy block|allow]\n"
		"                     [--unkeyed REASON=VERDICT,...]\n"
		"\n"
		"  --shadow on     count what would be dropped, and let everything pass\n"
		"  --policy P      block: drop what is maybe in the filter;\n"
		"                  allow: drop what is certainly not in it\n"
		"  --unkeyed R=V   pass or drop what has no key: malformed, fragment, exthdr, "
		"vlan_tags\n"
		"  --json          one JSON object\n",
	.run = run,
};
