/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What verbs share that read lists: their options, the reading, and what they say of it.
 */
#ifndef XBLOOM_LISTS_H
#define XBLOOM_LISTS_H

#include "cli.h"

/* What is read, and how. */
struct list_arguments {
	const char **files; /* freed by list_arguments_free() */
	size_t n_files;
	char *const *keys; /* arguments */
	size_t n_keys;
	enum xbloom_format format;
	const char *column; /* of CSV; NULL: found by name or content */
	bool strict;	    /* what would be ignored is an error */
	bool force;	    /* take what is most likely a mistake */
	uint64_t expand_max;
};

/* The tables of long options of these verbs have them. */
enum {
	OPT_LIST_FROM = OPT_SHARED,
	OPT_LIST_FORMAT,
	OPT_LIST_COLUMN,
	OPT_LIST_STRICT,
	OPT_LIST_FORCE,
	OPT_LIST_EXPAND_MAX,
};
#define LIST_OPTIONS                                                                               \
	{ "from", required_argument, NULL, OPT_LIST_FROM },                                        \
		{ "format", required_argument, NULL, OPT_LIST_FORMAT },                            \
		{ "column", required_argument, NULL, OPT_LIST_COLUMN },                            \
	{                                                                                          \
		"strict", no_argument, NULL, OPT_LIST_STRICT                                       \
	}
#define LIST_OPTIONS_PREFIXES                                                                      \
	{ "force", no_argument, NULL, OPT_LIST_FORCE },                                            \
	{                                                                                          \
		"expand-max", required_argument, NULL, OPT_LIST_EXPAND_MAX                         \
	}

/* Room for as many files as there can be on a command line of argc words; false: no memory. */
bool list_arguments_init(struct list_arguments *args, int argc);
void list_arguments_free(struct list_arguments *args);
/* Whether option c was one of these; *good: and all right. What is not is reported. */
bool list_option(int c, struct list_arguments *args, bool *good);

/* NAME [KEY...] [--from FILE]... and no option but these and --json. Returns an exit status. */
int parse_filter_and_lists(const struct verb *v, const struct option *options, int argc,
			   char **argv, const char **name, struct list_arguments *lists,
			   bool *json);

/* How they are to be read, in the order that they come in (threads 1) or as fast as it goes (0). */
struct xbloom_list_options list_options(const struct list_arguments *args, uint32_t fields,
					unsigned int threads);

/* All of them, arguments first. */
int read_lists(const struct list_arguments *args, uint32_t fields, struct xbloom_keys *keys,
	       struct xbloom_list_stats *stats, struct xbloom_error *err);

/*
 * From so many keys on, announced by --items, a list is not held: it goes into the filter as it is
 * read. (The price: its distinct keys are not counted beforehand, and the filter is not sized for
 * the IPv6 lengths of its prefixes, which raise the rate of IPv6 packets.)
 */
#define LIST_STREAM_ITEMS (32ULL << 20)
/* A filter for prefixes alone gets room for so many single addresses, which may come later. */
#define LIST_ITEMS_MIN 1024

/* Lists on their way into a filter that is being made. */
struct list_reading {
	const struct list_arguments *lists;
	uint32_t fields;
	bool stream;
	struct xbloom_keys *keys;
	struct xbloom_list_stats stats;
	struct xbloom_special *special; /* told of once all was read; may be NULL */
	/* Asked when all was read, before anything comes of it; may be NULL. */
	int (*check)(void *ctx, struct xbloom_error *err);
	void *ctx;
};
/* Read and settle what is not streamed. */
int list_hold(struct list_reading *reading, struct xbloom_error *err);
/* What puts it in; `reading` must stay. */
struct xbloom_filling list_filling(struct list_reading *reading);
/* What the prefixes that were read (NULL: none) want of the filter. */
void list_size_prefixes(const struct xbloom_prefix_plan *p, struct xbloom_size *size);

/* -EINVAL: the prefixes of settled keys are every address there is, and nobody said --force. */
int check_everything(const struct list_arguments *args, const struct xbloom_keys *keys,
		     struct xbloom_error *err);

/* The entries that they held. */
uint64_t list_entries(const struct xbloom_list_stats *stats);
/* -ENODATA, "FILE holds no key: is it the right file?" */
int no_key(const struct list_arguments *args, struct xbloom_error *err);

/* What was read, a line for people on stdout; keys may be NULL. */
void print_list_summary(const struct xbloom_list_stats *stats, const struct xbloom_keys *keys);
/* How many keys were there before; null where nobody counted. */
struct json_object *duplicates_json(const struct xbloom_keys *keys);
/* The summary as an object. */
struct json_object *list_summary_json(const struct xbloom_list_stats *stats,
				      const struct xbloom_keys *keys);

#endif /* XBLOOM_LISTS_H */
