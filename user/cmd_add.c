// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom add: put keys in. Everything is read before the first bit is set, so a bad line
 * leaves the filter as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { OPT_FROM = OPT_FIRST };

static const struct option options[] = {
	{ "from", required_argument, NULL, OPT_FROM },
	COMMON_OPTIONS,
};

static void print_added(const struct xbloom_meta *m, uint64_t distinct, uint64_t changed)
{
	char keys[HUMAN_TEXT], news[HUMAN_TEXT], inserted[HUMAN_TEXT], capacity[HUMAN_TEXT];

	printf("%s: %s keys, %s of them new; load %s of %s\n", m->name, human_count(distinct, keys),
	       human_count(changed, news), human_count(m->inserted, inserted),
	       human_count(m->capacity, capacity));
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
	json_add(o, "inserted", json_u64(m->inserted));
	json_add(o, "capacity", json_u64(m->capacity));
	json_add(o, "load", json_number((double)m->inserted / (double)m->capacity));
	json_add(o, "alarm", json_object_new_string(xbloom_alarm(f)));
	print_json(o);
}

static void warn_when_crossed(const struct xbloom *f, const char *before)
{
	const struct xbloom_meta *m = xbloom_meta(f);
	const char *after = xbloom_alarm(f);

	if (!strcmp(before, after))
		return;
	if (!strcmp(after, "over"))
		say("filter %s is over capacity: %llu keys, sized for %llu; its error rate is "
		    "above "
		    "its target",
		    m->name, (unsigned long long)m->inserted, (unsigned long long)m->capacity);
	else
		say("filter %s has reached %u %% of its capacity of %llu keys", m->name,
		    m->alarm_percent, (unsigned long long)m->capacity);
}

static int add(const char *name, char *const *keys, size_t n_keys, const char *const *files,
	       size_t n_files, bool json)
{
	struct xbloom_list_stats stats = { 0 };
	struct xbloom_hashes hashes = { 0 };
	struct xbloom_error err = { "" };
	const struct xbloom_meta *m;
	struct xbloom *f = NULL;
	uint64_t changed;
	const char *before;
	int ret;

	ret = xbloom_open(name, XBLOOM_OPEN_WRITE, cli_options(), &f, &err);
	if (ret)
		return fail_err(&err);
	m = xbloom_meta(f);
	ret = collect_keys(m->params.fields, &m->params.hash_key, keys, n_keys, files, n_files,
			   &hashes, &stats, &err);
	if (ret) {
		progress_done();
		xbloom_hashes_free(&hashes);
		xbloom_close(f);
		return fail_err(&err);
	}
	xbloom_hashes_distinct(&hashes);
	before = xbloom_alarm(f);
	changed = xbloom_add_all(f, &hashes, cli_options());
	progress_done();
	warn_when_crossed(f, before);
	if (json)
		print_added_json(f, stats.keys, hashes.n, changed);
	else
		print_added(m, hashes.n, changed);
	xbloom_hashes_free(&hashes);
	xbloom_close(f);
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	const char **files = calloc((size_t)argc, sizeof(*files));
	size_t n_files = 0;
	bool json = false;
	const char *name;
	int c, status = EXIT_FAILED;

	if (!files)
		return fail("out of memory");
	while ((c = next_option(&verb_add, argc, argv, options)) != -1) {
		if (c == OPT_FROM)
			files[n_files++] = optarg;
		else if (c == OPT_JSON)
			json = true;
		else
			goto out;
	}
	if (optind == argc) {
		fail("add needs the name of a filter (xdp-bloom add --help)");
		goto out;
	}
	name = argv[optind++];
	if (optind == argc && !n_files) {
		fail("add needs keys, or --from FILE (xdp-bloom add --help)");
		goto out;
	}
	status = add(name, argv + optind, (size_t)(argc - optind), files, n_files, json);
out:
	free(files);
	return status;
}

const struct verb verb_add = {
	.name = "add",
	.summary = "put keys into a filter; the next packet sees them",
	.help = "usage: xdp-bloom add NAME [KEY...] [--from FILE]...\n"
		"\n"
		"  KEY          as the filter's key: 192.0.2.7, or 192.0.2.7,443 for src,dport\n"
		"  --from FILE  a list, one key a line; '-' is standard input\n"
		"  --json       one JSON object\n",
	.run = run,
};
