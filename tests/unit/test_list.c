// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lists of keys from files, and the hashes that are made of them. No key of a good list is lost
 * or invented, wherever in the file it stands; the first bad line ends the reading and is named;
 * what is no list at all is refused politely. Sorting and dropping duplicates is checked against
 * qsort and a loop.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define LITERAL(text) (text), sizeof(text) - 1

static char dir[PATH_MAX];
static char list[PATH_MAX + 8]; /* the file that give() writes */

static int make_dir(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(dir, sizeof(dir), "%s/xbloom-list.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return -1;
	snprintf(list, sizeof(list), "%s/list", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	unlink(list);
	return rmdir(dir);
}

/* Given a list file with just these bytes. */
static void give(const char *bytes, size_t len)
{
	FILE *f = fopen(list, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* ---- reading into a text: one key, and a line feed, for each call ---- */

struct seen {
	char text[4096];
	size_t len;
	uint32_t fields;
};

/* Checks that the text handed over is that of the flow beside it. */
static int see(void *ctx, unsigned int worker, const struct xbloom_flow *flow, const char *text,
	       size_t len)
{
	struct seen *s = ctx;
	struct xbloom_flow again;

	assert_int_equal(worker, 0);
	assert_int_equal(xbloom_key_parse(text, len, s->fields, &again, NULL), 0);
	assert_int_equal(xbloom_key_hash(&(struct xbloom_hash_key){ 1, 2 }, flow, s->fields),
			 xbloom_key_hash(&(struct xbloom_hash_key){ 1, 2 }, &again, s->fields));
	assert_true(s->len + len + 2 < sizeof(s->text));
	memcpy(s->text + s->len, text, len);
	s->text[s->len + len] = '\n';
	s->len += len + 1;
	s->text[s->len] = '\0';
	return 0;
}

static struct xbloom_list_options reading(uint32_t fields)
{
	return (struct xbloom_list_options){ .fields = fields, .threads = 1 };
}

static int read_list(const char *path, uint32_t fields, xbloom_entry_fn fn, void *ctx,
		     struct xbloom_list_stats *stats, struct xbloom_error *err)
{
	const struct xbloom_list_options options = reading(fields);

	return xbloom_list_read(path, &options, fn, ctx, stats, err);
}

/* Then the keys of the list are these, in this order; `expected` ends each with a line feed. */
static void expect(uint32_t fields, const char *expected, uint64_t lines)
{
	struct xbloom_list_stats stats = { 0 };
	struct seen s = { .fields = fields };
	struct xbloom_error err;
	uint64_t keys = 0;
	const char *p;

	if (read_list(list, fields, see, &s, &stats, &err))
		fail_msg("%s", err.text);
	assert_string_equal(s.text, expected);
	for (p = expected; *p; p++)
		keys += *p == '\n';
	assert_int_equal(stats.keys, keys);
	assert_int_equal(stats.lines, lines);
}

static void one_key_a_line(void **state)
{
	(void)state;
	give(LITERAL("192.0.2.1\n192.0.2.2\n2001:db8::1\n"));
	expect(XBLOOM_SRC, "192.0.2.1\n192.0.2.2\n2001:db8::1\n", 3);
}

static void comments_are_skipped(void **state)
{
	(void)state;
	give(LITERAL("# a list\n"
		     "; of the other kind\n"
		     "192.0.2.1 # behind a key\n"
		     "192.0.2.2 ; so too\n"
		     "192.0.2.3# without a space\n"
		     "192.0.2.4; so too\n"
		     "192.0.2.5\t;# both\n"
		     "  # after white space\n"
		     "#192.0.2.6\n"
		     ";192.0.2.7\n"
		     "#\n"
		     ";\n"));
	expect(XBLOOM_SRC, "192.0.2.1\n192.0.2.2\n192.0.2.3\n192.0.2.4\n192.0.2.5\n", 12);
}

static void blank_lines_are_skipped(void **state)
{
	(void)state;
	give(LITERAL("\n\n192.0.2.1\n\n \n\t\n  \t \n192.0.2.2\n\n"));
	expect(XBLOOM_SRC, "192.0.2.1\n192.0.2.2\n", 9);
}

static void crlf_ends_a_line(void **state)
{
	(void)state;
	give(LITERAL("192.0.2.1\r\n# comment\r\n\r\n192.0.2.2 ; with\r\n2001:db8::1\r\n"));
	expect(XBLOOM_SRC, "192.0.2.1\n192.0.2.2\n2001:db8::1\n", 5);
}

static void last_line_needs_no_newline(void **state)
{
	(void)state;
	give(LITERAL("192.0.2.1\n192.0.2.2"));
	expect(XBLOOM_SRC, "192.0.2.1\n192.0.2.2\n", 2);
	give(LITERAL("192.0.2.1"));
	expect(XBLOOM_SRC, "192.0.2.1\n", 1);
	give(LITERAL("192.0.2.1\r\n192.0.2.2\r"));
	expect(XBLOOM_SRC, "192.0.2.1\n192.0.2.2\n", 2);
	give(LITERAL("192.0.2.1\n# the end"));
	expect(XBLOOM_SRC, "192.0.2.1\n", 2);
}

static void leading_white_space_is_skipped(void **state)
{
	(void)state;
	give(LITERAL(" 192.0.2.1\n\t192.0.2.2\n \t  \t2001:db8::1\n"));
	expect(XBLOOM_SRC, "192.0.2.1\n192.0.2.2\n2001:db8::1\n", 3);
}

static void columns_behind_the_key_are_ignored(void **state)
{
	(void)state;
	give(LITERAL("192.0.2.1 7 2024-01-01 spammer\n"
		     "192.0.2.2\tSBL123\n"
		     "192.0.2.3   \n"
		     "2001:db8::1 256.256.256.256\n"));
	expect(XBLOOM_SRC, "192.0.2.1\n192.0.2.2\n192.0.2.3\n2001:db8::1\n", 4);
}

static void keys_of_several_fields(void **state)
{
	(void)state;
	give(LITERAL("192.0.2.1,443 # https\n2001:db8::1,53\tresolver\n"));
	expect(XBLOOM_SRC | XBLOOM_DPORT, "192.0.2.1,443\n2001:db8::1,53\n", 2);
	give(LITERAL("192.0.2.7,198.51.100.1,40000,443,tcp\r\n"));
	expect(XBLOOM_FIELDS_5TUPLE, "192.0.2.7,198.51.100.1,40000,443,tcp\n", 1);
}

static void byte_order_mark_at_the_start_is_skipped(void **state)
{
	(void)state;
	give(LITERAL("\xef\xbb\xbf"
		     "192.0.2.1\n192.0.2.2\n"));
	expect(XBLOOM_SRC, "192.0.2.1\n192.0.2.2\n", 2);
	give(LITERAL("\xef\xbb\xbf# comment\r\n192.0.2.2\r\n"));
	expect(XBLOOM_SRC, "192.0.2.2\n", 2);
	give(LITERAL("\xef\xbb\xbf"
		     "192.0.2.1"));
	expect(XBLOOM_SRC, "192.0.2.1\n", 1);
}

static void list_of_nothing_is_an_empty_list(void **state)
{
	(void)state;
	give("", 0);
	expect(XBLOOM_SRC, "", 0);
	give(LITERAL("\n"));
	expect(XBLOOM_SRC, "", 1);
	give(LITERAL("# nothing yet"));
	expect(XBLOOM_SRC, "", 1);
	give(LITERAL("\xef\xbb\xbf"));
	expect(XBLOOM_SRC, "", 0);
}

/* ---- standard input ---- */

static void dash_reads_standard_input(void **state)
{
	struct xbloom_list_stats stats = { 0 };
	struct seen s = { .fields = XBLOOM_SRC };
	int saved = dup(0), fd, ret;
	struct xbloom_error err;

	(void)state;
	give(LITERAL("192.0.2.1\n2001:db8::1\nwrong\n"));
	fd = open(list, O_RDONLY);
	assert_true(saved >= 0 && fd >= 0);
	assert_int_equal(dup2(fd, 0), 0);
	close(fd);
	unit_error_poison(&err);
	ret = read_list("-", XBLOOM_SRC, see, &s, &stats, &err);
	/* Standard input is not the reader's to close. */
	assert_true(fcntl(0, F_GETFD) >= 0);
	dup2(saved, 0);
	close(saved);

	assert_int_equal(ret, -EINVAL);
	assert_string_equal(s.text, "192.0.2.1\n2001:db8::1\n");
	unit_assert_says(&err, ":3: ");
	unit_assert_says(&err, "wrong");
}

/* A pipe gives its bytes in whatever pieces it likes. */
static void list_may_come_in_pieces(void **state)
{
	static const char text[] = "192.0.2.1\r\n# comment\n2001:db8::1 # x\n192.0.2.3";
	struct xbloom_list_stats stats = { 0 };
	struct seen s = { .fields = XBLOOM_SRC };
	struct xbloom_error err;
	int saved = dup(0), ends[2], ret;
	size_t i;
	pid_t writer;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	writer = fork();
	assert_true(writer >= 0);
	if (!writer) {
		close(ends[0]);
		for (i = 0; i < sizeof(text) - 1; i++) {
			if (write(ends[1], &text[i], 1) != 1)
				break;
			usleep(200); /* not a wait: lets the reader take the byte alone */
		}
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(dup2(ends[0], 0), 0);
	close(ends[0]);
	ret = read_list("-", XBLOOM_SRC, see, &s, &stats, &err);
	dup2(saved, 0);
	close(saved);
	assert_int_equal(ret, 0);
	assert_string_equal(s.text, "192.0.2.1\n2001:db8::1\n192.0.2.3\n");
	assert_int_equal(stats.lines, 4);
}

/* ---- refusals ---- */

/* Then reading ends with -EINVAL, and the message is "FILE:LINE: ..." and holds `says`. */
static void expect_bad_line(uint32_t fields, unsigned int line, const char *says,
			    const char *keys_before)
{
	struct xbloom_list_stats stats = { 0 };
	struct seen s = { .fields = fields };
	struct xbloom_error err;
	char prefix[sizeof(list) + 16];
	int ret;

	unit_error_poison(&err);
	ret = read_list(list, fields, see, &s, &stats, &err);
	if (ret != -EINVAL)
		fail_msg("%d, expected -EINVAL at line %u", ret, line);
	unit_assert_says(&err, says);
	snprintf(prefix, sizeof(prefix), "%s:%u: ", list, line);
	if (strncmp(err.text, prefix, strlen(prefix)))
		fail_msg("\"%s\" does not start with \"%s\"", err.text, prefix);
	assert_string_equal(s.text, keys_before);

	/* Neither statistics nor message are required. */
	s.len = 0;
	assert_int_equal(read_list(list, fields, see, &s, NULL, NULL), -EINVAL);
}

static void first_bad_line_is_named(void **state)
{
	(void)state;
	give(LITERAL("192.0.2.1\n# fine\n\nnot-an-address\n192.0.2.2\nnor this\n"));
	expect_bad_line(XBLOOM_SRC, 4, "not-an-address", "192.0.2.1\n");
	give(LITERAL("oops"));
	expect_bad_line(XBLOOM_SRC, 1, "oops", "");
	give(LITERAL("192.0.2.1\r\n192.0.2.256\r\n"));
	expect_bad_line(XBLOOM_SRC, 2, "192.0.2.256", "192.0.2.1\n");
	give(LITERAL("192.0.2.1,80\n192.0.2.2\n"));
	expect_bad_line(XBLOOM_SRC | XBLOOM_DPORT, 2, "192.0.2.2", "192.0.2.1,80\n");
	give(LITERAL("192.0.2.1, 80\n"));
	expect_bad_line(XBLOOM_SRC | XBLOOM_DPORT, 1, "port", "");
	give(LITERAL("192.0.2.1 80\n"));
	expect_bad_line(XBLOOM_SRC | XBLOOM_DPORT, 1, "192.0.2.1", "");
	give(LITERAL("# networks\n10.0.0.0/8,443\n"));
	expect_bad_line(XBLOOM_SRC | XBLOOM_DPORT, 2, "10.0.0.0/8", "");
	give(LITERAL("// not our comment\n"));
	expect_bad_line(XBLOOM_SRC, 1, "//", "");
}

static void byte_order_mark_elsewhere_is_refused(void **state)
{
	(void)state;
	give(LITERAL("192.0.2.1\n\xef\xbb\xbf"
		     "192.0.2.2\n"));
	expect_bad_line(XBLOOM_SRC, 2, "192.0.2.2", "192.0.2.1\n");
	give(LITERAL("\xef\xbb\xbf\xef\xbb\xbf"
		     "192.0.2.1\n"));
	expect_bad_line(XBLOOM_SRC, 1, "192.0.2.1", "");
}

static void zero_bytes_are_refused(void **state)
{
	(void)state;
	give(LITERAL("192.0.2.1\n192.0.2.2\0\n"));
	expect_bad_line(XBLOOM_SRC, 2, "", "192.0.2.1\n");
	give(LITERAL("192.0.2.1\n192.0.2.2 column\0\n"));
	expect_bad_line(XBLOOM_SRC, 2, "", "192.0.2.1\n");
	give(LITERAL("192.0.2.1\n\0192.0.2.2\n"));
	expect_bad_line(XBLOOM_SRC, 2, "", "192.0.2.1\n");
	give(LITERAL("192.0.2.1\n# comment\0\n"));
	expect_bad_line(XBLOOM_SRC, 2, "", "192.0.2.1\n");
	give(LITERAL("\0"));
	expect_bad_line(XBLOOM_SRC, 1, "", "");
	/* UTF-16, as some editors save it. */
	give(LITERAL("\xff\xfe"
		     "1\0.\0002\0.\0003\0.\0004\0\n\0"));
	expect_bad_line(XBLOOM_SRC, 1, "", "");
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
	(void)state;
	give(LITERAL("\033[2J\033]0;owned\007\n"));
	expect_bad_line(XBLOOM_SRC, 1, "[2J", "");
	give(LITERAL("\x1f\x8b\x08 gzip\n"));
	expect_bad_line(XBLOOM_SRC, 1, "", "");
}

#define MEGABYTE ((size_t)1 << 20)

static void very_long_lines_are_refused_politely(void **state)
{
	static const char fillers[] = { 'x', '1', '.', ':', ',' };
	char *text = malloc(3 * MEGABYTE);
	size_t i;

	(void)state;
	assert_non_null(text);
	for (i = 0; i < sizeof(fillers); i++) {
		/* Without an end, with one, and behind a good line. */
		memset(text, fillers[i], 3 * MEGABYTE);
		give(text, MEGABYTE);
		expect_bad_line(XBLOOM_SRC, 1, "", "");
		text[MEGABYTE] = '\n';
		give(text, MEGABYTE + 1);
		expect_bad_line(XBLOOM_SRC, 1, "", "");
		text[MEGABYTE] = fillers[i];
		memcpy(text, "192.0.2.1\n", 10);
		give(text, 3 * MEGABYTE);
		expect_bad_line(XBLOOM_SRC, 2, "", "192.0.2.1\n");
	}
	free(text);
}

/* Given short comments of `before` bytes, a long one and a key: what comes of reading them? */
static int read_behind(char *text, size_t before, size_t length)
{
	struct seen s = { .fields = XBLOOM_SRC };
	size_t i, len = before + length;
	int ret;

	memset(text, '#', len);
	for (i = 63; i < before; i += 64)
		text[i] = '\n';
	if (before)
		text[before - 1] = '\n';
	memcpy(text + len, "\n192.0.2.1\n", 11);
	give(text, len + 11);
	ret = read_list(list, XBLOOM_SRC, see, &s, NULL, NULL);
	if (!ret)
		assert_string_equal(s.text, "192.0.2.1\n");
	return ret;
}

/*
 * How long a line may be does not depend on where in the file it stands: whether a list is taken
 * must not change with the lines before it.
 */
static void limit_of_a_line_is_the_same_everywhere(void **state)
{
	static const size_t lengths[] = { 1000, 30000, 60000, 70000, 100000, 500000, 1000000 };
	static const size_t buffers[] = { 65536, 131072, 1048576 };
	char *text = malloc(3 * MEGABYTE);
	size_t i, j, cut;

	(void)state;
	assert_non_null(text);
	for (i = 0; i < COUNT_OF(lengths); i++) {
		int first = read_behind(text, 0, lengths[i]);

		/* Such that a buffer of that size would end within the line: at its end, at half. */
		for (j = 0; j < COUNT_OF(buffers); j++) {
			for (cut = 100; cut <= lengths[i] / 2; cut += lengths[i] / 2 - 100) {
				size_t before = buffers[j] + cut - lengths[i];
				int ret;

				if (buffers[j] + cut < lengths[i])
					continue;
				ret = read_behind(text, before, lengths[i]);
				if (ret != first)
					fail_msg("a comment of %zu bytes: %d as the first line, %d "
						 "behind %zu bytes of others",
						 lengths[i], first, ret, before);
			}
		}
	}
	free(text);
}

static void expect_unreadable(const char *path, int code)
{
	struct xbloom_hashes hashes = { 0 };
	struct xbloom_hash_key key = { 1, 2 };
	struct seen s = { .fields = XBLOOM_SRC };
	struct xbloom_error err;

	unit_error_poison(&err);
	assert_int_equal(read_list(path, XBLOOM_SRC, see, &s, NULL, &err), code);
	unit_assert_says(&err, path);
	unit_error_poison(&err);
	assert_int_equal(xbloom_list_hash(path, XBLOOM_SRC, &key, &hashes, NULL, NULL, NULL, &err),
			 code);
	unit_assert_says(&err, path);
	assert_int_equal(hashes.n, 0);
	xbloom_hashes_free(&hashes);
}

static void unreadable_files_are_named(void **state)
{
	char path[sizeof(list) + 16];

	(void)state;
	expect_unreadable(dir, -EISDIR);
	snprintf(path, sizeof(path), "%s.missing", list);
	expect_unreadable(path, -ENOENT);
	give("", 0);
	snprintf(path, sizeof(path), "%s/below-a-file", list);
	expect_unreadable(path, -ENOTDIR);
	/* One that opens, and then cannot be read: nothing is mapped at its start. */
	expect_unreadable("/proc/self/mem", -EIO);
}

static int stop_at_second(void *ctx, unsigned int worker, const struct xbloom_flow *flow,
			  const char *text, size_t len)
{
	unsigned int *calls = ctx;

	(void)worker;
	(void)flow;
	(void)text;
	(void)len;
	return ++*calls == 2 ? -ECANCELED : 0;
}

static void reader_stops_when_told_to(void **state)
{
	struct xbloom_error err = { "" };
	unsigned int calls = 0;

	(void)state;
	give(LITERAL("192.0.2.1\n192.0.2.2\n192.0.2.3\nwrong\n"));
	assert_int_equal(read_list(list, XBLOOM_SRC, stop_at_second, &calls, NULL, &err),
			 -ECANCELED);
	assert_int_equal(calls, 2);
}

/* ---- every key arrives ---- */

#define BIG_KEYS 200000

/* The next expected address is the next random number. */
struct checker {
	struct unit_random r;
	uint64_t keys;
};

static int check_next(void *ctx, unsigned int worker, const struct xbloom_flow *flow,
		      const char *text, size_t len)
{
	struct checker *c = ctx;
	uint32_t expected = (uint32_t)unit_random(&c->r);

	(void)worker;
	(void)text;
	(void)len;
	assert_int_equal(flow->family, XBLOOM_FAMILY_V4);
	assert_int_equal(flow->src.v4, htonl(expected));
	c->keys++;
	return 0;
}

static void print_ipv4(FILE *f, uint32_t a)
{
	fprintf(f, "%u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
}

/* Given a list of several buffers, with all that a list may hold, then its keys come in order. */
static void no_key_of_a_long_list_is_lost(void **state)
{
	struct unit_random keys = { .seed = 7 }, noise = { .seed = 8 };
	struct xbloom_list_stats stats = { 0 };
	struct checker c = { .r = { .seed = 7 } };
	struct xbloom_error err;
	FILE *f = fopen(list, "w");
	uint64_t lines = 0;
	unsigned int i, j;

	(void)state;
	assert_non_null(f);
	for (i = 0; i < BIG_KEYS; i++) {
		switch (unit_random_below(&noise, 8)) {
		case 0:
			fprintf(f, "%*s\r\n", (int)unit_random_below(&noise, 40), "");
			lines++;
			break;
		case 1:
			fputc('#', f);
			for (j = (unsigned int)unit_random_below(&noise, 200); j; j--)
				fputs(&"1.2.3.4 "[unit_random_below(&noise, 8)], f);
			fputc('\n', f);
			lines++;
		}
		fprintf(f, "%*s", (int)unit_random_below(&noise, 3), "");
		print_ipv4(f, (uint32_t)unit_random(&keys));
		fputs(unit_random_below(&noise, 4) ? "\n" : " # 5.6.7.8\r\n", f);
		lines++;
	}
	assert_int_equal(fclose(f), 0);

	if (read_list(list, XBLOOM_SRC, check_next, &c, &stats, &err))
		fail_msg("%s", err.text);
	assert_int_equal(c.keys, BIG_KEYS);
	assert_int_equal(stats.keys, BIG_KEYS);
	assert_int_equal(stats.lines, lines);
}

/* Given a key at each place around the usual sizes of a buffer, then it is read whole. */
static void key_across_the_end_of_a_buffer_is_read_whole(void **state)
{
	static const size_t sizes[] = { 4096, 8192, 65536, 131072, 1048576 };
	static const char tail[] = "203.0.113.77\r\n2001:db8::77";
	const size_t reach = 32;
	char *text = malloc(2 * MEGABYTE);
	size_t i, j, at;

	(void)state;
	assert_non_null(text);
	for (i = 0; i < COUNT_OF(sizes); i++) {
		for (at = sizes[i] - reach; at <= sizes[i] + 2; at++) {
			memset(text, '#', at);
			for (j = 99; j < at; j += 100)
				text[j] = '\n';
			text[at - 1] = '\n';
			memcpy(text + at, tail, sizeof(tail) - 1);
			give(text, at + sizeof(tail) - 1);
			expect(XBLOOM_SRC, "203.0.113.77\n2001:db8::77\n", (at + 99) / 100 + 2);
		}
	}
	free(text);
}

/* ---- hashes ---- */

static void list_becomes_hashes_under_the_key(void **state)
{
	const struct xbloom_hash_key key = { 3, 4 };
	static const char *const text[] = { "192.0.2.1", "2001:db8::1", "192.0.2.1" };
	struct xbloom_list_stats stats = { 0 };
	struct xbloom_hashes h = { 0 };
	struct xbloom_error err;
	struct xbloom_flow flow;
	size_t i;

	(void)state;
	give(LITERAL("192.0.2.1\n2001:db8::1\n192.0.2.1\n"));
	assert_int_equal(xbloom_list_hash(list, XBLOOM_SRC, &key, &h, &stats, NULL, NULL, &err), 0);
	assert_int_equal(h.n, 3);
	for (i = 0; i < 3; i++) {
		assert_int_equal(
			xbloom_key_parse(text[i], strlen(text[i]), XBLOOM_SRC, &flow, &err), 0);
		assert_int_equal(h.v[i], xbloom_key_hash(&key, &flow, XBLOOM_SRC));
	}

	/* A second list is added to the first, in the hashes and in the statistics. */
	give(LITERAL("# more\n192.0.2.2\n"));
	assert_int_equal(xbloom_list_hash(list, XBLOOM_SRC, &key, &h, &stats, NULL, NULL, &err), 0);
	assert_int_equal(h.n, 4);
	assert_int_equal(stats.keys, 4);
	assert_int_equal(stats.lines, 5);
	xbloom_hashes_free(&h);
	assert_null(h.v);
	assert_int_equal(h.n, 0);
}

/* However it is written, one host is one key. */
static void duplicates_count_once(void **state)
{
	const struct xbloom_hash_key key = { 5, 6 };
	struct xbloom_hashes h = { 0 };
	struct xbloom_error err;

	(void)state;
	give(LITERAL("192.0.2.1\n2001:db8::1\n192.0.2.1 # again\n::ffff:192.0.2.1\n"
		     "192.0.2.1/32\n2001:DB8:0::1\n192.0.2.2\n"));
	assert_int_equal(xbloom_list_hash(list, XBLOOM_SRC, &key, &h, NULL, NULL, NULL, &err), 0);
	assert_int_equal(h.n, 7);
	assert_int_equal(xbloom_hashes_distinct(&h), 4);
	assert_int_equal(h.n, 3);
	assert_int_equal(xbloom_hashes_distinct(&h), 0);
	assert_int_equal(h.n, 3);
	xbloom_hashes_free(&h);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Push the n numbers; then sorted and distinct is what qsort and a loop make of them. */
static void expect_distinct(uint64_t *v, size_t n)
{
	struct xbloom_hashes h = { 0 };
	struct xbloom_error err;
	size_t i, kept = 0;

	for (i = 0; i < n; i++)
		assert_int_equal(xbloom_hashes_push(&h, v[i], &err), 0);
	assert_int_equal(h.n, n);
	if (n)
		assert_memory_equal(h.v, v, n * sizeof(*v));

	qsort(v, n, sizeof(*v), compare);
	for (i = 0; i < n; i++)
		if (!i || v[i] != v[i - 1])
			v[kept++] = v[i];
	assert_int_equal(xbloom_hashes_distinct(&h), n - kept);
	assert_int_equal(h.n, kept);
	if (kept)
		assert_memory_equal(h.v, v, kept * sizeof(*v));
	xbloom_hashes_free(&h);
}

static void hashes_are_sorted_and_distinct(void **state)
{
	static const size_t sizes[] = { 0,   1,	  2,	3,    47,   48,	    49,	    255,
					256, 257, 1000, 4096, 4097, 100000, 1000000 };
	/* What each number is masked with: few values, few digits, low or high ones only. */
	static const uint64_t masks[] = {
		~0ULL,
		0,
		1,
		0xff,
		0xff00000000000000ULL,
		0x00000000ffffffffULL,
		0xffffffff00000000ULL,
		0x8000000000000001ULL,
		0x0f0f0f0f0f0f0f0fULL,
		0xff00ff,
	};
	uint64_t *v = calloc(1000000, sizeof(*v));
	struct unit_random r = { .seed = 9 };
	size_t i, j, n;

	(void)state;
	assert_non_null(v);
	for (i = 0; i < COUNT_OF(sizes); i++) {
		for (j = 0; j < COUNT_OF(masks); j++) {
			for (n = 0; n < sizes[i]; n++)
				v[n] = unit_random(&r) & masks[j];
			expect_distinct(v, sizes[i]);
		}
		for (n = 0; n < sizes[i]; n++)
			v[n] = n;
		expect_distinct(v, sizes[i]);
		for (n = 0; n < sizes[i]; n++)
			v[n] = ~(uint64_t)n;
		expect_distinct(v, sizes[i]);
		for (n = 0; n < sizes[i]; n++)
			v[n] = n << 56 | n % 3;
		expect_distinct(v, sizes[i]);
	}
	free(v);
}

static void freeing_hashes_twice_is_harmless(void **state)
{
	struct xbloom_hashes h = { 0 };
	struct xbloom_error err;

	(void)state;
	xbloom_hashes_free(&h);
	assert_int_equal(xbloom_hashes_push(&h, 1, &err), 0);
	xbloom_hashes_free(&h);
	xbloom_hashes_free(&h);
	assert_int_equal(xbloom_hashes_push(&h, 2, &err), 0);
	assert_int_equal(h.n, 1);
	assert_int_equal(h.v[0], 2);
	xbloom_hashes_free(&h);
}

struct told {
	unsigned int times;
	uint64_t last;
};

static void tell(void *ctx, const char *what, uint64_t done, uint64_t total)
{
	struct told *t = ctx;

	assert_non_null(what);
	assert_true(*what);
	assert_true(done >= t->last);
	assert_true(!total || done <= total);
	t->times++;
	t->last = done;
}

static void long_reading_tells_its_progress(void **state)
{
	const struct xbloom_hash_key key = { 7, 8 };
	struct unit_random keys = { .seed = 7 };
	struct xbloom_hashes h = { 0 };
	struct told told = { 0 };
	struct xbloom_error err;
	FILE *f = fopen(list, "w");
	unsigned int i;

	(void)state;
	assert_non_null(f);
	for (i = 0; i < BIG_KEYS; i++) {
		print_ipv4(f, (uint32_t)unit_random(&keys));
		fputc('\n', f);
	}
	assert_int_equal(fclose(f), 0);
	assert_int_equal(xbloom_list_hash(list, XBLOOM_SRC, &key, &h, NULL, tell, &told, &err), 0);
	assert_int_equal(h.n, BIG_KEYS);
	assert_in_range(told.times, 1, BIG_KEYS / 100);
	xbloom_hashes_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_key_a_line),
		cmocka_unit_test(comments_are_skipped),
		cmocka_unit_test(blank_lines_are_skipped),
		cmocka_unit_test(crlf_ends_a_line),
		cmocka_unit_test(last_line_needs_no_newline),
		cmocka_unit_test(leading_white_space_is_skipped),
		cmocka_unit_test(columns_behind_the_key_are_ignored),
		cmocka_unit_test(keys_of_several_fields),
		cmocka_unit_test(byte_order_mark_at_the_start_is_skipped),
		cmocka_unit_test(list_of_nothing_is_an_empty_list),
		cmocka_unit_test(dash_reads_standard_input),
		cmocka_unit_test(list_may_come_in_pieces),
		cmocka_unit_test(first_bad_line_is_named),
		cmocka_unit_test(byte_order_mark_elsewhere_is_refused),
		cmocka_unit_test(zero_bytes_are_refused),
		cmocka_unit_test(control_characters_do_not_reach_the_terminal),
		cmocka_unit_test(very_long_lines_are_refused_politely),
		cmocka_unit_test(limit_of_a_line_is_the_same_everywhere),
		cmocka_unit_test(unreadable_files_are_named),
		cmocka_unit_test(reader_stops_when_told_to),
		cmocka_unit_test(no_key_of_a_long_list_is_lost),
		cmocka_unit_test(key_across_the_end_of_a_buffer_is_read_whole),
		cmocka_unit_test(list_becomes_hashes_under_the_key),
		cmocka_unit_test(duplicates_count_once),
		cmocka_unit_test(hashes_are_sorted_and_distinct),
		cmocka_unit_test(freeing_hashes_twice_is_harmless),
		cmocka_unit_test(long_reading_tells_its_progress),
	};

	return cmocka_run_group_tests_name("lists", tests, make_dir, remove_dir);
}
