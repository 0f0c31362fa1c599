// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The exact test of a binomial rate, both ways; see judge.h.
 */
#include <math.h>

#include "judge.h"

/* Terms below this share of the sum do not change a decision at 1e-4. */
#define NEGLIGIBLE 1e-12

/* The chance of exactly k of n, at a rate within 0..1 but neither. */
static double chance(uint64_t k, uint64_t n, double p)
{
	double x = (double)k, m = (double)n;

	return exp(lgamma(m + 1) - lgamma(x + 1) - lgamma(m - x + 1) + x * log(p) +
		   (m - x) * log1p(-p));
}

/*
 * The chance of `hits` or more, for hits above the mean: their terms fall, each (n-k)/(k+1) p/(1-p)
 * of the one before. 10 or more of 100 at 1 %: 7.6e-8.
 */
static double chance_of_more(uint64_t hits, uint64_t n, double p)
{
	double term, sum = 0;
	uint64_t k;

	if (p <= 0 || (double)hits <= (double)n * p)
		return p <= 0 && hits ? 0 : 1;
	term = chance(hits, n, p);
	for (k = hits; k <= n && term > sum * NEGLIGIBLE; k++) {
		sum += term;
		term *= (double)(n - k) / (double)(k + 1) * p / (1 - p);
	}
	return sum;
}

/* The same of `hits` or fewer, below the mean. None of 1,000 at 1 %: 4.3e-5. */
static double chance_of_fewer(uint64_t hits, uint64_t n, double p)
{
	double term, sum = 0;
	uint64_t k;

	if (p >= 1 || (double)hits >= (double)n * p)
		return p >= 1 && hits < n ? 0 : 1;
	term = chance(hits, n, p);
	for (k = hits; term > sum * NEGLIGIBLE; k--) {
		sum += term;
		if (!k)
			break;
		term *= (double)k / (double)(n - k + 1) * (1 - p) / p;
	}
	return sum;
}

enum xbloom_judgement xbloom_judge(uint64_t hits, uint64_t n, double low, double high)
{
	/* Each way has half of the error to itself. */
	const double error = XBLOOM_JUDGE_ERROR / 2;

	if (chance_of_more(hits, n, high) < error || chance_of_fewer(hits, n, low) < error)
		return XBLOOM_DISAGREE;
	/* 9.9 expected false positives: e^-9.9 is half of 1e-4. */
	return chance_of_fewer(0, n, low) < error ? XBLOOM_AGREE : XBLOOM_TOO_FEW;
}
