/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the readers of lists share: list.c, which reads and divides the work, input.c, which opens
 * and unpacks, and format*.c, which know how entries are written. Nobody else includes it but their
 * tests.
 */
#ifndef XBLOOM_LIST_INTERNAL_H
#define XBLOOM_LIST_INTERNAL_H

#include "internal.h"

/* No key is longer than an IPv6 5-tuple with VLAN, about 105 characters; the rest is comment. */
#define LIST_LINE_MAX 65536
/* By how much of a list its format is told. */
#define LIST_HEAD 65536
/* How much of a bad piece a message repeats. */
#define LIST_SHOWN 60
#define LIST_SHOW(s, len) (int)((len) < LIST_SHOWN ? (len) : LIST_SHOWN), (s)
#define LIST_BOM "\xef\xbb\xbf"

/* ---- input.c: the bytes of a file, unpacked ---- */

struct xbloom_input;

/*
 * With `unpack`, what is packed is unpacked; raw addresses may begin as a packed file does.
 * `give_up` (may be NULL) is asked several times a second while a pipe has nothing to give; true:
 * reading returns -ECANCELED.
 */
int xbloom_input_open(const char *path, bool unpack, bool (*give_up)(void *ctx), void *ctx,
		      struct xbloom_input **out, struct xbloom_error *err);
void xbloom_input_close(struct xbloom_input *in);
/* The file's name for messages. */
const char *xbloom_input_name(const struct xbloom_input *in);
/* The first bytes, up to LIST_HEAD; they are read again by xbloom_input_read(). */
int xbloom_input_head(struct xbloom_input *in, const char **head, size_t *len,
		      struct xbloom_error *err);
/* Leave out the first n of the head; nothing has been read yet. */
void xbloom_input_skip(struct xbloom_input *in, size_t n);
/*
 * Read until `room` bytes are there or the end is reached: *got < room only there. On an error, *got
 * bytes came before it.
 */
int xbloom_input_read(struct xbloom_input *in, char *buf, size_t room, size_t *got,
		      struct xbloom_error *err);
/* How far in the file, of how much: as it lies on disk; *total 0: not known. */
void xbloom_input_progress(const struct xbloom_input *in, uint64_t *done, uint64_t *total);

/* ---- list.c: one worker, as the formats see it ---- */

struct list_job {
	const char *name; /* of the file, for messages */
	const struct xbloom_list_options *options;
	xbloom_entry_fn fn;
	void *ctx;
};

struct list_worker {
	const struct list_job *job;
	unsigned int number;
	struct xbloom_list_stats stats;
	uint64_t line;		 /* where we are: in the chunk, or in the file; 0: nowhere */
	struct xbloom_error err; /* what is wrong there, without file and line */
	bool told;		 /* by the callback: the message is its own */
};

/* Something is wrong at w->line: write it down, return -EINVAL. */
int xbloom_list_bad(struct list_worker *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Parse one entry and hand it over. */
int xbloom_list_entry(struct list_worker *w, const char *text, size_t len);
/* The same when it stands otherwise in the file than xbloom_span_parse() wants it. */
int xbloom_list_entry_as(struct list_worker *w, const char *entry, size_t entry_len,
			 const char *text, size_t len);
/*
 * Hand over what nftables concatenates, n parts: addresses and numbers come in the key's order, and
 * a protocol wherever it likes. One that is not keyed is left out, as of "tcp:443".
 */
#define LIST_CONCAT_MAX 256
int xbloom_list_concat(struct list_worker *w, const char *const *parts, size_t n, const char *text,
		       size_t len);
/* Hand over one address that needs no parsing. */
int xbloom_list_host(struct list_worker *w, struct xbloom_flow *flow, const char *text, size_t len);
/* Count what is passed over; an error when that is what was asked for. */
int xbloom_list_ignore(struct list_worker *w, enum xbloom_ignored reason, const char *text,
		       size_t len);

/* xbloom_list_read() with chunks of so many bytes: an entry may stand across any border. */
int xbloom_list_read_chunks(const char *path, const struct xbloom_list_options *options,
			    size_t chunk, xbloom_entry_fn fn, void *ctx,
			    struct xbloom_list_stats *stats, struct xbloom_error *err);

/* ---- format*.c ---- */

/*
 * Formats without memory: whole lines, or whole records, that any worker can take. `text` ends with
 * a line feed. w->line is counted on; 0, or what the callback or xbloom_list_bad() returned.
 */
int xbloom_lines_plain(struct list_worker *w, const char *text, const char *end);
int xbloom_lines_ipset(struct list_worker *w, const char *text, const char *end);
int xbloom_records_raw4(struct list_worker *w, const char *text, const char *end);
int xbloom_records_raw6(struct list_worker *w, const char *text, const char *end);

/*
 * Formats that have to be read from the start, by one worker. feed() is given the text in pieces cut
 * anywhere, and finish() is called at the end; each returns 0 or an error as above.
 */
struct list_stream {
	void *(*begin)(struct list_worker *w);
	int (*feed)(void *state, const char *text, size_t len);
	int (*finish)(void *state);
	void (*end)(void *state);
};
extern const struct list_stream xbloom_stream_csv;
extern const struct list_stream xbloom_stream_nft;
extern const struct list_stream xbloom_stream_nft_json;
extern const struct list_stream xbloom_stream_spamhaus;
extern const struct list_stream xbloom_stream_crowdsec;

/* White space within a line. */
static inline bool list_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* The entry of a plain line, an empty piece when there is none. A range may have blanks in it. */
const char *xbloom_plain_entry(const char *line, size_t len, size_t *entry_len);

/* Whether a line could be the first of a CSV list: it has columns, and names or holds an entry. */
bool xbloom_csv_detect(const char *line, size_t len, uint32_t fields);

/*
 * The format asked for, or by content. -EINVAL: what is no list in any format, for a reason about
 * its first line. `head` is what the list starts with.
 */
int xbloom_format_detect(const char *head, size_t len, const struct xbloom_list_options *options,
			 enum xbloom_format *format, struct xbloom_error *err);

#endif /* XBLOOM_LIST_INTERNAL_H */
