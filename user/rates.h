/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What passes a filter in a second: two readings of its counters and the difference between them,
 * and what a live display needs beside that, testable without a terminal or a kernel.
 */
#ifndef XBLOOM_RATES_H
#define XBLOOM_RATES_H

#include "libxbloom.h"

/* Seconds of a clock that nobody sets (CLOCK_MONOTONIC). */
double monotonic_now(void);

/* The counters at one moment. */
struct reading {
	double at; /* by monotonic_now() */
	struct xbloom_stats stats;
};

/* Of the named counters, in their order (xbloom_stats_named()). */
struct rates {
	double interval;		       /* that really went by, in seconds */
	double packets[XBLOOM_NAMED_COUNTERS]; /* a second */
	double bits[XBLOOM_NAMED_COUNTERS];    /* a second, of whole frames, without FCS */
	struct xbloom_live live;
};

/*
 * False: the readings are not of the same counters (one went backwards, as when another filter has
 * the name now), or no time lies between them; nothing can be said then, and *out is left alone.
 */
bool rates_between(const struct reading *before, const struct reading *after, struct rates *out);

/* The counters as a person wants them: those that only diagnose are summed. */
enum rates_row {
	RATES_ABSENT,
	RATES_MAYBE,
	RATES_CONFIRMED,
	RATES_REFUTED,
	RATES_UNKEYED, /* IP without the fields of the key, for whatever reason */
	RATES_OTHERS,  /* not IP, neighbour discovery, no filter, exempt, errors */
	RATES_PASSED,
	RATES_DROPPED,
	RATES_WOULD_DROP,
	RATES_ROWS,
};
extern const char *const rates_row_names[RATES_ROWS];
/* One row of named values: rates.packets or rates.bits. */
double rates_row(const double *named, enum rates_row row);
/* Everything that came by; each packet is in one of the rows up to RATES_OTHERS. */
double rates_total(const double *named);

/* ---- text for narrow columns ---- */

#define SI_TEXT 16
/* Three digits and a unit: 0, 0.25, 999, 1.00k, 59.9k, 12.3M; at most five characters up to 1e15. */
const char *si_text(double x, char buf[SI_TEXT]);
/* A rate in per cent, without the sign: "1.05", "2.3e-07"; at most seven characters. */
const char *percent_text(double rate, char buf[SI_TEXT]);

/*
 * A load in percent, rounded to steps of so many, that does not contradict the alarm said beside it: what
 * is ok does not round up to the level of the alarm, nor what is over down to 100.
 */
#define LOAD_TENTHS 0.1
#define LOAD_WHOLE 1.0
double load_percent(double load, const char *alarm, unsigned int alarm_percent, double step);

#define BAR_CELLS_MAX 60u
#define BAR_TEXT (BAR_CELLS_MAX + 4) /* two ends, a mark, and the terminating zero */
/*
 * A load as a bar of `cells` cells (1 to BAR_CELLS_MAX) with a mark where the alarm is, cells + 3
 * characters: ten cells of a load of 0.5 with the alarm at 80 %: "[#####...|..]". More than 100 %
 * ends in '>'.
 */
const char *bar_text(double load, unsigned int alarm_percent, unsigned int cells,
		     char buf[BAR_TEXT]);

/* ---- costly work ---- */

/*
 * Keeps a kind of work below a share of all time: after each piece it has to rest for so long that
 * the piece was no more than that.
 */
struct duty {
	double share;	   /* 0..1 */
	double not_before; /* by monotonic_now() */
};
bool duty_allows(const struct duty *d, double now);
void duty_spent(struct duty *d, double start, double end);

#endif /* XBLOOM_RATES_H */
