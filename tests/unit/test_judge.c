// SPDX-License-Identifier: GPL-2.0-only
/*
 * Judging a measured rate: against sums over the whole distribution in long double, and by how
 * often a right prediction and a wrong one are called wrong.
 */
#include "unit.h"

#include <math.h>

#include "judge.h"

/* ---- the slow twin: every term, none by another ---- */

static long double twin_chance(uint64_t k, uint64_t n, long double p)
{
	if (p == 0)
		return k == 0;
	if (p == 1)
		return k == n;
	return expl(lgammal(n + 1.0L) - lgammal(k + 1.0L) - lgammal(n - k + 1.0L) + k * logl(p) +
		    (n - k) * log1pl(-p));
}

static long double twin_between(uint64_t first, uint64_t last, uint64_t n, long double p)
{
	long double sum = 0;
	uint64_t k;

	for (k = first; k <= last; k++)
		sum += twin_chance(k, n, p);
	return sum;
}

static enum xbloom_judgement twin_judge(uint64_t hits, uint64_t n, long double low,
					long double high)
{
	const long double error = XBLOOM_JUDGE_ERROR / 2;

	if (twin_between(hits, n, n, high) < error || twin_between(0, hits, n, low) < error)
		return XBLOOM_DISAGREE;
	return twin_chance(0, n, low) < error ? XBLOOM_AGREE : XBLOOM_TOO_FEW;
}

static void judgements_are_those_of_the_whole_sum(void **state)
{
	static const uint64_t trials[] = { 0, 1, 2, 10, 99, 500 };
	static const double rates[] = { 0, 1e-9, 0.001, 0.0105, 0.1, 0.3, 0.5, 0.9, 0.9999, 1 };
	unsigned int seen[3] = { 0 };
	uint64_t hits;
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT_OF(trials); i++) {
		for (j = 0; j < COUNT_OF(rates); j++) {
			for (hits = 0; hits <= trials[i]; hits++) {
				double high = fmin(1, rates[j] * 1.5);
				enum xbloom_judgement got, wanted;

				wanted = twin_judge(hits, trials[i], rates[j], high);
				got = xbloom_judge(hits, trials[i], rates[j], high);
				if (got != wanted)
					fail_msg("%" PRIu64 " of %" PRIu64 " at %g .. %g: %d, "
						 "expected %d",
						 hits, trials[i], rates[j], high, got, wanted);
				seen[got]++;
			}
		}
	}
	for (i = 0; i < COUNT_OF(seen); i++)
		assert_true(seen[i] > 10);
}

static void known_judgements(void **state)
{
	(void)state;
	/* 655 expected, standard deviation 25.5: about four of them; summed up elsewhere. */
	assert_int_equal(xbloom_judge(655, 65536, 0.01, 0.01), XBLOOM_AGREE);
	assert_int_equal(xbloom_judge(757, 65536, 0.01, 0.01), XBLOOM_AGREE);
	assert_int_equal(xbloom_judge(758, 65536, 0.01, 0.01), XBLOOM_DISAGREE);
	assert_int_equal(xbloom_judge(559, 65536, 0.01, 0.01), XBLOOM_AGREE);
	assert_int_equal(xbloom_judge(558, 65536, 0.01, 0.01), XBLOOM_DISAGREE);
	/* While keys are added, what lies between before and after contradicts neither. */
	assert_int_equal(xbloom_judge(967, 65536, 0.01, 0.013), XBLOOM_AGREE);
	assert_int_equal(xbloom_judge(968, 65536, 0.01, 0.013), XBLOOM_DISAGREE);
	/* Few keys: too few to acquit, but not too few to accuse. */
	assert_int_equal(xbloom_judge(0, 0, 0.01, 0.01), XBLOOM_TOO_FEW);
	assert_int_equal(xbloom_judge(0, 900, 0.01, 0.01), XBLOOM_TOO_FEW);
	assert_int_equal(xbloom_judge(10, 900, 0.01, 0.01), XBLOOM_TOO_FEW);
	assert_int_equal(xbloom_judge(3, 10, 0.01, 0.01), XBLOOM_TOO_FEW);
	assert_int_equal(xbloom_judge(5, 10, 0.01, 0.01), XBLOOM_DISAGREE);
	/* An empty filter and a full one. */
	assert_int_equal(xbloom_judge(0, 65536, 0, 0), XBLOOM_TOO_FEW);
	assert_int_equal(xbloom_judge(1, 65536, 0, 0), XBLOOM_DISAGREE);
	assert_int_equal(xbloom_judge(65536, 65536, 1, 1), XBLOOM_AGREE);
	assert_int_equal(xbloom_judge(65535, 65536, 1, 1), XBLOOM_DISAGREE);
}

/* By the distribution itself, not by lot: a right prediction is called wrong less often than told. */
static void right_prediction_is_hardly_ever_called_wrong(void **state)
{
	static const double rates[] = { 0.0009, 0.0105, 0.05, 0.25 };
	uint64_t hits, n = 5000;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(rates); i++) {
		long double wrong = 0;

		for (hits = 0; hits <= n; hits++)
			if (xbloom_judge(hits, n, rates[i], rates[i]) == XBLOOM_DISAGREE)
				wrong += twin_chance(hits, n, rates[i]);
		assert_true(wrong <= XBLOOM_JUDGE_ERROR);
		/* Nor is it never called so: the test is exact, as near as whole numbers allow. */
		assert_true(wrong > XBLOOM_JUDGE_ERROR / 10);
	}
}

/* And one that is off by a quarter is, of as many keys as watch keeps at least when full. */
static void wrong_prediction_is_found(void **state)
{
	const uint64_t n = 32768;
	long double found = 0;
	uint64_t hits;

	(void)state;
	for (hits = 0; hits <= 1000; hits++)
		if (xbloom_judge(hits, n, 0.01, 0.01) == XBLOOM_DISAGREE)
			found += twin_chance(hits, n, 0.0125);
	assert_true(found > 0.6L);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(judgements_are_those_of_the_whole_sum),
		cmocka_unit_test(known_judgements),
		cmocka_unit_test(right_prediction_is_hardly_ever_called_wrong),
		cmocka_unit_test(wrong_prediction_is_found),
	};

	return cmocka_run_group_tests_name("judging rates", tests, NULL, NULL);
}
