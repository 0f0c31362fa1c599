// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Putting keys in, by who holds the filter's lock. Two things are kept together that memory does
 * not keep together by itself: a key's bits and the count of keys, by a journal of one entry; and
 * its bits and its place in the exact map, by the order in which they are written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "internal.h"

/* How often progress is told and a cancelled create notices, in keys. */
#define PROGRESS_EVERY 65536

/*
 * A writer can be killed between any two instructions, but what it did before stays done. So all
 * that is needed for that is that the compiler leaves the order of the stores as it is written; that
 * other CPUs see them so, readers need, who wait for no lock.
 */
static void in_this_order(void)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

#define STORE(to, value) __atomic_store_n(&(to), value, __ATOMIC_RELAXED)

struct xbloom_block *xbloom_current(const struct xbloom *f)
{
	uint32_t current = xbloom_params_in_force(f)->current;

	return f->blocks + current % f->lives * f->geometry.blocks;
}

/* For who holds the lock, and has settled what is in force. */
static struct xbloom_block *array_of(const struct xbloom *f)
{
	return f->blocks + f->meta->params.current % f->lives * f->geometry.blocks;
}

static bool insert(struct xbloom *f, uint64_t hash)
{
	struct xbloom_block *blocks = array_of(f);
	struct xbloom_meta *m = f->meta;

	if (xbloom_test_hash(&f->geometry, blocks, hash))
		return false;
	STORE(m->journal.hash, hash);
	STORE(m->journal.inserted, m->inserted);
	in_this_order();
	STORE(m->journal.open, 1);
	in_this_order();
	xbloom_set_hash(&f->geometry, blocks, hash);
	in_this_order();
	STORE(m->inserted, m->inserted + 1);
	in_this_order();
	STORE(m->journal.open, 0);
	in_this_order();
	return true;
}

void xbloom_settle_journal(struct xbloom *f)
{
	struct xbloom_meta *m = f->meta;

	if (!m->journal.open)
		return;
	/* Whatever of this was done already is done once more, to no effect. */
	xbloom_set_hash(&f->geometry, array_of(f), m->journal.hash);
	in_this_order();
	STORE(m->inserted, m->journal.inserted + 1);
	in_this_order();
	STORE(m->journal.open, 0);
}

/* The bits before whatever the caller does to announce them. */
static void publish(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void tell(const struct xbloom_options *opts, const char *what, size_t done, size_t total)
{
	if (opts && opts->progress)
		opts->progress(opts->ctx, what, done, total);
}

static bool cancelled(const struct xbloom_options *opts)
{
	return opts && opts->cancelled && opts->cancelled(opts->ctx);
}

/* ---- the exact map ---- */

int xbloom_exact_no_room(const struct xbloom *f, int code, struct xbloom_error *err)
{
	if (code == -E2BIG || code == -ENOMEM)
		return xbloom_fail(err, -ENOSPC,
				   "the exact map of filter %s has room for %llu keys, and these "
				   "would be more; nothing was added: create a filter with more "
				   "--items",
				   f->name, (unsigned long long)xbloom_exact(f, NULL));
	return xbloom_fail_errno(err, code, "cannot write the exact map of filter %s", f->name);
}

/* The values of an exact map say nothing. */
static const uint8_t present;

/* Take out again which of the first n keys were new. */
static void exact_undo(const struct xbloom *f, const struct xbloom_hashes *h, size_t n,
		       const uint8_t *was_new)
{
	while (n--)
		if (was_new[n])
			bpf_map_delete_elem(f->fd[XBLOOM_PIN_CONFIRM], h->words + n * h->width);
}

/*
 * All of them, or none. One by one, to know which were new: their bits come after this, so they can
 * be taken out again. (Meanwhile one that is a false positive is confirmed, and dropped, as it was
 * meant to be.) *was_new, a byte for each, is for exact_undo(), and the caller's to free.
 */
static int exact_add(const struct xbloom *f, const struct xbloom_hashes *h,
		     const struct xbloom_options *opts, uint8_t **was_new, struct xbloom_error *err)
{
	size_t i;

	*was_new = calloc(h->words_n ? h->words_n : 1, 1);
	if (!*was_new)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < h->words_n; i++) {
		if (i % PROGRESS_EVERY == 0)
			tell(opts, "filling the exact map", i, h->words_n);
		if (!bpf_map_update_elem(f->fd[XBLOOM_PIN_CONFIRM], h->words + i * h->width,
					 &present, BPF_NOEXIST)) {
			(*was_new)[i] = 1;
		} else if (errno != EEXIST) {
			int code = -errno;

			exact_undo(f, h, i, *was_new);
			return xbloom_exact_no_room(f, code, err);
		}
	}
	return 0;
}

/* The same into a new map, which goes as a whole if it fails: many keys with each system call. */
static int exact_fill(const struct xbloom *f, const struct xbloom_hashes *h,
		      const struct xbloom_options *opts, struct xbloom_error *err)
{
	AUTO_FREE uint8_t *values = calloc(PROGRESS_EVERY, sizeof(*values));
	uint32_t n;
	size_t i;

	if (!values)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < h->words_n && !cancelled(opts); i += n) {
		n = h->words_n - i < PROGRESS_EVERY ? (uint32_t)(h->words_n - i) : PROGRESS_EVERY;
		tell(opts, "filling the exact map", i, h->words_n);
		if (bpf_map_update_batch(f->fd[XBLOOM_PIN_CONFIRM], h->words + i * h->width, values,
					 &n, NULL))
			return xbloom_exact_no_room(f, -errno, err);
	}
	return 0;
}

static int check_words(const struct xbloom *f, const struct xbloom_hashes *h,
		       struct xbloom_error *err)
{
	if (h->width != xbloom_key_width(f->meta->params.fields))
		return xbloom_fail(err, -EINVAL,
				   "filter %s has an exact map: it needs the keys themselves",
				   f->name);
	return 0;
}

/* ---- what others call ---- */

int xbloom_fill(struct xbloom *f, const struct xbloom_hashes *hashes,
		const struct xbloom_options *opts, struct xbloom_error *err)
{
	size_t i;
	int ret = 0;

	if (hashes->n && f->fd[XBLOOM_PIN_CONFIRM] >= 0) {
		ret = check_words(f, hashes, err);
		if (!ret)
			ret = exact_fill(f, hashes, opts, err);
	}
	for (i = 0; i < hashes->n && !ret; i++) {
		if (i % PROGRESS_EVERY == 0) {
			if (cancelled(opts))
				break;
			tell(opts, "filling", i, hashes->n);
		}
		insert(f, hashes->v[i]);
	}
	publish();
	return ret;
}

int xbloom_check_writable(const struct xbloom *f, struct xbloom_error *err)
{
	return f->writable ? 0
			   : xbloom_fail(err, -EBADF, "filter %s was opened for reading", f->name);
}

int xbloom_add(struct xbloom *f, uint64_t hash)
{
	int changed;

	if (!f->writable)
		return -EBADF;
	if (f->fd[XBLOOM_PIN_CONFIRM] >= 0)
		return -EINVAL;
	changed = insert(f, hash);
	publish();
	return changed;
}

/* The bits, last of all: a packet that meets them must find everything else in place. */
static uint64_t insert_all(struct xbloom *f, const struct xbloom_hashes *hashes,
			   const struct xbloom_options *opts)
{
	uint64_t changed = 0;
	size_t i;

	for (i = 0; i < hashes->n; i++) {
		if (i % PROGRESS_EVERY == 0)
			tell(opts, "filling", i, hashes->n);
		changed += insert(f, hashes->v[i]);
	}
	publish();
	return changed;
}

int xbloom_add_all(struct xbloom *f, const struct xbloom_hashes *hashes,
		   const struct xbloom_options *opts, uint64_t *changed, struct xbloom_error *err)
{
	AUTO_FREE uint8_t *was_new = NULL;
	int ret = xbloom_check_writable(f, err);

	*changed = 0;
	if (!ret && f->fd[XBLOOM_PIN_CONFIRM] >= 0) {
		/* First, or a packet could meet the bits of a key and be refuted. */
		ret = check_words(f, hashes, err);
		if (!ret)
			ret = exact_add(f, hashes, opts, &was_new, err);
	}
	if (!ret)
		*changed = insert_all(f, hashes, opts);
	return ret;
}

/* Bits of nets4; before the program that looks at them, where there was none. */
static void insert_nets4(struct xbloom *f, const struct xbloom_prefixes *prefixes)
{
	xbloom_prefixes_nets4(prefixes, f->nets4 + f->meta->params.current * XBLOOM_NETS4_BLOCKS);
	publish();
}

/* `hashes` is all that the keys come to; whatever fails, fails before anything is in force. */
static int add_keys(struct xbloom *f, const struct xbloom_keys *keys,
		    const struct xbloom_hashes *hashes, const struct xbloom_options *opts,
		    uint64_t *changed, struct xbloom_error *err)
{
	const struct xbloom_prefixes *prefixes = xbloom_keys_merged(keys);
	const struct xbloom_prefix_plan *plan = xbloom_keys_prefixes(keys);
	bool exact = f->fd[XBLOOM_PIN_CONFIRM] >= 0;
	AUTO_FREE uint8_t *was_new = NULL;
	int ret = 0;

	if (exact)
		ret = exact_add(f, hashes, opts, &was_new, err);
	if (ret)
		return ret;
	if (plan)
		ret = xbloom_widen(f, plan, err);
	if (!ret && f->rebuilding)
		ret = xbloom_keys_late(keys, f, err);
	if (ret) {
		if (exact)
			exact_undo(f, hashes, hashes->words_n, was_new);
		return ret;
	}
	if (plan && plan->nets4)
		insert_nets4(f, prefixes);
	*changed = insert_all(f, hashes, opts);
	return 0;
}

int xbloom_add_keys(struct xbloom *f, struct xbloom_keys *keys, const struct xbloom_options *opts,
		    uint64_t *changed, struct xbloom_error *err)
{
	struct xbloom_hashes hashes = { 0 };
	int ret = xbloom_check_writable(f, err);

	*changed = 0;
	if (ret)
		return ret;
	if (!xbloom_keys_are_for(keys, &f->meta->params))
		return xbloom_fail(err, -EAGAIN, "filter %s was rebuilt meanwhile: try again",
				   f->name);
	ret = xbloom_keys_gather(keys, &hashes, err);
	if (!ret && f->fd[XBLOOM_PIN_CONFIRM] >= 0)
		ret = check_words(f, &hashes, err);
	if (!ret)
		ret = add_keys(f, keys, &hashes, opts, changed, err);
	xbloom_hashes_free(&hashes);
	return ret;
}

uint64_t xbloom_count_new(const struct xbloom *f, const struct xbloom_hashes *hashes)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < hashes->n; i++)
		n += !xbloom_test_hash(&f->geometry, xbloom_current(f), hashes->v[i]);
	return n;
}
