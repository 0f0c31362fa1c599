// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom set: change how a filter treats packets, from one packet to the next, what it samples,
 * and when it alarms. The bits and the counters stay.
 */
#include <stdlib.h>
#include <string.h>

#include "exemptions.h"

enum {
	OPT_SHADOW = OPT_FIRST,
	OPT_POLICY,
	OPT_UNKEYED,
	OPT_ALARM,
	OPT_SAMPLE,
	OPT_EXEMPT,
	OPT_GUARD,
};

static const struct option options[] = {
	{ "shadow", required_argument, NULL, OPT_SHADOW },
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "unkeyed", required_argument, NULL, OPT_UNKEYED },
	{ "alarm", required_argument, NULL, OPT_ALARM },
	{ "sample", required_argument, NULL, OPT_SAMPLE },
	{ "exempt", required_argument, NULL, OPT_EXEMPT },
	{ "guard", required_argument, NULL, OPT_GUARD },
	COMMON_OPTIONS,
};

struct request {
	int shadow; /* -1: leave it */
	bool set_policy;
	uint32_t policy;
	const char *unkeyed;
	unsigned int alarm; /* percent; 0: leave it */
	bool set_sample;
	uint32_t sample;
	const char *exempt; /* a list, or "off"; NULL: leave them */
	int guard;	    /* -1: leave it */
};

/* Whether something is to change that the program in the kernel knows. */
static bool changes_rules(const struct request *r)
{
	return r->shadow >= 0 || r->set_policy || r->unkeyed || r->set_sample;
}

static bool parse_switch(const char *what, const char *text, int *on)
{
	if (!strcmp(text, "on"))
		*on = 1;
	else if (!strcmp(text, "off"))
		*on = 0;
	else {
		fail("%s is on or off, not '%s'", what, text);
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
	if (r->set_sample)
		rules->sample = r->sample;
	return !r->unkeyed || parse_unkeyed(r->unkeyed, &rules->unkeyed_drop);
}

static void print_settings(const struct xbloom *f)
{
	const struct xbloom_meta *m = xbloom_meta(f);
	char unkeyed[UNKEYED_TEXT], sample[HUMAN_TEXT];
	struct xbloom_rules rules;

	xbloom_rules(f, &rules);
	printf("%s: policy %s, shadow %s, alarm from %u %%, ", m->name, policy_name(rules.policy),
	       rules.shadow ? "on" : "off", m->alarm_percent);
	if (rules.sample)
		printf("sample 1/%s", human_count(rules.sample, sample));
	else
		printf("sample off");
	printf(", unkeyed packets %s\n", unkeyed_text(rules.unkeyed_drop, unkeyed));
}

/* The list is read before the filter is opened: it may come from a pipe. */
struct exemptions {
	struct xbloom_exemption *v;
	size_t n;
};

static int read_exempt(const struct request *r, struct exemptions *e, struct xbloom_error *err)
{
	if (!r->exempt || !strcmp(r->exempt, "off"))
		return 0;
	return xbloom_exempt_read(r->exempt, &e->v, &e->n, err);
}

/* A filter that begins to block where it is attached already, has a guard like one that did before. */
static bool begins_to_block(const struct xbloom *f, const struct request *r)
{
	struct xbloom_rules rules;

	xbloom_rules(f, &rules);
	return r->guard < 0 && r->set_policy && rules.policy != r->policy &&
	       wants_guard(f, r->policy);
}

static int set_exempt(struct xbloom *f, const struct request *r, const struct exemptions *e,
		      struct xbloom_error *err)
{
	int ret = 0;

	if (r->exempt)
		ret = xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER, e->v, e->n, err);
	if (!ret && r->guard > 0)
		ret = guard_anew(f, err);
	if (!ret && !r->guard)
		ret = xbloom_guard(f, NULL, 0, err);
	if (!ret && begins_to_block(f, r)) {
		ret = guard_devices(f, NULL, 0, err);
		if (!ret)
			ret = say_guard(f, err);
	}
	return ret;
}

/* Exemptions before rules, so that nothing is dropped that is to be exempt; all or nothing. */
static int set_all(struct xbloom *f, const struct request *r, const struct xbloom_rules *rules,
		   const struct exemptions *e, struct xbloom_error *err)
{
	struct xbloom_exemption *old = NULL;
	size_t n = 0;
	int ret = xbloom_exempt_list(f, &old, &n, err);

	if (!ret) {
		ret = set_exempt(f, r, e, err);
		if (!ret && changes_rules(r))
			ret = xbloom_set_rules(f, rules, err);
		if (ret)
			take_back_exemptions(f, old, n);
	}
	free(old);
	if (!ret && r->guard >= 0)
		ret = xbloom_set_guard(f, r->guard, err);
	if (!ret)
		warn_of_everything(e->v, e->n);
	return ret;
}

static int set(const char *name, const struct request *r, bool json)
{
	struct exemptions exempt = { 0 };
	struct xbloom_error err = { "" };
	struct json_object *o = NULL;
	struct xbloom_rules rules;
	struct xbloom *f = NULL;
	int ret = read_exempt(r, &exempt, &err);

	if (!ret)
		ret = xbloom_open(name, XBLOOM_OPEN_WRITE, cli_options(), &f, &err);
	if (ret) {
		free(exempt.v);
		return fail_err(&err);
	}
	xbloom_rules(f, &rules);
	if (!change(r, &rules)) {
		free(exempt.v);
		xbloom_close(f);
		return EXIT_FAILED;
	}
	/* First what can fail, so that it is all or nothing. */
	ret = set_all(f, r, &rules, &exempt, &err);
	free(exempt.v);
	if (!ret && r->alarm)
		ret = xbloom_set_alarm(f, r->alarm, &err);
	if (!ret && json) {
		o = filter_json(f, &err);
		ret = o ? 0 : -1;
	}
	if (!ret && !json)
		print_settings(f);
	xbloom_close(f);
	if (ret)
		return fail_err(&err);
	if (json)
		print_json(o);
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct request r = { .shadow = -1, .guard = -1 };
	bool json = false, good = true;
	int c;

	while (good && (c = next_option(&verb_set, argc, argv, options)) != -1) {
		switch (c) {
		case OPT_SHADOW:
			good = parse_switch("--shadow", optarg, &r.shadow);
			break;
		case OPT_POLICY:
			good = parse_policy(optarg, &r.policy);
			r.set_policy = true;
			break;
		case OPT_UNKEYED:
			r.unkeyed = optarg;
			break;
		case OPT_ALARM:
			good = parse_alarm(optarg, &r.alarm);
			break;
		case OPT_SAMPLE:
			good = parse_sample(optarg, &r.sample);
			r.set_sample = true;
			break;
		case OPT_EXEMPT:
			r.exempt = optarg;
			break;
		case OPT_GUARD:
			good = parse_switch("--guard", optarg, &r.guard);
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
	if (!changes_rules(&r) && !r.alarm && !r.exempt && r.guard < 0)
		return fail("set needs something to set: --shadow, --policy, --unkeyed, --alarm, "
			    "--sample, --exempt or --guard (xdp-bloom set --help)");
	return set(argv[optind], &r, json);
}

const struct verb verb_set = {
	.name = "set",
	.summary = "change policy, shadow, alarm, sampling, what becomes of unkeyed packets",
	.help = "usage: xdp-bloom set NAME [--shadow on|off] [--policy block|allow]\n"
		"                     [--unkeyed REASON=VERDICT,...] [--alarm PERCENT]\n"
		"                     [--sample 1/N|off] [--exempt FILE|off] [--guard on|off]\n"
		"\n"
		"  --shadow on     count what would be dropped, and let everything pass\n"
		"  --policy P      block: drop what is maybe in the filter;\n"
		"                  allow: drop what is certainly not in it; not with an exact map\n"
		"  --unkeyed R=V   pass or drop what has no key: malformed, fragment, exthdr, "
		"vlan_tags\n"
		"  --alarm PERCENT call the load high from this share of the capacity on: 1 to "
		"100\n"
		"  --sample 1/N    hand one in N of the packets asked to a ring buffer; off: none\n"
		"  --exempt FILE   never drop what is in this list of addresses and prefixes; off: "
		"end that\n"
		"  --guard on      never drop the addresses of devices that it is attached to, "
		"their\n"
		"                  gateways and the resolvers, as they are now; off: end that\n"
		"  --json          one JSON object\n",
	.run = run,
};
