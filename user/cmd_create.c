// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom create: from a list (or a number of keys to come) to a filter with a name. The list
 * is read once, its distinct keys are counted, the filter is sized for them, filled, and only
 * then appears.
 */
#include <errno.h>
#include <stdlib.h>

#include "exemptions.h"
#include "lists.h"

enum {
	OPT_ITEMS = OPT_FIRST,
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
	OPT_EXEMPT,
	OPT_NO_GUARD,
	OPT_TTL,
	OPT_LIVES,
};

static const struct option options[] = {
	LIST_OPTIONS,
	LIST_OPTIONS_PREFIXES,
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
	{ "exempt", required_argument, NULL, OPT_EXEMPT },
	{ "no-guard", no_argument, NULL, OPT_NO_GUARD },
	{ "ttl", required_argument, NULL, OPT_TTL },
	{ "lives", required_argument, NULL, OPT_LIVES },
	COMMON_OPTIONS,
};

struct request {
	const char *name;
	struct list_arguments lists;
	struct xbloom_size_request size;
	struct xbloom_rules rules;
	const char *unkeyed;
	unsigned int alarm;   /* percent; 0: the usual one */
	uint64_t confirm_max; /* bytes; 0: no limit */
	const char *exempt;   /* a list */
	uint64_t ttl;	      /* seconds; 0: for ever */
	uint64_t lives;
	bool no_guard;
	bool json;
};

/* A year: longer than a machine runs between two boots, after which a filter is gone. */
#define TTL_MAX (366 * 24 * 3600ULL)
#define LIVES_DEFAULT 2

static bool parse_lives(const char *text, uint64_t *lives)
{
	if (!parse_count("--lives", text, XBLOOM_LIVES_MAX, lives))
		return false;
	if (*lives >= LIVES_DEFAULT)
		return true;
	fail("--lives '%s' is not between 2 and %u: one array cannot forget", text,
	     XBLOOM_LIVES_MAX);
	return false;
}

static bool parse_option(int c, struct request *r)
{
	struct xbloom_error err = { "" };
	bool good;

	if (list_option(c, &r->lists, &good))
		return good;
	switch (c) {
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
	case OPT_EXEMPT:
		r->exempt = optarg;
		return true;
	case OPT_NO_GUARD:
		r->no_guard = true;
		return true;
	case OPT_TTL:
		return parse_time("--ttl", optarg, TTL_MAX, &r->ttl);
	case OPT_LIVES:
		return parse_lives(optarg, &r->lives);
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
	if (optind < argc && !r->lists.n_files)
		return fail("create takes no argument '%s'; a list is given with --from FILE",
			    argv[optind]);
	while (optind < argc)
		r->lists.files[r->lists.n_files++] = argv[optind++];
	if (!r->lists.n_files && !r->size.items)
		return fail("create needs --from FILE, a list of keys, or --items N, how many will "
			    "be added");
	if (r->rules.confirm && r->rules.policy != XBLOOM_POLICY_BLOCK)
		return fail("--confirm goes with --policy block alone: under allow a maybe passes, "
			    "and there is nothing to confirm");
	if (r->confirm_max && !r->rules.confirm)
		return fail("--confirm-max limits the memory of --confirm, which was not given");
	if (r->lives && !r->ttl)
		return fail("--lives is how many arrays keys with a --ttl rotate through; that was "
			    "not given");
	if (r->ttl && r->rules.confirm)
		return fail("--ttl and --confirm do not go together: an exact map does not forget");
	if (r->ttl && !r->lives)
		r->lives = LIVES_DEFAULT;
	r->rules.unkeyed_drop = xbloom_unkeyed_default(r->rules.policy);
	r->rules.guard = !r->no_guard;
	if (r->unkeyed && !parse_unkeyed(r->unkeyed, &r->rules.unkeyed_drop))
		return EXIT_FAILED;
	return EXIT_DONE;
}

#define NS_PER_S 1000000000ULL

/* The filter and, beside it, the exact map. */
static int plan_items(const struct request *r, struct xbloom_size *size, struct xbloom_error *err)
{
	int ret = xbloom_plan(&r->size, size, err);

	size->lives = (unsigned int)r->lives;
	size->ttl_ns = r->ttl * NS_PER_S;
	if (!ret && r->rules.confirm)
		ret = xbloom_plan_exact(size, r->rules.fields, r->confirm_max, err);
	return ret;
}

/* Each look can be wrong: under each IPv6 length, into each array that keys live in. */
static unsigned int asks(const struct request *r, const struct xbloom_prefix_plan *prefixes)
{
	unsigned int n = prefixes ? prefixes->n_plens6 : 1;

	return r->lives ? n * (unsigned int)r->lives : n;
}

/* Size the filter for what was read, or for what was announced if that is more. */
static int plan(struct request *r, const struct xbloom_keys *keys, struct xbloom_size *size,
		struct xbloom_error *err)
{
	const struct xbloom_prefix_plan *prefixes = xbloom_keys_prefixes(keys);
	uint64_t distinct = xbloom_keys_distinct(keys);
	int ret;

	if (r->lists.n_files && !distinct && !prefixes)
		return no_key(&r->lists, err);
	if (r->size.items && r->size.items < distinct) {
		snprintf(err->text, sizeof(err->text),
			 "the list has %llu distinct keys, more than --items %llu: leave --items "
			 "out, "
			 "or give a larger number",
			 (unsigned long long)distinct, (unsigned long long)r->size.items);
		return -EINVAL;
	}
	if (!r->size.items)
		r->size.items = distinct ? distinct : LIST_ITEMS_MIN;
	r->size.asks = asks(r, prefixes);
	ret = plan_items(r, size, err);
	if (!ret)
		list_size_prefixes(prefixes, size);
	return ret;
}

static void print_created(struct xbloom *f, const struct xbloom_keys *keys_read)
{
	uint64_t put_in = xbloom_keys_distinct(keys_read);
	bool filled = xbloom_inserted(f) || xbloom_keys_prefixes(keys_read);
	const struct xbloom_geometry *g = xbloom_geometry(f);
	char keys[HUMAN_TEXT], bytes[HUMAN_TEXT], rate[HUMAN_TEXT];
	uint64_t exact_bytes, exact_keys = xbloom_exact(f, &exact_bytes);
	struct xbloom_gauge gauge;

	xbloom_gauge(f, &gauge);
	printf("created %s: ", xbloom_meta(f)->name);
	if (!put_in)
		put_in = xbloom_inserted(f);
	if (filled)
		printf("%s key%s", human_count(put_in, keys), put_in == 1 ? "" : "s");
	else
		printf("empty, room for %s keys", human_count(xbloom_meta(f)->capacity, keys));
	printf(", %s", human_bytes(g->blocks * XBLOOM_BLOCK_BYTES, bytes));
	if (filled)
		printf(", %s of absent keys will be called maybe",
		       human_rate(gauge.fp_predicted, rate));
	if (exact_keys)
		printf("; exact map of %s, room for %s keys", human_bytes(exact_bytes, bytes),
		       human_count(exact_keys, keys));
	printf("\n");
}

static int open_keys(const struct request *r, struct xbloom_hash_key *key,
		     struct list_reading *reading, struct xbloom_error *err)
{
	struct xbloom_hash_key source_key;
	int ret = xbloom_hash_key_random(key, err);

	if (!ret)
		ret = xbloom_hash_key_random(&source_key, err);
	if (!ret && r->rules.policy == XBLOOM_POLICY_BLOCK)
		ret = xbloom_special_open(r->rules.fields, &reading->special, err);
	if (!ret) {
		const struct xbloom_keys_options wanted = {
			.fields = r->rules.fields,
			.key = *key,
			.source_key = r->lists.n_files ? &source_key : NULL,
			.words = r->rules.confirm,
			.max_keys = reading->stream ? 0 : xbloom_keys_that_fit(r->rules.confirm),
			.expand_max = r->lists.expand_max,
			.seen = reading->special ? xbloom_special_seen : NULL,
			.seen_ctx = reading->special,
		};

		ret = xbloom_keys_open(&wanted, &reading->keys, err);
	}
	return ret;
}

static int print_result(struct xbloom *f, const struct list_reading *reading, bool json,
			struct xbloom_error *err)
{
	struct json_object *o;

	if (!json) {
		if (list_entries(&reading->stats))
			print_list_summary(&reading->stats, reading->keys);
		print_created(f, reading->keys);
		return 0;
	}
	o = filter_json(f, err);
	if (!o)
		return -EIO;
	json_add(o, "keys", json_u64(reading->stats.keys));
	json_add(o, "duplicates", duplicates_json(reading->keys));
	json_add(o, "list", list_summary_json(&reading->stats, reading->keys));
	json_add(o, "covers", special_json(reading->special));
	print_json(o);
	return 0;
}

static int create(struct request *r)
{
	struct list_reading reading = {
		.lists = &r->lists,
		.fields = r->rules.fields,
		.stream = r->lists.n_files && r->size.items >= LIST_STREAM_ITEMS,
	};
	const struct xbloom_filling filling = list_filling(&reading);
	struct xbloom_exemption *exempt = NULL;
	struct xbloom_error err = { "" };
	struct xbloom_hash_key key;
	struct xbloom_size size;
	struct xbloom *f = NULL;
	int ret;

	ret = xbloom_available(r->name, &err);
	if (!ret && r->exempt)
		ret = xbloom_exempt_read(r->exempt, &exempt, &r->rules.n_exempt, &err);
	r->rules.exempt = exempt;
	r->size.asks = asks(r, NULL);
	/* What does not fit as announced, need not be read. */
	if (!ret && r->size.items)
		ret = plan_items(r, &size, &err);
	if (!ret)
		ret = open_keys(r, &key, &reading, &err);
	if (!ret && !reading.stream) {
		ret = list_hold(&reading, &err);
		if (!ret)
			ret = plan(r, reading.keys, &size, &err);
	}
	if (!ret)
		size.alarm_percent = r->alarm;
	/* From here on Ctrl-C is asked for, so that it leaves nothing behind. */
	hold_signals();
	if (!ret)
		ret = xbloom_create_filled(r->name, &size, &r->rules, &key, &filling, cli_options(),
					   &f, &err);
	progress_done();
	/* What came while it was made ends us here, after a create that gave up for it. */
	if (ret)
		release_signals();
	else {
		warn_of_everything(exempt, r->rules.n_exempt);
		ret = print_result(f, &reading, r->json, &err);
	}
	xbloom_keys_close(reading.keys);
	xbloom_special_close(reading.special);
	free(exempt);
	xbloom_close(f);
	release_signals();
	return ret ? fail_err(&err) : EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct request r = {
		.size = { .layout = XBLOOM_LAYOUT_SPLIT },
		.rules = { .fields = XBLOOM_SRC, .policy = XBLOOM_POLICY_BLOCK },
	};
	int status;

	if (!list_arguments_init(&r.lists, argc))
		return EXIT_FAILED;
	status = parse(argc, argv, &r);
	if (status == EXIT_DONE)
		status = create(&r);
	list_arguments_free(&r.lists);
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
		"                        [--ttl TIME [--lives N]]\n"
		"                        [--exempt FILE] [--no-guard] [--format F] [--column C]\n"
		"                        [--strict] [--force] [--expand-max N]\n"
		"\n"
		"  --from FILE       a list; '-' is standard input; gzip and zstd are unpacked; "
		"the "
		"filter is\n"
		"                    sized for the distinct keys in it\n"
		"  --format F        plain (keys, prefixes, ranges; FireHOL, Spamhaus DROP), "
		"ipset, "
		"nft,\n"
		"                    nft-json, spamhaus-json, crowdsec, csv, raw4, raw6; by "
		"default "
		"told by\n"
		"                    its content\n"
		"  --column C        of CSV: a number from 1, or a name\n"
		"  --strict          refuse a list in which anything would be passed over\n"
		"  --force           take 0.0.0.0/0 and ::/0\n"
		"  --expand-max N    keys that IPv6 prefixes may come to: 16M\n"
		"  --ttl TIME        keys leave by themselves after that time (90s, 30m, 12h, 7d), "
		"at the\n"
		"                    latest after --lives / (--lives - 1) times as long; --items "
		"is for "
		"those of\n"
		"                    one period\n"
		"  --lives N         arrays that they rotate through: 2 (the default) to 4\n"
		"  --exempt FILE     never drop what is in this list of addresses and prefixes\n"
		"  --no-guard        attach does not exempt what the machine itself lives by\n"
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
