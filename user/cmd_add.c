// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom add: put keys in. Everything is read before the first bit is set, so a bad line
 * leaves the filter as it was.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "exemptions.h"
#include "lists.h"
#include "rates.h"

static const struct option options[] = {
	LIST_OPTIONS,
	LIST_OPTIONS_PREFIXES,
	COMMON_OPTIONS,
};

struct request {
	const char *name;
	struct list_arguments lists;
	bool json;
};

/* As `show` has it. */
static double percent_now(const struct xbloom *f)
{
	return load_percent(xbloom_load(f), xbloom_alarm(f), xbloom_meta(f)->alarm_percent,
			    LOAD_TENTHS);
}

static void print_added(const struct xbloom *f, uint64_t distinct, uint64_t changed)
{
	char keys[HUMAN_TEXT], news[HUMAN_TEXT], capacity[HUMAN_TEXT];
	const struct xbloom_meta *m = xbloom_meta(f);

	printf("%s: %s key%s, %s of them new; load %.1f %% of %s\n", m->name,
	       human_count(distinct, keys), distinct == 1 ? "" : "s", human_count(changed, news),
	       percent_now(f), human_count(m->capacity, capacity));
}

static void print_added_json(const struct xbloom *f, const struct xbloom_list_stats *stats,
			     const struct xbloom_keys *keys, uint64_t changed)
{
	const struct xbloom_meta *m = xbloom_meta(f);
	struct json_object *o = json_object_new_object();

	json_add(o, "name", json_object_new_string(m->name));
	json_add(o, "keys", json_u64(stats->keys));
	json_add(o, "list", list_summary_json(stats, keys));
	json_add(o, "distinct", json_u64(xbloom_keys_distinct(keys)));
	json_add(o, "changed", json_u64(changed));
	json_add(o, "inserted", json_u64(xbloom_inserted(f)));
	json_add(o, "capacity", json_u64(m->capacity));
	json_add(o, "load", json_number(xbloom_load(f)));
	json_add(o, "alarm", json_object_new_string(xbloom_alarm(f)));
	print_json(o);
}

static void warn_when_crossed(const struct xbloom *f, const char *before, uint64_t changed)
{
	const struct xbloom_meta *m = xbloom_meta(f);
	const char *after = xbloom_alarm(f);
	char rate[HUMAN_TEXT], target[HUMAN_TEXT];

	bool over = !strcmp(after, "over");
	double load = xbloom_load(f);

	/* High is said once; over is said as long as keys still go in. */
	if (!strcmp(after, "ok") || (!over && !strcmp(before, after)) || (over && !changed))
		return;
	if (over)
		say("filter %s is over capacity: %.1f %% of the %llu keys it was sized for; at "
		    "this load its "
		    "error rate is %s, its target %s",
		    m->name, percent_now(f), (unsigned long long)m->capacity,
		    human_rate(
			    xbloom_rate_of_asks(xbloom_rate(xbloom_geometry(f),
							    (uint64_t)(load * (double)m->capacity)),
						xbloom_asks(f)),
			    rate),
		    human_rate((double)m->fp_target_femto / XBLOOM_FEMTO, target));
	else
		say("filter %s has reached %u %% of its capacity of %llu keys", m->name,
		    m->alarm_percent, (unsigned long long)m->capacity);
}

/*
 * Read all keys without the lock, since a list may come from a pipe that takes its time. The words of
 * the keys are kept, as the filter may have another secret by then.
 */
static int read_keys(const struct request *r, struct xbloom_keys **keys, uint32_t *fields,
		     struct xbloom_special **special, struct xbloom_list_stats *stats,
		     struct xbloom_error *err)
{
	struct xbloom_keys_options wanted = { .words = true, .expand_max = r->lists.expand_max };
	const struct xbloom_params *p;
	struct xbloom *f = NULL;
	unsigned int i;
	int ret = xbloom_open(r->name, 0, cli_options(), &f, err);

	if (ret)
		return ret;
	p = &xbloom_meta(f)->params;
	*fields = wanted.fields = p->fields;
	wanted.key = p->hash_key;
	wanted.n_plens6 = p->n_plens6 <= XBLOOM_PLENS6_MAX ? p->n_plens6 : 0;
	for (i = 0; i < wanted.n_plens6; i++)
		wanted.plens6[i] = p->plens6[i].plen;
	if (p->policy == XBLOOM_POLICY_BLOCK)
		ret = xbloom_special_open(p->fields, special, err);
	xbloom_close(f);
	if (ret)
		return ret;
	if (*special) {
		wanted.seen = xbloom_special_seen;
		wanted.seen_ctx = *special;
	}
	wanted.max_keys = xbloom_keys_that_fit(true);
	ret = xbloom_keys_open(&wanted, keys, err);
	if (!ret)
		ret = read_lists(&r->lists, wanted.fields, *keys, stats, err);
	if (!ret && !list_entries(stats))
		ret = no_key(&r->lists, err);
	if (!ret) {
		warn_of_special(*special);
		ret = xbloom_keys_settle(*keys, cli_options(), err);
	}
	return ret ? ret : check_everything(&r->lists, *keys, err);
}

/* The filter, locked, and the keys as it wants them. */
static int open_for(const struct request *r, struct xbloom_keys *keys, uint32_t fields,
		    struct xbloom **out, struct xbloom_error *err)
{
	const struct xbloom_params *p;
	struct xbloom *f = NULL;
	int ret = xbloom_open(r->name, XBLOOM_OPEN_WRITE, cli_options(), &f, err);

	if (ret)
		return ret;
	p = &xbloom_meta(f)->params;
	if (p->fields != fields) {
		snprintf(err->text, sizeof(err->text),
			 "filter %s was replaced by one with another key while the keys were read; "
			 "nothing was added: try again",
			 r->name);
		ret = -EAGAIN;
	}
	/* It was rebuilt meanwhile, and has another secret. */
	if (!ret && !xbloom_keys_are_for(keys, p)) {
		ret = xbloom_keys_rehash(keys, p, err);
		if (!ret)
			ret = xbloom_keys_settle(keys, cli_options(), err);
	}
	if (ret)
		xbloom_close(f);
	else
		*out = f;
	return ret;
}

/* --strict: -EDQUOT when these keys, distinct, would take the filter over its capacity. */
static int check_room(const struct xbloom *f, const struct xbloom_keys *keys_read,
		      struct xbloom_error *err)
{
	char capacity[HUMAN_TEXT], held[HUMAN_TEXT], keys[HUMAN_TEXT], news[HUMAN_TEXT];
	const struct xbloom_meta *m = xbloom_meta(f);
	uint64_t n = xbloom_count_new_keys(f, keys_read);

	if (!n || strcmp(xbloom_alarm_after(f, n), "over"))
		return 0;
	snprintf(err->text, sizeof(err->text),
		 "filter %s is sized for %s keys and has %s; of these %s keys at least %s are new, "
		 "more than "
		 "there is room for: nothing was added (without --strict they would be)",
		 m->name, human_count(m->capacity, capacity),
		 human_count((uint64_t)llround(xbloom_load(f) * (double)m->capacity), held),
		 human_count(xbloom_keys_distinct(keys_read), keys), human_count(n, news));
	return -EDQUOT;
}

/* Under the lock, so that nobody else takes the room that --strict found. */
static int put_in(struct xbloom *f, struct xbloom_keys *keys, bool strict, uint64_t *changed,
		  struct xbloom_error *err)
{
	int ret = strict ? check_room(f, keys, err) : 0;

	if (ret)
		return ret;
	hold_signals();
	ret = xbloom_add_keys(f, keys, cli_options(), changed, err);
	release_signals();
	return ret;
}

static int add(const struct request *r)
{
	struct xbloom_list_stats stats = { 0 };
	struct xbloom_special *special = NULL;
	struct xbloom_keys *keys = NULL;
	struct xbloom_error err = { "" };
	struct xbloom *f = NULL;
	const char *before = "";
	uint64_t changed = 0;
	uint32_t fields;
	int ret;

	ret = read_keys(r, &keys, &fields, &special, &stats, &err);
	if (!ret)
		ret = open_for(r, keys, fields, &f, &err);
	if (!ret) {
		before = xbloom_alarm(f);
		ret = put_in(f, keys, r->lists.strict, &changed, &err);
	}
	progress_done();
	if (ret)
		goto out;
	warn_when_crossed(f, before, changed);
	if (r->json) {
		print_added_json(f, &stats, keys, changed);
	} else {
		if (r->lists.n_files)
			print_list_summary(&stats, keys);
		print_added(f, xbloom_keys_distinct(keys), changed);
	}
out:
	xbloom_special_close(special);
	xbloom_keys_close(keys);
	xbloom_close(f);
	return ret ? fail_err(&err) : EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct request r = { 0 };
	int status;

	if (!list_arguments_init(&r.lists, argc))
		return EXIT_FAILED;
	status = parse_filter_and_lists(&verb_add, options, argc, argv, &r.name, &r.lists, &r.json);
	if (status == EXIT_DONE)
		status = add(&r);
	list_arguments_free(&r.lists);
	return status;
}

const struct verb verb_add = {
	.name = "add",
	.summary = "put keys into a filter; the next packet sees them",
	.help = "usage: xdp-bloom add NAME [KEY...] [--from FILE]... [--strict] [--force]\n"
		"                     [--format F] [--column C] [--expand-max N]\n"
		"\n"
		"  KEY             as the filter's key: 192.0.2.7, or 192.0.2.7,443 for "
		"src,dport;\n"
		"                  prefixes and ranges where the key is src or dst\n"
		"  --from FILE     a list; '-' is standard input\n"
		"  --format F      what it is written in, by default told by its content: see "
		"create\n"
		"  --column C      of CSV: a number from 1, or a name\n"
		"  --strict        add nothing if that would take the filter over its capacity, or "
		"if\n"
		"                  anything in the list would be passed over\n"
		"  --force         take 0.0.0.0/0 and ::/0, too\n"
		"  --expand-max N  keys that IPv6 prefixes may come to: 16M\n"
		"  --json          one JSON object\n",
	.run = run,
};
