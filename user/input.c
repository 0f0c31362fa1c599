// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The bytes of a list: a file or standard input, unpacked where its first bytes say gzip or zstd.
 * Several members or frames behind each other are one file. What is cut off or damaged is an error
 * that names the file: nobody takes half a list for a whole one. Read in order, never mapped, since
 * a file that shrinks under a mapping kills the process. Called by list.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

#include "list_internal.h"

/* Packed bytes read at once. */
#define PACKED_BUFFER (256 * 1024)
/* How often a silent pipe lets us ask whether to give up, in milliseconds. */
#define POLL_MS 100
/* zlib: the largest window, and a gzip header is expected. */
#define GZIP_WINDOW (15 + 16)

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

struct xbloom_input {
	const char *name;
	int fd;
	bool waits; /* a pipe or terminal: reading may block for long */
	uint64_t size, done;
	bool (*give_up)(void *ctx);
	void *give_up_ctx;

	enum packing packing;
	char *packed; /* bytes of the file that are not unpacked yet; NONE: its first ones */
	size_t packed_at, packed_len;
	bool packed_end;
	bool inside; /* a member or frame that has not ended */
	bool zeros;  /* behind the last member only padding may come */
	z_stream gzip;
	ZSTD_DStream *zstd;

	/* The first error is the last word: what has failed is not asked again. */
	int failed;
	struct xbloom_error failure;

	char *head;
	size_t head_at, head_len;
	bool head_read;
};

const char *xbloom_input_name(const struct xbloom_input *in)
{
	return in->name;
}

void xbloom_input_progress(const struct xbloom_input *in, uint64_t *done, uint64_t *total)
{
	*total = in->size;
	*done = in->size && in->done > in->size ? in->size : in->done;
}

void xbloom_input_close(struct xbloom_input *in)
{
	if (!in)
		return;
	if (in->packing == PACKING_GZIP)
		inflateEnd(&in->gzip);
	ZSTD_freeDStream(in->zstd);
	xbloom_close_fd(&in->fd);
	free(in->packed);
	free(in->head);
	free(in);
}

/* ---- the file itself ---- */

/* Until there is something to read, or somebody wants to give up. */
static int wait_for_input(struct xbloom_input *in, struct xbloom_error *err)
{
	struct pollfd p = { .fd = in->fd, .events = POLLIN };

	while (in->waits && in->give_up) {
		int ready = poll(&p, 1, POLL_MS);

		if (in->give_up(in->give_up_ctx))
			return xbloom_fail(err, -ECANCELED, "the reading of lists was given up");
		if (ready > 0 || (ready < 0 && errno != EINTR))
			break;
	}
	return 0;
}

/* As read(2): up to `room` bytes, 0 at the end. */
static int read_some(struct xbloom_input *in, char *buf, size_t room, size_t *got,
		     struct xbloom_error *err)
{
	ssize_t n;
	int ret;

	*got = 0;
	do {
		ret = wait_for_input(in, err);
		if (ret)
			return ret;
		n = read(in->fd, buf, room);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return xbloom_fail(err, -errno, "cannot read %s: %s", in->name, strerror(errno));
	*got = (size_t)n;
	in->done += *got;
	return 0;
}

/* More packed bytes, when there are none left. */
static int refill(struct xbloom_input *in, struct xbloom_error *err)
{
	int ret;

	if (in->packed_at < in->packed_len || in->packed_end)
		return 0;
	in->packed_at = 0;
	ret = read_some(in, in->packed, PACKED_BUFFER, &in->packed_len, err);
	in->packed_end = !ret && !in->packed_len;
	return ret;
}

/* ---- unpacking ---- */

static int cut_off(const struct xbloom_input *in, struct xbloom_error *err)
{
	return xbloom_fail(err, -EINVAL,
			   "%s: the compressed data end too early: fetch the file again", in->name);
}

static int damaged(const struct xbloom_input *in, const char *what, struct xbloom_error *err)
{
	return xbloom_fail(err, -EINVAL,
			   "%s: the compressed data are damaged (%s): fetch the file again",
			   in->name, what ? what : "unknown");
}

/* Zero bytes may fill up the last block of a tape. */
static void skip_padding(struct xbloom_input *in)
{
	while (in->packed_at < in->packed_len && !in->packed[in->packed_at]) {
		in->zeros = true;
		in->packed_at++;
	}
}

/* What can be unpacked of what is there; *got 0: nothing yet. */
static int inflate_some(struct xbloom_input *in, char *buf, size_t room, size_t *got,
			struct xbloom_error *err)
{
	int z;

	*got = 0;
	if (!in->inside) {
		skip_padding(in);
		if (in->packed_at == in->packed_len)
			return 0;
		if (in->zeros)
			return damaged(in, "more than padding behind the end", err);
		if (inflateReset(&in->gzip) != Z_OK)
			return damaged(in, in->gzip.msg, err);
		in->inside = true;
	}
	in->gzip.next_in = (unsigned char *)in->packed + in->packed_at;
	in->gzip.avail_in = (unsigned int)(in->packed_len - in->packed_at);
	in->gzip.next_out = (unsigned char *)buf;
	in->gzip.avail_out = room < UINT32_MAX ? (unsigned int)room : UINT32_MAX;
	z = inflate(&in->gzip, Z_NO_FLUSH);
	*got = (size_t)((char *)in->gzip.next_out - buf);
	in->packed_at = in->packed_len - in->gzip.avail_in;
	if (z == Z_STREAM_END)
		in->inside = false;
	else if (z == Z_MEM_ERROR)
		return xbloom_fail(err, -ENOMEM, "out of memory to unpack %s", in->name);
	else if (z != Z_OK && z != Z_BUF_ERROR)
		return damaged(in, in->gzip.msg, err);
	return 0;
}

static int decompress_some(struct xbloom_input *in, char *buf, size_t room, size_t *got,
			   struct xbloom_error *err)
{
	ZSTD_inBuffer from = { in->packed, in->packed_len, in->packed_at };
	ZSTD_outBuffer to = { buf, room, 0 };
	size_t z = ZSTD_decompressStream(in->zstd, &to, &from);

	*got = to.pos;
	in->packed_at = from.pos;
	if (ZSTD_isError(z))
		return damaged(in, ZSTD_getErrorName(z), err);
	/* 0: a frame ended, and all of it was given out. */
	in->inside = z != 0;
	return 0;
}

static int unpack_some(struct xbloom_input *in, char *buf, size_t room, size_t *got,
		       struct xbloom_error *err)
{
	*got = 0;
	while (!*got) {
		size_t before;
		bool inside;
		int ret = refill(in, err);

		if (ret)
			return ret;
		if (in->packed_end && in->packed_at == in->packed_len && !in->inside)
			return 0;
		before = in->packed_at;
		inside = in->inside;
		ret = in->packing == PACKING_GZIP ? inflate_some(in, buf, room, got, err)
						  : decompress_some(in, buf, room, got, err);
		if (ret)
			return ret;
		/* At the end of the file, and nothing was still to be given out. */
		if (in->packed_end && !*got && in->packed_at == before && in->inside == inside)
			return cut_off(in, err);
	}
	return 0;
}

/* ---- the bytes of the list ---- */

static int read_bytes(struct xbloom_input *in, char *buf, size_t room, size_t *got,
		      struct xbloom_error *err)
{
	if (in->packing != PACKING_NONE)
		return unpack_some(in, buf, room, got, err);
	if (in->packed_at < in->packed_len) {
		*got = in->packed_len - in->packed_at;
		if (*got > room)
			*got = room;
		memcpy(buf, in->packed + in->packed_at, *got);
		in->packed_at += *got;
		return 0;
	}
	*got = 0;
	return in->packed_end ? 0 : read_some(in, buf, room, got, err);
}

static int fill_up(struct xbloom_input *in, char *buf, size_t room, size_t *got,
		   struct xbloom_error *err)
{
	while (*got < room && !in->failed) {
		size_t n;

		in->failed = read_bytes(in, buf + *got, room - *got, &n, &in->failure);
		*got += n;
		if (!in->failed && !n)
			break;
	}
	return in->failed && *got < room ? xbloom_fail(err, in->failed, "%s", in->failure.text) : 0;
}

int xbloom_input_head(struct xbloom_input *in, const char **head, size_t *len,
		      struct xbloom_error *err)
{
	int ret = 0;

	if (!in->head_read) {
		in->head_read = true;
		ret = fill_up(in, in->head, LIST_HEAD, &in->head_len, err);
	}
	*head = in->head;
	*len = in->head_len;
	return ret;
}

void xbloom_input_skip(struct xbloom_input *in, size_t n)
{
	in->head_at += n;
}

int xbloom_input_read(struct xbloom_input *in, char *buf, size_t room, size_t *got,
		      struct xbloom_error *err)
{
	*got = in->head_len - in->head_at;
	if (*got > room)
		*got = room;
	memcpy(buf, in->head + in->head_at, *got);
	in->head_at += *got;
	return fill_up(in, buf, room, got, err);
}

/* ---- opening ---- */

#define STARTS_WITH(in, magic)                                                                     \
	((in)->packed_len >= sizeof(magic) - 1 && !memcmp((in)->packed, magic, sizeof(magic) - 1))

/* Packed in a way that others can undo; what does, or NULL. */
static const char *unpacker(const struct xbloom_input *in)
{
	if (STARTS_WITH(in, "\xfd"
			    "7zXZ"))
		return "xz -dc";
	if (STARTS_WITH(in, "BZh"))
		return "bzip2 -dc";
	if (STARTS_WITH(in, "PK\x03\x04"))
		return "unzip -p";
	return NULL;
}

/* RFC 1952 (compression method 8, no reserved flags) and RFC 8878 (a frame, or one to be skipped). */
static enum packing packing_of(const struct xbloom_input *in)
{
	const unsigned char *p = (const unsigned char *)in->packed;

	if (STARTS_WITH(in, "\x1f\x8b\x08") && (in->packed_len < 4 || !(p[3] & 0xe0)))
		return PACKING_GZIP;
	if (STARTS_WITH(in, "\x28\xb5\x2f\xfd"))
		return PACKING_ZSTD;
	if (in->packed_len >= 4 && (p[0] & 0xf0) == 0x50 && !memcmp(p + 1, "\x2a\x4d\x18", 3))
		return PACKING_ZSTD;
	return PACKING_NONE;
}

/* The first bytes of the file say how it is packed. A pipe may give them one by one. */
static int look_at_packing(struct xbloom_input *in, struct xbloom_error *err)
{
	const char *command;

	while (in->packed_len < 8 && !in->packed_end) {
		size_t n;
		int ret = read_some(in, in->packed + in->packed_len, PACKED_BUFFER - in->packed_len,
				    &n, err);

		if (ret)
			return ret;
		in->packed_len += n;
		in->packed_end = !n;
	}
	command = unpacker(in);
	if (command)
		return xbloom_fail(err, -EINVAL,
				   "%s is packed in a way that is not read here: unpack it first "
				   "(%s)",
				   in->name, command);
	in->packing = packing_of(in);
	in->inside = in->packing == PACKING_ZSTD;
	if (in->packing == PACKING_GZIP && inflateInit2(&in->gzip, GZIP_WINDOW) != Z_OK) {
		in->packing = PACKING_NONE;
		return xbloom_fail(err, -ENOMEM, "out of memory to unpack %s", in->name);
	}
	if (in->packing == PACKING_ZSTD) {
		in->zstd = ZSTD_createDStream();
		if (!in->zstd)
			return xbloom_fail(err, -ENOMEM, "out of memory to unpack %s", in->name);
	}
	return 0;
}

static int open_file(struct xbloom_input *in, const char *path, struct xbloom_error *err)
{
	struct stat st;

	in->fd =
		strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : fcntl(0, F_DUPFD_CLOEXEC, 3);
	if (in->fd < 0 || fstat(in->fd, &st))
		return xbloom_fail(err, -errno, "cannot read %s: %s", in->name, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return xbloom_fail(err, -EISDIR, "cannot read %s: it is a directory", path);
	in->waits = !S_ISREG(st.st_mode);
	in->size = in->waits ? 0 : (uint64_t)st.st_size;
	return 0;
}

int xbloom_input_open(const char *path, bool unpack, bool (*give_up)(void *ctx), void *ctx,
		      struct xbloom_input **out, struct xbloom_error *err)
{
	struct xbloom_input *in = calloc(1, sizeof(*in));
	int ret;

	if (!in)
		return xbloom_fail(err, -ENOMEM, "out of memory to read %s", path);
	in->fd = -1;
	in->give_up = give_up;
	in->give_up_ctx = ctx;
	in->name = strcmp(path, "-") ? path : "standard input";
	in->packed = malloc(PACKED_BUFFER);
	in->head = malloc(LIST_HEAD);
	ret = in->packed && in->head ? open_file(in, path, err)
				     : xbloom_fail(err, -ENOMEM, "out of memory to read %s", path);
	if (!ret && unpack)
		ret = look_at_packing(in, err);
	if (ret) {
		xbloom_input_close(in);
		return ret;
	}
	*out = in;
	return 0;
}
