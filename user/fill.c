// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Filling a filter that is being made: nobody sees its bits yet, so they are set by plain stores, and
 * its keys are counted at the end. Threads share the work; a block is written by who holds the lock
 * of its region, and sorted hashes stay in a region for thousands of blocks.
 *
 * (Putting keys into a filter at work is another thing: insert.c.)
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "internal.h"

/*
 * Regions of the filter's memory, as many as keep threads out of each other's way: with 16 of them
 * at random places, one in 64 waits.
 */
#define REGIONS 1024
/* How far ahead of the hash at work the block of a later one is fetched. */
#define AHEAD 16
/* Keys that go into the exact map by one system call. */
#define WORDS_BATCH 65536

struct xbloom_filler {
	struct xbloom *f;
	struct xbloom_block *blocks; /* of the current array */
	unsigned int shift;	     /* from a block to its region */
	uint64_t inserted;	     /* atomic */
	pthread_mutex_t region[REGIONS];
};

int xbloom_filler_open(struct xbloom *f, struct xbloom_filler **out, struct xbloom_error *err)
{
	struct xbloom_filler *filler = calloc(1, sizeof(*filler));
	unsigned int i;

	if (!filler)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	filler->f = f;
	filler->blocks = f->blocks + f->meta->params.current * f->geometry.blocks;
	while ((f->geometry.blocks - 1) >> filler->shift >= REGIONS)
		filler->shift++;
	for (i = 0; i < REGIONS; i++)
		pthread_mutex_init(&filler->region[i], NULL);
	*out = filler;
	return 0;
}

uint64_t xbloom_filler_close(struct xbloom_filler *filler)
{
	uint64_t inserted;
	unsigned int i;

	if (!filler)
		return 0;
	inserted = filler->inserted;
	for (i = 0; i < REGIONS; i++)
		pthread_mutex_destroy(&filler->region[i]);
	free(filler);
	return inserted;
}

/* The caller has the block to itself. */
static bool put_in_block(struct xbloom_block *b, uint64_t h)
{
	uint64_t changed = 0;
	unsigned int i;

	for (i = 0; i < XBLOOM_BLOCK_WORDS; i++) {
		uint64_t bit = 1ULL << xbloom_split_bit(h, i);

		changed |= ~b->w[i] & bit;
		b->w[i] |= bit;
	}
	return changed;
}

static uint64_t put_split(struct xbloom_filler *filler, const uint64_t *v, size_t n)
{
	uint64_t blocks = filler->f->geometry.blocks, changed = 0, at = 0;
	pthread_mutex_t *held = NULL;
	size_t i;

	for (i = 0; i < n; i++) {
		uint64_t block = xbloom_split_block(v[i], blocks);

		if (i + AHEAD < n)
			__builtin_prefetch(
				&filler->blocks[xbloom_split_block(v[i + AHEAD], blocks)], 1);
		if (!held || block >> filler->shift != at) {
			if (held)
				pthread_mutex_unlock(held);
			at = block >> filler->shift;
			held = &filler->region[at];
			pthread_mutex_lock(held);
		}
		changed += put_in_block(&filler->blocks[block], v[i]);
	}
	if (held)
		pthread_mutex_unlock(held);
	return changed;
}

static void fetch_classic(const struct xbloom_filler *filler, uint64_t h)
{
	const struct xbloom_geometry *g = &filler->f->geometry;
	struct xbloom_probe p = xbloom_classic_first(h);
	unsigned int i;

	for (i = 0; i < g->k; i++, xbloom_classic_next(&p))
		__builtin_prefetch(
			&filler->blocks[xbloom_classic_bit(p.at, g->bits) / XBLOOM_BLOCK_BITS], 1);
}

/* A key's bits are anywhere, so that regions are of no use: atomic, each by itself. */
static uint64_t put_classic(struct xbloom_filler *filler, const uint64_t *v, size_t n)
{
	uint64_t changed = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		if (i + AHEAD < n)
			fetch_classic(filler, v[i + AHEAD]);
		changed += xbloom_set_hash(&filler->f->geometry, filler->blocks, v[i]);
	}
	return changed;
}

void xbloom_filler_put(struct xbloom_filler *filler, const uint64_t *v, size_t n)
{
	uint64_t changed = filler->f->geometry.layout == XBLOOM_LAYOUT_SPLIT
				   ? put_split(filler, v, n)
				   : put_classic(filler, v, n);

	__atomic_fetch_add(&filler->inserted, changed, __ATOMIC_RELAXED);
}

int xbloom_filler_put_words(struct xbloom_filler *filler, __u64 *words, size_t n,
			    struct xbloom_error *err)
{
	struct xbloom *f = filler->f;
	unsigned int width = xbloom_key_width(f->meta->params.fields);
	AUTO_FREE uint8_t *values = calloc(WORDS_BATCH, sizeof(*values));
	uint32_t batch;
	size_t i;

	if (!values)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < n; i += batch) {
		batch = n - i < WORDS_BATCH ? (uint32_t)(n - i) : WORDS_BATCH;
		if (bpf_map_update_batch(f->fd[XBLOOM_PIN_CONFIRM], words + i * width, values,
					 &batch, NULL))
			return xbloom_exact_no_room(f, -errno, err);
	}
	return 0;
}
