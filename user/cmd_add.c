// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom add: put keys in. Everything is read before the first bit is set, so a bad line
 * leaves the filter as it was.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "cli.h"
#include "rates.h"

static const struct option options[] = {
	{ "strict", no_argument, NULL, OPT_KEYS_STRICT },
	KEY_OPTIONS,
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

static void print_added_json(const struct xbloom *f, uint64_t given, uint64_t distinct,
			     uint64_t changed)
{
	const struct xbloom_meta *m = xbloom_meta(f);
	struct json_object *o = json_object_new_object();

	json_add(o, "name", json_object_new_string(m->name));
	json_add(o, "keys", json_u64(given));
	json_add(o, "distinct", json_u64(distinct));
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
			    xbloom_rate(xbloom_geometry(f), (uint64_t)(load * (double)m->capacity)),
			    rate),
		    human_rate((double)m->fp_target_femto / XBLOOM_FEMTO, target));
	else
		say("filter %s has reached %u %% of its capacity of %llu keys", m->name,
		    m->alarm_percent, (unsigned long long)m->capacity);
}

/*
 * Read all keys without the lock, since a list may come from a pipe that takes its time. Their
 * hashes are good only under the secret that the filter has at that moment; it is remembered.
 */
static int read_keys(const struct key_arguments *args, struct xbloom_params *params,
		     struct xbloom_hashes *hashes, struct xbloom_list_stats *stats,
		     struct xbloom_error *err)
{
	struct xbloom *f = NULL;
	int ret = xbloom_open(args->name, 0, cli_options(), &f, err);

	if (ret)
		return ret;
	*params = xbloom_meta(f)->params;
	xbloom_close(f);
	if (params->extras & XBLOOM_CONFIRM)
		hashes->width = xbloom_key_width(params->fields);
	ret = collect_keys(params->fields, &params->hash_key, args, hashes, stats, err);
	if (!ret && !hashes->n) {
		snprintf(err->text, sizeof(err->text), "%.300s holds no key: is it the right file?",
			 args->files[0]);
		ret = -ENODATA;
	}
	return ret;
}

static int open_same(const char *name, const struct xbloom_params *params, struct xbloom **f,
		     struct xbloom_error *err)
{
	int ret = xbloom_open(name, XBLOOM_OPEN_WRITE, cli_options(), f, err);

	if (ret)
		return ret;
	if (memcmp(&xbloom_meta(*f)->params.hash_key, &params->hash_key,
		   sizeof(params->hash_key))) {
		xbloom_close(*f);
		snprintf(err->text, sizeof(err->text),
			 "filter %s was replaced while the keys were read; nothing was added: try "
			 "again",
			 name);
		return -EAGAIN;
	}
	return 0;
}

/* --strict: -EDQUOT when these keys, distinct, would take the filter over its capacity. */
static int check_room(const struct xbloom *f, const struct xbloom_hashes *hashes,
		      struct xbloom_error *err)
{
	char capacity[HUMAN_TEXT], held[HUMAN_TEXT], keys[HUMAN_TEXT], news[HUMAN_TEXT];
	const struct xbloom_meta *m = xbloom_meta(f);
	uint64_t n = xbloom_count_new(f, hashes);

	if (!n || strcmp(xbloom_alarm_after(f, n), "over"))
		return 0;
	snprintf(err->text, sizeof(err->text),
		 "filter %s is sized for %s keys and has %s; of these %s keys at least %s are new, "
		 "more than "
		 "there is room for: nothing was added (without --strict they would be)",
		 m->name, human_count(m->capacity, capacity),
		 human_count((uint64_t)llround(xbloom_load(f) * (double)m->capacity), held),
		 human_count(hashes->n, keys), human_count(n, news));
	return -EDQUOT;
}

/* Under the lock, so that nobody else takes the room that --strict found. */
static int put_in(struct xbloom *f, const struct xbloom_hashes *hashes, bool strict,
		  uint64_t *changed, struct xbloom_error *err)
{
	int ret = strict ? check_room(f, hashes, err) : 0;

	if (ret)
		return ret;
	hold_signals();
	ret = xbloom_add_all(f, hashes, cli_options(), changed, err);
	release_signals();
	return ret;
}

static int add(const struct key_arguments *args)
{
	struct xbloom_list_stats stats = { 0 };
	struct xbloom_hashes hashes = { 0 };
	struct xbloom_error err = { "" };
	struct xbloom_params params;
	struct xbloom *f = NULL;
	const char *before = "";
	uint64_t changed = 0;
	int ret;

	ret = read_keys(args, &params, &hashes, &stats, &err);
	if (!ret)
		ret = open_same(args->name, &params, &f, &err);
	if (!ret) {
		xbloom_hashes_distinct(&hashes);
		before = xbloom_alarm(f);
		ret = put_in(f, &hashes, args->strict, &changed, &err);
	}
	progress_done();
	if (ret)
		goto out;
	warn_when_crossed(f, before, changed);
	if (args->json)
		print_added_json(f, stats.keys, hashes.n, changed);
	else
		print_added(f, hashes.n, changed);
out:
	xbloom_hashes_free(&hashes);
	xbloom_close(f);
	return ret ? fail_err(&err) : EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct key_arguments args;
	int status = EXIT_FAILED;

	if (key_arguments_parse(&verb_add, options, argc, argv, &args))
		status = add(&args);
	key_arguments_free(&args);
	return status;
}

const struct verb verb_add = {
	.name = "add",
	.summary = "put keys into a filter; the next packet sees them",
	.help = "usage: xdp-bloom add NAME [KEY...] [--from FILE]... [--strict]\n"
		"\n"
		"  KEY          as the filter's key: 192.0.2.7, or 192.0.2.7,443 for src,dport\n"
		"  --from FILE  a list, one key a line; '-' is standard input\n"
		"  --strict     add nothing if that would take the filter over its capacity\n"
		"  --json       one JSON object\n",
	.run = run,
};
