// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two readings and the difference between them; see rates.h.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "rates.h"

#define BITS_PER_BYTE 8
#define NS_PER_S 1e9

double monotonic_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / NS_PER_S;
}

/* ---- differences ---- */

/* False: it went backwards. */
static bool difference(const struct xbloom_stats *before, const struct xbloom_stats *after,
		       struct xbloom_stats *out)
{
	const struct xbloom_counter *b = &before->c[0][0], *a = &after->c[0][0];
	struct xbloom_counter *o = &out->c[0][0];
	size_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < XBLOOM_REASONS * XBLOOM_ACTIONS; i++) {
		if (a[i].packets < b[i].packets || a[i].bytes < b[i].bytes)
			return false;
		o[i].packets = a[i].packets - b[i].packets;
		o[i].bytes = a[i].bytes - b[i].bytes;
	}
	return true;
}

bool rates_between(const struct reading *before, const struct reading *after, struct rates *out)
{
	struct xbloom_named_counter named[XBLOOM_NAMED_COUNTERS];
	double interval = after->at - before->at;
	struct xbloom_stats passed_by;
	size_t i;

	if (!(interval > 0) || !difference(&before->stats, &after->stats, &passed_by))
		return false;
	out->interval = interval;
	xbloom_stats_named(&passed_by, named);
	for (i = 0; i < XBLOOM_NAMED_COUNTERS; i++) {
		out->packets[i] = (double)named[i].value.packets / interval;
		out->bits[i] = (double)named[i].value.bytes * BITS_PER_BYTE / interval;
	}
	xbloom_live(&passed_by, &out->live);
	return true;
}

const char *const rates_row_names[RATES_ROWS] = {
	[RATES_ABSENT] = "absent",   [RATES_MAYBE] = "maybe",	  [RATES_CONFIRMED] = "confirmed",
	[RATES_REFUTED] = "refuted", [RATES_UNKEYED] = "unkeyed", [RATES_OTHERS] = "others",
	[RATES_PASSED] = "passed",   [RATES_DROPPED] = "dropped", [RATES_WOULD_DROP] = "would_drop",
};

static double sum_unkeyed(const double *named)
{
	double sum = 0;
	unsigned int r;

	for (r = XBLOOM_UNKEYED_FIRST; r <= XBLOOM_UNKEYED_LAST; r++)
		sum += named[r];
	return sum;
}

double rates_row(const double *named, enum rates_row row)
{
	switch (row) {
	case RATES_ABSENT:
		return named[XBLOOM_ABSENT];
	case RATES_MAYBE:
		return named[XBLOOM_MAYBE];
	case RATES_CONFIRMED:
		return named[XBLOOM_CONFIRMED];
	case RATES_REFUTED:
		return named[XBLOOM_REFUTED];
	case RATES_UNKEYED:
		return sum_unkeyed(named);
	case RATES_OTHERS:
		return named[XBLOOM_NOT_IP] + named[XBLOOM_NDP] + named[XBLOOM_NO_FILTER] +
		       named[XBLOOM_EXEMPT] + named[XBLOOM_ERROR];
	case RATES_PASSED:
		return named[XBLOOM_REASONS + XBLOOM_PASS];
	case RATES_DROPPED:
		return named[XBLOOM_REASONS + XBLOOM_DROP];
	case RATES_WOULD_DROP:
		return named[XBLOOM_REASONS + XBLOOM_WOULD_DROP];
	default:
		return 0;
	}
}

double rates_total(const double *named)
{
	double sum = 0;
	unsigned int r;

	for (r = 0; r < XBLOOM_REASONS; r++)
		sum += named[r];
	return sum;
}

/* ---- text ---- */

/* How many digits behind the point make three in all. */
static int digits_behind(double x)
{
	/* What rounds to 10.0 and 100 has one digit more before the point. */
	return x < 9.995 ? 2 : x < 99.95 ? 1 : 0;
}

const char *si_text(double x, char buf[SI_TEXT])
{
	static const char units[] = { 'k', 'M', 'G', 'T' };
	const size_t n_units = sizeof(units);
	size_t unit = 0;

	if (!isfinite(x)) {
		strcpy(buf, "-");
		return buf;
	}
	/* 999.5 would be printed as 1000. */
	while (x >= 999.5 && unit < n_units) {
		x /= 1000;
		unit++;
	}
	if (unit)
		snprintf(buf, SI_TEXT, "%.*f%c", digits_behind(x), x, units[unit - 1]);
	else if (x == round(x))
		snprintf(buf, SI_TEXT, "%.0f", x);
	else
		snprintf(buf, SI_TEXT, "%.*f", digits_behind(x), x);
	return buf;
}

/* Below this many per cent three digits would take more room than an exponent. */
#define PERCENT_PLAIN 0.001

const char *percent_text(double rate, char buf[SI_TEXT])
{
	double percent = rate * 100;

	if (!isfinite(percent))
		strcpy(buf, "-");
	else if (percent != 0 && percent < PERCENT_PLAIN)
		snprintf(buf, SI_TEXT, "%.1e", percent);
	else
		snprintf(buf, SI_TEXT, "%.3g", percent);
	return buf;
}

double load_percent(double load, const char *alarm, unsigned int alarm_percent, double step)
{
	double steps = round(load * 100 / step);

	if (!strcmp(alarm, "ok"))
		steps = fmin(steps, round(alarm_percent / step) - 1);
	else if (!strcmp(alarm, "over"))
		steps = fmax(steps, round(100 / step) + 1);
	return steps * step;
}

const char *bar_text(double load, unsigned int alarm_percent, unsigned int cells,
		     char buf[BAR_TEXT])
{
	/* Of a level between two cells the lower end, as for the load itself. */
	unsigned int mark = (alarm_percent < 100 ? alarm_percent : 100) * cells / 100;
	unsigned int full = load < 1 ? (unsigned int)(load * cells) : cells;
	unsigned int i;
	char *at = buf;

	*at++ = '[';
	for (i = 0; i <= cells; i++) {
		if (i == mark)
			*at++ = '|';
		if (i < cells)
			*at++ = i < full ? '#' : '.';
	}
	/* More than 100.0 %, as it is printed beside the bar. */
	*at++ = round(load * 1000) > 1000 ? '>' : ']';
	*at = '\0';
	return buf;
}

/* ---- costly work ---- */

bool duty_allows(const struct duty *d, double now)
{
	return now >= d->not_before;
}

void duty_spent(struct duty *d, double start, double end)
{
	/* 20 ms at 5 %: 380 ms of rest. */
	d->not_before = end + (end - start) * (1 / d->share - 1);
}
