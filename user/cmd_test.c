// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom test: ask the filter, as a packet would. One line a key: "maybe KEY", "absent KEY".
 */
#include <errno.h>
#include <string.h>

#include "cli.h"

static const struct option options[] = { KEY_OPTIONS };

struct asking {
	struct xbloom *f;
	struct json_object *answers; /* NULL: print lines */
	uint64_t maybe, absent;
	struct xbloom_error *err;
};

static int ask(void *ctx, unsigned int worker, const struct xbloom_flow *flow, const char *text,
	       size_t len)
{
	struct asking *a = ctx;
	bool maybe = xbloom_test(a->f, xbloom_hash(a->f, flow));
	const char *answer = maybe ? "maybe" : "absent";

	(void)worker;
	if (flow->family && flow->plen != (flow->family == XBLOOM_FAMILY_V4 ? 32 : 128)) {
		snprintf(a->err->text, sizeof(a->err->text),
			 "'%.*s' is a prefix, and this filter takes single addresses only",
			 (int)len, text);
		return -EINVAL;
	}
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

	return ret ? ret : ask(a, 0, &flow, text, strlen(text));
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

static int test(const struct key_arguments *args)
{
	struct xbloom_error err = { "" };
	struct asking a = { .err = &err };
	struct xbloom_list_options list = { .threads = 1, .opts = cli_options() };
	size_t i;
	int ret;

	ret = xbloom_open(args->name, 0, cli_options(), &a.f, &err);
	if (ret)
		return fail_err(&err);
	list.fields = xbloom_meta(a.f)->params.fields;
	if (args->json)
		a.answers = json_object_new_array();
	for (i = 0; i < args->n_keys && !ret; i++)
		ret = ask_argument(&a, args->keys[i], &err);
	for (i = 0; i < args->n_files && !ret; i++)
		ret = xbloom_list_read(args->files[i], &list, ask, &a, NULL, &err);
	xbloom_close(a.f);
	if (ret) {
		json_object_put(a.answers);
		fflush(stdout);
		return fail_err(&err);
	}
	if (args->json)
		print_answers(&a, args->name);
	return a.absent ? EXIT_NO : EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct key_arguments args;
	int status = EXIT_FAILED;

	if (key_arguments_parse(&verb_test, options, argc, argv, &args))
		status = test(&args);
	key_arguments_free(&args);
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
