// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Keys on their way from lists into a filter. Readers push what they read, each into vectors of its
 * own; then the vectors are sorted together, and bucket by bucket go into the filter, which so is
 * written in the order of its memory. A list is held once: eight bytes a key, and the key itself
 * only where somebody needs it.
 *
 * Lists too long for that are streamed: the filter is there before they are read, and each reader
 * puts its keys in whenever it has a few million.
 *
 * Called by whoever makes a filter or adds to one. Reading calls in from several threads; all else
 * is for one thread.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "internal.h"

/* Below it threads cost more than they save. */
#define PARALLEL_MIN 65536
/*
 * Hashes that a reader holds before it puts them in. More of them walk through the filter in fewer
 * rounds: 1,000,000,000 keys come by 30 times, and each time find several bits to set in a line.
 */
#define STREAM_HASHES (16u << 20)

/* Keys read from an exact map by one system call. */
#define EXACT_BATCH 16384

#define BUCKETS XBLOOM_DIGITS

/* What one reader has pushed. */
struct worker {
	struct xbloom_hashes hashes;
	struct xbloom_prefixes prefixes;
	uint64_t sum[2];
	uint64_t entries;
	struct xbloom_error err;
	size_t words_given; /* keys in hashes.words that stood in a list, and not in a prefix */
	/* Once settled: where each bucket begins, and how many in it are left. */
	size_t start[BUCKETS + 1];
	size_t kept[BUCKETS];
} __attribute__((aligned(XBLOOM_BLOCK_BYTES)));

struct xbloom_keys {
	struct xbloom_keys_options o;
	struct xbloom_hash_key source_key; /* where o.source_key points to */
	struct worker worker[XBLOOM_READERS_MAX];
	struct xbloom_prefixes prefixes; /* of all, merged */
	uint64_t given;			 /* prefixes, before they were merged */
	uint64_t merged;		 /* those that went when they were */
	struct xbloom_prefix_plan plan;
	struct xbloom_filler *filler; /* streaming: where keys go */
	bool streamed;		      /* nobody saw all keys at once, to tell equal ones */
	uint64_t distinct;
	uint64_t pushed;
};

int xbloom_keys_open(const struct xbloom_keys_options *options, struct xbloom_keys **out,
		     struct xbloom_error *err)
{
	struct xbloom_keys *k = aligned_alloc(XBLOOM_BLOCK_BYTES, sizeof(*k));
	unsigned int w;

	if (!k)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	memset(k, 0, sizeof(*k));
	k->o = *options;
	if (options->source_key) {
		k->source_key = *options->source_key;
		k->o.source_key = &k->source_key;
	}
	for (w = 0; w < XBLOOM_READERS_MAX; w++)
		if (options->words)
			k->worker[w].hashes.width = xbloom_key_width(options->fields);
	*out = k;
	return 0;
}

void xbloom_keys_close(struct xbloom_keys *k)
{
	unsigned int w;

	if (!k)
		return;
	for (w = 0; w < XBLOOM_READERS_MAX; w++) {
		xbloom_hashes_free(&k->worker[w].hashes);
		xbloom_prefixes_free(&k->worker[w].prefixes);
	}
	xbloom_prefixes_free(&k->prefixes);
	xbloom_filler_close(k->filler);
	free(k);
}

/* Half of the memory that is available, divided among the readers: they grow by half at a time. */
uint64_t xbloom_keys_that_fit(bool words)
{
	uint64_t bytes = xbloom_memory_available();
	uint64_t each = sizeof(uint64_t) * (words ? 1 + XBLOOM_KEY_WORDS_MAX : 1);

	return bytes == UINT64_MAX ? 0 : bytes / 2 / each / 2;
}

/* ---- taking keys ---- */

/*
 * Sums that do not depend on the order of entries, of which the second weighs the bits of a hash
 * otherwise: two lists that share both are the same list, but for a chance of 2^-64 at most.
 */
static void add_to_source(struct worker *me, uint64_t hash)
{
	me->sum[0] += hash;
	me->sum[1] += xbloom_rotl64(hash, 32) * XBLOOM_SPREAD ^ hash >> 7;
	me->entries++;
}

/* Put what a reader holds into the filter, and let go of it. Exact map first, as ever. */
static int flush(struct xbloom_keys *k, struct worker *me, struct xbloom_error *err)
{
	struct xbloom_hashes *h = &me->hashes;
	int ret = 0;

	if (h->words_n)
		ret = xbloom_filler_put_words(k->filler, h->words, h->words_n, err);
	if (ret)
		return ret;
	xbloom_radix_sort(h->v, h->n, XBLOOM_FIRST_SHIFT);
	xbloom_filler_put(k->filler, h->v, h->n);
	h->n = 0;
	h->words_n = 0;
	return 0;
}

/* What one reader may hold before it must do something about it. */
static int check_room(struct xbloom_keys *k, struct worker *me, struct xbloom_error *err)
{
	if (k->filler)
		return me->hashes.n < STREAM_HASHES ? 0 : flush(k, me, err);
	if (!k->o.max_keys || me->hashes.n < k->o.max_keys)
		return 0;
	return xbloom_fail(err, -E2BIG,
			   "more than %llu keys, which is as many as this machine has memory to "
			   "hold: give --items N, and they are put in as they are read",
			   (unsigned long long)k->o.max_keys);
}

static int push(struct xbloom_keys *k, struct worker *me, const __u64 *words, unsigned int n,
		struct xbloom_error *err)
{
	int ret = 0;

	if (!(me->hashes.n % PARALLEL_MIN))
		ret = check_room(k, me, err);
	if (!ret)
		ret = xbloom_hashes_push(&me->hashes, xbloom_words_hash(&k->o.key, words, n), err);
	if (!ret && k->o.words)
		ret = xbloom_hashes_push_words(&me->hashes, words, err);
	return ret;
}

static bool is_prefix(const struct xbloom_flow *flow, uint32_t fields)
{
	return fields & XBLOOM_FIELDS_ADDR &&
	       flow->plen <
		       (flow->family == XBLOOM_FAMILY_V4 ? XBLOOM_PLEN4_HOST : XBLOOM_PLEN6_HOST);
}

int xbloom_keys_take(void *keys, unsigned int worker, const struct xbloom_flow *flow,
		     const char *text, size_t len)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX] = { 0 };
	struct xbloom_keys *k = keys;
	struct worker *me = &k->worker[worker];
	unsigned int n = xbloom_key_words(flow, k->o.fields, words);

	(void)text;
	(void)len;
	if (k->o.source_key)
		add_to_source(me, xbloom_words_hash(k->o.source_key, words, n));
	if (k->o.seen)
		k->o.seen(k->o.seen_ctx, worker, flow);
	if (is_prefix(flow, k->o.fields))
		return xbloom_prefixes_push(&me->prefixes, flow, k->o.fields, &me->err);
	return push(k, me, words, n, &me->err);
}

/* A key as an exact map has it, padded; prefixes as the keys that they became. */
static int take_words(struct xbloom_keys *k, const __u64 *words, struct xbloom_error *err)
{
	struct xbloom_flow flow;

	if (xbloom_words_prefix(words, k->o.fields, &flow))
		return xbloom_prefixes_push(&k->worker[0].prefixes, &flow, k->o.fields, err);
	return push(k, &k->worker[0], words, xbloom_words_used(words, k->o.fields), err);
}

static int take_exact(struct xbloom_keys *k, int map, struct xbloom_error *err)
{
	unsigned int width = xbloom_key_width(k->o.fields);
	AUTO_FREE __u64 *words = calloc(EXACT_BATCH, width * sizeof(*words));
	AUTO_FREE uint8_t *values = calloc(EXACT_BATCH, sizeof(*values));
	uint32_t n, i, batch = 0;
	bool first = true, last = false;
	int ret = 0;

	if (!words || !values)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	while (!ret && !last) {
		n = EXACT_BATCH;
		last = bpf_map_lookup_batch(map, first ? NULL : &batch, &batch, words, values, &n,
					    NULL);
		if (last && errno != ENOENT)
			return xbloom_fail_errno(err, -errno, "cannot read the exact map");
		for (i = 0; i < n && !ret; i++)
			ret = take_words(k, words + i * width, err);
		first = false;
	}
	return ret;
}

/* A word of 64 /24s that are all set is a /18. */
static int take_nets4(struct xbloom_keys *k, const struct xbloom_block *nets4,
		      struct xbloom_error *err)
{
	const unsigned int word_plen = XBLOOM_NETS4_PLEN - 6;
	struct xbloom_flow flow = { .family = XBLOOM_FAMILY_V4 };
	__u32 *addr = k->o.fields & XBLOOM_SRC ? &flow.src.v4 : &flow.dst.v4;
	uint32_t net, all = 1u << XBLOOM_NETS4_PLEN;
	int ret = 0;

	for (net = 0; net < all && !ret; net++) {
		uint64_t word = nets4[net / XBLOOM_BLOCK_BITS]
					.w[net / XBLOOM_WORD_BITS % XBLOOM_BLOCK_WORDS];
		bool whole = word == ~0ULL;

		if (!whole && !(word >> net % XBLOOM_WORD_BITS & 1))
			continue;
		*addr = XBLOOM_BIG32(net << (XBLOOM_PLEN4_HOST - XBLOOM_NETS4_PLEN));
		flow.plen = (uint8_t)(whole ? word_plen : XBLOOM_NETS4_PLEN);
		ret = xbloom_prefixes_push(&k->worker[0].prefixes, &flow, k->o.fields, err);
		if (whole)
			net |= XBLOOM_WORD_BITS - 1;
	}
	return ret;
}

int xbloom_keys_from_filter(struct xbloom_keys *k, const struct xbloom *f, struct xbloom_error *err)
{
	int ret;

	if (f->fd[XBLOOM_PIN_CONFIRM] < 0)
		return xbloom_fail(err, -ENOENT,
				   "filter %s has no exact map (create --confirm), and its bits do "
				   "not tell their keys: give the list with --from",
				   f->name);
	ret = take_exact(k, f->fd[XBLOOM_PIN_CONFIRM], err);
	return ret || !f->nets4 ? ret : take_nets4(k, f->nets4, err);
}

static struct xbloom_error *first_error(struct xbloom_keys *k)
{
	unsigned int w;

	for (w = 0; w < XBLOOM_READERS_MAX; w++)
		if (k->worker[w].err.text[0])
			return &k->worker[w].err;
	return NULL;
}

/* A reader's own error has no place for text but here. */
static int tell_error(struct xbloom_keys *k, int ret, struct xbloom_error *err)
{
	struct xbloom_error *mine = ret < 0 ? first_error(k) : NULL;

	return mine ? xbloom_fail(err, ret, "%s", mine->text) : ret;
}

int xbloom_keys_read(struct xbloom_keys *k, const char *path,
		     const struct xbloom_list_options *options, struct xbloom_list_stats *stats,
		     struct xbloom_error *err)
{
	return tell_error(k, xbloom_list_read(path, options, xbloom_keys_take, k, stats, err), err);
}

int xbloom_keys_argument(struct xbloom_keys *k, const char *text,
			 const struct xbloom_list_options *options, struct xbloom_list_stats *stats,
			 struct xbloom_error *err)
{
	return tell_error(
		k, xbloom_entry_parse(text, strlen(text), options, xbloom_keys_take, k, stats, err),
		err);
}

/* ---- threads ---- */

struct job {
	struct xbloom_keys *keys;
	const struct xbloom_options *opts;
	void (*work)(struct job *job, unsigned int unit);
	unsigned int units;
	unsigned int next; /* atomic */
	const char *what;
	struct xbloom_error *err;
	int ret; /* of the first that failed; atomic */
};

static void work_on(struct job *job, bool tells)
{
	unsigned int unit;

	while ((unit = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->units) {
		if (tells && job->opts && job->opts->progress)
			job->opts->progress(job->opts->ctx, job->what, unit, job->units);
		if (tells && job->opts && job->opts->cancelled &&
		    job->opts->cancelled(job->opts->ctx))
			__atomic_store_n(&job->ret, -ECANCELED, __ATOMIC_RELAXED);
		if (__atomic_load_n(&job->ret, __ATOMIC_RELAXED))
			return;
		job->work(job, unit);
	}
}

static void *thread_main(void *arg)
{
	work_on(arg, false);
	return NULL;
}

/* Do all units of a job, on each CPU if there is much to do. What no thread could be had for, we do. */
static int do_job(struct job *job, bool parallel)
{
	pthread_t thread[XBLOOM_READERS_MAX];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int n = 0, i;

	while (parallel && n + 1 < XBLOOM_READERS_MAX && n + 1 < (unsigned int)cpus &&
	       !pthread_create(&thread[n], NULL, thread_main, job))
		n++;
	work_on(job, true);
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	if (job->ret == -ECANCELED)
		return xbloom_fail(job->err, job->ret, "interrupted: nothing was changed");
	return job->ret;
}

/* ---- sorting ---- */

static void partition_worker(struct job *job, unsigned int w)
{
	struct worker *me = &job->keys->worker[w];

	xbloom_radix_partition(me->hashes.v, me->hashes.n, XBLOOM_FIRST_SHIFT, me->start);
}

static size_t bucket_size(const struct xbloom_keys *k, unsigned int b)
{
	size_t n = 0;
	unsigned int w;

	for (w = 0; w < XBLOOM_READERS_MAX; w++)
		n += k->worker[w].start[b + 1] - k->worker[w].start[b];
	return n;
}

/*
 * A bucket lies in pieces, one with each reader: sorted as one, and each key kept once, it is laid
 * back over them from the first on.
 */
static void sort_bucket(struct job *job, unsigned int b)
{
	struct xbloom_keys *k = job->keys;
	size_t n = bucket_size(k, b), at = 0;
	AUTO_FREE uint64_t *all = NULL;
	unsigned int w;

	if (!n)
		return;
	all = malloc(n * sizeof(*all));
	if (!all) {
		__atomic_store_n(&job->ret, -ENOMEM, __ATOMIC_RELAXED);
		return;
	}
	for (w = 0; w < XBLOOM_READERS_MAX; w++) {
		const struct worker *me = &k->worker[w];
		size_t piece = me->start[b + 1] - me->start[b];

		if (piece)
			memcpy(all + at, me->hashes.v + me->start[b], piece * sizeof(*all));
		at += piece;
	}
	xbloom_radix_sort(all, n, XBLOOM_FIRST_SHIFT - XBLOOM_DIGIT_BITS);
	n = xbloom_drop_repeated(all, n);
	__atomic_fetch_add(&k->distinct, n, __ATOMIC_RELAXED);
	for (w = 0, at = 0; w < XBLOOM_READERS_MAX && at < n; w++) {
		struct worker *me = &k->worker[w];
		size_t piece = me->start[b + 1] - me->start[b];

		if (piece > n - at)
			piece = n - at;
		if (piece)
			memcpy(me->hashes.v + me->start[b], all + at, piece * sizeof(*all));
		me->kept[b] = piece;
		at += piece;
	}
}

/* ---- prefixes ---- */

static int push_expanded(void *ctx, const struct xbloom_flow *flow)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX] = { 0 };
	struct xbloom_keys *k = ctx;
	unsigned int n = xbloom_key_words(flow, k->o.fields, words);

	return push(k, &k->worker[0], words, n, &k->worker[0].err);
}

/* Prefixes become what the filter can hold: bits of nets4, keys of their own, and hosts. */
static int settle_prefixes(struct xbloom_keys *k, struct xbloom_error *err)
{
	uint64_t merged;
	unsigned int w;
	int ret = 0;

	for (w = 0; w < XBLOOM_READERS_MAX && !ret; w++) {
		ret = xbloom_prefixes_append(&k->prefixes, &k->worker[w].prefixes, err);
		xbloom_prefixes_free(&k->worker[w].prefixes);
	}
	if (ret)
		return ret;
	if (!k->given)
		k->given = k->prefixes.n;
	if (!k->given)
		return 0;
	merged = xbloom_prefixes_merge(&k->prefixes);
	ret = xbloom_prefixes_plan(&k->prefixes, k->o.plens6, k->o.n_plens6, k->o.expand_max,
				   &k->plan, err);
	k->merged += merged;
	k->plan.merged = k->merged;
	if (!ret)
		ret = tell_error(k,
				 xbloom_prefixes_expand(&k->prefixes, &k->plan, k->o.fields,
							push_expanded, k),
				 err);
	return ret;
}

int xbloom_keys_settle(struct xbloom_keys *k, const struct xbloom_options *opts,
		       struct xbloom_error *err)
{
	struct job partition = {
		k, opts, partition_worker, XBLOOM_READERS_MAX, 0, "sorting", err, 0
	};
	struct job sort = { k, opts, sort_bucket, BUCKETS, 0, "sorting", err, 0 };
	unsigned int w;
	int ret;

	/* A reader starts with its own keys; what prefixes become comes behind them. */
	for (w = 0; w < XBLOOM_READERS_MAX; w++)
		k->worker[w].words_given = k->worker[w].hashes.words_n;
	ret = settle_prefixes(k, err);
	if (ret)
		return ret;
	for (w = 0; w < XBLOOM_READERS_MAX; w++)
		k->pushed += k->worker[w].hashes.n;
	if (k->filler) {
		for (w = 0; w < XBLOOM_READERS_MAX && !ret; w++)
			ret = flush(k, &k->worker[w], err);
		return ret;
	}
	ret = do_job(&partition, k->pushed >= PARALLEL_MIN);
	if (!ret)
		ret = do_job(&sort, k->pushed >= PARALLEL_MIN);
	return ret == -ENOMEM ? xbloom_fail(err, ret, "out of memory to sort the keys") : ret;
}

/* ---- what was read ---- */

uint64_t xbloom_keys_distinct(const struct xbloom_keys *k)
{
	return k->distinct;
}

bool xbloom_keys_counted(const struct xbloom_keys *k)
{
	return !k->streamed;
}

uint64_t xbloom_keys_repeated(const struct xbloom_keys *k)
{
	return k->streamed ? 0 : k->pushed - k->distinct;
}

const struct xbloom_prefix_plan *xbloom_keys_prefixes(const struct xbloom_keys *k)
{
	return k->given ? &k->plan : NULL;
}

void xbloom_keys_source(const struct xbloom_keys *k, struct xbloom_source *source)
{
	unsigned int w;

	*source = (struct xbloom_source){ 0 };
	if (!k->o.source_key)
		return;
	source->key = *k->o.source_key;
	for (w = 0; w < XBLOOM_READERS_MAX; w++) {
		source->sum[0] += k->worker[w].sum[0];
		source->sum[1] += k->worker[w].sum[1];
		source->entries += k->worker[w].entries;
	}
}

int xbloom_keys_rehash(struct xbloom_keys *k, const struct xbloom_params *params,
		       struct xbloom_error *err)
{
	unsigned int w, i;
	size_t at;
	int ret = 0;

	k->o.key = params->hash_key;
	k->o.n_plens6 = params->n_plens6;
	for (i = 0; i < params->n_plens6; i++)
		k->o.plens6[i] = params->plens6[i].plen;
	k->distinct = k->pushed = 0;
	for (w = 0; w < XBLOOM_READERS_MAX && !ret; w++) {
		struct xbloom_hashes *h = &k->worker[w].hashes;

		h->n = 0;
		h->words_n = k->worker[w].words_given;
		memset(k->worker[w].kept, 0, sizeof(k->worker[w].kept));
		for (at = 0; at < h->words_n && !ret; at++) {
			const __u64 *words = h->words + at * h->width;
			unsigned int n = xbloom_words_used(words, k->o.fields);

			ret = xbloom_hashes_push(h, xbloom_words_hash(&k->o.key, words, n), err);
		}
	}
	return ret;
}

uint64_t xbloom_count_new_keys(const struct xbloom *f, const struct xbloom_keys *k)
{
	unsigned int b, w;
	uint64_t n = 0;

	for (b = 0; b < BUCKETS; b++) {
		for (w = 0; w < XBLOOM_READERS_MAX; w++) {
			const struct worker *me = &k->worker[w];
			const struct xbloom_hashes piece = {
				.v = me->hashes.v + me->start[b],
				.n = me->kept[b],
			};

			if (piece.n)
				n += xbloom_count_new(f, &piece);
		}
	}
	return n;
}

bool xbloom_keys_are_for(const struct xbloom_keys *k, const struct xbloom_params *params)
{
	uint32_t i;

	if (memcmp(&k->o.key, &params->hash_key, sizeof(k->o.key)) ||
	    k->o.n_plens6 != params->n_plens6)
		return false;
	for (i = 0; i < params->n_plens6; i++)
		if (k->o.plens6[i] != params->plens6[i].plen)
			return false;
	return true;
}

const struct xbloom_prefixes *xbloom_keys_merged(const struct xbloom_keys *k)
{
	return &k->prefixes;
}

int xbloom_keys_late(const struct xbloom_keys *k, const struct xbloom *f, struct xbloom_error *err)
{
	struct xbloom_hashes prefixes = { .width = xbloom_key_width(k->o.fields) };
	unsigned int w;
	int ret = 0;
	size_t i;

	for (w = 0; w < XBLOOM_READERS_MAX && !ret; w++)
		if (k->worker[w].words_given)
			ret = xbloom_late_add(f, k->worker[w].hashes.words,
					      k->worker[w].words_given, err);
	for (i = 0; i < k->prefixes.n && !ret; i++) {
		__u64 words[XBLOOM_KEY_WORDS_MAX] = { 0 };
		struct xbloom_flow flow;

		xbloom_prefix_flow(&k->prefixes.v[i], k->o.fields, &flow);
		xbloom_key_words(&flow, k->o.fields, words);
		ret = xbloom_hashes_push_words(&prefixes, words, err);
	}
	if (!ret && prefixes.words_n)
		ret = xbloom_late_add(f, prefixes.words, prefixes.words_n, err);
	xbloom_hashes_free(&prefixes);
	return ret;
}

/* ---- into a filter ---- */

static void put_bucket(struct job *job, unsigned int b)
{
	struct xbloom_keys *k = job->keys;
	unsigned int w;

	for (w = 0; w < XBLOOM_READERS_MAX; w++)
		if (k->worker[w].kept[b])
			xbloom_filler_put(k->filler, k->worker[w].hashes.v + k->worker[w].start[b],
					  k->worker[w].kept[b]);
}

/* The filler counts, and then the record says what it was filled from. */
static void end_filling(struct xbloom_keys *k, struct xbloom *f)
{
	f->meta->inserted += xbloom_filler_close(k->filler);
	k->filler = NULL;
	xbloom_keys_source(k, &f->meta->source);
	f->meta->source.keys = k->distinct;
	f->meta->source.inserted = f->meta->inserted;
}

int xbloom_keys_put(struct xbloom_keys *k, struct xbloom *f, const struct xbloom_options *opts,
		    struct xbloom_error *err)
{
	struct job job = { k, opts, put_bucket, BUCKETS, 0, "filling", err, 0 };
	unsigned int w;
	int ret = xbloom_filler_open(f, &k->filler, err);

	for (w = 0; w < XBLOOM_READERS_MAX && !ret && f->fd[XBLOOM_PIN_CONFIRM] >= 0; w++)
		ret = xbloom_filler_put_words(k->filler, k->worker[w].hashes.words,
					      k->worker[w].hashes.words_n, err);
	if (!ret && f->nets4)
		xbloom_prefixes_nets4(&k->prefixes,
				      f->nets4 + f->meta->params.current * XBLOOM_NETS4_BLOCKS);
	if (!ret)
		ret = do_job(&job, k->distinct >= PARALLEL_MIN);
	end_filling(k, f);
	return ret;
}

int xbloom_keys_gather(struct xbloom_keys *k, struct xbloom_hashes *out, struct xbloom_error *err)
{
	unsigned int b, w;
	int ret = 0;

	*out = (struct xbloom_hashes){ .width = k->worker[0].hashes.width };
	out->v = malloc((k->distinct ? k->distinct : 1) * sizeof(*out->v));
	if (!out->v)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	out->room = k->distinct;
	for (b = 0; b < BUCKETS; b++) {
		for (w = 0; w < XBLOOM_READERS_MAX; w++) {
			const struct worker *me = &k->worker[w];

			if (me->kept[b])
				memcpy(out->v + out->n, me->hashes.v + me->start[b],
				       me->kept[b] * sizeof(*out->v));
			out->n += me->kept[b];
		}
	}
	for (w = 0; w < XBLOOM_READERS_MAX && !ret; w++)
		ret = xbloom_hashes_append_words(out, &k->worker[w].hashes, err);
	if (ret)
		xbloom_hashes_free(out);
	return ret;
}

int xbloom_keys_stream_to(struct xbloom_keys *k, struct xbloom *f, struct xbloom_error *err)
{
	k->streamed = true;
	return xbloom_filler_open(f, &k->filler, err);
}

int xbloom_keys_stream_end(struct xbloom_keys *k, struct xbloom *f,
			   const struct xbloom_options *opts, struct xbloom_error *err)
{
	int ret = xbloom_keys_settle(k, opts, err);

	if (!ret && k->given)
		ret = xbloom_hold_prefixes(f, &k->plan, err);
	if (!ret && f->nets4)
		xbloom_prefixes_nets4(&k->prefixes,
				      f->nets4 + f->meta->params.current * XBLOOM_NETS4_BLOCKS);
	end_filling(k, f);
	return ret;
}
