// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reading lists. A list whose lines stand for themselves is read in chunks, cut at line ends; whoever
 * is free reads the next one and parses it, the caller's thread and its helpers alike, so that
 * unpacking, reading and parsing go on side by side in a few MiB. Other formats are read from the
 * start by the caller's thread alone. Whatever the threads do, the error that is told is the first of
 * the file, with its line: whoever reads a list decides only then whether to touch a filter.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "list_internal.h"

/* About 75,000 addresses: a few ms of work, much more than taking the lock. Fits in the L2 cache. */
#define CHUNK (1 << 20)
/* How often the caller's thread asks whether to give up while a helper reads, in nanoseconds. */
#define LOCK_PATIENCE_NS 100000000
#define NS_PER_S 1000000000L

/* ---- what the formats call ---- */

int xbloom_list_bad(struct list_worker *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(w->err.text, sizeof(w->err.text), format, args);
	va_end(args);
	return -EINVAL;
}

static int hand_over(xbloom_entry_fn fn, void *ctx, unsigned int worker, struct xbloom_flow *flow,
		     const char *text, size_t len, bool *told)
{
	int ret = fn(ctx, worker, flow, text, len);

	if (ret >= 0)
		return 0;
	*told = true;
	return ret;
}

typedef unsigned __int128 u128;

/* The lowest `bits` bits. */
static u128 low_bits(unsigned int bits)
{
	return bits == 128 ? ~(u128)0 : ((u128)1 << bits) - 1;
}

static u128 load_address(const uint8_t *bytes, unsigned int n)
{
	u128 x = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		x = x << 8 | bytes[i];
	return x;
}

static void store_address(uint8_t *bytes, unsigned int n, u128 x)
{
	while (n--) {
		bytes[n] = (uint8_t)x;
		x >>= 8;
	}
}

static uint8_t *address_of(struct xbloom_flow *flow, uint32_t fields)
{
	return fields & XBLOOM_SRC ? (uint8_t *)&flow->src : (uint8_t *)&flow->dst;
}

/* The fewest prefixes from the span's first address to its last, in order. */
static int hand_over_range(const struct xbloom_span *span, uint32_t fields, xbloom_entry_fn fn,
			   void *ctx, unsigned int worker, const char *text, size_t len, bool *told)
{
	struct xbloom_flow flow = span->flow;
	unsigned int width = flow.family == XBLOOM_FAMILY_V4 ? 32 : 128;
	u128 from = load_address(address_of(&flow, fields), width / 8);
	u128 last = load_address(span->last, width / 8), end;

	do {
		unsigned int bits = 0;
		int ret;

		/* The largest that starts here and does not go beyond the last. */
		while (bits < width && !(from & low_bits(bits + 1)) &&
		       (from | low_bits(bits + 1)) <= last)
			bits++;
		end = from | low_bits(bits);
		store_address(address_of(&flow, fields), width / 8, from);
		flow.plen = (uint8_t)(width - bits);
		ret = hand_over(fn, ctx, worker, &flow, text, len, told);
		if (ret)
			return ret;
		from = end + 1;
	} while (end != last);
	return 0;
}

static int hand_over_span(struct xbloom_span *span, uint32_t fields, xbloom_entry_fn fn, void *ctx,
			  unsigned int worker, const char *text, size_t len,
			  struct xbloom_list_stats *stats, bool *told)
{
	unsigned int host = span->flow.family == XBLOOM_FAMILY_V4 ? 32 : 128;

	if (!span->range && (!span->flow.family || span->flow.plen == host))
		stats->keys++;
	else
		stats->prefixes++;
	stats->masked += span->masked;
	if (span->range)
		return hand_over_range(span, fields, fn, ctx, worker, text, len, told);
	return hand_over(fn, ctx, worker, &span->flow, text, len, told);
}

/* Whether it is every address of its family, which hardly anybody means. */
static bool is_everything(const struct xbloom_span *span, uint32_t fields)
{
	struct xbloom_flow flow = span->flow;
	unsigned int width = flow.family == XBLOOM_FAMILY_V4 ? 32 : 128;

	if (!span->range)
		return flow.family && !flow.plen;
	return !load_address(address_of(&flow, fields), width / 8) &&
	       load_address(span->last, width / 8) == low_bits(width);
}

static int check_span(const struct xbloom_span *span, const struct xbloom_list_options *options,
		      const char *text, size_t len, struct xbloom_error *err)
{
	if (options->everything || !is_everything(span, options->fields))
		return 0;
	return xbloom_fail(err, -EINVAL,
			   "'%.*s' is every address there is: take it out, or say --force",
			   LIST_SHOW(text, len));
}

int xbloom_list_entry_as(struct list_worker *w, const char *entry, size_t entry_len,
			 const char *text, size_t len)
{
	const struct list_job *job = w->job;
	struct xbloom_span span;
	int ret = xbloom_span_parse(entry, entry_len, job->options->fields, &span, &w->err);

	if (!ret)
		ret = check_span(&span, job->options, text, len, &w->err);
	return ret ? ret
		   : hand_over_span(&span, job->options->fields, job->fn, job->ctx, w->number, text,
				    len, &w->stats, &w->told);
}

int xbloom_list_entry(struct list_worker *w, const char *text, size_t len)
{
	return xbloom_list_entry_as(w, text, len, text, len);
}

static unsigned int count_bits(uint32_t x)
{
	return (unsigned int)__builtin_popcount(x);
}

static bool is_proto_name(const char *part)
{
	struct xbloom_flow flow;

	return (*part < '0' || *part > '9') &&
	       !xbloom_key_parse(part, strlen(part), XBLOOM_PROTO, &flow, NULL);
}

/* Append to a comma list; false: there is no room. */
static bool append_part(char *key, size_t room, const char *part)
{
	size_t used = strlen(key);

	return snprintf(key + used, room - used, "%s%s", used ? "," : "", part) <
	       (int)(room - used);
}

int xbloom_list_concat(struct list_worker *w, const char *const *parts, size_t n, const char *text,
		       size_t len)
{
	uint32_t fields = w->job->options->fields;
	unsigned int addresses = 0, numbers = 0, protos = 0;
	char key[LIST_CONCAT_MAX] = "", names[XBLOOM_FIELDS_TEXT];
	const char *proto = NULL;
	bool fits = true;
	size_t i;

	for (i = 0; i < n; i++) {
		if (is_proto_name(parts[i])) {
			proto = parts[i];
			protos++;
		} else if (strpbrk(parts[i], ".:")) {
			fits &= append_part(key, sizeof(key), parts[i]);
			addresses++;
		}
	}
	for (i = 0; i < n; i++) {
		if (!is_proto_name(parts[i]) && !strpbrk(parts[i], ".:")) {
			fits &= append_part(key, sizeof(key), parts[i]);
			numbers++;
		}
	}
	if (proto && (fields & XBLOOM_PROTO))
		fits &= append_part(key, sizeof(key), proto);
	if (!fits || addresses != count_bits(fields & XBLOOM_FIELDS_ADDR) ||
	    numbers != count_bits(fields & (XBLOOM_FIELDS_PORTS | XBLOOM_VLAN)) || protos > 1 ||
	    (!protos && (fields & XBLOOM_PROTO)) || (fields & XBLOOM_VLAN))
		return xbloom_list_bad(w, "'%.*s' cannot be read as a key here: %s",
				       LIST_SHOW(text, len), xbloom_fields_text(fields, names));
	return xbloom_list_entry_as(w, key, strlen(key), text, len);
}

int xbloom_list_host(struct list_worker *w, struct xbloom_flow *flow, const char *text, size_t len)
{
	w->stats.keys++;
	return hand_over(w->job->fn, w->job->ctx, w->number, flow, text, len, &w->told);
}

static bool is_of_taken_entry(enum xbloom_ignored reason)
{
	return reason == XBLOOM_IGNORED_TIMEOUT || reason == XBLOOM_IGNORED_COMMENT;
}

int xbloom_list_ignore(struct list_worker *w, enum xbloom_ignored reason, const char *text,
		       size_t len)
{
	w->stats.ignored[reason]++;
	if (w->job->options->strict && !is_of_taken_entry(reason))
		return xbloom_list_bad(w, "'%.*s' would be ignored (%s), and this is to be strict",
				       LIST_SHOW(text, len), xbloom_ignored_name(reason));
	return 0;
}

int xbloom_entry_parse(const char *text, size_t len, const struct xbloom_list_options *options,
		       xbloom_entry_fn fn, void *ctx, struct xbloom_list_stats *stats,
		       struct xbloom_error *err)
{
	struct xbloom_list_stats unused = { 0 };
	struct xbloom_span span;
	bool told;
	int ret = xbloom_span_parse(text, len, options->fields, &span, err);

	if (!ret)
		ret = check_span(&span, options, text, len, err);
	return ret ? ret
		   : hand_over_span(&span, options->fields, fn, ctx, 0, text, len,
				    stats ? stats : &unused, &told);
}

/* ---- a list in chunks, for several workers ---- */

/* How a format is cut: at line ends, or into records. */
struct chunk_format {
	int (*parse)(struct list_worker *w, const char *text, const char *end);
	size_t record; /* bytes; 0: lines */
};

struct reading {
	struct list_job job;
	struct chunk_format format;
	const struct xbloom_options *opts; /* may be NULL */
	size_t chunk;
	pthread_t caller;
	atomic_bool stop; /* reading more is of no use */

	pthread_mutex_t lock; /* of everything below */
	struct xbloom_input *in;
	bool ended;
	char *carry; /* the start of the next chunk: the line that the last one was cut in */
	size_t carry_len;
	uint64_t bytes; /* unpacked and cut off */
	uint64_t bytes_done, lines_done;
	/* Of each chunk, 8 bytes for a MiB: a line is known by its number only when all are. */
	uint64_t *lines;
	uint64_t issued, lines_room;
	/* The first error of the file. */
	uint64_t failed_chunk;
	uint64_t failed_line; /* in it; 0: the message is complete */
	int failed;
	bool told;
	struct xbloom_error err;
};

struct worker {
	struct reading *r;
	struct list_worker w;
	char *buf;
	pthread_t thread;
};

/* A chunk that was taken, and what came of it. */
struct chunk {
	uint64_t number;
	size_t len; /* 0: there is none */
	int ret;
};

static size_t buffer_room(const struct reading *r)
{
	return LIST_LINE_MAX + r->chunk + 1;
}

/* Remember an error, if none is known that comes before it. The lock is held. */
static void fail_at(struct reading *r, uint64_t chunk, uint64_t line, int code,
		    const struct xbloom_error *err, bool told)
{
	if (!r->failed || chunk < r->failed_chunk) {
		r->failed = code;
		r->failed_chunk = chunk;
		r->failed_line = line;
		r->told = told;
		r->err = *err;
	}
	atomic_store(&r->stop, true);
}

/* Where to cut `used` bytes that others follow; 0: nowhere yet. */
static size_t cut(const struct reading *r, const char *buf, size_t used)
{
	const char *newline;

	if (r->format.record)
		return used - used % r->format.record;
	newline = memrchr(buf, '\n', used);
	if (newline && (size_t)(buf + used - newline - 1) <= LIST_LINE_MAX)
		return (size_t)(newline + 1 - buf);
	/* A line that is too long: let it be found where the lines are counted. */
	return used > LIST_LINE_MAX ? used : 0;
}

/* The same of the last bytes: all of them, but for a record that is cut off. */
static size_t cut_last(struct reading *r, size_t used)
{
	size_t rest = r->format.record ? used % r->format.record : 0;
	struct xbloom_error err;

	if (rest) {
		xbloom_fail(&err, -EINVAL,
			    "%s: byte %llu: the list ends within an address: a %s list is "
			    "addresses of %zu bytes each and nothing else",
			    r->job.name, (unsigned long long)(r->bytes + used - rest),
			    xbloom_format_name(r->job.options->format), r->format.record);
		fail_at(r, r->issued + 1, 0, -EINVAL, &err, false);
	}
	return used - rest;
}

static int room_for_lines(struct reading *r, struct xbloom_error *err)
{
	uint64_t room = r->lines_room ? 2 * r->lines_room : 1024;
	uint64_t *lines;

	if (r->issued < r->lines_room)
		return 0;
	lines = reallocarray(r->lines, room, sizeof(*lines));
	if (!lines)
		return xbloom_fail(err, -ENOMEM, "out of memory to read %s", r->job.name);
	r->lines = lines;
	r->lines_room = room;
	return 0;
}

/*
 * Read the next chunk into buf, and return its length; 0: there is none. What went wrong behind it
 * is remembered as the error of the chunk after it. The lock is held.
 */
static size_t next_chunk(struct reading *r, char *buf)
{
	size_t used = r->carry_len, size = 0;
	struct xbloom_error err;

	if (r->ended || atomic_load(&r->stop))
		return 0;
	memcpy(buf, r->carry, used);
	while (!size && !r->ended) {
		size_t got;
		int ret = xbloom_input_read(r->in, buf + used, r->chunk, &got, &err);

		used += got;
		if (ret)
			fail_at(r, r->issued + 1, 0, ret, &err, false);
		r->ended = ret || got < r->chunk;
		size = r->ended && !ret ? cut_last(r, used) : cut(r, buf, used);
	}
	r->carry_len = used - size;
	if (r->carry_len > LIST_LINE_MAX)
		r->carry_len = 0;
	memcpy(r->carry, buf + size, r->carry_len);
	if (size && !r->format.record && buf[size - 1] != '\n') {
		/* The last line needs no end: give it one. Behind one that is too long is nothing. */
		buf[size++] = '\n';
		r->ended = true;
	}
	r->bytes += size;
	return size;
}

static bool is_cancelled(const struct reading *r)
{
	return r->opts && r->opts->cancelled && r->opts->cancelled(r->opts->ctx);
}

/* Asked while a pipe is silent, by the thread that reads; only the caller's own asks the caller. */
static bool gives_up(void *ctx)
{
	struct reading *r = ctx;

	return atomic_load(&r->stop) ||
	       (pthread_equal(pthread_self(), r->caller) && is_cancelled(r));
}

/* The caller's thread does not wait blindly for a helper that reads; true: to be cancelled. */
static bool lock_reading(struct reading *r, bool is_caller)
{
	bool cancelled = false;
	struct timespec until;

	if (!is_caller) {
		pthread_mutex_lock(&r->lock);
		return false;
	}
	do {
		cancelled |= is_cancelled(r);
		if (cancelled)
			atomic_store(&r->stop, true);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LOCK_PATIENCE_NS;
		until.tv_sec += until.tv_nsec / NS_PER_S;
		until.tv_nsec %= NS_PER_S;
	} while (pthread_mutex_clocklock(&r->lock, CLOCK_MONOTONIC, &until));
	return cancelled;
}

static void tell_progress(const struct xbloom_options *opts, const struct xbloom_input *in,
			  uint64_t lines, double share_done)
{
	uint64_t on_disk, size, total = 0;

	if (!opts || !opts->progress)
		return;
	xbloom_input_progress(in, &on_disk, &size);
	/* Lines are as long from here on as they were so far. */
	if (size && on_disk && share_done > 0)
		total = (uint64_t)((double)lines / share_done * ((double)size / (double)on_disk));
	opts->progress(opts->ctx, "reading", lines, total && total < lines ? lines : total);
}

/* Hand in what came of the last chunk, if there was one, and take the next. */
static void exchange_chunk(struct worker *worker, struct chunk *c)
{
	struct reading *r = worker->r;
	bool is_caller = worker->w.number == 0;
	struct xbloom_error err;

	/* Whoever holds the lock may be waiting for a pipe. */
	if (c->len && c->ret)
		atomic_store(&r->stop, true);
	if (lock_reading(r, is_caller)) {
		xbloom_fail(&err, -ECANCELED, "the reading of lists was given up");
		fail_at(r, 0, 0, -ECANCELED, &err, false);
	}
	if (c->len) {
		r->lines[c->number] = worker->w.line;
		r->lines_done += worker->w.line;
		r->bytes_done += c->len;
		if (c->ret)
			fail_at(r, c->number, worker->w.line, c->ret, &worker->w.err,
				worker->w.told);
	}
	c->number = r->issued;
	c->len = 0;
	if (room_for_lines(r, &err))
		fail_at(r, r->issued, 0, -ENOMEM, &err, false);
	else
		c->len = next_chunk(r, worker->buf);
	if (c->len)
		r->lines[r->issued++] = 0;
	if (is_caller)
		tell_progress(r->opts, r->in, r->lines_done,
			      r->bytes ? (double)r->bytes_done / (double)r->bytes : 0);
	pthread_mutex_unlock(&r->lock);
}

static void parse_chunk(struct worker *worker, struct chunk *c)
{
	const char *text = worker->buf, *end = text + c->len;

	worker->w.line = 0;
	c->ret = worker->r->format.parse(&worker->w, text, end);
	worker->w.stats.lines += worker->w.line;
}

static void *help(void *arg)
{
	struct worker *worker = arg;
	struct chunk c = { 0 };

	for (exchange_chunk(worker, &c); c.len; exchange_chunk(worker, &c))
		parse_chunk(worker, &c);
	return NULL;
}

/* Start up to n helpers; how many there are. With fewer it takes longer. */
static unsigned int start_helpers(struct reading *r, struct worker *workers, unsigned int n)
{
	sigset_t all, saved;
	unsigned int i;

	/* Signals are for the caller's thread: it may be the one that asks about them. */
	sigfillset(&all);
	if (pthread_sigmask(SIG_SETMASK, &all, &saved))
		return 0;
	for (i = 0; i < n; i++) {
		struct worker *worker = &workers[i];

		*worker = (struct worker){ .r = r };
		worker->w.job = &r->job;
		worker->w.number = i + 1;
		worker->buf = malloc(buffer_room(r));
		if (!worker->buf)
			break;
		if (pthread_create(&worker->thread, NULL, help, worker)) {
			free(worker->buf);
			break;
		}
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return i;
}

static void add_stats(struct xbloom_list_stats *to, const struct xbloom_list_stats *from)
{
	unsigned int i;

	to->lines += from->lines;
	to->keys += from->keys;
	to->prefixes += from->prefixes;
	to->masked += from->masked;
	for (i = 0; i < XBLOOM_IGNORED_REASONS; i++)
		to->ignored[i] += from->ignored[i];
}

/* The error of a reading, with its place in the file. */
static int tell_failure(const struct reading *r, struct xbloom_error *err)
{
	const struct xbloom_error said = r->told && err ? *err : r->err;
	uint64_t line = r->failed_line, i;

	if (!r->failed || (r->told && r->failed != -EBADMSG))
		return r->failed;
	if (!line)
		return xbloom_fail(err, r->failed, "%s", said.text);
	for (i = 0; i < r->failed_chunk; i++)
		line += r->lines[i];
	return xbloom_fail(err, r->failed, "%s:%llu: %.400s", r->job.name, (unsigned long long)line,
			   said.text);
}

static int read_chunks(struct reading *r, unsigned int threads, struct xbloom_list_stats *stats,
		       struct xbloom_error *err)
{
	struct worker workers[XBLOOM_READERS_MAX - 1], self = { .r = r, .w = { .job = &r->job } };
	unsigned int helpers = 0, i;
	struct chunk c = { 0 };

	r->carry = malloc(LIST_LINE_MAX + 1);
	self.buf = malloc(buffer_room(r));
	if (!r->carry || !self.buf) {
		free(r->carry);
		free(self.buf);
		return xbloom_fail(err, -ENOMEM, "out of memory to read %s", r->job.name);
	}
	pthread_mutex_init(&r->lock, NULL);
	exchange_chunk(&self, &c);
	/* What ends within the first chunk is read before a thread has started. */
	if (!r->ended && threads > 1)
		helpers = start_helpers(r, workers, threads - 1);
	for (; c.len; exchange_chunk(&self, &c))
		parse_chunk(&self, &c);
	add_stats(stats, &self.w.stats);
	for (i = 0; i < helpers; i++) {
		pthread_join(workers[i].thread, NULL);
		add_stats(stats, &workers[i].w.stats);
		free(workers[i].buf);
	}
	pthread_mutex_destroy(&r->lock);
	tell_failure(r, err);
	free(self.buf);
	free(r->carry);
	free(r->lines);
	return r->failed;
}

/* ---- a list from start to end, by one worker ---- */

static int feed_stream(struct reading *r, const struct list_stream *stream, struct list_worker *w,
		       void *state, char *buf)
{
	struct xbloom_error err;
	int ret = 0, failed = 0;
	size_t got = r->chunk;

	while (!ret && !failed && got == r->chunk) {
		tell_progress(r->opts, r->in, w->stats.lines, 1);
		failed = xbloom_input_read(r->in, buf, r->chunk, &got, &err);
		/* What came before the file's error may hold one of its own. */
		ret = stream->feed(state, buf, got);
		if (!ret && !failed && is_cancelled(r))
			failed = xbloom_fail(&err, -ECANCELED, "the reading of lists was given up");
	}
	if (failed && !ret) {
		fail_at(r, 0, 0, failed, &err, false);
		return 0;
	}
	return ret ? ret : stream->finish(state);
}

static int read_stream(struct reading *r, const struct list_stream *stream,
		       struct xbloom_list_stats *stats, struct xbloom_error *err)
{
	struct list_worker w = { .job = &r->job, .line = 1 };
	AUTO_FREE char *buf = malloc(r->chunk);
	void *state = stream->begin(&w);
	int ret;

	if (!buf || !state) {
		stream->end(state);
		return xbloom_fail(err, -ENOMEM, "out of memory to read %s", r->job.name);
	}
	ret = feed_stream(r, stream, &w, state, buf);
	if (ret)
		fail_at(r, 0, w.line, ret, &w.err, w.told);
	stream->end(state);
	add_stats(stats, &w.stats);
	return tell_failure(r, err);
}

/* ---- a list ---- */

static const struct {
	struct chunk_format chunks;
	const struct list_stream *stream;
} readers[XBLOOM_FORMATS] = {
	[XBLOOM_FORMAT_PLAIN] = { .chunks = { xbloom_lines_plain, 0 } },
	[XBLOOM_FORMAT_IPSET] = { .chunks = { xbloom_lines_ipset, 0 } },
	[XBLOOM_FORMAT_NFT] = { .stream = &xbloom_stream_nft },
	[XBLOOM_FORMAT_NFT_JSON] = { .stream = &xbloom_stream_nft_json },
	[XBLOOM_FORMAT_SPAMHAUS_JSON] = { .stream = &xbloom_stream_spamhaus },
	[XBLOOM_FORMAT_CROWDSEC] = { .stream = &xbloom_stream_crowdsec },
	[XBLOOM_FORMAT_CSV] = { .stream = &xbloom_stream_csv },
	[XBLOOM_FORMAT_RAW4] = { .chunks = { xbloom_records_raw4, 4 } },
	[XBLOOM_FORMAT_RAW6] = { .chunks = { xbloom_records_raw6, 16 } },
};

static bool is_raw(enum xbloom_format format)
{
	return format == XBLOOM_FORMAT_RAW4 || format == XBLOOM_FORMAT_RAW6;
}

/* Settle what is to be read, and how; the input is behind its byte order mark then. */
static int look_at_list(struct reading *r, struct xbloom_list_options *options,
			struct xbloom_error *err)
{
	struct xbloom_error inner;
	const char *head;
	size_t len;
	int ret;

	if (options->column && options->format == XBLOOM_FORMAT_AUTO)
		options->format = XBLOOM_FORMAT_CSV;
	if (options->column && options->format != XBLOOM_FORMAT_CSV)
		return xbloom_fail(err, -EINVAL, "%s: only a CSV list has columns, not a %s one",
				   r->job.name, xbloom_format_name(options->format));
	if (is_raw(options->format) && options->fields != XBLOOM_SRC &&
	    options->fields != XBLOOM_DST)
		return xbloom_fail(err, -EINVAL,
				   "%s: a %s list holds single addresses: it goes only with the "
				   "key src or dst alone",
				   r->job.name, xbloom_format_name(options->format));
	ret = xbloom_input_head(r->in, &head, &len, err);
	/* What came before an error is read first; it may explain it. */
	if ((ret && !len) || is_raw(options->format))
		return ret && !len ? ret : 0;
	ret = xbloom_format_detect(head, len, options, &options->format, &inner);
	if (ret)
		return xbloom_fail(err, ret, "%s:1: %s", r->job.name, inner.text);
	if (len >= strlen(LIST_BOM) && !memcmp(head, LIST_BOM, strlen(LIST_BOM)))
		xbloom_input_skip(r->in, strlen(LIST_BOM));
	return 0;
}

static unsigned int threads_for(unsigned int wanted)
{
	cpu_set_t cpus;

	if (!wanted)
		wanted = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1
								   : (unsigned int)CPU_COUNT(&cpus);
	return wanted < XBLOOM_READERS_MAX ? wanted : XBLOOM_READERS_MAX;
}

int xbloom_list_read_chunks(const char *path, const struct xbloom_list_options *given, size_t chunk,
			    xbloom_entry_fn fn, void *ctx, struct xbloom_list_stats *stats,
			    struct xbloom_error *err)
{
	struct xbloom_list_stats unused = { 0 };
	struct xbloom_list_options options = *given;
	struct reading r = {
		.job = { .options = &options, .fn = fn, .ctx = ctx },
		.opts = given->opts,
		.chunk = chunk,
		.caller = pthread_self(),
	};
	bool raw = given->format == XBLOOM_FORMAT_RAW4 || given->format == XBLOOM_FORMAT_RAW6;
	int ret = xbloom_input_open(path, !raw, gives_up, &r, &r.in, err);

	if (ret)
		return ret;
	r.job.name = xbloom_input_name(r.in);
	ret = look_at_list(&r, &options, err);
	if (!ret && readers[options.format].stream) {
		ret = read_stream(&r, readers[options.format].stream, stats ? stats : &unused, err);
	} else if (!ret) {
		r.format = readers[options.format].chunks;
		ret = read_chunks(&r, threads_for(options.threads), stats ? stats : &unused, err);
	}
	xbloom_input_close(r.in);
	return ret;
}

int xbloom_list_read(const char *path, const struct xbloom_list_options *options,
		     xbloom_entry_fn fn, void *ctx, struct xbloom_list_stats *stats,
		     struct xbloom_error *err)
{
	return xbloom_list_read_chunks(path, options, CHUNK, fn, ctx, stats, err);
}

/* ---- into hashes ---- */

struct hashing {
	uint32_t fields;
	const struct xbloom_hash_key *key;
	struct xbloom_hashes *hashes;
	struct xbloom_error *err;
};

static int hash_key(void *ctx, unsigned int worker, const struct xbloom_flow *flow,
		    const char *text, size_t len)
{
	struct hashing *h = ctx;

	(void)worker;
	if (flow->family && flow->plen != (flow->family == XBLOOM_FAMILY_V4 ? 32 : 128))
		return xbloom_fail(h->err, -EINVAL,
				   "'%.*s' is a prefix, and this filter takes single addresses "
				   "only",
				   LIST_SHOW(text, len));
	return xbloom_hashes_push_flow(h->hashes, h->key, flow, h->fields, h->err);
}

int xbloom_list_hash(const char *path, uint32_t fields, const struct xbloom_hash_key *key,
		     struct xbloom_hashes *hashes, struct xbloom_list_stats *stats,
		     xbloom_progress_fn progress, void *progress_ctx, struct xbloom_error *err)
{
	struct xbloom_options opts = { .progress = progress, .ctx = progress_ctx };
	struct xbloom_list_options options = { .fields = fields, .threads = 1, .opts = &opts };
	struct hashing h = { fields, key, hashes, err };

	return xbloom_list_read(path, &options, hash_key, &h, stats, err);
}
