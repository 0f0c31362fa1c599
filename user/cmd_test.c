// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom test: ask the filter, as a packet would. One line a key: "maybe KEY", "absent KEY".
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { OPT_FROM = OPT_FIRST };

static const struct option options[] = {
	{ "from", required_argument, NULL, OPT_FROM },
	COMMON_OPTIONS,
};

struct asking {
	struct xbloom *f;
	struct json_object *answers; /* NULL: print lines */
	uint64_t maybe, absent;
};

static int ask(void *ctx, const struct xbloom_flow *flow, const char *text, size_t len)
{
	struct asking *a = ctx;
	bool maybe = xbloom_test(a->f, xbloom_hash(a->f, flow));
	const char *answer = maybe ? "maybe" : "absent";

	if (maybe)
		a->maybe++;
	else
		a->absent++;
	if (a->answers) {
		struct json_object *o = json_object_new_object();

		json_add(o, "key", json_object_new_string_len(text, (int)len));
		json_add(o, "answer", json_object_new_string(answer));
		json_object_array_add(a->answers, o);
	} else {
		printf("%s %.*s\n", answer, (int)len, text);
	}
	return 0;
}

static int ask_argument(struct asking *a, const char *text, struct xbloom_error *err)
{
	struct xbloom_flow flow;
	int ret =
		xbloom_key_parse(text, strlen(text), xbloom_meta(a->f)->params.fields, &flow, err);

	return ret ? ret : ask(a, &flow, text, strlen(text));
}

static void print_answers(struct asking *a, const char *name)
{
	struct json_object *o = json_object_new_object();

	json_add(o, "name", json_object_new_string(name));
	json_add(o, "maybe", json_u64(a->maybe));
	json_add(o, "absent", json_u64(a->absent));
	json_add(o, "keys", a->answers);
	print_json(o);
}

static int test(const char *name, char *const *keys, size_t n_keys, const char *const *files,
		size_t n_files, bool json)
{
	struct xbloom_error err = { "" };
	struct asking a = { 0 };
	uint32_t fields;
	size_t i;
	int ret;

	ret = xbloom_open(name, 0, cli_options(), &a.f, &err);
	if (ret)
		return fail_err(&err);
	fields = xbloom_meta(a.f)->params.fields;
	if (json)
		a.answers = json_object_new_array();
	for (i = 0; i < n_keys && !ret; i++)
		ret = ask_argument(&a, keys[i], &err);
	for (i = 0; i < n_files && !ret; i++)
		ret = xbloom_list_read(files[i], fields, ask, &a, NULL, &err);
	xbloom_close(a.f);
	if (ret) {
		json_object_put(a.answers);
		fflush(stdout);
		return fail_err(&err);
	}
	if (json)
		print_answers(&a, name);
	return a.absent ? EXIT_NO : EXIT_DONE;
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
	while ((c = next_option(&verb_test, argc, argv, options)) != -1) {
		if (c == OPT_FROM)
			files[n_files++] = optarg;
		else if (c == OPT_JSON)
			json = true;
		else
			goto out;
	}
	if (optind == argc) {
		fail("test needs the name of a filter (xdp-bloom test --help)");
		goto out;
	}
	name = argv[optind++];
	if (optind == argc && !n_files) {
		fail("test needs keys, or --from FILE (xdp-bloom test --help)");
		goto out;
	}
	status = test(name, argv + optind, (size_t)(argc - optind), files, n_files, json);
out:
	free(files);
	return status;
}

const struct verb verb_test = {
	.name = "test",
	.summary = "ask whether keys are in a filter: maybe, or certainly absent",
	.help = "usage: xdp-bloom test NAME [KEY...] [--from FILE]...\n"
		"\n"
		"Prints `maybe KEY` or `absent KEY` for each. Exit status 1 when any is absent.\n"
		"\n"
		"  --from FILE  a list, one key a line; '-' is standard input\n"
		"  --json       one JSON object\n",
	.run = run,
};
