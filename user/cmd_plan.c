// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom plan: what a filter would cost and how often it would be wrong, in this layout and in
 * the other, with more bits and with fewer, and past its capacity; for a number of keys, or for a list
 * that is read for it, and then also what its prefixes would become. Needs no privilege. Every figure
 * is that of the filter which `create` would make of the same request, rounding included.
 */
#include <errno.h>
#include <string.h>

#include "lists.h"
#include "plan_picture.h"

enum {
	OPT_ITEMS = OPT_FIRST,
	OPT_FP,
	OPT_BITS,
	OPT_LAYOUT,
	OPT_HASHES,
	OPT_CONFIRM,
	OPT_KEY,
	OPT_CONFIRM_MAX,
	OPT_PLOT,
};

static const struct option options[] = {
	LIST_OPTIONS,
	LIST_OPTIONS_PREFIXES,
	{ "items", required_argument, NULL, OPT_ITEMS },
	{ "fp", required_argument, NULL, OPT_FP },
	{ "bits-per-key", required_argument, NULL, OPT_BITS },
	{ "layout", required_argument, NULL, OPT_LAYOUT },
	{ "hashes", required_argument, NULL, OPT_HASHES },
	{ "confirm", no_argument, NULL, OPT_CONFIRM },
	{ "key", required_argument, NULL, OPT_KEY },
	{ "confirm-max", required_argument, NULL, OPT_CONFIRM_MAX },
	{ "plot", required_argument, NULL, OPT_PLOT },
	COMMON_OPTIONS,
};

struct request {
	struct xbloom_size_request size;
	uint32_t fields; /* 0: not given */
	bool confirm;
	uint64_t confirm_max; /* bytes; 0: no limit */
	const char *plot;
	struct list_arguments lists;
	bool json;
};

/* The table's rows: so many bits per key. */
#define BITS_FIRST 4
#define BITS_LAST 24
#define BITS_ROWS (BITS_LAST - BITS_FIRST + 1)
/* On a terminal of 24 lines every other has to do. */
#define BITS_STEP 2

/* What is the same for split and classic stands in arrays of two, by XBLOOM_LAYOUT_*. */
struct row {
	unsigned int bits_per_key;
	uint64_t bytes;
	bool fits[PLAN_LAYOUTS];
	struct xbloom_size size[PLAN_LAYOUTS];
};

struct answer {
	struct xbloom_keys *keys; /* of the lists; NULL: none was given */
	struct xbloom_list_stats stats;
	struct xbloom_size size; /* what was asked for */
	struct plan_layouts layouts;
	int error[PLAN_LAYOUTS]; /* why a layout cannot hold the request */
	struct xbloom_error why[PLAN_LAYOUTS];
	uint64_t twice; /* keys at which the rate is twice size.fp; 0: it never is */
	struct row table[BITS_ROWS];
};

/* ---- working it out ---- */

static void plan_layouts(const struct xbloom_size_request *asked, struct answer *a)
{
	uint32_t layout;

	for (layout = 0; layout < PLAN_LAYOUTS; layout++) {
		struct xbloom_size_request req = *asked;

		/* A number of hashes is meant for the layout that it was given with. */
		if (layout != asked->layout)
			req.hashes = 0;
		req.layout = layout;
		a->error[layout] = xbloom_plan(&req, &a->layouts.size[layout], &a->why[layout]);
		a->layouts.fits[layout] = !a->error[layout];
	}
}

static void plan_row(const struct xbloom_size_request *asked, unsigned int bits_per_key,
		     struct row *row)
{
	struct xbloom_size_request req = {
		.items = asked->items,
		.asks = asked->asks,
		.bits_per_key = bits_per_key,
	};

	*row = (struct row){ .bits_per_key = bits_per_key };
	for (req.layout = 0; req.layout < PLAN_LAYOUTS; req.layout++) {
		struct xbloom_size *size = &row->size[req.layout];

		row->fits[req.layout] = !xbloom_plan(&req, size, NULL);
		/* Both round up to the same number of blocks. */
		if (row->fits[req.layout])
			row->bytes = size->bytes;
	}
}

/* As `create` reads them, under a secret that nothing will come of. */
static int read_for(const struct request *r, struct answer *a, struct xbloom_error *err)
{
	struct xbloom_keys_options wanted = {
		.fields = r->fields ? r->fields : XBLOOM_SRC,
		.max_keys = xbloom_keys_that_fit(false),
		.expand_max = r->lists.expand_max,
	};
	struct list_reading reading = { .lists = &r->lists, .fields = wanted.fields };
	int ret = xbloom_hash_key_random(&wanted.key, err);

	if (!ret)
		ret = xbloom_keys_open(&wanted, &a->keys, err);
	reading.keys = a->keys;
	if (!ret)
		ret = list_hold(&reading, err);
	if (!ret && !list_entries(&reading.stats))
		ret = no_key(&r->lists, err);
	a->stats = reading.stats;
	progress_done();
	return ret;
}

/* The request for what was read, or for what was announced if that is more. */
static int size_for(struct request *r, struct answer *a, struct xbloom_error *err)
{
	const struct xbloom_prefix_plan *prefixes;
	uint64_t distinct;
	int ret = read_for(r, a, err);

	if (ret)
		return ret;
	prefixes = xbloom_keys_prefixes(a->keys);
	distinct = xbloom_keys_distinct(a->keys);
	if (r->size.items && r->size.items < distinct) {
		snprintf(err->text, sizeof(err->text),
			 "the list has %llu distinct keys, more than --items %llu: leave --items "
			 "out, or give a larger number",
			 (unsigned long long)distinct, (unsigned long long)r->size.items);
		return -EINVAL;
	}
	if (!r->size.items)
		r->size.items = distinct ? distinct : LIST_ITEMS_MIN;
	r->size.asks = prefixes ? prefixes->n_plens6 : 1;
	return 0;
}

static int work_out(struct request *r, struct answer *a, struct xbloom_error *err)
{
	unsigned int i;
	int ret = 0;

	memset(a, 0, sizeof(*a));
	if (r->lists.n_files)
		ret = size_for(r, a, err);
	if (!ret)
		ret = xbloom_plan(&r->size, &a->size, err);
	if (!ret && a->keys)
		list_size_prefixes(xbloom_keys_prefixes(a->keys), &a->size);
	if (!ret && r->confirm)
		ret = xbloom_plan_exact(&a->size, r->fields ? r->fields : XBLOOM_SRC,
					r->confirm_max, err);
	if (ret)
		return ret;
	plan_layouts(&r->size, a);
	/* No load doubles a rate of one half. */
	if (2 * a->size.fp < 1)
		a->twice = xbloom_keys_at_rate(&a->size.geometry,
					       xbloom_rate_of_one(2 * a->size.fp, r->size.asks));
	for (i = 0; i < BITS_ROWS; i++)
		plan_row(&r->size, BITS_FIRST + i, &a->table[i]);
	return 0;
}

static double twice_load(const struct answer *a)
{
	return (double)a->twice / (double)a->size.items;
}

/* ---- as text ---- */

/* What the prefixes of the list would become, and what that costs a packet. */
static void print_prefixes(const struct answer *a)
{
	const struct xbloom_prefix_plan *p = a->keys ? xbloom_keys_prefixes(a->keys) : NULL;
	const char *begin = "prefixes      ";
	char n[HUMAN_TEXT], bytes[HUMAN_TEXT], rate[HUMAN_TEXT];
	unsigned int i;

	if (!p)
		return;
	if (p->nets4) {
		printf("%s%s /24%s in an exact map of %s: a look-up more for IPv4 packets\n", begin,
		       human_count(p->nets4, n), p->nets4 == 1 ? "" : "s",
		       human_bytes(xbloom_nets4_bytes(&a->size), bytes));
		begin = "              ";
	}
	if (p->hosts4) {
		printf("%s%s single IPv4 addresses\n", begin, human_count(p->hosts4, n));
		begin = "              ";
	}
	if (p->n_plens6 <= 1 && !p->keys6)
		return;
	printf("%s%s IPv6 keys, asked for under", begin, human_count(p->keys6, n));
	for (i = 0; i < p->n_plens6; i++)
		printf("%s /%u", i ? "," : "", p->plens6[i]);
	printf(": %u look-up%s a packet\n", p->n_plens6, p->n_plens6 == 1 ? "" : "s");
	if (p->n_plens6 > 1)
		printf("              the rate is theirs; of absent IPv4 packets %s\n",
		       human_rate(xbloom_rate_of_one(a->size.fp, p->n_plens6), rate));
}

static void print_asked(const struct answer *a)
{
	const struct xbloom_size *s = &a->size;
	char items[HUMAN_TEXT], bytes[HUMAN_TEXT], blocks[HUMAN_TEXT], bits[HUMAN_TEXT];
	char rate[HUMAN_TEXT];

	printf("layout        %s\n", layout_name(s->geometry.layout));
	printf("keys          %s\n", human_count(s->items, items));
	printf("memory        %s (%s blocks of %u bytes)\n", human_bytes(s->bytes, bytes),
	       human_count(s->geometry.blocks, blocks), XBLOOM_BLOCK_BYTES);
	printf("bits per key  %.2f (%s bits)\n", s->bits_per_key,
	       human_count(s->geometry.bits, bits));
	printf("hashes        %u\n", s->geometry.k);
	printf("rate          %s of absent keys will be called maybe\n", human_rate(s->fp, rate));
	print_prefixes(a);
	if (a->twice)
		printf("overload      twice the rate at %.0f %% of the keys: %s\n",
		       twice_load(a) * 100, human_count(a->twice, items));
	if (s->exact_keys)
		printf("exact map     %s, room for %s keys\n", human_bytes(s->exact_bytes, bytes),
		       human_count(s->exact_keys, items));
}

/* In half a line; what to do instead, the library says as well, but it was not asked for. */
static void print_no_fit(uint32_t layout, const struct answer *a)
{
	const char *why = a->why[layout].text;

	if (a->error[layout] != -E2BIG)
		printf("is no filter: %.*s\n", (int)strcspn(why, ";"), why);
	else if (layout == XBLOOM_LAYOUT_CLASSIC)
		printf("cannot hold them: past its 2^32 bits (512 MiB)\n");
	else
		printf("cannot hold them: past its 2^32 - 1 blocks of %u bytes\n",
		       XBLOOM_BLOCK_BYTES);
}

static void print_layouts(const struct answer *a)
{
	char bytes[HUMAN_TEXT], rate[HUMAN_TEXT];
	uint32_t layout;

	for (layout = 0; layout < PLAN_LAYOUTS; layout++) {
		const struct xbloom_size *s = &a->layouts.size[layout];

		printf("%-7s  ", layout_name(layout));
		if (!a->layouts.fits[layout]) {
			print_no_fit(layout, a);
			continue;
		}
		printf("%10s  %7.2f bits per key  k %2u  rate %s\n", human_bytes(s->bytes, bytes),
		       s->bits_per_key, s->geometry.k, human_rate(s->fp, rate));
	}
}

/* A rate for the table, where four digits make the columns comparable; "-": there is none. */
static const char *table_rate(const struct row *row, uint32_t layout, char buf[HUMAN_TEXT])
{
	if (row->fits[layout])
		snprintf(buf, HUMAN_TEXT, "%.4g %%", row->size[layout].fp * 100);
	else
		snprintf(buf, HUMAN_TEXT, "-");
	return buf;
}

static void print_table(const struct answer *a)
{
	char bytes[HUMAN_TEXT], split[HUMAN_TEXT], classic[HUMAN_TEXT];
	unsigned int i;

	printf("bits per key      memory    rate: split       classic   k\n");
	for (i = 0; i < BITS_ROWS; i += BITS_STEP) {
		const struct row *row = &a->table[i];

		printf("%12u  %10s  %13s  %12s", row->bits_per_key,
		       row->bytes ? human_bytes(row->bytes, bytes) : "-",
		       table_rate(row, XBLOOM_LAYOUT_SPLIT, split),
		       table_rate(row, XBLOOM_LAYOUT_CLASSIC, classic));
		if (row->fits[XBLOOM_LAYOUT_CLASSIC])
			printf("  %2u\n", row->size[XBLOOM_LAYOUT_CLASSIC].geometry.k);
		else
			printf("   -\n");
	}
}

/* ---- as JSON ---- */

static void add_size(struct json_object *o, const struct xbloom_size *s)
{
	json_add(o, "k", json_u64(s->geometry.k));
	json_add(o, "bits", json_u64(s->geometry.bits));
	json_add(o, "blocks", json_u64(s->geometry.blocks));
	json_add(o, "bytes", json_u64(s->bytes));
	json_add(o, "bits_per_key", json_number(s->bits_per_key));
	json_add(o, "fp_predicted", json_number(s->fp));
}

static struct json_object *twice_json(const struct answer *a)
{
	struct json_object *o;

	if (!a->twice)
		return NULL;
	o = json_object_new_object();
	json_add(o, "items", json_u64(a->twice));
	json_add(o, "load", json_number(twice_load(a)));
	return o;
}

static struct json_object *layouts_json(const struct answer *a)
{
	struct json_object *o = json_object_new_object();
	uint32_t layout;

	for (layout = 0; layout < PLAN_LAYOUTS; layout++) {
		struct json_object *one = json_object_new_object();

		if (a->layouts.fits[layout])
			add_size(one, &a->layouts.size[layout]);
		else
			json_add(one, "error", json_object_new_string(a->why[layout].text));
		json_add(o, layout_name(layout), one);
	}
	return o;
}

static struct json_object *row_json(const struct row *row)
{
	const struct xbloom_size *classic = &row->size[XBLOOM_LAYOUT_CLASSIC];
	struct json_object *o = json_object_new_object();
	uint32_t layout;

	json_add(o, "bits_per_key", json_u64(row->bits_per_key));
	json_add(o, "bytes", row->bytes ? json_u64(row->bytes) : NULL);
	for (layout = 0; layout < PLAN_LAYOUTS; layout++)
		json_add(o, layout_name(layout),
			 row->fits[layout] ? json_number(row->size[layout].fp) : NULL);
	json_add(o, "classic_k",
		 row->fits[XBLOOM_LAYOUT_CLASSIC] ? json_u64(classic->geometry.k) : NULL);
	return o;
}

/* Null without a list, or one without prefixes. */
static struct json_object *prefixes_json(const struct answer *a)
{
	const struct xbloom_prefix_plan *p = a->keys ? xbloom_keys_prefixes(a->keys) : NULL;
	struct json_object *o, *plens6;
	unsigned int i;

	if (!p)
		return NULL;
	o = json_object_new_object();
	plens6 = json_object_new_array();
	for (i = 0; i < p->n_plens6; i++)
		json_object_array_add(plens6, json_u64(p->plens6[i]));
	json_add(o, "nets4", json_u64(p->nets4));
	json_add(o, "nets4_bytes", json_u64(xbloom_nets4_bytes(&a->size)));
	json_add(o, "hosts4", json_u64(p->hosts4));
	json_add(o, "keys6", json_u64(p->keys6));
	json_add(o, "plens6", plens6);
	return o;
}

static struct json_object *list_json(const struct answer *a)
{
	if (!a->keys)
		return NULL;
	return list_summary_json(&a->stats, a->keys);
}

static void print_plan_json(const struct answer *a)
{
	struct json_object *o = json_object_new_object();
	struct json_object *table = json_object_new_array();
	const struct xbloom_size *s = &a->size;
	unsigned int i;

	json_add(o, "layout", json_object_new_string(layout_name(s->geometry.layout)));
	json_add(o, "items", json_u64(s->items));
	add_size(o, s);
	json_add(o, "fp_target", json_number(s->fp_target));
	if (s->exact_keys) {
		json_add(o, "exact_keys", json_u64(s->exact_keys));
		json_add(o, "exact_bytes", json_u64(s->exact_bytes));
	}
	if (a->keys) {
		json_add(o, "list", list_json(a));
		json_add(o, "prefixes", prefixes_json(a));
	}
	json_add(o, "twice_rate", twice_json(a));
	json_add(o, "layouts", layouts_json(a));
	for (i = 0; i < BITS_ROWS; i++)
		json_object_array_add(table, row_json(&a->table[i]));
	json_add(o, "table", table);
	print_json(o);
}

/* ---- the verb ---- */

static bool parse_fields(const char *text, uint32_t *fields)
{
	struct xbloom_error err;

	if (!xbloom_fields_parse(text, fields, &err))
		return true;
	fail_err(&err);
	return false;
}

static bool parse_option(int c, struct request *r)
{
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
	case OPT_CONFIRM:
		r->confirm = true;
		return true;
	case OPT_KEY:
		return parse_fields(optarg, &r->fields);
	case OPT_CONFIRM_MAX:
		return parse_count("--confirm-max", optarg, COUNT_MAX, &r->confirm_max);
	case OPT_PLOT:
		r->plot = optarg;
		return true;
	case OPT_JSON:
		r->json = true;
		return true;
	default: /* it was reported */
		return false;
	}
}

static int parse(int argc, char **argv, struct request *r)
{
	int c;

	while ((c = next_option(&verb_plan, argc, argv, options)) != -1)
		if (!parse_option(c, r))
			return EXIT_FAILED;
	/* --from a b c: getopt leaves b and c among the arguments. */
	while (optind < argc && r->lists.n_files)
		r->lists.files[r->lists.n_files++] = argv[optind++];
	if (optind < argc)
		return fail("plan takes no argument '%s' (xdp-bloom plan --help)", argv[optind]);
	if (!r->size.items && !r->lists.n_files)
		return fail("plan needs --items N, how many keys, or --from FILE, a list of them "
			    "(xdp-bloom plan --help)");
	if (r->confirm_max && !r->confirm)
		return fail("--confirm-max limits the memory of --confirm, which was not given");
	if (r->fields && !r->confirm && !r->lists.n_files)
		return fail(
			"--key says how large the keys of --confirm are, which was not given: a "
			"filter without it takes the same memory for any key");
	return EXIT_DONE;
}

static void print_plan(const struct answer *a)
{
	if (a->keys)
		print_list_summary(&a->stats, a->keys);
	print_asked(a);
	printf("\n");
	print_layouts(a);
	printf("\n");
	print_table(a);
}

static int plan(struct request *r)
{
	struct xbloom_error err = { "" };
	int status = EXIT_DONE;
	struct answer a;

	if (work_out(r, &a, &err))
		status = fail_err(&err);
	if (status == EXIT_DONE && r->plot)
		status = draw_plan(r->plot, &a.size, &a.layouts, a.twice);
	if (status == EXIT_DONE && r->json)
		print_plan_json(&a);
	else if (status == EXIT_DONE)
		print_plan(&a);
	xbloom_keys_close(a.keys);
	return status;
}

static int run(int argc, char **argv)
{
	struct request r = { .size.layout = XBLOOM_LAYOUT_SPLIT };
	int status;

	if (!list_arguments_init(&r.lists, argc))
		return EXIT_FAILED;
	status = parse(argc, argv, &r);
	if (status == EXIT_DONE)
		status = plan(&r);
	list_arguments_free(&r.lists);
	return status;
}

const struct verb verb_plan = {
	.name = "plan",
	.summary = "work out size and error rate of a filter before making one",
	.help = "usage: xdp-bloom plan (--items N | --from FILE...) [--fp P | --bits-per-key B]\n"
		"                      [--layout L] [--hashes K] [--key FIELDS] [--expand-max N]\n"
		"                      [--confirm [--confirm-max SIZE]] [--plot "
		"FILE.svg]\n"
		"\n"
		"  --items N         distinct keys; k, M and G are understood\n"
		"  --from FILE       a list, read as create reads it: its distinct keys are "
		"counted, and\n"
		"                    what its prefixes become; with --format, --column, --strict "
		"and --force\n"
		"  --expand-max N    keys that IPv6 prefixes may come to: 16M\n"
		"  --fp P            the rate of absent keys called maybe: 0.01 (the default) or "
		"1%,\n"
		"                    from 1e-9 to 0.5\n"
		"  --bits-per-key B  a budget instead of a rate\n"
		"  --layout L        split (the default) or classic\n"
		"  --hashes K        classic only: k, 1 to 30; without it the best one\n"
		"  --confirm         with an exact map beside the filter\n"
		"  --key FIELDS      the keys of it and of the list: src (the default), dst, "
		"sport, dport, "
		"proto,\n"
		"                    vlan, or 5tuple\n"
		"  --confirm-max S   the memory that it may take: 64M; k, M and G are thousand, "
		"million and\n"
		"                    thousand million bytes\n"
		"  --plot FILE.svg   draw the rate against bits per key and against load (needs "
		"gnuplot)\n"
		"  --json            one JSON object\n",
	.run = run,
};
