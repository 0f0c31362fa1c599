// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lists, as the verbs that read them share it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exemptions.h"
#include "lists.h"

bool list_arguments_init(struct list_arguments *args, int argc)
{
	*args = (struct list_arguments){ .files = calloc((size_t)argc, sizeof(*args->files)) };
	if (!args->files)
		fail("out of memory");
	return args->files;
}

void list_arguments_free(struct list_arguments *args)
{
	free(args->files);
}

static bool parse_format(const char *text, enum xbloom_format *format)
{
	struct xbloom_error err = { "" };

	if (!xbloom_format_parse(text, format, &err))
		return true;
	fail_err(&err);
	return false;
}

bool list_option(int c, struct list_arguments *args, bool *good)
{
	*good = true;
	switch (c) {
	case OPT_LIST_FROM:
		args->files[args->n_files++] = optarg;
		return true;
	case OPT_LIST_FORMAT:
		*good = parse_format(optarg, &args->format);
		return true;
	case OPT_LIST_COLUMN:
		args->column = optarg;
		return true;
	case OPT_LIST_STRICT:
		args->strict = true;
		return true;
	case OPT_LIST_FORCE:
		args->force = true;
		return true;
	case OPT_LIST_EXPAND_MAX:
		*good = parse_count("--expand-max", optarg, COUNT_MAX, &args->expand_max);
		return true;
	default:
		return false;
	}
}

int parse_filter_and_lists(const struct verb *v, const struct option *options, int argc,
			   char **argv, const char **name, struct list_arguments *lists, bool *json)
{
	bool good = true;
	int c;

	while (good && (c = next_option(v, argc, argv, options)) != -1) {
		if (list_option(c, lists, &good))
			continue;
		if (c != OPT_JSON)
			return EXIT_FAILED;
		*json = true;
	}
	if (!good)
		return EXIT_FAILED;
	if (optind == argc)
		return fail("%s needs the name of a filter (xdp-bloom %s --help)", v->name,
			    v->name);
	*name = argv[optind++];
	lists->keys = argv + optind;
	lists->n_keys = (size_t)(argc - optind);
	if (!lists->n_keys && !lists->n_files)
		return fail("%s needs keys, or --from FILE (xdp-bloom %s --help)", v->name,
			    v->name);
	return EXIT_DONE;
}

struct xbloom_list_options list_options(const struct list_arguments *args, uint32_t fields,
					unsigned int threads)
{
	return (struct xbloom_list_options){
		.fields = fields,
		.format = args->format,
		.column = args->column,
		.strict = args->strict,
		.everything = args->force,
		.threads = threads,
		.opts = cli_options(),
	};
}

int read_lists(const struct list_arguments *args, uint32_t fields, struct xbloom_keys *keys,
	       struct xbloom_list_stats *stats, struct xbloom_error *err)
{
	const struct xbloom_list_options options = list_options(args, fields, 0);
	size_t i;
	int ret = 0;

	for (i = 0; i < args->n_keys && !ret; i++)
		ret = xbloom_keys_argument(keys, args->keys[i], &options, stats, err);
	for (i = 0; i < args->n_files && !ret; i++)
		ret = xbloom_keys_read(keys, args->files[i], &options, stats, err);
	return ret;
}

uint64_t list_entries(const struct xbloom_list_stats *stats)
{
	return stats->keys + stats->prefixes;
}

int no_key(const struct list_arguments *args, struct xbloom_error *err)
{
	bool several = args->n_files > 1;

	snprintf(err->text, sizeof(err->text), "%.300s%s no key: is it the right file?",
		 several ? "the lists" : args->files[0], several ? " hold" : " holds");
	return -ENODATA;
}

/* ---- into a filter ---- */

void list_size_prefixes(const struct xbloom_prefix_plan *p, struct xbloom_size *size)
{
	unsigned int i;

	if (!p)
		return;
	size->nets4 = p->nets4;
	size->n_plens6 = p->n_plens6;
	for (i = 0; i < p->n_plens6; i++)
		size->plens6[i] = p->plens6[i];
}

int check_everything(const struct list_arguments *args, const struct xbloom_keys *keys,
		     struct xbloom_error *err)
{
	const struct xbloom_prefix_plan *p = xbloom_keys_prefixes(keys);

	if (args->force || !p || (!p->all4 && !p->all6))
		return 0;
	snprintf(err->text, sizeof(err->text),
		 "the list covers every %s address there is: take its short prefixes out, or say "
		 "--force",
		 p->all4 ? "IPv4" : "IPv6");
	return -EINVAL;
}

int list_hold(struct list_reading *reading, struct xbloom_error *err)
{
	int ret = read_lists(reading->lists, reading->fields, reading->keys, &reading->stats, err);

	if (!ret && reading->check)
		ret = reading->check(reading->ctx, err);
	if (!ret)
		warn_of_special(reading->special);
	if (!ret)
		ret = xbloom_keys_settle(reading->keys, cli_options(), err);
	return ret ? ret : check_everything(reading->lists, reading->keys, err);
}

static int put_held(void *ctx, struct xbloom *f, struct xbloom_error *err)
{
	struct list_reading *reading = ctx;

	return xbloom_keys_put(reading->keys, f, cli_options(), err);
}

static int put_streamed(void *ctx, struct xbloom *f, struct xbloom_error *err)
{
	struct list_reading *reading = ctx;
	int ret = xbloom_keys_stream_to(reading->keys, f, err);

	if (!ret)
		ret = read_lists(reading->lists, reading->fields, reading->keys, &reading->stats,
				 err);
	if (!ret && !list_entries(&reading->stats))
		ret = no_key(reading->lists, err);
	if (!ret && reading->check)
		ret = reading->check(reading->ctx, err);
	if (!ret)
		warn_of_special(reading->special);
	if (!ret)
		ret = xbloom_keys_stream_end(reading->keys, f, cli_options(), err);
	return ret ? ret : check_everything(reading->lists, reading->keys, err);
}

struct xbloom_filling list_filling(struct list_reading *reading)
{
	return (struct xbloom_filling){ reading->stream ? put_streamed : put_held, reading };
}

/* ---- what was read ---- */

static uint64_t ignored_in_all(const struct xbloom_list_stats *stats)
{
	uint64_t n = 0;
	int i;

	for (i = 0; i < XBLOOM_IGNORED_REASONS; i++)
		n += stats->ignored[i];
	return n;
}

static void print_ignored(const struct xbloom_list_stats *stats)
{
	const char *between = "";
	char n[HUMAN_TEXT];
	int i;

	printf("; passed over: ");
	for (i = 0; i < XBLOOM_IGNORED_REASONS; i++) {
		if (!stats->ignored[i])
			continue;
		printf("%s%s %s", between, human_count(stats->ignored[i], n),
		       xbloom_ignored_name((enum xbloom_ignored)i));
		between = ", ";
	}
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

void print_list_summary(const struct xbloom_list_stats *stats, const struct xbloom_keys *keys)
{
	const struct xbloom_prefix_plan *p = keys ? xbloom_keys_prefixes(keys) : NULL;
	char lines[HUMAN_TEXT], n[HUMAN_TEXT], masked[HUMAN_TEXT];

	printf("read %s line%s: %s key%s", human_count(stats->lines, lines), plural(stats->lines),
	       human_count(stats->keys, n), plural(stats->keys));
	if (stats->prefixes)
		printf(", %s prefix%s", human_count(stats->prefixes, n),
		       stats->prefixes == 1 ? "" : "es");
	if (stats->masked)
		printf(" (%s with host bits, which were cleared)",
		       human_count(stats->masked, masked));
	if (keys && !xbloom_keys_counted(keys))
		printf(", duplicates not counted");
	else if (keys && xbloom_keys_repeated(keys))
		printf(", %s duplicate%s", human_count(xbloom_keys_repeated(keys), n),
		       plural(xbloom_keys_repeated(keys)));
	if (p && p->merged)
		printf(", %s prefix%s merged into others", human_count(p->merged, n),
		       p->merged == 1 ? "" : "es");
	if (ignored_in_all(stats))
		print_ignored(stats);
	printf("\n");
}

struct json_object *duplicates_json(const struct xbloom_keys *keys)
{
	if (keys && !xbloom_keys_counted(keys))
		return NULL; /* null, to json-c */
	return json_u64(keys ? xbloom_keys_repeated(keys) : 0);
}

struct json_object *list_summary_json(const struct xbloom_list_stats *stats,
				      const struct xbloom_keys *keys)
{
	struct json_object *o = json_object_new_object();
	const struct xbloom_prefix_plan *p = keys ? xbloom_keys_prefixes(keys) : NULL;
	struct json_object *ignored = json_object_new_object();
	int i;

	json_add(o, "lines", json_u64(stats->lines));
	json_add(o, "keys", json_u64(stats->keys));
	json_add(o, "prefixes", json_u64(stats->prefixes));
	json_add(o, "masked", json_u64(stats->masked));
	json_add(o, "duplicates", duplicates_json(keys));
	json_add(o, "merged", json_u64(p ? p->merged : 0));
	for (i = 0; i < XBLOOM_IGNORED_REASONS; i++)
		if (stats->ignored[i])
			json_add(ignored, xbloom_ignored_name((enum xbloom_ignored)i),
				 json_u64(stats->ignored[i]));
	json_add(o, "ignored", ignored);
	return o;
}
