// SPDX-License-Identifier: GPL-2.0-only
/*
 * readlist [-k FIELDS] [-f FORMAT] [-c COLUMN] [-s] [-e] [-t THREADS] [-n CHUNK] [-q] FILE: print what the
 * library reads of a list, one entry a line as "FAMILY ADDRESS/LENGTH" or as the key's text, in the
 * order in which it comes (sort it), and the statistics as "# NAME VALUE". -q: only count, for
 * measuring. Exit status 2 and the message where it cannot be read.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "list_internal.h"

/* As in the library. */
#define USUAL_CHUNK (1 << 20)

struct counted {
	uint64_t n;
	uint64_t sum; /* so that nothing is optimised away */
	char unshared[64 - 2 * sizeof(uint64_t)];
};

static int print_entry(void *ctx, unsigned int worker, const struct xbloom_flow *flow,
		       const char *text, size_t len)
{
	const struct xbloom_list_options *options = ctx;
	char key[XBLOOM_KEY_TEXT];

	(void)worker;
	(void)text;
	(void)len;
	xbloom_key_text(flow, options->fields, key);
	flockfile(stdout);
	if (options->fields == XBLOOM_SRC || options->fields == XBLOOM_DST)
		printf("%u %s/%u\n", flow->family, key, flow->plen);
	else
		printf("%s\n", key);
	funlockfile(stdout);
	return 0;
}

static int count_entry(void *ctx, unsigned int worker, const struct xbloom_flow *flow,
		       const char *text, size_t len)
{
	struct counted *c = (struct counted *)ctx + worker;

	(void)text;
	(void)len;
	c->n++;
	c->sum += flow->src.v4;
	return 0;
}

static void print_stats(const struct xbloom_list_stats *stats)
{
	unsigned int i;

	printf("# lines %llu\n# keys %llu\n# prefixes %llu\n# masked %llu\n",
	       (unsigned long long)stats->lines, (unsigned long long)stats->keys,
	       (unsigned long long)stats->prefixes, (unsigned long long)stats->masked);
	for (i = 0; i < XBLOOM_IGNORED_REASONS; i++)
		if (stats->ignored[i])
			printf("# %s %llu\n", xbloom_ignored_name(i),
			       (unsigned long long)stats->ignored[i]);
}

int main(int argc, char **argv)
{
	static struct counted counted[XBLOOM_READERS_MAX];
	struct xbloom_list_options options = { .fields = XBLOOM_SRC, .threads = 1 };
	struct xbloom_list_stats stats = { 0 };
	struct xbloom_error err = { "" };
	size_t chunk = USUAL_CHUNK;
	bool quiet = false;
	int c, ret = 0;

	while (!ret && (c = getopt(argc, argv, "k:f:c:set:n:q")) != -1) {
		switch (c) {
		case 'k':
			ret = xbloom_fields_parse(optarg, &options.fields, &err);
			break;
		case 'f':
			ret = xbloom_format_parse(optarg, &options.format, &err);
			break;
		case 'c':
			options.column = optarg;
			break;
		case 's':
			options.strict = true;
			break;
		case 'e':
			options.everything = true;
			break;
		case 't':
			options.threads = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 'n':
			chunk = strtoul(optarg, NULL, 10);
			break;
		case 'q':
			quiet = true;
			break;
		default:
			ret = -EINVAL;
		}
	}
	if (!ret && (optind != argc - 1 || !chunk)) {
		snprintf(err.text, sizeof(err.text), "usage: readlist [options] FILE");
		ret = -EINVAL;
	}
	if (!ret)
		ret = xbloom_list_read_chunks(
			argv[optind], &options, chunk, quiet ? count_entry : print_entry,
			quiet ? (void *)counted : (void *)&options, &stats, &err);
	if (ret) {
		fflush(stdout);
		fprintf(stderr, "%s\n", err.text);
		return 2;
	}
	print_stats(&stats);
	return 0;
}
