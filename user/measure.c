// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Measuring: what share of absent keys the program in the kernel calls maybe, beside what the bits
 * predict. Neither number is made from the other: one counts answers, the other reads memory.
 *
 * A key that the program calls absent is absent, with certainty; so only those called maybe have to
 * be verified, and what turns out to be listed is taken out of the count.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

/* The quantile of the 95 % interval, as in xbloom_wilson(). */
#define Z_95 1.959963984540054
/* Asked for between two looks at the clock. */
#define CHUNK 524288
/* However high the rate: fewer keys say nothing about the program. */
#define PROBES_MIN 10000
/* The chance of drawing a listed key, by the rate, that is called negligible. */
#define NEGLIGIBLE 1e-3
/* Widen a plan that was just too short. */
#define MARGIN 1.05
/* 2^63: so many are not known to be asked. */
#define PROGRESS_MAX 9.2e18

/* One sequence of keys, all of one family. */
struct source {
	struct xbloom_prober *prober;
	uint64_t next;
	uint64_t end; /* no more keys from there on */
};

struct measuring {
	const struct xbloom_truth *truth;
	struct source source[2];
	unsigned int sources;
	uint64_t listed; /* of the keys called maybe */
	uint64_t drawn, maybe;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * As many keys as make the interval so narrow: its width is about 2 z sqrt(p (1 - p) / n), and is to
 * be below WIDTH p. At 1 %: 152,000.
 */
static double probes_needed(double p)
{
	double n = pow(2 * Z_95 / XBLOOM_MEASURE_WIDTH, 2) * (1 - p) / p;

	return n < PROBES_MIN ? PROBES_MIN : n * MARGIN;
}

static int verify(void *ctx, const struct xbloom_sample *sample)
{
	struct measuring *m = ctx;

	m->listed += xbloom_truth_has(m->truth, sample->words, sample->n_words);
	return 0;
}

static int open_source(struct measuring *m, const struct xbloom *f, uint32_t family, uint64_t seed,
		       struct xbloom_error *err)
{
	const struct xbloom_prober_options options = {
		.family = family,
		.seed = seed,
		.tell_maybe = m->truth,
	};
	struct source *s = &m->source[m->sources];
	unsigned int bits;
	int ret = xbloom_prober_open(f, &options, &s->prober, err);

	if (ret)
		return ret;
	bits = xbloom_prober_bits(s->prober);
	s->end = bits < 64 ? 1ULL << bits : UINT64_MAX;
	m->sources++;
	return 0;
}

/*
 * With a truth, both families that a filter may hold. Without one, IPv6, where an address that was
 * drawn by chance is not listed.
 */
static int open_sources(struct measuring *m, const struct xbloom *f, uint64_t seed,
			struct xbloom_error *err)
{
	int ret = 0;

	if (m->truth && f->meta->params.fields & XBLOOM_FIELDS_ADDR)
		ret = open_source(m, f, XBLOOM_FAMILY_V4, seed, err);
	return ret ? ret : open_source(m, f, XBLOOM_FAMILY_V6, ~seed, err);
}

static int check_space(const struct measuring *m, const struct xbloom *f, double predicted,
		       struct xbloom_error *err)
{
	unsigned int bits = xbloom_prober_bits(m->source[0].prober);
	double keys = xbloom_distinct(&f->geometry, xbloom_inserted(f));

	if (m->truth || keys / ldexp(1, (int)bits) <= NEGLIGIBLE * predicted)
		return 0;
	return xbloom_fail(
		err, -EDOM,
		"there are only 2^%u keys of this shape, so that one drawn by chance may "
		"be listed: give the list with --from",
		bits);
}

/* Up to n more keys, half of each family. *got: how many there were. */
static int ask(struct measuring *m, uint64_t n, uint64_t *got, struct xbloom_error *err)
{
	unsigned int i;

	*got = 0;
	for (i = 0; i < m->sources; i++) {
		struct source *s = &m->source[i];
		uint64_t share = n / m->sources + (i < n % m->sources);
		uint64_t maybe = 0;
		int ret;

		if (share > s->end - s->next)
			share = s->end - s->next;
		if (!share)
			continue;
		ret = xbloom_prober_ask(s->prober, s->next, share, &maybe, verify, m, err);
		if (ret)
			return ret;
		s->next += share;
		m->maybe += maybe;
		*got += share;
	}
	m->drawn += *got;
	return 0;
}

static void evaluate(const struct measuring *m, struct xbloom_measurement *out)
{
	out->listed = m->listed;
	out->probes = m->drawn - m->listed;
	out->false_positives = m->maybe - m->listed;
	out->fp_measured = out->probes ? (double)out->false_positives / (double)out->probes : 0;
	xbloom_wilson(out->false_positives, out->probes, &out->ci_low, &out->ci_high);
	out->narrow = out->ci_high - out->ci_low <= XBLOOM_MEASURE_WIDTH * out->fp_measured;
}

/* How many keys to ask for in all, as far as can be said now. */
static double target(const struct xbloom_measure_options *o, double predicted,
		     const struct xbloom_measurement *so_far)
{
	double planned = probes_needed(predicted);

	if (o->probes)
		return (double)o->probes;
	if ((double)so_far->probes < planned || so_far->narrow)
		return planned;
	/* The rate is lower than predicted, so that more are needed after all. */
	if (so_far->false_positives)
		return fmax(probes_needed(so_far->fp_measured), (double)so_far->probes * MARGIN);
	return (double)so_far->probes * 2;
}

/* --probes is a word, and no clock takes it back. */
static double budget_of(const struct xbloom_measure_options *o)
{
	if (o->seconds > 0)
		return o->seconds;
	return o->probes ? INFINITY : XBLOOM_MEASURE_SECONDS;
}

/* For who watches: it ends with the keys that are wanted or with the time, whichever comes first. */
static void tell(const struct xbloom_measure_options *o, double wanted, double budget,
		 const struct xbloom_measurement *so_far)
{
	double done = (double)so_far->probes;

	if (!o->opts || !o->opts->progress)
		return;
	if (so_far->seconds > 0)
		wanted = fmin(wanted, done * fmax(budget / so_far->seconds, 1));
	o->opts->progress(o->opts->ctx, "measuring", so_far->probes,
			  wanted < PROGRESS_MAX ? (uint64_t)wanted : 0);
}

static int ask_enough(struct measuring *m, const struct xbloom_measure_options *o, double predicted,
		      struct xbloom_measurement *out, struct xbloom_error *err)
{
	double budget = budget_of(o), started = now();

	for (;;) {
		double wanted = target(o, predicted, out), left = wanted - (double)out->probes;
		uint64_t got;
		int ret;

		out->seconds = now() - started;
		/* Some are asked for, however short the time: of none nothing can be said. */
		if (left < 1 || (out->probes && out->seconds >= budget))
			return 0;
		tell(o, wanted, budget, out);
		ret = ask(m, left < CHUNK ? (uint64_t)left : CHUNK, &got, err);
		if (ret)
			return ret;
		out->exhausted = !got;
		if (!got && !out->probes)
			return xbloom_fail(err, -ENODATA,
					   "every key of this shape is listed: none is absent that "
					   "could be asked for");
		if (!got)
			return 0;
		evaluate(m, out);
	}
}

int xbloom_measure(const struct xbloom *f, const struct xbloom_measure_options *options,
		   struct xbloom_measurement *out, struct xbloom_error *err)
{
	struct measuring m = { .truth = options->truth };
	struct xbloom_gauge before, after;
	struct xbloom_hash_key random;
	uint64_t seed = options->seed;
	unsigned int i;
	int ret = 0;

	*out = (struct xbloom_measurement){
		.ci_high = 1,
		.verified = options->truth ? options->verified : XBLOOM_BY_SPACE,
	};
	xbloom_gauge(f, &before);
	if (!before.ones) {
		out->ci_high = 0;
		out->empty = out->agree = out->narrow = true;
		return 0;
	}
	if (!seed) {
		ret = xbloom_hash_key_random(&random, err);
		seed = random.k0;
	}
	if (!ret)
		ret = open_sources(&m, f, seed, err);
	if (!ret)
		ret = check_space(&m, f, before.fp_predicted, err);
	if (!ret)
		ret = ask_enough(&m, options, before.fp_predicted, out, err);
	if (!ret) {
		/* Somebody may have added keys meanwhile: then the truth lies between the two. */
		xbloom_gauge(f, &after);
		out->fp_predicted = (before.fp_predicted + after.fp_predicted) / 2;
		out->agree =
			out->ci_low <= after.fp_predicted && out->ci_high >= before.fp_predicted;
		out->needed = probes_needed(out->fp_predicted);
		out->space_bits = xbloom_prober_bits(m.source[m.sources - 1].prober);
	}
	for (i = 0; i < m.sources; i++)
		xbloom_prober_close(m.source[i].prober);
	return ret;
}
