// SPDX-License-Identifier: GPL-2.0-only
/*
 * The price list and the plan. Rates against values that were computed elsewhere, and against
 * formulas of another shape in long double; plans must be enough, and one block or one bit less
 * must not be. The exact map against what the kernel takes for one that was really made.
 */
#include "unit.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

/* Rounding of a double; far below what one block or bit of the largest plan here changes. */
#define TOLERANCE 1e-10L
/* No formula may take longer than this many seconds, for whatever arguments. */
#define PATIENCE 10

/* ---- independent rates ---- */

/*
 * Split: over keys in a block the expectation of (1-q^i)^8, q = 63/64, i ~ Poisson(mean). The
 * power multiplied out, and E[q^(ij)] = exp(-mean (1 - q^j)). Exact, but cancels for small rates.
 */
static long double twin_split(long double bits_per_key)
{
	static const int binomial[] = { 1, -8, 28, -56, 70, -56, 28, -8, 1 };
	long double mean = 512 / bits_per_key, sum = 0, q = 1;
	int j;

	for (j = 0; j <= 8; j++, q *= 63.0L / 64)
		sum += binomial[j] * expl(-mean * (1 - q));
	/* Or, where that is not so, the 32 bits of one of the block's keys. */
	return sum + (1 - sum) * mean / 4294967296.0L;
}

static long double twin_classic(long double bits_per_key, unsigned int k)
{
	return powl(1 - expl(-(long double)k / bits_per_key), k);
}

static void assert_close(double got, long double expected, long double relative,
			 long double absolute)
{
	if (!(fabsl(got - expected) <= relative * expected + absolute))
		fail_msg("%.12g, expected %.12Lg", got, expected);
}

static void split_rates_are_the_published_ones(void **state)
{
	/* One in the last digit: the published 0.004223 is 0.0042225 to one digit more. */
	(void)state;
	assert_close(xbloom_rate_split(10), 0.010490L, 0, 1e-6L);
	assert_close(xbloom_rate_split(12), 0.004223L, 0, 1e-6L);
	assert_close(xbloom_rate_split(16), 0.000909L, 0, 1e-6L);
}

static void classic_rates_are_the_published_ones(void **state)
{
	static const struct {
		double bits_per_key;
		unsigned int k;
		long double rate; /* four digits */
	} known[] = {
		{ 8, 1, 0.1175L },	 { 8, 2, 0.0489L }, { 8, 6, 0.0216L },	{ 8, 12, 0.0483L },
		{ 8, 20, 0.1803L },	 { 4, 3, 0.1469L }, { 12, 8, 0.0031L }, { 16, 11, 0.0005L },
		{ 8 / 3.0, 6, 0.5126L }, /* three times what it was sized for */
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(known); i++)
		assert_close(xbloom_rate_classic(known[i].bits_per_key, known[i].k), known[i].rate,
			     0, 5e-5L);
}

static void rates_agree_with_independent_formulas(void **state)
{
	double c;
	unsigned int k;

	(void)state;
	for (c = 0.01; c < 200; c *= 1.07) {
		/* The absolute part is what the twin loses by cancelling. */
		assert_close(xbloom_rate_split(c), twin_split(c), TOLERANCE, 1e-16L);
		for (k = 1; k <= XBLOOM_CLASSIC_K_MAX; k++)
			assert_close(xbloom_rate_classic(c, k), twin_classic(c, k), TOLERANCE, 0);
	}
}

static void rate_of_a_geometry_is_the_rate_of_its_bits_per_key(void **state)
{
	const struct xbloom_geometry split = { 1000, 512000, XBLOOM_LAYOUT_SPLIT, 8 };
	const struct xbloom_geometry classic = { 157, 80000, XBLOOM_LAYOUT_CLASSIC, 6 };

	(void)state;
	assert_close(xbloom_rate(&split, 51200), 0.010490L, 0, 5e-7L);
	assert_close(xbloom_rate(&classic, 10000), 0.021577L, 0, 5e-7L);
	assert_close(xbloom_rate(&classic, 30000), 0.5126L, 0, 5e-5L);
	assert_true(xbloom_rate(&split, 0) == 0);
	assert_true(xbloom_rate(&classic, 0) == 0);
}

/* Run in a child, so that what never ends is a failure and not the end of the tests. */
static void assert_holds_in_time(int (*holds)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		alarm(PATIENCE);
		_exit(holds() ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		fail_msg("not done after %d seconds", PATIENCE);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int is_one(double rate)
{
	return rate <= 1 && rate > 1 - 1e-5;
}

static int overload_is_one(void)
{
	const struct xbloom_geometry split = { 1, 512, XBLOOM_LAYOUT_SPLIT, 8 };
	const struct xbloom_geometry classic = { 1, 512, XBLOOM_LAYOUT_CLASSIC, 6 };
	double c;

	for (c = 1e-3; c > 1e-30; c /= 10)
		if (!is_one(xbloom_rate_split(c)) || !is_one(xbloom_rate_classic(c, 6)))
			return 0;
	return is_one(xbloom_rate(&split, UINT64_MAX)) && is_one(xbloom_rate(&classic, UINT64_MAX));
}

/* However far a filter is overloaded, its rate rises to 1, is not above, and is found in time. */
static void hopeless_overload_has_rate_one(void **state)
{
	(void)state;
	assert_holds_in_time(overload_is_one);
}

static void rate_falls_as_bits_are_added(void **state)
{
	double c, split, classic, last_split = 1.1, last_classic = 1.1;

	(void)state;
	for (c = 0.5; c < 400; c *= 1.1) {
		split = xbloom_rate_split(c);
		classic = xbloom_rate_classic(c, 8);
		assert_true(split < last_split && split > 0);
		assert_true(classic < last_classic && classic > 0);
		last_split = split;
		last_classic = classic;
	}
}

/* ---- plans ---- */

static const uint64_t sweep_items[] = { 1, 2, 10, 1000, 1000000, 1000000000 };
/* Some lie where the best number of hashes is not the nearest to -log2 of the rate. */
static const double sweep_fp[] = { 1e-9, 1e-8, 1e-6, 1e-4, 0.001, 0.0056,
				   0.01, 0.05, 0.1,  0.3,  0.366, 0.5 };

/* What must hold of any plan: its numbers fit each other. */
static void assert_sound(const struct xbloom_size_request *req, const struct xbloom_size *size)
{
	const struct xbloom_geometry *g = &size->geometry;

	assert_int_equal(g->layout, req->layout);
	assert_in_range(g->blocks, 1, XBLOOM_BLOCKS_MAX);
	if (req->layout == XBLOOM_LAYOUT_SPLIT) {
		assert_int_equal(g->k, XBLOOM_SPLIT_K);
		assert_int_equal(g->bits, g->blocks * XBLOOM_BLOCK_BITS);
	} else {
		assert_in_range(g->k, 1, XBLOOM_CLASSIC_K_MAX);
		if (req->hashes)
			assert_int_equal(g->k, req->hashes);
		assert_in_range(g->bits, 1, XBLOOM_CLASSIC_BITS_MAX);
		assert_int_equal(g->blocks, (g->bits + XBLOOM_BLOCK_BITS - 1) / XBLOOM_BLOCK_BITS);
	}
	assert_int_equal(size->items, req->items);
	assert_int_equal(size->bytes, g->blocks * XBLOOM_BLOCK_BYTES);
	assert_close(size->bits_per_key, (long double)g->bits / req->items, TOLERANCE, 0);
	assert_true(size->fp == xbloom_rate(g, req->items));
}

static void split_plan_is_the_smallest_that_keeps_the_rate(void **state)
{
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT_OF(sweep_items); i++) {
		for (j = 0; j < COUNT_OF(sweep_fp); j++) {
			const long double n = sweep_items[i];
			const struct xbloom_size_request req = {
				.layout = XBLOOM_LAYOUT_SPLIT,
				.items = sweep_items[i],
				.fp = sweep_fp[j],
			};
			struct xbloom_error err;
			struct xbloom_size size;
			struct xbloom_geometry less;

			if (xbloom_plan(&req, &size, &err))
				fail_msg("%s", err.text);
			assert_sound(&req, &size);
			assert_true(size.fp <= req.fp);
			assert_true(twin_split(size.geometry.bits / n) <=
				    req.fp * (1 + TOLERANCE) + 1e-16L);
			if (size.geometry.blocks == 1)
				continue;
			less = size.geometry;
			less.blocks--;
			less.bits -= XBLOOM_BLOCK_BITS;
			assert_true(xbloom_rate(&less, req.items) > req.fp);
			assert_true(twin_split(less.bits / n) >= req.fp * (1 - TOLERANCE) - 1e-16L);
		}
	}
}

/* Whether `bits` keep the rate with k hashes, or with any number of them when k is 0. */
static int classic_keeps(uint64_t bits, unsigned int k, uint64_t items, long double fp)
{
	unsigned int low = k ? k : 1, high = k ? k : XBLOOM_CLASSIC_K_MAX;

	for (k = low; k <= high; k++)
		if (twin_classic((long double)bits / items, k) <= fp)
			return 1;
	return 0;
}

/* With k given, and with k free: then no k at all would do with a bit less. */
static void classic_plan_is_the_smallest_that_keeps_the_rate(void **state)
{
	static const unsigned int hashes[] = { 0, 1, 2, 6, 11, 30 };
	size_t i, j, l;

	(void)state;
	for (i = 0; i < COUNT_OF(sweep_items); i++) {
		for (j = 0; j < COUNT_OF(sweep_fp); j++) {
			for (l = 0; l < COUNT_OF(hashes); l++) {
				const struct xbloom_size_request req = {
					.layout = XBLOOM_LAYOUT_CLASSIC,
					.items = sweep_items[i],
					.fp = sweep_fp[j],
					.hashes = hashes[l],
				};
				long double fp = sweep_fp[j];
				struct xbloom_geometry less;
				struct xbloom_error err;
				struct xbloom_size size;

				unit_error_poison(&err);
				if (!classic_keeps(XBLOOM_CLASSIC_BITS_MAX, req.hashes, req.items,
						   fp)) {
					assert_int_equal(xbloom_plan(&req, &size, &err), -E2BIG);
					unit_assert_one_line(&err);
					continue;
				}
				if (xbloom_plan(&req, &size, &err))
					fail_msg("%s", err.text);
				assert_sound(&req, &size);
				assert_true(size.fp <= req.fp);
				assert_true(classic_keeps(size.geometry.bits, size.geometry.k,
							  req.items, fp * (1 + TOLERANCE)));
				if (size.geometry.bits == 1)
					continue;
				less = size.geometry;
				less.bits--;
				assert_true(xbloom_rate(&less, req.items) > req.fp);
				assert_false(classic_keeps(less.bits, req.hashes, req.items,
							   fp * (1 - TOLERANCE)));
			}
		}
	}
}

static void plan_without_a_rate_takes_the_default(void **state)
{
	struct xbloom_size_request req = { .layout = XBLOOM_LAYOUT_SPLIT, .items = 100000 };
	struct xbloom_size by_default, by_name;
	struct xbloom_error err;

	(void)state;
	assert_int_equal(xbloom_plan(&req, &by_default, &err), 0);
	req.fp = XBLOOM_FP_DEFAULT;
	assert_int_equal(xbloom_plan(&req, &by_name, &err), 0);
	assert_int_equal(by_default.geometry.blocks, by_name.geometry.blocks);
	assert_true(by_default.fp <= XBLOOM_FP_DEFAULT);
}

/* To the next whole number, give or take what a double cannot hold (43.2 is a little more). */
static void assert_rounded_up(uint64_t got, long double wanted)
{
	assert_true(got >= wanted * (1 - TOLERANCE));
	assert_true(got < wanted + 1);
}

static void plan_by_bits_per_key_gives_at_least_those(void **state)
{
	static const double budget[] = { 0.5, 1, 4, 7.3, 8, 10, 12, 16, 43.2 };
	size_t i, j;
	unsigned int k;

	(void)state;
	for (i = 0; i < COUNT_OF(sweep_items); i++) {
		for (j = 0; j < COUNT_OF(budget); j++) {
			struct xbloom_size_request req = {
				.layout = XBLOOM_LAYOUT_SPLIT,
				.items = sweep_items[i],
				.bits_per_key = budget[j],
			};
			long double wanted = (long double)req.items * req.bits_per_key;
			struct xbloom_error err;
			struct xbloom_size size;

			/* Fewer bits than a key needs at a rate of one half buy no filter. */
			if (xbloom_plan(&req, &size, &err)) {
				assert_true(req.bits_per_key < 2);
			} else {
				assert_sound(&req, &size);
				assert_rounded_up(size.geometry.blocks, wanted / 512);
			}

			req.layout = XBLOOM_LAYOUT_CLASSIC;
			if (wanted > XBLOOM_CLASSIC_BITS_MAX) {
				assert_int_equal(xbloom_plan(&req, &size, &err), -E2BIG);
				continue;
			}
			if (req.bits_per_key < 1.44) {
				assert_int_equal(xbloom_plan(&req, &size, &err), -EINVAL);
				continue;
			}
			if (xbloom_plan(&req, &size, &err))
				fail_msg("%s", err.text);
			assert_sound(&req, &size);
			assert_rounded_up(size.geometry.bits, wanted);

			/* The best number of hashes: no other has a lower rate. */
			for (k = 1; k <= XBLOOM_CLASSIC_K_MAX; k++)
				if (xbloom_rate_classic(size.bits_per_key, k) <
				    size.fp * (1 - 1e-12))
					fail_msg("%g bits for each of %" PRIu64
						 " keys: k = %u, but %u is better",
						 req.bits_per_key, req.items, size.geometry.k, k);
		}
	}
}

/* From the introduction: 8 bits a key, 6 hashes. */
static void plan_takes_the_number_of_hashes_that_is_given(void **state)
{
	const struct xbloom_size_request req = {
		.layout = XBLOOM_LAYOUT_CLASSIC,
		.items = 10000,
		.bits_per_key = 8,
		.hashes = 6,
	};
	struct xbloom_error err;
	struct xbloom_size size;

	(void)state;
	assert_int_equal(xbloom_plan(&req, &size, &err), 0);
	assert_sound(&req, &size);
	assert_int_equal(size.geometry.bits, 80000);
	assert_close(size.fp, 0.021577L, 0, 5e-7L);
}

/* ---- refusals ---- */

static void refused(struct xbloom_size_request req, int code)
{
	struct xbloom_error err;
	struct xbloom_size size;
	int ret;

	unit_error_poison(&err);
	ret = xbloom_plan(&req, &size, &err);
	if (ret != code)
		fail_msg("%d, expected %d: layout %u, items %" PRIu64 ", fp %g, bits %g, k %u", ret,
			 code, req.layout, req.items, req.fp, req.bits_per_key, req.hashes);
	unit_assert_one_line(&err);
	/* The message may be left out. */
	assert_int_equal(xbloom_plan(&req, &size, NULL), code);
}

static void plan_refuses_what_is_out_of_range(void **state)
{
	static const double bad_fp[] = { -0.01, 5e-10, 0.500001, 1, 100, -INFINITY, INFINITY, NAN };
	static const double bad_bits[] = { -1, -1e-9, -INFINITY, INFINITY, NAN };
	uint32_t layout;
	size_t i;

	(void)state;
	for (layout = XBLOOM_LAYOUT_SPLIT; layout <= XBLOOM_LAYOUT_CLASSIC; layout++) {
		for (i = 0; i < COUNT_OF(bad_fp); i++)
			refused((struct xbloom_size_request){ .layout = layout,
							      .items = 1000,
							      .fp = bad_fp[i] },
				-EINVAL);
		for (i = 0; i < COUNT_OF(bad_bits); i++)
			refused((struct xbloom_size_request){ .layout = layout,
							      .items = 1000,
							      .bits_per_key = bad_bits[i] },
				-EINVAL);
		refused((struct xbloom_size_request){ .layout = layout, .fp = 0.01 }, -EINVAL);
		refused((struct xbloom_size_request){ .layout = layout }, -EINVAL);
	}
	refused((struct xbloom_size_request){ .layout = XBLOOM_LAYOUT_CLASSIC + 1, .items = 1000 },
		-EINVAL);
	refused((struct xbloom_size_request){ .layout = XBLOOM_LAYOUT_CLASSIC,
					      .items = 1000,
					      .hashes = XBLOOM_CLASSIC_K_MAX + 1 },
		-EINVAL);
	refused((struct xbloom_size_request){ .layout = XBLOOM_LAYOUT_CLASSIC,
					      .items = 1000,
					      .hashes = UINT32_MAX },
		-EINVAL);
}

static void plan_accepts_the_ends_of_the_range(void **state)
{
	static const double ends[] = { XBLOOM_FP_MIN, XBLOOM_FP_MAX };
	static const unsigned int hashes[] = { 1, XBLOOM_CLASSIC_K_MAX };
	struct xbloom_error err;
	struct xbloom_size size;
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT_OF(ends); i++) {
		struct xbloom_size_request req = { .items = 1, .fp = ends[i] };

		req.layout = XBLOOM_LAYOUT_SPLIT;
		assert_int_equal(xbloom_plan(&req, &size, &err), 0);
		req.layout = XBLOOM_LAYOUT_CLASSIC;
		for (j = 0; j < COUNT_OF(hashes); j++) {
			req.hashes = hashes[j];
			/* One hash at 1e-9 takes 10^9 bits for a single key. */
			assert_int_equal(xbloom_plan(&req, &size, &err), 0);
			assert_sound(&req, &size);
		}
	}
}

static void plan_says_when_it_would_be_too_big(void **state)
{
	static const uint64_t many[] = { 1000000000000ULL, 1ULL << 53, 1ULL << 63, UINT64_MAX };
	uint32_t layout;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(many); i++) {
		for (layout = XBLOOM_LAYOUT_SPLIT; layout <= XBLOOM_LAYOUT_CLASSIC; layout++) {
			refused((struct xbloom_size_request){ .layout = layout,
							      .items = many[i],
							      .fp = 1e-9 },
				-E2BIG);
			refused((struct xbloom_size_request){ .layout = layout,
							      .items = many[i],
							      .bits_per_key = 10 },
				-E2BIG);
		}
	}
	/* 10^9 keys at 1 % are 9.6 * 10^9 bits: split takes them, classic ends at 2^32. */
	refused((struct xbloom_size_request){ .layout = XBLOOM_LAYOUT_CLASSIC,
					      .items = 1000000000,
					      .fp = 0.01 },
		-E2BIG);
}

/* One bit more than the largest, one block more than the largest. */
static void plan_reaches_exactly_the_largest_geometry(void **state)
{
	struct xbloom_size_request req = {
		.layout = XBLOOM_LAYOUT_CLASSIC,
		.items = XBLOOM_CLASSIC_BITS_MAX / 8,
		.bits_per_key = 8,
	};
	struct xbloom_error err;
	struct xbloom_size size;

	(void)state;
	assert_int_equal(xbloom_plan(&req, &size, &err), 0);
	assert_int_equal(size.geometry.bits, XBLOOM_CLASSIC_BITS_MAX);
	req.items++;
	refused(req, -E2BIG);

	req.layout = XBLOOM_LAYOUT_SPLIT;
	req.items = XBLOOM_BLOCKS_MAX;
	req.bits_per_key = 512;
	assert_int_equal(xbloom_plan(&req, &size, &err), 0);
	assert_int_equal(size.geometry.blocks, XBLOOM_BLOCKS_MAX);
	req.items++;
	refused(req, -E2BIG);
}

static int absurd_budget_is_one_block(void)
{
	const struct xbloom_size_request req = {
		.layout = XBLOOM_LAYOUT_SPLIT,
		.items = 1000000000000000000ULL,
		.bits_per_key = 1e-18,
	};
	struct xbloom_error err;
	struct xbloom_size size;
	int ret;

	ret = xbloom_plan(&req, &size, &err);
	return ret == -EINVAL || (!ret && size.geometry.blocks == 1);
}

/* One block for 10^18 keys is refused, or planned as it was asked for; in time, either way. */
static void plan_of_an_absurd_budget_ends_soon(void **state)
{
	(void)state;
	assert_holds_in_time(absurd_budget_is_one_block);
}

/* ---- what is predicted is what is measured ---- */

/* SplitMix64 (Steele, Lea and Flood, 2014): the same hashes in every run. */
static uint64_t next_hash(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Maybes among `probes` absent keys, over `filters` filters of n keys at this rate. */
static void assert_rate_is_kept(uint32_t layout, uint64_t n, double fp, int filters, int probes)
{
	const struct xbloom_size_request req = { .layout = layout, .items = n, .fp = fp };
	uint64_t state = n, maybes = 0;
	double expected = 0, limit;
	struct xbloom_error err;
	struct xbloom_size size;
	int i, j;

	assert_int_equal(xbloom_plan(&req, &size, &err), 0);
	for (i = 0; i < filters; i++) {
		struct xbloom_block *blocks = aligned_alloc(64, size.bytes);

		assert_non_null(blocks);
		memset(blocks, 0, size.bytes);
		for (j = 0; j < (int)n; j++)
			xbloom_set_hash(&size.geometry, blocks, next_hash(&state));
		for (j = 0; j < probes; j++)
			maybes += xbloom_test_hash(&size.geometry, blocks, next_hash(&state));
		free(blocks);
		expected += probes * size.fp;
	}
	/* Five standard deviations, and a tenth for filters so small that each is its own case. */
	limit = expected * 1.1 + 5 * sqrt(expected);
	print_message("# layout %u, %" PRIu64 " keys at %g: %" PRIu64 " maybes, predicted %.1f\n",
		      layout, n, fp, maybes, expected);
	if ((double)maybes > limit)
		fail_msg("%" PRIu64 " maybes where at most %.0f were to be expected", maybes,
			 limit);
}

/* Small filters at low rates: where probes that are not quite independent show first. */
static void low_rates_are_kept_by_small_filters(void **state)
{
	uint32_t layout;

	(void)state;
	for (layout = XBLOOM_LAYOUT_SPLIT; layout <= XBLOOM_LAYOUT_CLASSIC; layout++) {
		assert_rate_is_kept(layout, 100, 1e-2, 50, 20000);
		assert_rate_is_kept(layout, 100, 1e-4, 50, 100000);
		assert_rate_is_kept(layout, 100, 1e-5, 50, 200000);
		assert_rate_is_kept(layout, 1000, 1e-5, 20, 500000);
	}
}

/* Keys that change no bit are not counted, but they are in: load must not miss them. */
static void distinct_keys_are_told_from_those_that_changed_a_bit(void **state)
{
	static const double rates[] = { 0.5, 0.1, 0.01, 1e-4 };
	static const int percents[] = { 1, 50, 100, 150, 300 };
	const int items = 50000;
	uint32_t layout;
	size_t r, p;

	(void)state;
	for (layout = XBLOOM_LAYOUT_SPLIT; layout <= XBLOOM_LAYOUT_CLASSIC; layout++) {
		for (r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
			const struct xbloom_size_request req = {
				.layout = layout,
				.items = (uint64_t)items,
				.fp = rates[r],
			};
			struct xbloom_block *blocks;
			struct xbloom_error err;
			struct xbloom_size size;
			uint64_t seed = r, changed = 0;
			int n = 0;

			assert_int_equal(xbloom_plan(&req, &size, &err), 0);
			blocks = aligned_alloc(64, size.bytes);
			assert_non_null(blocks);
			memset(blocks, 0, size.bytes);
			for (p = 0; p < sizeof(percents) / sizeof(percents[0]); p++) {
				double told;

				for (; n < items / 100 * percents[p]; n++)
					changed += xbloom_set_hash(&size.geometry, blocks,
								   next_hash(&seed));
				told = xbloom_distinct(&size.geometry, changed);
				/* Near saturation hardly a key changes a bit, and little can be told. */
				if (xbloom_rate(&size.geometry, (uint64_t)n) > 0.8)
					continue;
				/* Five standard deviations, and a percent for the formula. */
				assert_close(told, n, 0.01L, 5 * sqrt((double)n - changed) + 1);
			}
			free(blocks);
		}
	}
}

static void a_budget_that_buys_no_filter_is_refused(void **state)
{
	struct xbloom_size_request req = { .items = 150000, .bits_per_key = 0.5 };
	struct xbloom_error err;
	struct xbloom_size size;

	(void)state;
	for (req.layout = XBLOOM_LAYOUT_SPLIT; req.layout <= XBLOOM_LAYOUT_CLASSIC; req.layout++)
		assert_int_equal(xbloom_plan(&req, &size, &err), -EINVAL);
}

/* ---- the rate the other way round ---- */

/* Of all sizes and both layouts, small ones as often as large ones. */
static struct xbloom_geometry random_geometry(struct unit_random *r)
{
	struct xbloom_geometry g = { .layout = (uint32_t)unit_random_below(r, 2) };

	g.k = XBLOOM_SPLIT_K;
	g.blocks = 1 + (unit_random(r) >> (32 + unit_random_below(r, 32)));
	if (g.blocks > XBLOOM_BLOCKS_MAX)
		g.blocks = XBLOOM_BLOCKS_MAX;
	g.bits = g.blocks * XBLOOM_BLOCK_BITS;
	if (g.layout == XBLOOM_LAYOUT_CLASSIC) {
		g.k = 1 + (uint32_t)unit_random_below(r, XBLOOM_CLASSIC_K_MAX);
		g.bits = 1 +
			 unit_random_below(r, XBLOOM_CLASSIC_BITS_MAX >> unit_random_below(r, 32));
		g.blocks = (g.bits + XBLOOM_BLOCK_BITS - 1) / XBLOOM_BLOCK_BITS;
	}
	return g;
}

#define GEOMETRIES 300

/* With n keys it is at most the rate, with one more it is past it. */
static void keys_at_a_rate_are_the_most_that_keep_it(void **state)
{
	struct unit_random r = { .seed = 6 };
	int i;

	(void)state;
	for (i = 0; i < GEOMETRIES; i++) {
		const struct xbloom_geometry g = random_geometry(&r);
		/* From 1e-12 to nearly 1. */
		double rate = pow(10, -1e-3 * (double)(1 + unit_random_below(&r, 12000)));
		uint64_t n = xbloom_keys_at_rate(&g, rate);

		if (!(xbloom_rate(&g, n) <= rate) || !(xbloom_rate(&g, n + 1) > rate))
			fail_msg("layout %u, %" PRIu64 " bits, k %u: not %" PRIu64
				 " keys at %.12g, but %.12g, and %.12g with one more",
				 g.layout, (uint64_t)g.bits, g.k, n, rate, xbloom_rate(&g, n),
				 xbloom_rate(&g, n + 1));
	}
}

/* From keys to a rate and back: the same keys, give or take what a double cannot tell apart. */
static void keys_at_the_rate_of_n_keys_are_n(void **state)
{
	struct unit_random r = { .seed = 7 };
	int i;

	(void)state;
	for (i = 0; i < GEOMETRIES; i++) {
		const struct xbloom_geometry g = random_geometry(&r);
		/* From 1 bit a key, where nearly all is maybe, to 100. */
		uint64_t n = 1 + g.bits / (1 + unit_random_below(&r, 100));

		if (xbloom_rate(&g, n) < 0.99)
			assert_close((double)xbloom_keys_at_rate(&g, xbloom_rate(&g, n)), n, 1e-9L,
				     0);
	}
}

static void keys_at_a_rate_are_none_at_0_and_endless_at_1(void **state)
{
	static const double none[] = { 0, -0.0, -1, -INFINITY, NAN };
	static const double endless[] = { 1, 2, INFINITY };
	struct unit_random r = { .seed = 8 };
	size_t i, j;

	(void)state;
	for (i = 0; i < GEOMETRIES; i++) {
		const struct xbloom_geometry g = random_geometry(&r);

		for (j = 0; j < COUNT_OF(none); j++)
			assert_int_equal(xbloom_keys_at_rate(&g, none[j]), 0);
		for (j = 0; j < COUNT_OF(endless); j++)
			assert_true(xbloom_keys_at_rate(&g, endless[j]) == UINT64_MAX);
		assert_true(xbloom_keys_at_rate(&g, nextafter(1, 0)) < UINT64_MAX);
	}
}

/* From the introduction: at three times its load, 8 bits and k 6 are wrong at 0.5126. */
static void keys_at_a_rate_are_the_published_ones(void **state)
{
	const struct xbloom_geometry g = { 157, 80000, XBLOOM_LAYOUT_CLASSIC, 6 };

	(void)state;
	assert_close((double)xbloom_keys_at_rate(&g, 0.021577), 10000, 0, 1);
	assert_close((double)xbloom_keys_at_rate(&g, 0.5126), 30000, 0, 5);
}

/* ---- the interval of what was seen ---- */

/* By multiplying out; and what is split into looks comes together again. */
static void looks_add_up_to_the_rate_of_a_packet(void **state)
{
	static const double rates[] = { 0, 1e-9, 1e-4, 0.01, 0.3, 1 };
	unsigned int n;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(rates); i++) {
		double right = 1;

		assert_true(xbloom_rate_of_asks(rates[i], 0) == rates[i]);
		for (n = 1; n <= XBLOOM_PLENS6_MAX; n++) {
			double all = xbloom_rate_of_asks(rates[i], n);

			right *= 1 - rates[i];
			assert_true(fabs(all - (1 - right)) <= 1e-6 * all + 1e-15);
			if (rates[i] < 1)
				assert_true(fabs(xbloom_rate_of_one(all, n) - rates[i]) <=
					    1e-12 * rates[i]);
		}
	}
	assert_true(fabs(xbloom_rate_of_asks(0.01, 3) - 0.029701) < 1e-12);
}

/* A filter that is asked several times is made for that: each look is as much better. */
static void a_plan_keeps_the_rate_of_all_looks(void **state)
{
	static const uint32_t layouts[] = { XBLOOM_LAYOUT_SPLIT, XBLOOM_LAYOUT_CLASSIC };
	struct xbloom_size size, once;
	struct xbloom_error err;
	unsigned int n;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(layouts); i++) {
		struct xbloom_size_request req = { .layout = layouts[i],
						   .items = 100000,
						   .fp = 0.01 };

		assert_int_equal(xbloom_plan(&req, &once, &err), 0);
		for (n = 2; n <= XBLOOM_PLENS6_MAX; n++) {
			req.asks = n;
			assert_int_equal(xbloom_plan(&req, &size, &err), 0);
			assert_true(size.bytes > once.bytes);
			assert_true(size.fp <= 0.01 && size.fp > 0.0099);
			assert_true(fabs(size.fp -
					 xbloom_rate_of_asks(xbloom_rate(&size.geometry, 100000),
							     n)) < 1e-12);
		}
	}
}

static void wilson_intervals_are_the_published_ones(void **state)
{
	/*
	 * Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, method
	 * 3; and the one of libxbloom.h.
	 */
	static const struct {
		uint64_t hits, n;
		long double low, high, rounding;
	} known[] = {
		{ 81, 263, 0.2553L, 0.3662L, 5e-5L },
		{ 15, 148, 0.0624L, 0.1605L, 5e-5L },
		{ 0, 20, 0, 0.1611L, 5e-5L },
		{ 1, 29, 0.0061L, 0.1718L, 5e-5L },
		{ 10, 1000, 0.005441L, 0.018309L, 5e-7L },
	};
	double low, high;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(known); i++) {
		xbloom_wilson(known[i].hits, known[i].n, &low, &high);
		assert_close(low, known[i].low, 0, known[i].rounding);
		assert_close(high, known[i].high, 0, known[i].rounding);
	}
}

/* What it is by definition: p is z standard deviations of its own from what was seen. */
static void assert_is_wilson(long double p, long double seen, long double n)
{
	const long double z = 1.959963984540054L;
	long double distance = fabsl(p - seen), deviations = z * sqrtl(p * (1 - p) / n);

	if (fabsl(distance - deviations) > 1e-9L * deviations)
		fail_msg("%.12Lg is %.12Lg from %.12Lg of %.0Lf, and should be %.12Lg", p, distance,
			 seen, n, deviations);
}

static void wilson_intervals_are_what_they_are_by_definition(void **state)
{
	struct unit_random r = { .seed = 9 };
	double low, high;
	int i;

	(void)state;
	for (i = 0; i < 10000; i++) {
		uint64_t n = 2 + (unit_random(&r) >> (24 + unit_random_below(&r, 39)));
		uint64_t hits = 1 + unit_random_below(&r, n - 1) / (1 + unit_random_below(&r, 50));

		xbloom_wilson(hits, n, &low, &high);
		assert_true(0 < low && low < (double)hits / (double)n);
		assert_true((double)hits / (double)n < high && high < 1);
		/* For near ones 1 - p is all that counts, and a double near 1 has lost it. */
		if (hits <= n / 2) {
			assert_is_wilson(low, (long double)hits / n, n);
			assert_is_wilson(high, (long double)hits / n, n);
		}
	}
}

static void wilson_intervals_of_nothing_and_all_touch_the_ends(void **state)
{
	uint64_t n;
	double low, high, other;

	(void)state;
	xbloom_wilson(0, 0, &low, &high);
	assert_true(low == 0 && high == 1);
	for (n = 1; n < 1ULL << 50; n *= 3) {
		xbloom_wilson(0, n, &low, &high);
		assert_true(low == 0 && high > 0 && high < 1);
		other = high;
		xbloom_wilson(n, n, &low, &high);
		assert_true(high == 1 && low < 1);
		/* What is true of hits is true of misses. */
		assert_close(low, 1 - (long double)other, 1e-12L, 0);
	}
	/* Of a quarter of these the rounded upper end would be below 1. */
	for (n = 1; n <= 100000; n++) {
		xbloom_wilson(n, n, &low, &high);
		assert_true(high == 1);
	}
}

/* ---- the exact map ---- */

static const uint32_t key_shapes[] = {
	XBLOOM_DPORT, /* one word */
	XBLOOM_SRC,   /* three: an address of either family */
	XBLOOM_SRC | XBLOOM_DST | XBLOOM_SPORT | XBLOOM_DPORT | XBLOOM_PROTO, /* five */
};

static struct xbloom_size exact_plan(uint64_t items, uint32_t fields, uint64_t max_bytes)
{
	struct xbloom_size size = { .items = items };
	struct xbloom_error err;

	if (xbloom_plan_exact(&size, fields, max_bytes, &err))
		fail_msg("%s", err.text);
	return size;
}

/* Not skip(): in TAP, cmocka 1.1.5 calls a skipped test "not ok". */
static void say_needs_root(void)
{
	print_message("# a real map was not asked: it needs root\n");
}

/* What the kernel says that it takes; 0: this user may not make one. */
static uint64_t memory_of_a_real_map(uint32_t fields, uint64_t keys)
{
	unsigned long long bytes = 0;
	char path[64], line[128];
	FILE *file;
	int fd;

	fd = bpf_map_create(BPF_MAP_TYPE_HASH, "test_exact", xbloom_key_width(fields) * 8, 1,
			    (uint32_t)keys, NULL);
	if (fd < 0 && errno == EPERM)
		return 0;
	if (fd < 0)
		fail_msg("cannot make a map of %" PRIu64 " keys: %s", keys, strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "memlock: %llu", &bytes) == 1)
			break;
	fclose(file);
	close(fd);
	assert_true(bytes > 0);
	return bytes;
}

/* To a percent, from a map of 1,000 keys on, which is one for 800 and what may come. */
static void exact_map_takes_what_was_planned(void **state)
{
	static const uint64_t many[] = { 800, 1000, 1638, 1639, 50000, 209715, 209716, 400000 };
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT_OF(key_shapes); i++) {
		for (j = 0; j < COUNT_OF(many); j++) {
			struct xbloom_size size = exact_plan(many[j], key_shapes[i], 0);
			uint64_t bytes = memory_of_a_real_map(key_shapes[i], size.exact_keys);

			if (!bytes) {
				say_needs_root();
				return;
			}
			assert_close((double)size.exact_bytes, bytes, 0.01L, 0);
		}
	}
}

static void exact_map_has_room_for_a_quarter_more(void **state)
{
	static const struct {
		uint64_t items, keys;
	} known[] = {
		{ 1, 65 },
		{ 100, 164 },
		{ 256, 320 },
		{ 1000, 1250 },
		{ 1000000, 1250000 },
		{ 1 << 27, 1 << 27 }, /* and no more than any map has */
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(known); i++)
		assert_int_equal(exact_plan(known[i].items, XBLOOM_SRC, 0).exact_keys,
				 known[i].keys);
}

/* All of the memory that is allowed, and no byte more; but room for the items at least. */
static void exact_map_keeps_to_the_memory_that_is_allowed(void **state)
{
	static const uint64_t many[] = { 1, 60, 100, 1000, 1025, 30000, 60000, 1000000 };
	size_t i, j;
	int percent;

	(void)state;
	for (i = 0; i < COUNT_OF(key_shapes); i++) {
		for (j = 0; j < COUNT_OF(many); j++) {
			struct xbloom_size full = exact_plan(many[j], key_shapes[i], 0), size, more;
			struct xbloom_error err;
			int fitted = 0, refusals = 0;

			for (percent = 1; percent <= 120; percent++) {
				uint64_t max = full.exact_bytes * (uint64_t)percent / 100;

				unit_error_poison(&err);
				size = (struct xbloom_size){ .items = many[j] };
				if (xbloom_plan_exact(&size, key_shapes[i], max, &err)) {
					unit_assert_says(&err, "--confirm-max");
					assert_int_equal(size.exact_keys, 0);
					refusals++;
					continue;
				}
				fitted++;
				assert_true(size.exact_bytes <= max);
				assert_in_range(size.exact_keys, many[j], full.exact_keys);
				if (size.exact_keys == full.exact_keys)
					continue;
				/* One key more is past the limit. */
				more = (struct xbloom_size){ .items = size.exact_keys + 1 };
				assert_int_equal(xbloom_plan_exact(&more, key_shapes[i], max, &err),
						 -E2BIG);
			}
			/* What was refused came first, and the whole fits when it may. */
			assert_true(refusals > 0 && fitted >= 21);
			size = exact_plan(many[j], key_shapes[i], full.exact_bytes);
			assert_int_equal(size.exact_keys, full.exact_keys);
		}
	}
}

static void exact_map_says_when_it_would_be_too_big(void **state)
{
	struct xbloom_size size = { .items = (1ULL << 27) + 1 };
	struct xbloom_error err;
	int ret;

	(void)state;
	unit_error_poison(&err);
	assert_int_equal(xbloom_plan_exact(&size, XBLOOM_SRC, 0, &err), -E2BIG);
	unit_assert_says(&err, "2^27");
	assert_int_equal(size.exact_keys, 0);
	/* The kernel refuses it, before it takes any memory. */
	ret = bpf_map_create(BPF_MAP_TYPE_HASH, "test_exact", sizeof(__u64), 1,
			     (uint32_t)size.items, NULL);
	if (ret == -EPERM)
		say_needs_root();
	else
		assert_int_equal(ret, -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(low_rates_are_kept_by_small_filters),
		cmocka_unit_test(distinct_keys_are_told_from_those_that_changed_a_bit),
		cmocka_unit_test(a_budget_that_buys_no_filter_is_refused),
		cmocka_unit_test(split_rates_are_the_published_ones),
		cmocka_unit_test(classic_rates_are_the_published_ones),
		cmocka_unit_test(rates_agree_with_independent_formulas),
		cmocka_unit_test(rate_of_a_geometry_is_the_rate_of_its_bits_per_key),
		cmocka_unit_test(hopeless_overload_has_rate_one),
		cmocka_unit_test(rate_falls_as_bits_are_added),
		cmocka_unit_test(split_plan_is_the_smallest_that_keeps_the_rate),
		cmocka_unit_test(classic_plan_is_the_smallest_that_keeps_the_rate),
		cmocka_unit_test(plan_without_a_rate_takes_the_default),
		cmocka_unit_test(plan_by_bits_per_key_gives_at_least_those),
		cmocka_unit_test(plan_takes_the_number_of_hashes_that_is_given),
		cmocka_unit_test(plan_refuses_what_is_out_of_range),
		cmocka_unit_test(plan_accepts_the_ends_of_the_range),
		cmocka_unit_test(plan_says_when_it_would_be_too_big),
		cmocka_unit_test(plan_reaches_exactly_the_largest_geometry),
		cmocka_unit_test(plan_of_an_absurd_budget_ends_soon),
		cmocka_unit_test(keys_at_a_rate_are_the_most_that_keep_it),
		cmocka_unit_test(keys_at_the_rate_of_n_keys_are_n),
		cmocka_unit_test(keys_at_a_rate_are_none_at_0_and_endless_at_1),
		cmocka_unit_test(keys_at_a_rate_are_the_published_ones),
		cmocka_unit_test(looks_add_up_to_the_rate_of_a_packet),
		cmocka_unit_test(a_plan_keeps_the_rate_of_all_looks),
		cmocka_unit_test(wilson_intervals_are_the_published_ones),
		cmocka_unit_test(wilson_intervals_are_what_they_are_by_definition),
		cmocka_unit_test(wilson_intervals_of_nothing_and_all_touch_the_ends),
		cmocka_unit_test(exact_map_takes_what_was_planned),
		cmocka_unit_test(exact_map_has_room_for_a_quarter_more),
		cmocka_unit_test(exact_map_keeps_to_the_memory_that_is_allowed),
		cmocka_unit_test(exact_map_says_when_it_would_be_too_big),
	};

	return cmocka_run_group_tests_name("rate and plan", tests, NULL, NULL);
}
