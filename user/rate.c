// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The price list: what a filter of c bits a key answers wrongly.
 *
 * split: a key sets one of 64 bits in each word of its block, and a block holds i keys with
 * probability Poisson(i; 512/c). With i keys a given bit of a word is set with probability
 * 1 - (1 - 1/64)^i, and an absent key needs eight such bits. (Putze, Sanders and Singler, "Cache-,
 * Hash- and Space-Efficient Bloom Filters", 2007.) Worked: c = 10 gives 0.010490.
 *
 * classic: Bloom, 1970; (1 - e^(-k/c))^k. Worked: c = 8, k = 6 gives 0.021577.
 */
#include <math.h>

#include "internal.h"

/* Keys per block from which every bit is set: 8 e^(-mean/64) is then below 1e-27. */
#define HOPELESS_MEAN 4096

/*
 * A key's bits within its block come from 32 bits of its hash, so an absent key takes exactly the
 * bits of one of its block's keys with a chance of one in 2^32 each. Nothing at 1 % (1e-8), it is
 * most of 1e-9.
 */
double xbloom_split_floor(double keys_per_block)
{
	return ldexp(keys_per_block, -32);
}

double xbloom_rate_split(double bits_per_key)
{
	double mean = XBLOOM_BLOCK_BITS / bits_per_key;
	double sum = 0;
	/* Ten standard deviations to both sides; what lies beyond is under 1e-20. */
	double spread = 10 * sqrt(mean) + 40;
	double first = floor(mean - spread);
	double i;

	if (mean > HOPELESS_MEAN)
		return 1;
	if (first < 0)
		first = 0;
	for (i = first; i <= mean + spread; i++) {
		double poisson = exp(i * log(mean) - mean - lgamma(i + 1));
		double fill = -expm1(i * log1p(-1.0 / XBLOOM_WORD_BITS));

		sum += poisson * pow(fill, XBLOOM_SPLIT_K);
	}
	if (sum > 1)
		sum = 1;
	return sum + (1 - sum) * xbloom_split_floor(mean);
}

double xbloom_rate_classic(double bits_per_key, unsigned int k)
{
	return pow(-expm1(-(double)k / bits_per_key), k);
}

double xbloom_rate(const struct xbloom_geometry *g, uint64_t n)
{
	if (!n)
		return 0;
	if (g->layout == XBLOOM_LAYOUT_SPLIT)
		return xbloom_rate_split((double)g->blocks * XBLOOM_BLOCK_BITS / (double)n);
	return xbloom_rate_classic((double)g->bits / (double)n, g->k);
}

uint64_t xbloom_keys_at_rate(const struct xbloom_geometry *g, double rate)
{
	uint64_t low = 0, high = 1;

	if (!(rate > 0))
		return 0;
	if (rate >= 1)
		return UINT64_MAX;
	while (xbloom_rate(g, high) <= rate) {
		if (high > UINT64_MAX / 2)
			return UINT64_MAX;
		low = high;
		high *= 2;
	}
	/* rate(low) <= rate < rate(high) */
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (xbloom_rate(g, middle) <= rate)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The quantile of the normal distribution for 95 %, 2.5 % on each side. */
#define WILSON_Z 1.959963984540054
/* For sqrt(95 %): two intervals that both hold their rates with 95 %. */
#define WILSON_Z_OF_TWO 2.236477

/*
 * Wilson, "Probable inference, the law of succession, and statistical inference", 1927: the p of
 * which hits/n is not further away than z standard deviations of theirs, so both roots of
 * (hits/n - p)^2 = z^2 p (1-p) / n. The lower one comes from their product, hits^2 / (n (n+z^2)),
 * since the difference cancels where hits are few. Worked: 10 of 1,000 gives 0.005441, 0.018309.
 */
static void wilson(double z, uint64_t hits, uint64_t n, double *low, double *high)
{
	double z2 = z * z;
	double p = (double)hits / (double)n;
	double upper;

	*low = 0;
	*high = 1;
	if (!n)
		return;
	upper = (p + z2 / 2 / (double)n +
		 z * sqrt(p * (1 - p) / (double)n + z2 / 4 / (double)n / (double)n)) /
		(1 + z2 / (double)n);
	*low = p * p / (1 + z2 / (double)n) / upper;
	/* Of n in n it is exactly 1, which the rounding of the above would miss by a hair. */
	if (hits < n && upper < 1)
		*high = upper;
}

void xbloom_wilson(uint64_t hits, uint64_t n, double *low, double *high)
{
	wilson(WILSON_Z, hits, n, low, high);
}

void xbloom_wilson_of_two(uint64_t hits, uint64_t n, double *low, double *high)
{
	wilson(WILSON_Z_OF_TWO, hits, n, low, high);
}

/* Steps in which the path to `inserted` is walked: the rate changes by little in each. */
#define DISTINCT_STEPS 64
/* With fewer than this share of keys changing a bit, how many came can no longer be told. */
#define SATURATED 1e-3

double xbloom_distinct(const struct xbloom_geometry *g, uint64_t inserted)
{
	double step = (double)inserted / DISTINCT_STEPS;
	double keys = 0, changed = 0;

	if (!inserted)
		return 0;
	for (;;) {
		double changes = 1 - xbloom_rate(g, (uint64_t)(keys + step / 2));

		if (changes < SATURATED)
			return keys;
		if (changed + changes * step >= (double)inserted)
			return keys + ((double)inserted - changed) / changes;
		changed += changes * step;
		keys += step;
	}
}
