// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom create: from a list (or a number of keys to come) to a filter with a name. The list
 * is read once, its distinct keys are counted, the filter is sized for them, filled, and only
 * then appears.
 */
#include <errno.h>
#include <stdlib.h>

#include "cli.h"

enum {
	OPT_FROM = OPT_FIRST,
	OPT_ITEMS,
	OPT_FP,
	OPT_BITS,
	OPT_LAYOUT,
	OPT_HASHES,
	OPT_KEY,
	OPT_POLICY,
	OPT_SHADOW,
	OPT_UNKEYED,
	OPT_ALARM,
	OPT_CONFIRM,
	OPT_CONFIRM_MAX,
};

static const struct option options[] = {
	{ "from", required_argument, NULL, OPT_FROM },
	{ "items", required_argument, NULL, OPT_ITEMS },
	{ "fp", required_argument, NULL, OPT_FP },
	{ "bits-per-key", required_argument, NULL, OPT_BITS },
	{ "layout", required_argument, NULL, OPT_LAYOUT },
	{ "hashes", required_argument, NULL, OPT_HASHES },
	{ "key", required_argument, NULL, OPT_KEY },
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "shadow", no_argument, NULL, OPT_SHADOW },
	{ "unkeyed", required_argument, NULL, OPT_UNKEYED },
	{ "alarm", required_argument, NULL, OPT_ALARM },
	{ "confirm", no_argument, NULL, OPT_CONFIRM },
	{ "confirm-max", required_argument, NULL, OPT_CONFIRM_MAX },
	COMMON_OPTIONS,
};

struct request {
	const char *name;
	const char **files;
	size_t n_files;
	struct xbloom_size_request size;
	struct xbloom_rules rules;
	const char *unkeyed;
	unsigned int alarm;   /* percent; 0: the usual one */
	uint64_t confirm_max; /* bytes; 0: no limit */
	bool json;
};

static bool parse_option(int c, struct request *r)
{
	struct xbloom_error err = { "" };

	switch (c) {
	case OPT_FROM:
		r->files[r->n_files++] = optarg;
		return true;
	case OPT_ITEMS:
		return parse_count("--items", optarg, COUNT_MAX, &r->size.items);
	case OPT_FP:
		return parse_rate("--fp", optarg, &r->size.fp);
	case OPT_BITS:
		return parse_positive("--bits-per-key", optarg, &r->size.bits_per_key);
	case OPT_LAYOUT:
		return parse_layout(optarg, &r->size.layout);
	case OPT_HASHES:
		return parse_hashes(optarg, &r->size.hashes);
	case OPT_KEY:
		if (!xbloom_fields_parse(optarg, &r->rules.fields, &err))
			return true;
		fail_err(&err);
		return false;
	case OPT_POLICY:
		return parse_policy(optarg, &r->rules.policy);
	case OPT_SHADOW:
		r->rules.shadow = true;
		return true;
	case OPT_UNKEYED:
		r->unkeyed = optarg;
		return true;
	case OPT_ALARM:
		return parse_alarm(optarg, &r->alarm);
	case OPT_CONFIRM:
		r->rules.confirm = true;
		return true;
	case OPT_CONFIRM_MAX:
		return parse_count("--confirm-max", optarg, COUNT_MAX, &r->confirm_max);
	case OPT_JSON:
		r->json = true;
		return true;
	default:
		return false;
	}
}

static int parse(int argc, char **argv, struct request *r)
{
	struct xbloom_error err = { "" };
	int c;

	while ((c = next_option(&verb_create, argc, argv, options)) != -1)
		if (!parse_option(c, r))
			return EXIT_FAILED;
	if (optind == argc)
		return fail("create needs a name for the filter (xdp-bloom create --help)");
	r->name = argv[optind++];
	if (xbloom_name_check(r->name, &err))
		return fail_err(&err);
	/* --from a b c: getopt leaves b and c among the arguments. */
	if (optind < argc && !r->n_files)
		return fail("create takes no argument '%s'; a list is given with --from FILE",
			    argv[optind]);
	while (optind < argc)
		r->files[r->n_files++] = argv[optind++];
	if (!r->n_files && !r->size.items)
		return fail("create needs --from FILE, a list of keys, or --items N, how many will "
			    "be added");
	if (r->rules.confirm && r->rules.policy != XBLOOM_POLICY_BLOCK)
		return fail("--confirm goes with --policy block alone: under allow a maybe passes, "
			    "and there is nothing to confirm");
	if (r->confirm_max && !r->rules.confirm)
		return fail("--confirm-max limits the memory of --confirm, which was not given");
	r->rules.unkeyed_drop = xbloom_unkeyed_default(r->rules.policy);
	if (r->unkeyed && !parse_unkeyed(r->unkeyed, &r->rules.unkeyed_drop))
		return EXIT_FAILED;
	return EXIT_DONE;
}

/* The filter and, beside it, the exact map. */
static int plan_items(const struct request *r, struct xbloom_size *size, struct xbloom_error *err)
{
	int ret = xbloom_plan(&r->size, size, err);

	if (!ret && r->rules.confirm)
		ret = xbloom_plan_exact(size, r->rules.fields, r->confirm_max, err);
	return ret;
}

/* Size the filter for what was read, or for what was announced if that is more. */
static int plan(struct request *r, size_t distinct, struct xbloom_size *size,
		struct xbloom_error *err)
{
	if (r->n_files && !distinct) {
		snprintf(
			err->text, sizeof(err->text),
			"%.300s%s no key: is it the right file? (--items N without --from makes an "
			"empty filter)",
			r->n_files > 1 ? "the lists" : r->files[0],
			r->n_files > 1 ? " hold" : " holds");
		return -ENODATA;
	}
	if (r->size.items && r->size.items < distinct) {
		snprintf(err->text, sizeof(err->text),
			 "the list has %zu distinct keys, more than --items %llu: leave --items "
			 "out, "
			 "or give a larger number",
			 distinct, (unsigned long long)r->size.items);
		return -EINVAL;
	}
	if (!r->size.items)
		r->size.items = distinct;
	return plan_items(r, size, err);
}

static void print_created(struct xbloom *f, const struct xbloom_list_stats *stats,
			  uint64_t duplicates)
{
	const struct xbloom_geometry *g = xbloom_geometry(f);
	char keys[HUMAN_TEXT], bytes[HUMAN_TEXT], rate[HUMAN_TEXT], dup[HUMAN_TEXT];
	uint64_t exact_bytes, exact_keys = xbloom_exact(f, &exact_bytes);
	struct xbloom_gauge gauge;

	xbloom_gauge(f, &gauge);
	printf("created %s: ", xbloom_meta(f)->name);
	if (stats->keys)
		printf("%s key%s", human_count(stats->keys - duplicates, keys),
		       stats->keys - duplicates == 1 ? "" : "s");
	else
		printf("empty, room for %s keys", human_count(xbloom_meta(f)->capacity, keys));
	if (duplicates)
		printf(" (%s duplicates)", human_count(duplicates, dup));
	printf(", %s", human_bytes(g->blocks * XBLOOM_BLOCK_BYTES, bytes));
	if (stats->keys)
		printf(", %s of absent keys will be called maybe",
		       human_rate(gauge.fp_predicted, rate));
	if (exact_keys)
		printf("; exact map of %s, room for %s keys", human_bytes(exact_bytes, bytes),
		       human_count(exact_keys, keys));
	printf("\n");
}

static int create(struct request *r)
{
	const struct key_arguments lists = { .files = r->files, .n_files = r->n_files };
	struct xbloom_list_stats stats = { 0 };
	struct xbloom_hashes hashes = { 0 };
	struct xbloom_error err = { "" };
	struct xbloom_hash_key key;
	struct json_object *json = NULL;
	struct xbloom_size size;
	struct xbloom *f = NULL;
	uint64_t duplicates = 0;
	int ret;

	if (r->rules.confirm)
		hashes.width = xbloom_key_width(r->rules.fields);
	ret = xbloom_available(r->name, &err);
	/* What does not fit as announced, need not be read. */
	if (!ret && r->size.items)
		ret = plan_items(r, &size, &err);
	if (!ret)
		ret = xbloom_hash_key_random(&key, &err);
	if (!ret)
		ret = collect_keys(r->rules.fields, &key, &lists, &hashes, &stats, &err);
	if (!ret) {
		duplicates = xbloom_hashes_distinct(&hashes);
		ret = plan(r, hashes.n, &size, &err);
	}
	if (!ret)
		size.alarm_percent = r->alarm;
	/* From here on Ctrl-C is asked for, so that it leaves nothing behind. */
	hold_signals();
	if (!ret)
		ret = xbloom_create(r->name, &size, &r->rules, &key, &hashes, cli_options(), &f,
				    &err);
	xbloom_hashes_free(&hashes);
	progress_done();
	/* What came while it was made ends us here, after a create that gave up for it. */
	if (ret)
		release_signals();
	if (ret)
		return fail_err(&err);
	if (r->json) {
		json = filter_json(f, &err);
		if (json) {
			json_add(json, "keys", json_u64(stats.keys));
			json_add(json, "duplicates", json_u64(duplicates));
			print_json(json);
		}
	} else {
		print_created(f, &stats, duplicates);
	}
	xbloom_close(f);
	release_signals();
	return r->json && !json ? fail_err(&err) : EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct request r = {
		.size = { .layout = XBLOOM_LAYOUT_SPLIT },
		.rules = { .fields = XBLOOM_SRC, .policy = XBLOOM_POLICY_BLOCK },
	};
	int status;

	r.files = calloc((size_t)argc, sizeof(*r.files));
	if (!r.files)
		return fail("out of memory");
	status = parse(argc, argv, &r);
	if (status == EXIT_DONE)
		status = create(&r);
	free(r.files);
	return status;
}

const struct verb verb_create = {
	.name = "create",
	.summary = "make a filter from a list, or for a number of keys to come",
	.help = "usage: xdp-bloom create NAME (--from FILE... | --items N) [--fp P | "
		"--bits-per-key B]\n"
		"                        [--layout L] [--hashes K] [--key FIELDS]\n"
		"                        [--policy block|allow] [--confirm [--confirm-max SIZE]]\n"
		"                        [--shadow] [--unkeyed REASON=VERDICT,...] [--alarm "
		"PERCENT]\n"
		"\n"
		"  --from FILE       a list, one key a line; '-' is standard input; the filter is "
		"sized\n"
		"                    for the distinct keys in it\n"
		"  --items N         size it for N keys (with --from: at least as many as are in "
		"it)\n"
		"  --fp P            the rate of absent keys called maybe: 0.01 (the default) or "
		"1%\n"
		"  --bits-per-key B  a budget instead of a rate\n"
		"  --layout L        split (the default) or classic\n"
		"  --hashes K        classic only: k, 1 to 30; without it the best one\n"
		"  --key FIELDS      comma list of src (the default), dst, sport, dport, proto, "
		"vlan; or\n"
		"                    5tuple\n"
		"  --policy P        block (the default): drop what is maybe in the filter;\n"
		"                    allow: drop what is certainly not in it\n"
		"  --confirm         block: keep the keys in an exact map, too, and drop only what "
		"it "
		"holds\n"
		"  --confirm-max S   the memory that the exact map may take: 64M; k, M and G are "
		"thousand,\n"
		"                    million and thousand million bytes\n"
		"  --shadow          count what would be dropped, and let everything pass\n"
		"  --unkeyed R=V     pass or drop what has no key: malformed, fragment, exthdr,\n"
		"                    vlan_tags; by default passed under block and dropped under "
		"allow\n"
		"  --alarm PERCENT   call the load high from this share of the capacity on, by "
		"default 80\n"
		"  --json            one JSON object\n",
	.run = run,
};
