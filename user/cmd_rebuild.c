// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom rebuild: fill a filter anew from its list, or to another size, while it is at work. The
 * hourly job of who follows a feed: when the list says what it said last time, nothing is touched,
 * and when it has lost more than half of itself, somebody is asked first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exemptions.h"
#include "lists.h"

enum { OPT_ITEMS = OPT_FIRST, OPT_FP, OPT_BITS };

static const struct option options[] = {
	LIST_OPTIONS,
	LIST_OPTIONS_PREFIXES,
	{ "items", required_argument, NULL, OPT_ITEMS },
	{ "fp", required_argument, NULL, OPT_FP },
	{ "bits-per-key", required_argument, NULL, OPT_BITS },
	COMMON_OPTIONS,
};

/* What a check says when there is nothing to do: no errno, and no message. */
#define UNCHANGED 1

struct request {
	const char *name;
	struct list_arguments lists;
	struct xbloom_size_request size; /* as asked for */
	bool json;
};

/* One rebuild. */
struct rebuilding {
	const struct request *r;
	struct xbloom_rebuild *rebuild;
	const struct xbloom_meta *meta; /* of the generation at work */
	struct list_reading reading;
};

static bool size_was_asked_for(const struct request *r)
{
	return r->size.items || r->size.fp != 0 || r->size.bits_per_key != 0;
}

/* ---- what was read ---- */

/* The same list, and nothing was added to it. An array with a time to live wants it again. */
static bool is_unchanged(const struct rebuilding *b)
{
	const struct xbloom_source *old = &b->meta->source;
	struct xbloom_source now;

	xbloom_keys_source(b->reading.keys, &now);
	return !size_was_asked_for(b->r) && b->r->lists.n_files && b->meta->params.lives <= 1 &&
	       old->entries && old->entries == now.entries && old->sum[0] == now.sum[0] &&
	       old->sum[1] == now.sum[1] && old->inserted == b->meta->inserted;
}

static int shrank(const struct rebuilding *b, uint64_t before, uint64_t now,
		  struct xbloom_error *err)
{
	snprintf(err->text, sizeof(err->text),
		 "the list has %llu entries where filter %s was filled from %llu: a broken "
		 "download? "
		 "The filter is as it was; --force takes the list",
		 (unsigned long long)now, b->r->name, (unsigned long long)before);
	return -ENODATA;
}

/* Before anything comes of what was read. */
static int check(void *ctx, struct xbloom_error *err)
{
	const struct rebuilding *b = ctx;
	uint64_t before = b->meta->source.entries;
	struct xbloom_source now;

	if (!b->r->lists.n_files)
		return 0;
	if (is_unchanged(b))
		return UNCHANGED;
	if (b->r->lists.force)
		return 0;
	xbloom_keys_source(b->reading.keys, &now);
	if (!now.entries)
		return no_key(&b->r->lists, err);
	/* What was filled otherwise is known by its keys alone. */
	if (!before)
		before = b->meta->inserted;
	return now.entries < before / 2 + before % 2 ? shrank(b, before, now.entries, err) : 0;
}

/* ---- its size ---- */

/*
 * Room for so many keys: as many as are asked for; or as the filter had, where that was more than
 * its list had; or else as there are now.
 */
static uint64_t items_for(const struct rebuilding *b, uint64_t distinct)
{
	const struct xbloom_meta *m = b->meta;
	bool had_room = m->capacity != m->source.keys;

	if (b->r->size.items)
		return b->r->size.items;
	if (had_room && m->capacity > distinct)
		return m->capacity;
	return distinct ? distinct : LIST_ITEMS_MIN;
}

static int plan(const struct rebuilding *b, uint64_t distinct, struct xbloom_size *size,
		struct xbloom_error *err)
{
	const struct xbloom_meta *m = b->meta;
	const struct xbloom_prefix_plan *prefixes = xbloom_keys_prefixes(b->reading.keys);
	struct xbloom_size_request req = b->r->size;
	int ret;

	req.layout = m->params.layout;
	req.items = items_for(b, distinct);
	if (req.items < distinct) {
		snprintf(err->text, sizeof(err->text),
			 "the list has %llu distinct keys, more than --items %llu: leave --items "
			 "out, or give a larger number",
			 (unsigned long long)distinct, (unsigned long long)req.items);
		return -EINVAL;
	}
	if (req.fp == 0 && req.bits_per_key == 0)
		req.fp = (double)m->fp_target_femto / XBLOOM_FEMTO;
	req.asks =
		(prefixes ? prefixes->n_plens6 : 1) * (m->params.lives > 1 ? m->params.lives : 1);
	ret = xbloom_plan(&req, size, err);
	size->lives = m->params.lives;
	size->ttl_ns = m->ttl_ns;
	if (!ret && m->params.extras & XBLOOM_CONFIRM)
		ret = xbloom_plan_exact(size, m->params.fields, 0, err);
	if (!ret)
		list_size_prefixes(prefixes, size);
	return ret;
}

/* ---- the whole of it ---- */

static int open_keys(struct rebuilding *b, struct xbloom_hash_key *key, struct xbloom_error *err)
{
	const struct xbloom_meta *m = b->meta;
	const bool confirm = m->params.extras & XBLOOM_CONFIRM;
	struct xbloom_hash_key source_key = m->source.key;
	int ret = xbloom_hash_key_random(key, err);

	if (!ret && !m->source.entries)
		ret = xbloom_hash_key_random(&source_key, err);
	if (!ret && m->params.policy == XBLOOM_POLICY_BLOCK)
		ret = xbloom_special_open(m->params.fields, &b->reading.special, err);
	if (!ret) {
		const struct xbloom_keys_options wanted = {
			.fields = m->params.fields,
			.key = *key,
			.source_key = b->r->lists.n_files ? &source_key : NULL,
			.words = confirm,
			.max_keys = b->reading.stream ? 0 : xbloom_keys_that_fit(confirm),
			.expand_max = b->r->lists.expand_max,
			.seen = b->reading.special ? xbloom_special_seen : NULL,
			.seen_ctx = b->reading.special,
		};

		ret = xbloom_keys_open(&wanted, &b->reading.keys, err);
	}
	return ret;
}

/* Without a list, what the exact map holds. */
static int hold(struct rebuilding *b, struct xbloom_error *err)
{
	struct xbloom *f = NULL;
	int ret;

	if (b->r->lists.n_files)
		return list_hold(&b->reading, err);
	ret = xbloom_open(b->r->name, 0, cli_options(), &f, err);
	if (!ret)
		ret = xbloom_keys_from_filter(b->reading.keys, f, err);
	if (!ret)
		ret = xbloom_keys_settle(b->reading.keys, cli_options(), err);
	xbloom_close(f);
	return ret;
}

static int rebuild_all(struct rebuilding *b, struct xbloom **f, struct xbloom_error *err)
{
	const struct xbloom_filling filling = list_filling(&b->reading);
	struct xbloom_hash_key key;
	struct xbloom_size size;
	int ret = open_keys(b, &key, err);

	if (!ret && b->reading.stream)
		ret = plan(b, 0, &size, err);
	else if (!ret) {
		ret = hold(b, err);
		if (!ret)
			ret = plan(b, xbloom_keys_distinct(b->reading.keys), &size, err);
	}
	if (!ret)
		ret = xbloom_rebuild_finish(b->rebuild, &size, &key, &filling, cli_options(), f,
					    err);
	return ret;
}

static int print_rebuilt(struct xbloom *f, const struct rebuilding *b, bool unchanged,
			 struct xbloom_error *err)
{
	const struct xbloom_meta *m = xbloom_meta(f);
	char keys[HUMAN_TEXT], bytes[HUMAN_TEXT], rate[HUMAN_TEXT];
	struct xbloom_gauge gauge;
	struct json_object *o;

	if (b->r->json) {
		o = filter_json(f, err);
		if (!o)
			return -EIO;
		json_add(o, "list", list_summary_json(&b->reading.stats, b->reading.keys));
		json_add(o, "covers", special_json(b->reading.special));
		json_add(o, "unchanged", json_object_new_boolean(unchanged));
		print_json(o);
		return 0;
	}
	if (b->r->lists.n_files)
		print_list_summary(&b->reading.stats, b->reading.keys);
	if (unchanged) {
		printf("%s: nothing has changed; generation %u stays\n", m->name, m->generation);
		return 0;
	}
	xbloom_gauge(f, &gauge);
	printf("%s: generation %u, %s keys, %s, %s of absent keys will be called maybe\n", m->name,
	       m->generation, human_count(xbloom_inserted(f), keys),
	       human_bytes(xbloom_geometry(f)->blocks * XBLOOM_BLOCK_BYTES, bytes),
	       human_rate(gauge.fp_predicted, rate));
	return 0;
}

static int rebuild(const struct request *r)
{
	struct rebuilding b = { .r = r };
	struct xbloom_error err = { "" };
	struct xbloom *f = NULL;
	bool unchanged;
	int ret;

	/* From here on Ctrl-C is asked for, so that it leaves nothing behind. */
	hold_signals();
	ret = xbloom_rebuild_begin(r->name, cli_options(), &b.rebuild, &err);
	if (!ret) {
		b.meta = xbloom_rebuild_meta(b.rebuild);
		b.reading = (struct list_reading){
			.lists = &r->lists,
			.fields = b.meta->params.fields,
			.check = check,
			.ctx = &b,
		};
		b.reading.stream = r->lists.n_files && items_for(&b, 0) >= LIST_STREAM_ITEMS;
		ret = rebuild_all(&b, &f, &err);
	}
	unchanged = ret == UNCHANGED;
	xbloom_rebuild_end(b.rebuild);
	b.rebuild = NULL;
	progress_done();
	if (unchanged)
		ret = xbloom_open(r->name, 0, cli_options(), &f, &err);
	if (ret)
		release_signals();
	else
		ret = print_rebuilt(f, &b, unchanged, &err);
	xbloom_keys_close(b.reading.keys);
	xbloom_special_close(b.reading.special);
	xbloom_close(f);
	release_signals();
	return ret ? fail_err(&err) : EXIT_DONE;
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
	case OPT_JSON:
		r->json = true;
		return true;
	default:
		return false;
	}
}

static int parse(int argc, char **argv, struct request *r)
{
	int c;

	while ((c = next_option(&verb_rebuild, argc, argv, options)) != -1)
		if (!parse_option(c, r))
			return EXIT_FAILED;
	if (optind == argc)
		return fail("rebuild needs the name of a filter (xdp-bloom rebuild --help)");
	r->name = argv[optind++];
	/* --from a b c: getopt leaves b and c among the arguments. */
	if (optind < argc && !r->lists.n_files)
		return fail("rebuild takes no argument '%s'; a list is given with --from FILE",
			    argv[optind]);
	while (optind < argc)
		r->lists.files[r->lists.n_files++] = argv[optind++];
	if (!r->lists.n_files && !size_was_asked_for(r))
		return fail("rebuild needs --from FILE, the list as it is now, or a new size: "
			    "--items, --fp or --bits-per-key");
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct request r = { 0 };
	int status;

	if (!list_arguments_init(&r.lists, argc))
		return EXIT_FAILED;
	status = parse(argc, argv, &r);
	if (status == EXIT_DONE)
		status = rebuild(&r);
	list_arguments_free(&r.lists);
	return status;
}

const struct verb verb_rebuild = {
	.name = "rebuild",
	.summary =
		"fill a filter anew, from its list as it is now or to another size, under traffic",
	.help = "usage: xdp-bloom rebuild NAME [--from FILE...] [--items N] [--fp P | "
		"--bits-per-key "
		"B]\n"
		"                         [--force] [--strict] [--format F] [--column C]\n"
		"                         [--expand-max N]\n"
		"\n"
		"The next generation is filled beside the one at work, and takes its place from "
		"one\n"
		"packet to the next. What others add meanwhile is in both. If the list is the one "
		"that the\n"
		"filter was filled from, nothing is touched.\n"
		"\n"
		"  --from FILE       the list as it is now; '-' is standard input. Without it, a "
		"filter with\n"
		"                    an exact map is rebuilt from that\n"
		"  --items N         size it for N keys; by default for those of the list, or for "
		"as "
		"many\n"
		"                    as before where that was more than its list had\n"
		"  --fp P            another rate; by default the one that it has\n"
		"  --bits-per-key B  a budget instead of a rate\n"
		"  --force           take a list that is empty, or that has lost more than half of "
		"its\n"
		"                    entries; take 0.0.0.0/0 and ::/0\n"
		"  --strict          refuse a list in which anything would be passed over\n"
		"  --format F        what it is written in, by default told by its content: see "
		"create\n"
		"  --column C        of CSV: a number from 1, or a name\n"
		"  --expand-max N    keys that IPv6 prefixes may come to: 16M\n"
		"  --json            one JSON object\n",
	.run = run,
};
