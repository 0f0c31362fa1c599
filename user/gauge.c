// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The gauge: how full a filter is, by what was counted and by what the bits say, and how often it
 * is wrong because of it. Two counts that know nothing of each other: `inserted` is kept by who
 * puts keys in, `estimated` is read from the ones in the array.
 */
#include <errno.h>
#include <math.h>

#include "internal.h"

/*
 * The chance that an absent key finds its eight bits set: the mean over blocks of the product of
 * its words' fills, which is exact for the bits as they are. (The eighth power of the whole
 * array's fill would miss that some blocks are fuller than others.)
 */
static double split_rate_now(const struct xbloom_geometry *g, const struct xbloom_block *blocks,
			     uint64_t *ones)
{
	uint64_t i;
	double sum = 0;
	unsigned int w;

	for (i = 0; i < g->blocks; i++) {
		double product = 1;

		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++) {
			unsigned int n = (unsigned int)__builtin_popcountll(blocks[i].w[w]);

			*ones += n;
			product *= n;
		}
		sum += product;
	}
	/* 64^8 = 2^48: all eight divisions at once. */
	return ldexp(sum, -48) / (double)g->blocks;
}

static double classic_rate_now(const struct xbloom_geometry *g, const struct xbloom_block *blocks,
			       uint64_t *ones)
{
	uint64_t i;
	unsigned int w;

	for (i = 0; i < g->blocks; i++)
		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++)
			*ones += (unsigned int)__builtin_popcountll(blocks[i].w[w]);
	return pow((double)*ones / (double)g->bits, g->k);
}

/*
 * A journal that is open belongs to an insert that is going on, or that a writer died in. Its key
 * is counted from the moment that its last bit is set, which is when it is in.
 */
uint64_t xbloom_inserted(const struct xbloom *f)
{
	const struct xbloom_meta *m = f->meta;
	const struct xbloom_journal *j = &m->journal;
	uint64_t hash, inserted;

	if (!__atomic_load_n(&j->open, __ATOMIC_ACQUIRE))
		return __atomic_load_n(&m->inserted, __ATOMIC_RELAXED);
	hash = __atomic_load_n(&j->hash, __ATOMIC_RELAXED);
	inserted = __atomic_load_n(&j->inserted, __ATOMIC_ACQUIRE);
	/* A writer that went on meanwhile has closed this entry, and counted it. */
	if (!__atomic_load_n(&j->open, __ATOMIC_ACQUIRE) ||
	    __atomic_load_n(&j->hash, __ATOMIC_RELAXED) != hash)
		return __atomic_load_n(&m->inserted, __ATOMIC_RELAXED);
	return inserted + xbloom_test_hash(&f->geometry, xbloom_current(f), hash);
}

double xbloom_load(const struct xbloom *f)
{
	return xbloom_distinct(&f->geometry, xbloom_inserted(f)) / (double)f->meta->capacity;
}

/* Standard deviations of doubt: 1 in 3 million. */
#define DOUBT 5
/*
 * A count of rare events is further above its mean than below it: (z^2 - 1) / 6 more (Cornish and
 * Fisher, 1938). 33 are expected, and 66 or more come once in 3 million, not 62.
 */
#define SKEW ((DOUBT * DOUBT - 1) / 6.0)
/* As far as xbloom_distinct() follows a filter that fills. */
#define CHANGES_MIN 1e-3

/* The share of keys that are new to a filter of n keys and change a bit of it. */
static double changes_at(const struct xbloom *f, double n)
{
	return fmax(1 - xbloom_rate(&f->geometry, (uint64_t)n), CHANGES_MIN);
}

/*
 * The verdict on so many distinct keys, of which so many are certain. Each of the others was a coin
 * of its own, so their number has a variance of about itself; and an error of one in those that are
 * counted is one of 1 / (1 - rate) in the keys that are told from them. Where none is expected there
 * is no doubt, and where less than one is, the alarm can be a key late.
 */
static const char *alarm_at(const struct xbloom *f, double keys, double certain)
{
	double capacity = (double)f->meta->capacity;
	double told = fmax(0, keys - certain), changes = changes_at(f, keys);
	double doubt = DOUBT * sqrt(told) / changes;

	if (certain > capacity || keys - doubt > capacity)
		return "over";
	doubt += SKEW * fmin(told, 1) / changes;
	return (keys + doubt) * 100 >= capacity * f->meta->alarm_percent ? "high" : "ok";
}

const char *xbloom_alarm(const struct xbloom *f)
{
	uint64_t inserted = xbloom_inserted(f);

	return alarm_at(f, xbloom_distinct(&f->geometry, inserted), (double)inserted);
}

/*
 * Of keys that were never put in, a share of 1 - rate is certainly new to the filter as it is now,
 * so `more` certain ones are more / (1 - rate) in all.
 */
const char *xbloom_alarm_after(const struct xbloom *f, uint64_t more)
{
	uint64_t inserted = xbloom_inserted(f);
	double keys = xbloom_distinct(&f->geometry, inserted);
	double all = (double)more / changes_at(f, keys);

	return alarm_at(f, keys + all, (double)(inserted + more));
}

int xbloom_set_alarm(struct xbloom *f, unsigned int percent, struct xbloom_error *err)
{
	int ret = xbloom_check_writable(f, err);

	if (ret)
		return ret;
	if (percent < 1 || percent > 100)
		return xbloom_fail(err, -EINVAL, "an alarm at %u %% is not between 1 and 100 %%",
				   percent);
	__atomic_store_n(&f->meta->alarm_percent, percent, __ATOMIC_RELAXED);
	return 0;
}

/* One array: the rate of a look into it, the ones, and the keys by them. */
static double gauge_array(const struct xbloom_geometry *g, const struct xbloom_block *blocks,
			  uint64_t *ones, double *estimated)
{
	double m = (double)g->bits, rate;

	*ones = 0;
	rate = g->layout == XBLOOM_LAYOUT_SPLIT ? split_rate_now(g, blocks, ones)
						: classic_rate_now(g, blocks, ones);
	/* A key takes each bit of m with probability k/m: ones = m (1 - e^(-kn/m)), solved for n. */
	*estimated = *ones ? -m / g->k * log1p(-(double)*ones / m) : 0;
	if (g->layout == XBLOOM_LAYOUT_SPLIT && rate < 1)
		rate += (1 - rate) * xbloom_split_floor(*estimated / (double)g->blocks);
	return rate;
}

unsigned int xbloom_asks(const struct xbloom *f)
{
	uint32_t n = xbloom_params_in_force(f)->n_plens6;

	return n > 1 ? n : 1;
}

void xbloom_gauge(const struct xbloom *f, struct xbloom_gauge *gauge)
{
	uint32_t i, live = xbloom_live_arrays(f, xbloom_params_in_force(f));
	double right = 1;

	*gauge = (struct xbloom_gauge){ .load = xbloom_load(f) };
	for (i = 0; i < f->lives; i++) {
		double estimated, rate;
		uint64_t ones;

		if (!(live >> i & 1))
			continue;
		rate = gauge_array(&f->geometry, f->blocks + i * f->geometry.blocks, &ones,
				   &estimated);
		/* Of the array that takes keys, as what is inserted and the capacity are. */
		if (f->blocks + i * f->geometry.blocks == xbloom_current(f)) {
			gauge->ones = ones;
			gauge->estimated = estimated;
		}
		/* An absent key is called maybe unless each array calls it absent. */
		gauge->fp_look = right == 1 ? rate : gauge->fp_look + right * rate;
		right *= 1 - rate;
	}
	gauge->fp_v4 = gauge->fp_look;
	gauge->fp_v6 = xbloom_rate_of_asks(gauge->fp_look, xbloom_asks(f));
	gauge->fp_predicted = gauge->fp_v6;
}

void xbloom_prefix_state(const struct xbloom *f, struct xbloom_prefix_state *state)
{
	const struct xbloom_params *p = xbloom_params_in_force(f);
	uint32_t live = xbloom_live_arrays(f, p), i, life;
	uint64_t at;

	*state = (struct xbloom_prefix_state){ .n_plens6 = 1, .plens6 = { XBLOOM_PLEN6_HOST } };
	for (i = 1; i < p->n_plens6 && i < XBLOOM_PLENS6_MAX; i++)
		state->plens6[state->n_plens6++] = p->plens6[i].plen;
	if (!p->nets4 || !f->nets4)
		return;
	state->nets4_bytes = (uint64_t)XBLOOM_NETS4_BLOCKS * f->lives * XBLOOM_BLOCK_BYTES;
	for (at = 0; at < XBLOOM_NETS4_BLOCKS * XBLOOM_BLOCK_WORDS; at++) {
		uint64_t word = 0;

		/* A /24 may be in several arrays, and is one. */
		for (life = 0; life < f->lives; life++)
			if (live >> life & 1)
				word |= f->nets4[life * XBLOOM_NETS4_BLOCKS +
						 at / XBLOOM_BLOCK_WORDS]
						.w[at % XBLOOM_BLOCK_WORDS];
		state->nets4 += (unsigned int)__builtin_popcountll(word);
	}
}
