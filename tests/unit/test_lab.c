// SPDX-License-Identifier: GPL-2.0-only
/*
 * How `lab` judges what it measured: the interval of a mean, by Student's t against published
 * values; how many misses are no chance, against sums of the binomial distribution; and that a lost
 * key is never forgiven. What it measures is the business of tests/netns/lab.t. The file itself is
 * included, because none of this is anybody else's.
 */
#include "unit.h"

#include <math.h>

#include "lab.c"

#define FIVE_DIGITS 5e-5

/* The 0.975 quantiles as every table has them. */
static void student_t_is_what_the_tables_say(void **state)
{
	static const struct {
		unsigned int nu;
		double t;
	} table[] = { { 1, 12.7062 }, { 2, 4.3027 },  { 3, 3.1824 },   { 4, 2.7764 },
		      { 5, 2.5706 },  { 9, 2.2622 },  { 10, 2.2281 },  { 19, 2.0930 },
		      { 30, 2.0423 }, { 99, 1.9842 }, { 120, 1.9799 }, { 999, 1.9623 } };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(table); i++)
		if (fabs(student_t(table[i].nu) - table[i].t) > FIVE_DIGITS)
			fail_msg("nu %u: %.6f, the tables say %.4f", table[i].nu,
				 student_t(table[i].nu), table[i].t);
}

/*
 * Counts 400, 410, 420, 430, 440 of 20,000: mean 0.021, standard deviation sqrt(250) / 20,000 =
 * 0.000790569, of the mean of five 0.000353553, times 2.77645 is 0.00098163.
 */
static void an_interval_comes_from_the_spread_between_seeds(void **state)
{
	uint64_t maybes[] = { 400, 410, 420, 430, 440 };
	struct lab_cell cell = { .used = true, .keys = LAB_KEYS, .maybes = maybes };

	(void)state;
	cell.geometry = geometry_of(&lab_lines[0], XBLOOM_LAYOUT_CLASSIC);
	cell_judge(&cell, COUNT_OF(maybes));
	assert_true(fabs(cell.measured - 0.021) < 1e-9);
	assert_true(fabs(cell.measured - cell.low - 0.00098163) < 1e-8);
	assert_true(fabs(cell.high - cell.measured - 0.00098163) < 1e-8);
	assert_true(fabs(cell.predicted - 0.0215771) < 1e-7);
	assert_true(cell.agree);

	/* The same mean, with less spread: 0.0215771 is outside. */
	maybes[0] = maybes[1] = maybes[2] = 420;
	maybes[3] = 419;
	maybes[4] = 421;
	cell_judge(&cell, COUNT_OF(maybes));
	assert_true(fabs(cell.measured - 0.021) < 1e-9);
	assert_false(cell.agree);
}

/*
 * Of 19 intervals 7 or more miss with a probability of 2.3e-5, 6 or more with 2.4e-4; of one, it
 * misses with 0.05; of 4, all with 6.3e-6 and three or more with 4.8e-4.
 */
static void misses_are_too_many_where_chance_ends(void **state)
{
	unsigned int misses;

	(void)state;
	for (misses = 0; misses <= 19; misses++)
		assert_int_equal(too_many(misses, 19), misses >= 7);
	assert_false(too_many(1, 1));
	assert_false(too_many(3, 4));
	assert_true(too_many(4, 4));
}

/* A lab in which every cell's figures are perfect. */
static void perfect_lab(struct lab *lab)
{
	struct xbloom_error err;
	unsigned int line, layout, s;

	*lab = (struct lab){ .seed = 1, .seeds = LAB_SEEDS_MIN };
	assert_int_equal(prepare(lab, &err), 0);
	for (line = 0; line < LAB_LINES; line++) {
		for (layout = 0; layout < LAB_LAYOUTS; layout++) {
			struct lab_cell *cell = &lab->cells[line][layout];
			double rate = xbloom_rate(&cell->geometry, cell->keys);

			for (s = 0; s < lab->seeds; s++)
				cell->maybes[s] = (uint64_t)(rate * LAB_ABSENT) + s % 2;
		}
	}
}

static void perfect_figures_are_sound(void **state)
{
	struct lab lab;

	(void)state;
	perfect_lab(&lab);
	judge(&lab);
	assert_int_equal(lab.intervals, 19);
	assert_int_equal(lab.agreeing, 19);
	assert_true(lab.sound);
	lab_free(&lab);
}

static void one_lost_key_is_never_forgiven(void **state)
{
	struct lab lab;

	(void)state;
	perfect_lab(&lab);
	lab.cells[LAB_LINES - 1][XBLOOM_LAYOUT_SPLIT].false_negatives = 1;
	judge(&lab);
	assert_int_equal(lab.false_negatives, 1);
	assert_int_equal(lab.agreeing, 19);
	assert_false(lab.sound);
	lab_free(&lab);
}

static void a_layout_whose_rate_is_wrong_is_found_out(void **state)
{
	struct lab lab;
	unsigned int line, s;

	(void)state;
	perfect_lab(&lab);
	/* Half as much again, in 12 of 19. */
	for (line = 0; line < LAB_LINES; line++)
		for (s = 0; s < lab.seeds; s++)
			lab.cells[line][XBLOOM_LAYOUT_CLASSIC].maybes[s] *= 1.5;
	judge(&lab);
	assert_int_equal(lab.agreeing, 7);
	assert_false(lab.sound);
	lab_free(&lab);
}

/* 80,000 bits are 156 whole blocks of 512 and a quarter: a split filter has no more than those. */
static void both_layouts_have_the_same_budget(void **state)
{
	unsigned int line;

	(void)state;
	for (line = 0; line < LAB_LINES; line++) {
		struct xbloom_geometry c = geometry_of(&lab_lines[line], XBLOOM_LAYOUT_CLASSIC);
		struct xbloom_geometry s = geometry_of(&lab_lines[line], XBLOOM_LAYOUT_SPLIT);

		assert_int_equal(c.bits, lab_lines[line].bits_per_key * 10000);
		assert_int_equal(c.k, lab_lines[line].k);
		assert_in_range(c.blocks * 512, c.bits, c.bits + 511);
		assert_in_range(s.bits, c.bits - 511, c.bits);
		assert_int_equal(s.blocks * 512, s.bits);
		assert_int_equal(s.k, 8);
	}
}

/* No two filters, and no two numbers of one filter, are drawn alike. */
static void every_filter_is_drawn_for_itself(void **state)
{
	static const enum drawn purposes[] = { DRAWN_HASH_KEY_0, DRAWN_HASH_KEY_1,
					       DRAWN_BIJECTION };
	static uint64_t seen[LAB_LINES * LAB_LAYOUTS * COUNT_OF(purposes)];
	const struct lab lab = { .seed = 1 }, other = { .seed = 2 };
	unsigned int line, layout;
	size_t n = 0, i, j;

	(void)state;
	for (line = 0; line < LAB_LINES; line++)
		for (layout = 0; layout < LAB_LAYOUTS; layout++)
			for (i = 0; i < COUNT_OF(purposes); i++)
				seen[n++] = drawn(&lab, line, layout, purposes[i]);
	assert_int_equal(n, COUNT_OF(seen));
	for (i = 0; i < n; i++)
		for (j = i + 1; j < n; j++)
			assert_true(seen[i] != seen[j]);
	assert_int_equal(drawn(&lab, 0, 0, DRAWN_HASH_KEY_0), seen[0]);
	assert_true(drawn(&other, 0, 0, DRAWN_HASH_KEY_0) != seen[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(student_t_is_what_the_tables_say),
		cmocka_unit_test(an_interval_comes_from_the_spread_between_seeds),
		cmocka_unit_test(misses_are_too_many_where_chance_ends),
		cmocka_unit_test(perfect_figures_are_sound),
		cmocka_unit_test(one_lost_key_is_never_forgiven),
		cmocka_unit_test(a_layout_whose_rate_is_wrong_is_found_out),
		cmocka_unit_test(both_layouts_have_the_same_budget),
		cmocka_unit_test(every_filter_is_drawn_for_itself),
	};

	return cmocka_run_group_tests_name("lab", tests, NULL, NULL);
}
