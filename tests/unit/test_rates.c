// SPDX-License-Identifier: GPL-2.0-only
/*
 * What `top` computes: rates from two readings, sums of counters, numbers in narrow columns, and
 * that costly work keeps to its share of the time.
 */
#include "unit.h"

#include <math.h>

#include "rates.h"

#define RELATIVE 1e-12

static void assert_near(double got, double expected)
{
	if (!(fabs(got - expected) <= RELATIVE * fabs(expected)))
		fail_msg("%.17g, expected %.17g", got, expected);
}

/* Counters with a different number in each place, some of them large. */
static void fill(struct xbloom_stats *stats, struct unit_random *r)
{
	struct xbloom_counter *c = &stats->c[0][0];
	size_t i;

	memset(stats, 0, sizeof(*stats));
	for (i = 0; i < XBLOOM_REASONS * XBLOOM_ACTIONS; i++) {
		c[i].packets = 1 + unit_random_below(r, UINT64_C(1) << 40);
		c[i].bytes = c[i].packets * (60 + unit_random_below(r, 1400));
	}
}

/* More by `packets` each. */
static void go_on(struct xbloom_stats *stats, uint64_t packets)
{
	struct xbloom_counter *c = &stats->c[0][0];
	size_t i;

	for (i = 0; i < XBLOOM_REASONS * XBLOOM_ACTIONS; i++) {
		c[i].packets += packets * (i + 1);
		c[i].bytes += packets * (i + 1) * 100;
	}
}

/* ---- differences ---- */

static void rates_are_of_the_time_that_went_by(void **state)
{
	struct unit_random r = { .seed = 1 };
	struct reading before = { .at = 1000 }, after;
	struct rates rates;
	unsigned int reason, action;

	(void)state;
	fill(&before.stats, &r);
	after = before;
	/* Half a second late. */
	after.at = 1001.5;
	go_on(&after.stats, 30);
	assert_true(rates_between(&before, &after, &rates));
	assert_near(rates.interval, 1.5);
	for (reason = 0; reason < XBLOOM_REASONS; reason++) {
		double packets = 0;

		for (action = 0; action < XBLOOM_ACTIONS; action++)
			packets += 30 * (reason * XBLOOM_ACTIONS + action + 1) / 1.5;
		assert_near(rates.packets[reason], packets);
		assert_near(rates.bits[reason], packets * 800);
	}
}

static void rates_of_nothing_are_zero(void **state)
{
	struct unit_random r = { .seed = 2 };
	struct reading before = { .at = 5 }, after;
	struct rates rates;
	size_t i;

	(void)state;
	fill(&before.stats, &r);
	after = before;
	after.at = 6;
	assert_true(rates_between(&before, &after, &rates));
	for (i = 0; i < XBLOOM_NAMED_COUNTERS; i++) {
		assert_true(rates.packets[i] == 0);
		assert_true(rates.bits[i] == 0);
	}
	assert_true(isnan(rates.live.absent_share));
	assert_true(isnan(rates.live.fp));
}

/* Given another filter under the same name, no rate is made up. */
static void what_went_backwards_has_no_rate(void **state)
{
	const size_t n = XBLOOM_REASONS * XBLOOM_ACTIONS;
	struct unit_random r = { .seed = 3 };
	struct reading before = { .at = 5 }, after;
	struct rates rates, untouched;
	size_t i;

	(void)state;
	fill(&before.stats, &r);
	memset(&untouched, 0x5a, sizeof(untouched));
	for (i = 0; i < 2 * n; i++) {
		struct xbloom_counter *c;

		after = before;
		after.at = 6;
		go_on(&after.stats, 7);
		c = &after.stats.c[0][0] + i / 2;
		*(i % 2 ? &c->packets : &c->bytes) = 0;
		rates = untouched;
		assert_false(rates_between(&before, &after, &rates));
		assert_memory_equal(&rates, &untouched, sizeof(rates));
	}
}

static void without_time_between_there_is_no_rate(void **state)
{
	struct reading before = { .at = 5 }, after = { .at = 5 };
	struct rates rates;

	(void)state;
	go_on(&after.stats, 1);
	assert_false(rates_between(&before, &after, &rates));
	after.at = 4.9;
	assert_false(rates_between(&before, &after, &rates));
}

/* Not what the counters say since the filter was made: that may be another traffic. */
static void live_numbers_are_of_the_interval(void **state)
{
	struct reading before = { .at = 5 }, after;
	struct rates rates;

	(void)state;
	before.stats.c[XBLOOM_ABSENT][XBLOOM_PASS].packets = 1000000;
	after = before;
	after.at = 7;
	after.stats.c[XBLOOM_ABSENT][XBLOOM_PASS].packets += 300;
	after.stats.c[XBLOOM_REFUTED][XBLOOM_PASS].packets += 100;
	after.stats.c[XBLOOM_CONFIRMED][XBLOOM_DROP].packets += 200;
	assert_true(rates_between(&before, &after, &rates));
	assert_int_equal(rates.live.asked, 600);
	assert_near(rates.live.absent_share, 0.5);
	assert_near(rates.live.fp, 0.25);
}

/* ---- rows ---- */

static void each_packet_is_in_one_row_and_one_action(void **state)
{
	struct unit_random r = { .seed = 4 };
	struct reading before = { .at = 0 }, after = { .at = 1 };
	double rows = 0, actions, all = 0;
	struct rates rates;
	unsigned int i;

	(void)state;
	fill(&after.stats, &r);
	for (i = 0; i < XBLOOM_REASONS * XBLOOM_ACTIONS; i++)
		all += (double)(&after.stats.c[0][0])[i].packets;
	assert_true(rates_between(&before, &after, &rates));
	for (i = RATES_ABSENT; i <= RATES_OTHERS; i++)
		rows += rates_row(rates.packets, (enum rates_row)i);
	/* In shadow a packet that would be dropped has passed. */
	actions = rates_row(rates.packets, RATES_PASSED) + rates_row(rates.packets, RATES_DROPPED);
	assert_near(rows, all);
	assert_near(actions, all);
	assert_near(rates_total(rates.packets), all);
	assert_true(rates_row(rates.packets, RATES_WOULD_DROP) > 0);
}

static void rows_are_the_counters_of_their_names(void **state)
{
	static const struct {
		enum xbloom_reason reason;
		enum xbloom_action action;
		enum rates_row row, action_row;
	} known[] = {
		{ XBLOOM_ABSENT, XBLOOM_PASS, RATES_ABSENT, RATES_PASSED },
		{ XBLOOM_MAYBE, XBLOOM_DROP, RATES_MAYBE, RATES_DROPPED },
		{ XBLOOM_MAYBE, XBLOOM_WOULD_DROP, RATES_MAYBE, RATES_WOULD_DROP },
		{ XBLOOM_CONFIRMED, XBLOOM_DROP, RATES_CONFIRMED, RATES_DROPPED },
		{ XBLOOM_REFUTED, XBLOOM_PASS, RATES_REFUTED, RATES_PASSED },
		{ XBLOOM_MALFORMED, XBLOOM_DROP, RATES_UNKEYED, RATES_DROPPED },
		{ XBLOOM_FRAGMENT, XBLOOM_PASS, RATES_UNKEYED, RATES_PASSED },
		{ XBLOOM_EXTHDR, XBLOOM_PASS, RATES_UNKEYED, RATES_PASSED },
		{ XBLOOM_VLAN_TAGS, XBLOOM_PASS, RATES_UNKEYED, RATES_PASSED },
		{ XBLOOM_NOT_IP, XBLOOM_PASS, RATES_OTHERS, RATES_PASSED },
		{ XBLOOM_NDP, XBLOOM_PASS, RATES_OTHERS, RATES_PASSED },
		{ XBLOOM_NO_FILTER, XBLOOM_PASS, RATES_OTHERS, RATES_PASSED },
		{ XBLOOM_EXEMPT, XBLOOM_PASS, RATES_OTHERS, RATES_PASSED },
		{ XBLOOM_ERROR, XBLOOM_PASS, RATES_OTHERS, RATES_PASSED },
	};
	size_t i;
	int row;

	(void)state;
	for (i = 0; i < COUNT_OF(known); i++) {
		struct reading before = { .at = 0 }, after = { .at = 2 };
		struct rates rates;

		after.stats.c[known[i].reason][known[i].action].packets = 8;
		assert_true(rates_between(&before, &after, &rates));
		for (row = 0; row < RATES_ROWS; row++) {
			/* Passed, too: see above. */
			bool in = row == (int)known[i].row || row == (int)known[i].action_row ||
				  (row == RATES_PASSED && known[i].action == XBLOOM_WOULD_DROP);

			assert_near(rates_row(rates.packets, (enum rates_row)row), in ? 4 : 0);
		}
	}
}

/* ---- text ---- */

static void numbers_have_three_digits(void **state)
{
	static const struct {
		double x;
		const char *text;
	} known[] = {
		{ 0, "0" },	    { 0.2, "0.20" },	 { 3, "3" },
		{ 9.99, "9.99" },   { 9.996, "10.0" },	 { 99.94, "99.9" },
		{ 99.96, "100" },   { 999, "999" },	 { 999.4, "999" },
		{ 999.6, "1.00k" }, { 1000, "1.00k" },	 { 59940, "59.9k" },
		{ 999400, "999k" }, { 999600, "1.00M" }, { 12345678, "12.3M" },
		{ 4.2e9, "4.20G" }, { 7e12, "7.00T" },	 { NAN, "-" },
		{ INFINITY, "-" },
	};
	char buf[SI_TEXT];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(known); i++)
		assert_string_equal(si_text(known[i].x, buf), known[i].text);
}

static double parse_si(const char *text)
{
	char *unit;
	double x = strtod(text, &unit);
	const char *units = "kMGT", *at = *unit ? strchr(units, *unit) : NULL;

	return at ? x * pow(1000, (double)(at - units) + 1) : x;
}

static void any_number_fits_its_column_and_can_be_read_back(void **state)
{
	struct unit_random r = { .seed = 5 };
	char buf[SI_TEXT];
	int i;

	(void)state;
	for (i = 0; i < 100000; i++) {
		double x = pow(10, (double)unit_random_below(&r, 15000) / 1000);

		si_text(x, buf);
		assert_in_range(strlen(buf), 1, 5);
		/* Half of the third digit. */
		if (fabs(parse_si(buf) - x) > 0.00501 * x)
			fail_msg("%.17g is shown as %s", x, buf);
	}
}

static void rates_in_per_cent_fit_their_column(void **state)
{
	static const struct {
		double rate;
		const char *text;
	} known[] = {
		{ 0, "0" },
		{ 1, "100" },
		{ 0.5, "50" },
		{ 0.010490, "1.05" },
		{ 0.000909, "0.0909" },
		{ 0.0000123, "0.00123" },
		{ 2.3e-9, "2.3e-07" },
		{ 0.99996, "100" },
		{ NAN, "-" },
	};
	struct unit_random r = { .seed = 6 };
	char buf[SI_TEXT];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(known); i++)
		assert_string_equal(percent_text(known[i].rate, buf), known[i].text);
	for (i = 0; i < 100000; i++) {
		double rate = pow(10, -(double)unit_random_below(&r, 30000) / 1000);

		percent_text(rate, buf);
		assert_in_range(strlen(buf), 1, 7);
		/* Half of the second digit. */
		assert_true(fabs(strtod(buf, NULL) / 100 - rate) <= 0.0501 * rate);
	}
}

static void bars_show_load_and_alarm(void **state)
{
	static const struct {
		double load;
		unsigned int alarm_percent, cells;
		const char *text;
	} known[] = {
		{ 0, 80, 10, "[........|..]" },
		{ 0.5, 80, 10, "[#####...|..]" },
		{ 0.999, 80, 10, "[########|#.]" },
		{ 1, 80, 10, "[########|##]" },
		{ 1.0004, 80, 10, "[########|##]" },
		{ 1.01, 80, 10, "[########|##>" },
		{ 1e9, 80, 10, "[########|##>" },
		{ 0.2, 100, 5, "[#....|]" },
		{ 0.2, 1, 5, "[|#....]" },
		{ 0.5, 80, 1, "[|.]" },
		/* A damaged record breaks no screen. */
		{ 0.5, 4000000000u, 4, "[##..|]" },
	};
	char buf[BAR_TEXT];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(known); i++)
		assert_string_equal(
			bar_text(known[i].load, known[i].alarm_percent, known[i].cells, buf),
			known[i].text);
	assert_int_equal(strlen(bar_text(0.3, 50, BAR_CELLS_MAX, buf)), BAR_CELLS_MAX + 3);
}

static void a_load_does_not_contradict_its_alarm(void **state)
{
	static const struct {
		double load;
		const char *alarm;
		unsigned int alarm_percent;
		double tenths, whole;
	} known[] = {
		{ 0, "ok", 80, 0, 0 },
		{ 0.1, "ok", 80, 10, 10 },
		{ 0.79, "ok", 80, 79, 79 },
		{ 0.7996, "ok", 80, 79.9, 79 },
		{ 0.9999, "ok", 100, 99.9, 99 },
		{ 0.009999, "ok", 1, 0.9, 0 },
		/* High is early: it may well be below. */
		{ 0.7991, "high", 80, 79.9, 80 },
		{ 0.7996, "high", 80, 80, 80 },
		{ 1.00001, "high", 80, 100, 100 },
		{ 1.0007, "high", 80, 100.1, 100 },
		{ 1.00001, "over", 80, 100.1, 101 },
		{ 1.004, "over", 80, 100.4, 101 },
		{ 3, "over", 80, 300, 300 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(known); i++) {
		double load = known[i].load, tenths, whole;

		tenths = load_percent(load, known[i].alarm, known[i].alarm_percent, LOAD_TENTHS);
		whole = load_percent(load, known[i].alarm, known[i].alarm_percent, LOAD_WHOLE);
		if (fabs(tenths - known[i].tenths) > 1e-9 || fabs(whole - known[i].whole) > 1e-9)
			fail_msg("%g, %s: %.10g and %.10g", load, known[i].alarm, tenths, whole);
	}
}

/* ---- costly work ---- */

/* Given work that is always wanted, in pieces of any length, it takes no more than its share. */
static void work_keeps_to_its_share(void **state)
{
	struct duty duty = { .share = 0.05 };
	struct unit_random r = { .seed = 7 };
	double now = 1000, worked = 0;
	int pieces = 0;

	(void)state;
	assert_true(duty_allows(&duty, now));
	while (now < 11000) {
		double piece = (double)unit_random_below(&r, 400) / 1000;

		if (!duty_allows(&duty, now)) {
			now += 0.01;
			continue;
		}
		duty_spent(&duty, now, now + piece);
		now += piece;
		worked += piece;
		pieces++;
	}
	/* But it is not starved, either. */
	assert_true(worked <= 0.05 * 10000 + 0.4);
	assert_true(worked >= 0.045 * 10000);
	assert_in_range(pieces, 2000, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_of_the_time_that_went_by),
		cmocka_unit_test(rates_of_nothing_are_zero),
		cmocka_unit_test(what_went_backwards_has_no_rate),
		cmocka_unit_test(without_time_between_there_is_no_rate),
		cmocka_unit_test(live_numbers_are_of_the_interval),
		cmocka_unit_test(each_packet_is_in_one_row_and_one_action),
		cmocka_unit_test(rows_are_the_counters_of_their_names),
		cmocka_unit_test(numbers_have_three_digits),
		cmocka_unit_test(any_number_fits_its_column_and_can_be_read_back),
		cmocka_unit_test(rates_in_per_cent_fit_their_column),
		cmocka_unit_test(bars_show_load_and_alarm),
		cmocka_unit_test(a_load_does_not_contradict_its_alarm),
		cmocka_unit_test(work_keeps_to_its_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
