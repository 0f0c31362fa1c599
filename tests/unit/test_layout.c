// SPDX-License-Identifier: GPL-2.0-only
/*
 * Both layouts against an obvious slow twin: a set of keys, and a plain array with a byte for each
 * bit, whose positions are worked out by exact division. Little programs of random adds and tests
 * run on both; one of them is spoiled on purpose and must be noticed. Then what an add says it
 * changed, the edges of the memory, several writers at once, and the promised rate.
 */
#include "unit.h"

#include <math.h>
#include <pthread.h>

/* ---- the twin ---- */

#define TWIN_KEYS_MAX 4096
#define GUARD_BLOCKS 2 /* before and behind the filter: must stay as they are */
#define GUARD 0xa5a5a5a5a5a5a5a5ULL

struct twin {
	struct xbloom_geometry g;
	struct xbloom_block *memory; /* guard, filter, guard */
	struct xbloom_block *blocks; /* the filter */
	uint8_t *bit;		     /* a byte for each bit of the blocks */
	uint64_t keys[TWIN_KEYS_MAX];
	size_t n;
};

static struct xbloom_block *new_blocks(uint64_t blocks)
{
	struct xbloom_block *b = aligned_alloc(XBLOOM_BLOCK_BYTES, blocks * XBLOOM_BLOCK_BYTES);

	assert_non_null(b);
	memset(b, 0, blocks * XBLOOM_BLOCK_BYTES);
	return b;
}

static struct xbloom_geometry split(uint64_t blocks)
{
	return (struct xbloom_geometry){
		.blocks = blocks,
		.bits = blocks * XBLOOM_BLOCK_BITS,
		.layout = XBLOOM_LAYOUT_SPLIT,
		.k = XBLOOM_SPLIT_K,
	};
}

static struct xbloom_geometry classic(uint64_t bits, uint32_t k)
{
	return (struct xbloom_geometry){
		.blocks = (bits + XBLOOM_BLOCK_BITS - 1) / XBLOOM_BLOCK_BITS,
		.bits = bits,
		.layout = XBLOOM_LAYOUT_CLASSIC,
		.k = k,
	};
}

static struct twin *twin_new(struct xbloom_geometry g)
{
	struct twin *t = calloc(1, sizeof(*t));
	uint64_t all = g.blocks + 2 * GUARD_BLOCKS;
	uint64_t i;
	unsigned int w;

	assert_non_null(t);
	t->g = g;
	t->memory = new_blocks(all);
	t->blocks = t->memory + GUARD_BLOCKS;
	t->bit = calloc(g.blocks, XBLOOM_BLOCK_BITS);
	assert_non_null(t->bit);
	for (i = 0; i < all; i++)
		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++)
			if (i < GUARD_BLOCKS || i >= GUARD_BLOCKS + g.blocks)
				t->memory[i].w[w] = GUARD;
	return t;
}

static void twin_free(struct twin *t)
{
	free(t->memory);
	free(t->bit);
	free(t);
}

/* Where the k bits of a hash are, from the sentences of layout.h and in 128-bit numbers. */
static unsigned int positions(const struct xbloom_geometry *g, uint64_t h, uint64_t *out)
{
	static const uint32_t odd_pi[] = { 0x243f6a89, 0x85a308d3, 0x13198a2f, 0x03707345,
					   0xa4093823, 0x299f31d1, 0x082efa99, 0xec4e6c89 };
	const unsigned __int128 one = 1;
	uint64_t low = h % (1ULL << 32), high = h / (1ULL << 32);
	uint64_t step;
	unsigned int i;

	if (g->layout == XBLOOM_LAYOUT_SPLIT) {
		uint64_t block = (uint64_t)(high * (one * g->blocks) / (one << 32));

		for (i = 0; i < 8; i++)
			out[i] = block * 512 + i * 64ULL +
				 low * odd_pi[i] % (1ULL << 32) / (1ULL << 26);
		return 8;
	}
	step = (low * (1ULL << 32) + high) * 0x9e3779b97f4a7c15ULL;
	if (step % 2 == 0)
		step++;
	for (i = 0; i < g->k; i++) {
		out[i] = (uint64_t)((one * h) * g->bits / (one << 64));
		h += step;
		step *= 0x9e3779b97f4a7c15ULL;
	}
	return g->k;
}

static uint32_t twin_add(struct twin *t, uint64_t h)
{
	uint64_t at[XBLOOM_CLASSIC_K_MAX];
	unsigned int i, n = positions(&t->g, h, at);
	uint32_t changed = 0;

	for (i = 0; i < n; i++) {
		assert_true(at[i] < t->g.bits);
		if (!t->bit[at[i]])
			changed = 1;
		t->bit[at[i]] = 1;
	}
	if (t->n < TWIN_KEYS_MAX)
		t->keys[t->n++] = h;
	return changed;
}

static uint32_t twin_test(const struct twin *t, uint64_t h)
{
	uint64_t at[XBLOOM_CLASSIC_K_MAX];
	unsigned int i, n = positions(&t->g, h, at);

	for (i = 0; i < n; i++)
		if (!t->bit[at[i]])
			return 0;
	return 1;
}

/* 1 when every bit is as in the twin and the guards are whole. */
static int same(const struct twin *t)
{
	uint64_t p, i;
	unsigned int w;

	for (p = 0; p < t->g.blocks * 512; p++)
		if ((t->blocks[p / 512].w[p / 64 % 8] >> (p % 64) & 1) != t->bit[p])
			return 0;
	for (i = 0; i < GUARD_BLOCKS; i++)
		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++)
			if (t->memory[i].w[w] != GUARD || t->blocks[t->g.blocks + i].w[w] != GUARD)
				return 0;
	return 1;
}

/* ---- programs of random operations ---- */

/* A small universe makes keys come again; the edges of the hash are always in it. */
static uint64_t random_hash(struct unit_random *r, uint64_t universe)
{
	static const uint64_t edges[] = { 0, 1, 0xffffffffULL, 1ULL << 32, 1ULL << 63, ~0ULL };
	struct unit_random key = { .seed = r->seed };

	if (unit_random_below(r, 16) == 0)
		return edges[unit_random_below(r, COUNT_OF(edges))];
	key.n = (1ULL << 40) + unit_random_below(r, universe);
	return unit_random(&key);
}

static void run_program(struct xbloom_geometry g, uint64_t seed, unsigned int ops)
{
	struct twin *t = twin_new(g);
	struct unit_random r = { .seed = seed };
	size_t i;

	while (ops--) {
		uint64_t h = random_hash(&r, 500);

		if (unit_random_below(&r, 2))
			assert_int_equal(xbloom_set_hash(&g, t->blocks, h), twin_add(t, h));
		else
			assert_int_equal(xbloom_test_hash(&g, t->blocks, h), twin_test(t, h));
	}
	for (i = 0; i < t->n; i++)
		assert_int_equal(xbloom_test_hash(&g, t->blocks, t->keys[i]), 1);
	assert_true(same(t));
	twin_free(t);
}

static const uint64_t split_blocks[] = { 1, 2, 3, 7, 64, 1000 };
/* Not multiples of 512 but for two: the last block is not filled. */
static const uint64_t classic_bits[] = { 1, 2, 63, 64, 65, 511, 512, 513, 1000, 8191, 51200 };
static const uint32_t classic_k[] = { 1, 2, 6, 11, 30 };

static void split_agrees_with_its_twin(void **state)
{
	size_t i;
	uint64_t seed;

	(void)state;
	for (i = 0; i < COUNT_OF(split_blocks); i++)
		for (seed = 0; seed < 8; seed++)
			run_program(split(split_blocks[i]), seed, 1000);
}

static void classic_agrees_with_its_twin(void **state)
{
	size_t i, j;
	uint64_t seed;

	(void)state;
	for (i = 0; i < COUNT_OF(classic_bits); i++)
		for (j = 0; j < COUNT_OF(classic_k); j++)
			for (seed = 0; seed < 3; seed++)
				run_program(classic(classic_bits[i], classic_k[j]), seed, 1000);
}

/* The test of the tests: one bit too many or too few, or a byte beyond the end, is noticed. */
static void twin_notices_one_wrong_bit(void **state)
{
	struct twin *t = twin_new(split(3));

	(void)state;
	xbloom_set_hash(&t->g, t->blocks, 12345);
	twin_add(t, 12345);
	assert_true(same(t));
	t->blocks[2].w[7] ^= 1ULL << 63;
	assert_false(same(t));
	t->blocks[2].w[7] ^= 1ULL << 63;
	assert_true(same(t));
	t->blocks[3].w[0] ^= 1;
	assert_false(same(t));
	twin_free(t);
}

/* ---- single promises ---- */

static const struct xbloom_geometry *geometries(size_t *n)
{
	static struct xbloom_geometry
		g[COUNT_OF(split_blocks) + COUNT_OF(classic_bits) * COUNT_OF(classic_k)];
	size_t i, j;

	*n = 0;
	for (i = 0; i < COUNT_OF(split_blocks); i++)
		g[(*n)++] = split(split_blocks[i]);
	for (i = 0; i < COUNT_OF(classic_bits); i++)
		for (j = 0; j < COUNT_OF(classic_k); j++)
			g[(*n)++] = classic(classic_bits[i], classic_k[j]);
	return g;
}

static void empty_filter_holds_nothing(void **state)
{
	size_t i, n;
	const struct xbloom_geometry *g = geometries(&n);
	struct unit_random r = { .seed = 1 };
	unsigned int j;

	(void)state;
	for (i = 0; i < n; i++) {
		struct xbloom_block *blocks = new_blocks(g[i].blocks);

		for (j = 0; j < 100; j++)
			assert_int_equal(xbloom_test_hash(&g[i], blocks, unit_random(&r)), 0);
		free(blocks);
	}
}

static void first_add_changes_a_bit_and_second_does_not(void **state)
{
	size_t i, n;
	const struct xbloom_geometry *g = geometries(&n);
	struct unit_random r = { .seed = 2 };

	(void)state;
	for (i = 0; i < n; i++) {
		struct xbloom_block *blocks = new_blocks(g[i].blocks);
		uint64_t h = unit_random(&r);

		assert_int_equal(xbloom_set_hash(&g[i], blocks, h), 1);
		assert_int_equal(xbloom_test_hash(&g[i], blocks, h), 1);
		assert_int_equal(xbloom_set_hash(&g[i], blocks, h), 0);
		free(blocks);
	}
}

/* Given the bits of a key, when any one of them is taken away, then the key is absent. */
static void each_bit_of_a_key_is_needed(void **state)
{
	size_t i, n;
	const struct xbloom_geometry *g = geometries(&n);
	struct unit_random r = { .seed = 3 };
	uint64_t at[XBLOOM_CLASSIC_K_MAX];
	unsigned int j;

	(void)state;
	for (i = 0; i < n; i++) {
		struct xbloom_block *blocks = new_blocks(g[i].blocks);
		uint64_t h = unit_random(&r);
		unsigned int k = positions(&g[i], h, at);

		xbloom_set_hash(&g[i], blocks, h);
		for (j = 0; j < k; j++) {
			__u64 *word = &blocks[at[j] / 512].w[at[j] / 64 % 8];

			*word ^= 1ULL << (at[j] % 64);
			assert_int_equal(xbloom_test_hash(&g[i], blocks, h), 0);
			*word ^= 1ULL << (at[j] % 64);
		}
		assert_int_equal(xbloom_test_hash(&g[i], blocks, h), 1);
		free(blocks);
	}
}

/* Given every bit up to m set by adds, then the bits from m to the end of the block are clear. */
static void classic_never_touches_bits_past_m(void **state)
{
	struct unit_random r = { .seed = 4 };
	uint64_t bits;

	(void)state;
	for (bits = 1; bits < 2 * XBLOOM_BLOCK_BITS; bits += 37) {
		struct xbloom_geometry g = classic(bits, 30);
		struct xbloom_block *blocks = new_blocks(g.blocks);
		uint64_t p, last = g.blocks * XBLOOM_BLOCK_BITS;
		unsigned int j;

		for (j = 0; j < 2000; j++)
			xbloom_set_hash(&g, blocks, unit_random(&r));
		xbloom_set_hash(&g, blocks, ~0ULL);
		for (p = 0; p < last; p++)
			assert_int_equal(blocks[p / 512].w[p / 64 % 8] >> (p % 64) & 1, p < bits);
		free(blocks);
	}
}

/* The greatest hash falls on the last block or bit of the greatest geometries, and no further. */
static void greatest_geometries_stay_within_their_bounds(void **state)
{
	(void)state;
	assert_int_equal(xbloom_split_block(~0ULL, XBLOOM_BLOCKS_MAX), XBLOOM_BLOCKS_MAX - 1);
	assert_int_equal(xbloom_split_block(0, XBLOOM_BLOCKS_MAX), 0);
	assert_int_equal(xbloom_classic_bit(~0ULL, XBLOOM_CLASSIC_BITS_MAX),
			 XBLOOM_CLASSIC_BITS_MAX - 1);
	assert_int_equal(xbloom_classic_bit(0, XBLOOM_CLASSIC_BITS_MAX), 0);
	assert_int_equal(xbloom_classic_bit(~0ULL, 1), 0);
	assert_int_equal(xbloom_split_block(~0ULL, 1), 0);
}

/* ---- several writers ---- */

#define THREADS 4
#define KEYS_PER_THREAD 20000

struct writer {
	pthread_t thread;
	pthread_barrier_t *start;
	const struct xbloom_geometry *g;
	struct xbloom_block *blocks;
	uint64_t seed;
	uint64_t changed;
	uint64_t missed; /* keys that were absent when their add had returned */
};

static void *write_keys(void *arg)
{
	struct writer *w = arg;
	struct unit_random r = { .seed = w->seed };
	unsigned int i;

	pthread_barrier_wait(w->start);
	for (i = 0; i < KEYS_PER_THREAD; i++) {
		uint64_t h = unit_random(&r);

		w->changed += xbloom_set_hash(w->g, w->blocks, h);
		w->missed += !xbloom_test_hash(w->g, w->blocks, h);
	}
	return NULL;
}

static void *write_every_bit(void *arg)
{
	struct writer *w = arg;
	uint64_t p;

	pthread_barrier_wait(w->start);
	for (p = 0; p < w->g->bits; p++)
		w->changed += xbloom_set_bit(&w->blocks[p / 512].w[p / 64 % 8], p % 64);
	return NULL;
}

/* Runs one thread for each writer; returns the sum of what they changed. */
static uint64_t run_writers(void *(*what)(void *), const struct xbloom_geometry *g,
			    struct xbloom_block *blocks)
{
	struct writer w[THREADS] = { 0 };
	pthread_barrier_t start;
	uint64_t changed = 0;
	unsigned int i;

	assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
	for (i = 0; i < THREADS; i++) {
		w[i].start = &start;
		w[i].g = g;
		w[i].blocks = blocks;
		w[i].seed = 100 + i;
		assert_int_equal(pthread_create(&w[i].thread, NULL, what, &w[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
		assert_int_equal(w[i].missed, 0);
		changed += w[i].changed;
	}
	pthread_barrier_destroy(&start);
	return changed;
}

/* Given writers that add disjoint keys to the same lines, then no bit of any is lost. */
static void concurrent_adds_lose_no_bit(void **state)
{
	/* Few bits, so that writers meet in every word; some more, so that not all bits end set. */
	const struct xbloom_geometry g[] = { split(16), split(1024), classic(10007, 6),
					     classic(800000, 6) };
	unsigned int i, j, round;
	uint64_t changed;
	size_t n;

	(void)state;
	for (n = 0; n < COUNT_OF(g) * 5; n++) {
		const struct xbloom_geometry *one = &g[n % COUNT_OF(g)];
		struct xbloom_block *together = new_blocks(one->blocks);
		struct xbloom_block *alone = new_blocks(one->blocks);

		changed = run_writers(write_keys, one, together);
		assert_in_range(changed, 1, THREADS * KEYS_PER_THREAD);
		for (round = 0; round < 2; round++) {
			for (i = 0; i < THREADS; i++) {
				struct unit_random r = { .seed = 100 + i };

				for (j = 0; j < KEYS_PER_THREAD; j++) {
					uint64_t h = unit_random(&r);

					if (round)
						assert_int_equal(xbloom_test_hash(one, together, h),
								 1);
					else
						xbloom_set_hash(one, alone, h);
				}
			}
		}
		assert_memory_equal(together, alone, one->blocks * XBLOOM_BLOCK_BYTES);
		free(together);
		free(alone);
	}
}

/* Of several writers that set the same bit, exactly one is told that it changed it. */
static void each_bit_is_changed_by_exactly_one_writer(void **state)
{
	const struct xbloom_geometry g = split(2000);
	struct xbloom_block *blocks = new_blocks(g.blocks);
	uint64_t b;
	unsigned int w;

	(void)state;
	assert_int_equal(run_writers(write_every_bit, &g, blocks), g.bits);
	for (b = 0; b < g.blocks; b++)
		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++)
			assert_int_equal(blocks[b].w[w], ~0ULL);
	free(blocks);
}

/* ---- the promised rate ---- */

#define RATE_KEYS 200000
#define RATE_PROBES 1000000

/* Five standard deviations of the count, and a percent for one filter being only one of many. */
static void measured_rate_is_the_predicted_one(void **state)
{
	const struct xbloom_geometry g[] = {
		split(RATE_KEYS * 4 / 512),	split(RATE_KEYS * 8 / 512),
		split(RATE_KEYS * 12 / 512),	classic(RATE_KEYS * 4, 3),
		classic(RATE_KEYS * 8, 6),	classic(RATE_KEYS * 8 + 1, 1),
		classic(RATE_KEYS * 12 - 7, 8), classic(RATE_KEYS * 16, 11),
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(g); i++) {
		struct xbloom_block *blocks = new_blocks(g[i].blocks);
		struct unit_random r = { .seed = 5 };
		double expected = RATE_PROBES * xbloom_rate(&g[i], RATE_KEYS);
		uint64_t positives = 0;
		unsigned int j;

		for (j = 0; j < RATE_KEYS; j++)
			xbloom_set_hash(&g[i], blocks, unit_random(&r));
		for (j = 0; j < RATE_PROBES; j++)
			positives += xbloom_test_hash(&g[i], blocks, unit_random(&r));
		if (fabs((double)positives - expected) > 5 * sqrt(expected) + 0.01 * expected)
			fail_msg("layout %u, k %u, %g bits a key: %" PRIu64
				 " false positives, predicted %.0f",
				 g[i].layout, g[i].k, (double)g[i].bits / RATE_KEYS, positives,
				 expected);
		free(blocks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split_agrees_with_its_twin),
		cmocka_unit_test(classic_agrees_with_its_twin),
		cmocka_unit_test(twin_notices_one_wrong_bit),
		cmocka_unit_test(empty_filter_holds_nothing),
		cmocka_unit_test(first_add_changes_a_bit_and_second_does_not),
		cmocka_unit_test(each_bit_of_a_key_is_needed),
		cmocka_unit_test(classic_never_touches_bits_past_m),
		cmocka_unit_test(greatest_geometries_stay_within_their_bounds),
		cmocka_unit_test(concurrent_adds_lose_no_bit),
		cmocka_unit_test(each_bit_is_changed_by_exactly_one_writer),
		cmocka_unit_test(measured_rate_is_the_predicted_one),
	};

	return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
