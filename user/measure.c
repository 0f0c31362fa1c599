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

/* So many without an absent one among them: there is none to be found by chance. */
#define HOPELESS (64 * CHUNK)
/* Standard deviations of a prediction that are called agreement: 95 %. */
#define SPREAD 2

/* One sequence of keys, all of one family. */
struct source {
	uint32_t family;
	const struct xbloom_truth *truth;
	struct xbloom_prober *prober;
	uint64_t next;
	uint64_t end; /* no more keys from there on */
	uint64_t drawn, maybe;
	uint64_t listed; /* of the keys called maybe */
};

struct measuring {
	const struct xbloom_truth *truth;
	struct source source[2];
	unsigned int sources;
	uint64_t drawn;
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
	struct source *s = ctx;

	s->listed += xbloom_truth_has(s->truth, sample->words, sample->n_words);
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
	s->family = family;
	s->truth = m->truth;
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
	const struct xbloom_params *p = xbloom_params_in_force(f);
	unsigned int bits = xbloom_prober_bits(m->source[0].prober), n = p->n_plens6;
	double keys = xbloom_distinct(&f->geometry, xbloom_inserted(f));

	if (m->truth)
		return 0;
	/* For all that is known, every key is a prefix of the shortest length. */
	if (n > 1 && keys / ldexp(1, (int)p->plens6[n - 1].plen) > NEGLIGIBLE * predicted)
		return xbloom_fail(err, -EDOM,
				   "there are only 2^%u prefixes of /%u, so that an address drawn "
				   "by chance may be in a listed one: give the list with --from",
				   p->plens6[n - 1].plen, p->plens6[n - 1].plen);
	if (keys / ldexp(1, (int)bits) <= NEGLIGIBLE * predicted)
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
		ret = xbloom_prober_ask(s->prober, s->next, share, &maybe, verify, s, err);
		if (ret)
			return ret;
		s->next += share;
		s->drawn += share;
		s->maybe += maybe;
		*got += share;
	}
	m->drawn += *got;
	return 0;
}

static double share_of(uint64_t hits, uint64_t n)
{
	return n ? (double)hits / (double)n : 0;
}

static void evaluate(const struct measuring *m, struct xbloom_measurement *out)
{
	unsigned int i;

	out->listed = out->probes = out->false_positives = 0;
	for (i = 0; i < m->sources; i++) {
		const struct source *s = &m->source[i];
		struct xbloom_measured *one = &out->family[i];

		one->listed = s->listed;
		one->probes = s->drawn - s->listed;
		one->false_positives = s->maybe - s->listed;
		one->fp_measured = share_of(one->false_positives, one->probes);
		out->listed += one->listed;
		out->probes += one->probes;
		out->false_positives += one->false_positives;
	}
	out->fp_measured = share_of(out->false_positives, out->probes);
	xbloom_wilson(out->false_positives, out->probes, &out->ci_low, &out->ci_high);
	out->narrow = out->ci_high - out->ci_low <= XBLOOM_MEASURE_WIDTH * out->fp_measured;
}

static double rate_of(const struct xbloom_gauge *g, uint32_t family)
{
	return family == XBLOOM_FAMILY_V4 ? g->fp_v4 : g->fp_v6;
}

/* The rate of all sources together, of which each has its share. */
static double mean_rate(const struct measuring *m, const struct xbloom_gauge *g,
			const struct xbloom_measurement *out)
{
	double sum = 0;
	unsigned int i;

	for (i = 0; i < m->sources; i++)
		sum += rate_of(g, m->source[i].family) *
		       (out->probes ? share_of(out->family[i].probes, out->probes)
				    : 1.0 / m->sources);
	return sum;
}

/*
 * How far the rate of IPv6 packets may be from what is predicted of it. There are only 2^l prefixes of
 * length l, whatever number of addresses is asked for: which of them are false positives is a throw of
 * as many coins, and a standard deviation of sqrt(p(1-p) / 2^l). At 1 % and /16: 0.04 %; at /32 nothing.
 */
static double spread_v6(const struct xbloom *f, double fp_look)
{
	const struct xbloom_params *p = xbloom_params_in_force(f);
	double variance = 0;
	uint32_t i;

	for (i = 1; i < p->n_plens6 && i < XBLOOM_PLENS6_MAX; i++)
		variance += ldexp(fp_look * (1 - fp_look), -(int)p->plens6[i].plen);
	return SPREAD * sqrt(variance);
}

/* Each family beside its own prediction; the intervals are those of one, or of two that differ. */
static void compare_family(struct xbloom_measured *one, double before, double after, double spread,
			   bool apart)
{
	if (apart)
		xbloom_wilson_of_two(one->false_positives, one->probes, &one->ci_low,
				     &one->ci_high);
	else
		xbloom_wilson(one->false_positives, one->probes, &one->ci_low, &one->ci_high);
	one->fp_predicted = (before + after) / 2;
	one->agree = one->ci_low <= after + spread && one->ci_high >= before - spread;
}

static void compare(const struct measuring *m, const struct xbloom *f,
		    const struct xbloom_gauge *before, const struct xbloom_gauge *after,
		    struct xbloom_measurement *out)
{
	double spread = spread_v6(f, after->fp_look);
	double was = mean_rate(m, before, out), is = mean_rate(m, after, out);
	unsigned int i;

	out->fp_predicted = (was + is) / 2;
	out->families = m->sources;
	out->apart = m->sources > 1 && after->fp_v4 != after->fp_v6;
	out->agree = out->ci_low <= is && out->ci_high >= was;
	if (out->apart || spread > 0)
		out->agree = true;
	for (i = 0; i < m->sources; i++) {
		uint32_t family = m->source[i].family;
		struct xbloom_measured *one = &out->family[i];

		one->family = family;
		compare_family(one, rate_of(before, family), rate_of(after, family),
			       family == XBLOOM_FAMILY_V6 ? spread : 0, out->apart);
		if (out->apart || spread > 0)
			out->agree &= one->agree;
	}
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
		if (got)
			evaluate(m, out);
		if (!out->probes && (!got || m->drawn >= HOPELESS))
			return xbloom_fail(err, -ENODATA,
					   "every key of this shape is listed: none is absent that "
					   "could be asked for");
		if (!got)
			return 0;
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
		ret = ask_enough(&m, options, mean_rate(&m, &before, out), out, err);
	if (!ret) {
		/* Somebody may have added keys meanwhile: then the truth lies between the two. */
		xbloom_gauge(f, &after);
		compare(&m, f, &before, &after, out);
		out->needed = probes_needed(out->fp_predicted);
		out->space_bits = xbloom_prober_bits(m.source[m.sources - 1].prober);
	}
	for (i = 0; i < m.sources; i++)
		xbloom_prober_close(m.source[i].prober);
	return ret;
}
