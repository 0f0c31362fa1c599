/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `top` knows: the filters there are, kept open, and of each the rates between the last two
 * readings, its load, and the answers of the costly questions (the gauge, which looks at every bit,
 * and the measure), which others ask and put here. Draws nothing.
 */
#ifndef XBLOOM_TOP_MODEL_H
#define XBLOOM_TOP_MODEL_H

#include "rates.h"

#define TOP_DEVICES_TEXT 256

struct top_filter {
	char name[XBLOOM_NAME_MAX];
	struct xbloom *f; /* NULL: it cannot be read, and `broken` says why */
	struct xbloom_error broken;
	uint64_t id; /* no two fillings of one name have the same */

	struct reading last;
	bool read;  /* there is a last reading */
	bool rated; /* and one before it */
	struct rates rates;
	struct xbloom_rules rules;

	uint64_t inserted;
	double load;
	const char *alarm;
	unsigned int alarm_percent;

	bool gauged;
	uint64_t gauged_inserted;
	double gauged_at;
	double fp_predicted;

	bool asked;	/* a measurement was begun; shown once, measured once */
	bool measuring; /* and is not over */
	bool measured;	/* `measurement` is one */
	struct xbloom_measurement measurement;
	struct xbloom_error unmeasured; /* why there is none; "": it is not known yet */
	double measured_at;
	uint64_t measured_inserted;

	char devices[TOP_DEVICES_TEXT]; /* "s0 (native), s1 (generic)" */
};

struct top_model {
	const char *only; /* the one filter to look at; NULL: all */
	bool with_devices;
	struct top_filter **filters; /* sorted by name */
	size_t n;
	double now; /* of the last look */
	uint64_t last_id;
	struct duty devices_duty;
};

/* Cost ceilings: shares of one CPU's time. */
#define TOP_GAUGE_SHARE 0.05
#define TOP_DEVICES_SHARE 0.05

void top_model_init(struct top_model *m, const char *only, bool with_devices);
void top_model_free(struct top_model *m);

/*
 * Look again: new filters appear, those that are gone vanish, rates are of the time since the last
 * look. -ENOENT: the only filter is gone.
 */
int top_model_look(struct top_model *m, struct xbloom_error *err);

/*
 * Only let go of filters that are gone, since who holds one keeps its memory; the others stay as
 * they were looked at last. -ENOENT: the only filter is gone.
 */
int top_model_prune(struct top_model *m);

/* NULL: there is none of this name or id. */
struct top_filter *top_model_find(const struct top_model *m, const char *name);
struct top_filter *top_model_by_id(const struct top_model *m, uint64_t id);

/* Whether the bits have changed since the gauge was read, or it never was. */
bool top_filter_wants_gauge(const struct top_filter *t);
/* The answers; `inserted` and `at` are of the moment of the question. */
void top_filter_gauged(struct top_filter *t, const struct xbloom_gauge *gauge, uint64_t inserted,
		       double at);
void top_filter_measured(struct top_filter *t, const struct xbloom_measurement *measurement,
			 uint64_t inserted, double at);

/* The share of packets with a key that were absent, and the live error rate; NAN: unknown. */
double top_filter_absent_share(const struct top_filter *t);
double top_filter_fp_live(const struct top_filter *t);

#endif /* XBLOOM_TOP_MODEL_H */
