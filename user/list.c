// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Lists: one key a line, '#' and ';' for comments, anything after white space behind the key.
 * The first bad line ends the reading, and the error names it: whoever reads a list decides only
 * then whether to touch a filter.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "internal.h"

/* No key is longer than an IPv6 5-tuple with VLAN, about 105 characters; the rest is comment. */
#define LINE_MAX_BYTES 65536
#define READ_BUFFER (1 << 20)
/* How often progress is told, in lines. */
#define PROGRESS_EVERY 65536
#define UTF8_BOM "\xef\xbb\xbf"

static const char *shown_name(const char *path)
{
	return strcmp(path, "-") ? path : "standard input";
}

static int open_list(const char *path, int *out, struct xbloom_error *err)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : fcntl(0, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || fstat(fd, &st))
		return xbloom_fail(err, -errno, "cannot read %s: %s", shown_name(path),
				   strerror(errno));
	if (S_ISDIR(st.st_mode))
		return xbloom_fail(err, -EISDIR, "cannot read %s: it is a directory", path);
	*out = fd;
	fd = -1;
	return 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* The key of a line, or an empty piece when there is none. */
static const char *key_of_line(const char *line, size_t len, size_t *key_len)
{
	size_t start = 0, end;

	while (start < len && is_space(line[start]))
		start++;
	for (end = start; end < len; end++)
		if (is_space(line[end]) || line[end] == '#' || line[end] == ';')
			break;
	*key_len = end - start;
	return line + start;
}

static int read_line(const char *path, uint64_t number, const char *line, size_t len,
		     uint32_t fields, xbloom_key_fn fn, void *ctx, struct xbloom_list_stats *stats,
		     struct xbloom_error *err)
{
	struct xbloom_error inner = { "" };
	struct xbloom_flow flow;
	const char *key;
	size_t key_len;
	int ret;

	if (memchr(line, '\0', len))
		return xbloom_fail(err, -EINVAL,
				   "%s:%llu: a zero byte: this is not a text file (is it "
				   "compressed?)",
				   shown_name(path), (unsigned long long)number);
	if (len && memchr(line, '\r', len - 1))
		return xbloom_fail(
			err, -EINVAL,
			"%s:%llu: a carriage return within the line: convert its line ends "
			"first",
			shown_name(path), (unsigned long long)number);
	key = key_of_line(line, len, &key_len);
	if (!key_len)
		return 0;
	ret = xbloom_key_parse(key, key_len, fields, &flow, &inner);
	if (ret)
		return xbloom_fail(err, ret, "%s:%llu: %s", shown_name(path),
				   (unsigned long long)number, inner.text);
	stats->keys++;
	return fn(ctx, &flow, key, key_len);
}

/* What is left of a buffer after its whole lines, and the number of the last line. */
struct reader {
	char *buf;
	size_t used;
	uint64_t line;
};

static int too_long(const char *path, const struct reader *r, struct xbloom_error *err)
{
	return xbloom_fail(err, -EINVAL,
			   "%s:%llu: a line of more than %d bytes: this is not a list of keys",
			   shown_name(path), (unsigned long long)r->line + 1, LINE_MAX_BYTES);
}

/* Hand on each whole line in the buffer (and with `last`, the rest); move what is left to the front. */
static int read_lines(const char *path, struct reader *r, bool last, uint32_t fields,
		      xbloom_key_fn fn, void *ctx, struct xbloom_list_stats *stats,
		      struct xbloom_error *err)
{
	char *line = r->buf, *end = r->buf + r->used;

	while (line < end) {
		char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t len = (size_t)((newline ? newline : end) - line);
		size_t skip = 0;
		int ret;

		if (len > LINE_MAX_BYTES)
			return too_long(path, r, err);
		if (!newline && !last)
			break;
		if (!r->line && len >= strlen(UTF8_BOM) &&
		    !memcmp(line, UTF8_BOM, strlen(UTF8_BOM)))
			skip = strlen(UTF8_BOM);
		stats->lines++;
		r->line++;
		ret = read_line(path, r->line, line + skip, len - skip, fields, fn, ctx, stats,
				err);
		if (ret < 0)
			return ret;
		line += newline ? len + 1 : len;
	}
	r->used = (size_t)(end - line);
	memmove(r->buf, line, r->used);
	return 0;
}

int xbloom_list_read(const char *path, uint32_t fields, xbloom_key_fn fn, void *ctx,
		     struct xbloom_list_stats *stats, struct xbloom_error *err)
{
	struct xbloom_list_stats unused = { 0 };
	AUTO_FREE char *buf = malloc(READ_BUFFER);
	struct reader r = { .buf = buf };
	AUTO_CLOSE int fd = -1;
	int ret;

	if (!buf)
		return xbloom_fail(err, -ENOMEM, "out of memory to read %s", shown_name(path));
	ret = open_list(path, &fd, err);
	if (ret)
		return ret;
	if (!stats)
		stats = &unused;
	for (;;) {
		ssize_t got = read(fd, buf + r.used, READ_BUFFER - r.used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return xbloom_fail(err, -errno, "cannot read %s: %s", shown_name(path),
					   strerror(errno));
		r.used += (size_t)got;
		ret = read_lines(path, &r, got == 0, fields, fn, ctx, stats, err);
		if (ret || got == 0)
			return ret;
	}
}

struct hashing {
	uint32_t fields;
	const struct xbloom_hash_key *key;
	struct xbloom_hashes *hashes;
	xbloom_progress_fn progress;
	void *progress_ctx;
	struct xbloom_error *err;
};

static int hash_key(void *ctx, const struct xbloom_flow *flow, const char *text, size_t len)
{
	struct hashing *h = ctx;

	(void)text;
	(void)len;
	if (h->progress && h->hashes->n % PROGRESS_EVERY == 0)
		h->progress(h->progress_ctx, "reading", h->hashes->n, 0);
	return xbloom_hashes_push_flow(h->hashes, h->key, flow, h->fields, h->err);
}

int xbloom_list_hash(const char *path, uint32_t fields, const struct xbloom_hash_key *key,
		     struct xbloom_hashes *hashes, struct xbloom_list_stats *stats,
		     xbloom_progress_fn progress, void *progress_ctx, struct xbloom_error *err)
{
	struct hashing h = { fields, key, hashes, progress, progress_ctx, err };

	return xbloom_list_read(path, fields, hash_key, &h, stats, err);
}
