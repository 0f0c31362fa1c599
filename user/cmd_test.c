// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom test: ask the filter, as a packet would. One line a key: "maybe KEY", "absent KEY".
 */
#include <string.h>

#include "lists.h"

static const struct option options[] = { LIST_OPTIONS, COMMON_OPTIONS };

struct request {
	const char *name;
	struct list_arguments lists;
	bool json;
};

struct asking {
	struct xbloom *f;
	struct json_object *answers; /* NULL: print lines */
	uint64_t maybe, absent;
};

/* As it was written; what was not text, and the parts of a range, as we write it. */
static const char *text_of(const struct asking *a, const struct xbloom_flow *flow, const char *text,
			   size_t *len, char buf[XBLOOM_KEY_TEXT])
{
	if (text && !(memchr(text, '-', *len) && flow->plen))
		return text;
	xbloom_key_text(flow, xbloom_meta(a->f)->params.fields, buf);
	*len = strlen(buf);
	return buf;
}

static int ask(void *ctx, unsigned int worker, const struct xbloom_flow *flow, const char *text,
	       size_t len)
{
	struct asking *a = ctx;
	bool maybe = xbloom_test_flow(a->f, flow);
	const char *answer = maybe ? "maybe" : "absent";
	char buf[XBLOOM_KEY_TEXT];

	(void)worker;
	text = text_of(a, flow, text, &len, buf);
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

static void print_answers(struct asking *a, const char *name)
{
	struct json_object *o = json_object_new_object();

	json_add(o, "name", json_object_new_string(name));
	json_add(o, "maybe", json_u64(a->maybe));
	json_add(o, "absent", json_u64(a->absent));
	json_add(o, "keys", a->answers);
	print_json(o);
}

static int test(const struct request *r)
{
	struct xbloom_error err = { "" };
	struct asking a = { 0 };
	struct xbloom_list_options list;
	size_t i;
	int ret;

	ret = xbloom_open(r->name, 0, cli_options(), &a.f, &err);
	if (ret)
		return fail_err(&err);
	list = list_options(&r->lists, xbloom_meta(a.f)->params.fields, 1);
	list.everything = true; /* to ask does no harm */
	if (r->json)
		a.answers = json_object_new_array();
	for (i = 0; i < r->lists.n_keys && !ret; i++)
		ret = xbloom_entry_parse(r->lists.keys[i], strlen(r->lists.keys[i]), &list, ask, &a,
					 NULL, &err);
	for (i = 0; i < r->lists.n_files && !ret; i++)
		ret = xbloom_list_read(r->lists.files[i], &list, ask, &a, NULL, &err);
	progress_done();
	xbloom_close(a.f);
	if (ret) {
		json_object_put(a.answers);
		fflush(stdout);
		return fail_err(&err);
	}
	if (r->json)
		print_answers(&a, r->name);
	return a.absent ? EXIT_NO : EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct request r = { 0 };
	int status;

	if (!list_arguments_init(&r.lists, argc))
		return EXIT_FAILED;
	status =
		parse_filter_and_lists(&verb_test, options, argc, argv, &r.name, &r.lists, &r.json);
	if (status == EXIT_DONE)
		status = test(&r);
	list_arguments_free(&r.lists);
	return status;
}

const struct verb verb_test = {
	.name = "test",
	.summary = "ask whether keys are in a filter: maybe, or certainly absent",
	.help = "usage: xdp-bloom test NAME [KEY...] [--from FILE]... [--format F] [--column C]\n"
		"\n"
		"Prints `maybe KEY` or `absent KEY` for each. Exit status 1 when any is absent. A "
		"prefix is\n"
		"maybe when all of its addresses are.\n"
		"\n"
		"  --from FILE  a list; '-' is standard input\n"
		"  --format F   what it is written in, by default told by its content: see create\n"
		"  --column C   of CSV: a number from 1, or a name\n"
		"  --json       one JSON object\n",
	.run = run,
};
