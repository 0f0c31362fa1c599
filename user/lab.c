// SPDX-License-Identifier: GPL-2.0-only
/*
 * The essay's experiments; see lab.h.
 *
 * One filter of one seed: a scratch filter with a hash key of its own, and a prober with a
 * bijection of its own. Keys number 0 .. n-1 are drawn in the kernel and told to us, hashed and put
 * in. Then the kernel's filter program is asked for them again, and must say maybe to each; and
 * for numbers n .. n + LAB_ABSENT - 1, which are other keys because the numbers are others: absent
 * by construction, so that each maybe is a false positive.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab.h"

const char *lab_name(enum lab_experiment experiment)
{
	static const char *const names[] = {
		[LAB_DIRECTION] = "one direction",
		[LAB_BITS] = "bits per key",
		[LAB_HASHES] = "hashes",
		[LAB_OVERFILL] = "overfill",
	};

	return names[experiment];
}

const struct lab_line lab_lines[LAB_LINES] = {
	{ LAB_DIRECTION, 8, 6, 1 },

	/* The best k each. */
	{ LAB_BITS, 4, 3, 1 },
	{ LAB_BITS, 8, 6, 1 },
	{ LAB_BITS, 12, 8, 1 },
	{ LAB_BITS, 16, 11, 1 },

	{ LAB_HASHES, 8, 1, 1 },
	{ LAB_HASHES, 8, 2, 1 },
	{ LAB_HASHES, 8, 6, 1 },
	{ LAB_HASHES, 8, 12, 1 },
	{ LAB_HASHES, 8, 20, 1 },

	{ LAB_OVERFILL, 8, 6, 1 },
	{ LAB_OVERFILL, 8, 6, 3 },
};

static bool goes_on(unsigned int line)
{
	return line < LAB_LINES && lab_lines[line].load > 1;
}

/* The same budget of bits; a split filter has whole blocks, and so up to 511 bits fewer. */
static struct xbloom_geometry geometry_of(const struct lab_line *line, uint32_t layout)
{
	uint64_t bits = (uint64_t)line->bits_per_key * LAB_KEYS;
	struct xbloom_geometry g = { .layout = layout };

	if (layout == XBLOOM_LAYOUT_SPLIT) {
		g.blocks = bits / XBLOOM_BLOCK_BITS;
		g.bits = g.blocks * XBLOOM_BLOCK_BITS;
		g.k = XBLOOM_SPLIT_K;
	} else {
		g.blocks = (bits + XBLOOM_BLOCK_BITS - 1) / XBLOOM_BLOCK_BITS;
		g.bits = bits;
		g.k = line->k;
	}
	return g;
}

/* ---- what is drawn ---- */

/* "xdpbloom": keeps these numbers apart from others that the same seed may give elsewhere. */
#define LAB_DOMAIN XBLOOM_MAGIC

enum drawn { DRAWN_HASH_KEY_0, DRAWN_HASH_KEY_1, DRAWN_BIJECTION };

/* A random number that is always the same for this seed, cell, filter and purpose. */
static uint64_t drawn(const struct lab *lab, unsigned int line, uint32_t layout, unsigned int s,
		      enum drawn purpose)
{
	const struct xbloom_hash_key key = { lab->seed, LAB_DOMAIN };
	const __u64 words[] = { line, layout, s, purpose };

	return xbloom_words_hash(&key, words, sizeof(words) / sizeof(words[0]));
}

/* ---- one filter of one seed ---- */

struct trial {
	struct xbloom *filter;
	struct xbloom_prober *prober;
	struct xbloom_hash_key hash_key;
	uint64_t keys; /* in the filter */
	uint64_t told; /* by the prober, since it was last asked */
};

static int trial_open(struct trial *t, const struct lab *lab, unsigned int line, uint32_t layout,
		      unsigned int s, struct xbloom_error *err)
{
	const struct xbloom_prober_options options = {
		.family = XBLOOM_FAMILY_V4,
		.seed = drawn(lab, line, layout, s, DRAWN_BIJECTION),
		.tell_maybe = true,
		.tell_absent = true,
	};
	int ret;

	*t = (struct trial){
		.hash_key = { drawn(lab, line, layout, s, DRAWN_HASH_KEY_0),
			      drawn(lab, line, layout, s, DRAWN_HASH_KEY_1) },
	};
	ret = xbloom_scratch(&lab->cells[line][layout].geometry, LAB_KEYS, XBLOOM_SRC, &t->hash_key,
			     &t->filter, err);
	if (!ret)
		ret = xbloom_prober_open(t->filter, &options, &t->prober, err);
	return ret;
}

static void trial_close(struct trial *t)
{
	if (t->prober)
		xbloom_prober_close(t->prober);
	if (t->filter)
		xbloom_close(t->filter);
}

static int put_in(void *ctx, const struct xbloom_sample *sample)
{
	struct trial *t = ctx;

	xbloom_add(t->filter, xbloom_words_hash(&t->hash_key, sample->words, sample->n_words));
	t->told++;
	return 0;
}

static int let_go(void *ctx, const struct xbloom_sample *sample)
{
	(void)ctx;
	(void)sample;
	return 0;
}

/* Put in the keys up to number `keys` - 1, whatever the filter says of them meanwhile. */
static int trial_fill(struct trial *t, uint64_t keys, struct xbloom_error *err)
{
	uint64_t maybe, n = keys - t->keys;
	int ret;

	t->told = 0;
	ret = xbloom_prober_ask(t->prober, t->keys, n, &maybe, put_in, t, err);
	t->keys = keys;
	if (!ret && t->told != n) {
		snprintf(err->text, sizeof(err->text),
			 "the kernel told only %llu of the %llu keys that it drew",
			 (unsigned long long)t->told, (unsigned long long)n);
		ret = -EIO;
	}
	return ret;
}

static int trial_ask(struct trial *t, unsigned int s, struct lab_cell *cell,
		     struct xbloom_error *err)
{
	uint64_t maybe;
	int ret;

	ret = xbloom_prober_ask(t->prober, 0, t->keys, &maybe, let_go, NULL, err);
	if (ret)
		return ret;
	cell->false_negatives += t->keys - maybe;
	return xbloom_prober_ask(t->prober, t->keys, LAB_ABSENT, &cell->maybes[s], let_go, NULL,
				 err);
}

/* A filter, from its first line to the last that goes on with it. */
static int trial_run(struct lab *lab, unsigned int line, uint32_t layout, unsigned int s,
		     struct xbloom_error *err)
{
	struct trial t;
	int ret = trial_open(&t, lab, line, layout, s, err);

	do {
		struct lab_cell *cell = &lab->cells[line][layout];

		if (!ret)
			ret = trial_fill(&t, cell->keys, err);
		if (!ret)
			ret = trial_ask(&t, s, cell, err);
		line++;
	} while (!ret && goes_on(line));
	trial_close(&t);
	return ret;
}

/* ---- what the answers say ---- */

/*
 * P(|T| < t) for Student's t with nu degrees of freedom (Abramowitz and Stegun, 26.7.3 and
 * 26.7.4). Worked: nu = 19, t = 2.0930 gives 0.95.
 */
static double student_within(double t, unsigned int nu)
{
	double theta = atan(t / sqrt(nu));
	double cosine = cos(theta), sum = 0;
	double term = nu % 2 ? cosine : 1;
	unsigned int i;

	/* In powers i of the cosine: 1, 3, ... nu-2 of an odd nu, 0, 2, ... nu-2 of an even one. */
	for (i = nu % 2; i + 2 <= nu; i += 2) {
		sum += term;
		term *= cosine * cosine * (i + 1) / (i + 2);
	}
	return nu % 2 ? M_2_PI * (theta + sin(theta) * sum) : sin(theta) * sum;
}

#define CONFIDENCE 0.95
/* Above the t of one degree of freedom, 12.7, which is the largest. */
#define STUDENT_MAX 16.0
/* Halvings that leave less of it than a double can tell. */
#define STUDENT_STEPS 60

static double student_t(unsigned int nu)
{
	double low = 0, high = STUDENT_MAX;
	unsigned int i;

	for (i = 0; i < STUDENT_STEPS; i++) {
		double middle = (low + high) / 2;

		if (student_within(middle, nu) < CONFIDENCE)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/*
 * The mean over the seeds, and the interval from the spread between them. Not from the number of
 * keys asked: besides the luck of the draw there is that of the hash key, which fills one filter a
 * little better than the next, and 20 filters have met no more than 20 such.
 */
static void cell_judge(struct lab_cell *cell, unsigned int seeds)
{
	double sum = 0, squares = 0, half;
	unsigned int s;

	for (s = 0; s < seeds; s++)
		sum += (double)cell->maybes[s] / LAB_ABSENT;
	cell->measured = sum / seeds;
	for (s = 0; s < seeds; s++) {
		double off = (double)cell->maybes[s] / LAB_ABSENT - cell->measured;

		squares += off * off;
	}
	half = student_t(seeds - 1) * sqrt(squares / (seeds - 1) / seeds);
	cell->low = cell->measured - half;
	cell->high = cell->measured + half;
	cell->predicted = xbloom_rate(&cell->geometry, cell->keys);
	cell->agree = cell->low <= cell->predicted && cell->predicted <= cell->high;
}

/* What has a chance below this is taken for no chance. */
#define NO_CHANCE 1e-4

/*
 * Whether so many of n intervals miss only because something is wrong: the chance that as many or
 * more do, each with a probability of 1 - CONFIDENCE by itself, is below NO_CHANCE. Worked: of 19,
 * 7 are too many (2.3e-5) and 6 are not (2.4e-4).
 */
static bool too_many(unsigned int misses, unsigned int n)
{
	double chance = pow(CONFIDENCE, n); /* of exactly i */
	double fewer = 0;
	unsigned int i;

	for (i = 0; i < misses; i++) {
		fewer += chance;
		chance *= (double)(n - i) / (i + 1) * (1 - CONFIDENCE) / CONFIDENCE;
	}
	return 1 - fewer < NO_CHANCE;
}

static void judge(struct lab *lab)
{
	unsigned int line, layout;

	for (line = 0; line < LAB_LINES; line++) {
		for (layout = 0; layout < LAB_LAYOUTS; layout++) {
			struct lab_cell *cell = &lab->cells[line][layout];

			if (!cell->used)
				continue;
			cell_judge(cell, lab->seeds);
			lab->intervals++;
			lab->agreeing += cell->agree;
			lab->false_negatives += cell->false_negatives;
		}
	}
	lab->sound =
		!lab->false_negatives && !too_many(lab->intervals - lab->agreeing, lab->intervals);
}

/* ---- all of it ---- */

static int prepare(struct lab *lab, struct xbloom_error *err)
{
	unsigned int line, layout;

	lab->counts = calloc((size_t)LAB_LINES * LAB_LAYOUTS * lab->seeds, sizeof(*lab->counts));
	if (!lab->counts) {
		snprintf(err->text, sizeof(err->text), "out of memory");
		return -ENOMEM;
	}
	for (line = 0; line < LAB_LINES; line++) {
		for (layout = 0; layout < LAB_LAYOUTS; layout++) {
			struct lab_cell *cell = &lab->cells[line][layout];

			cell->used = layout == XBLOOM_LAYOUT_CLASSIC ||
				     lab_lines[line].experiment != LAB_HASHES;
			cell->geometry = geometry_of(&lab_lines[line], layout);
			cell->keys = (uint64_t)lab_lines[line].load * LAB_KEYS;
			cell->maybes =
				lab->counts + (size_t)(line * LAB_LAYOUTS + layout) * lab->seeds;
		}
	}
	return 0;
}

/* Keys that are asked for in one trial of the cells from `line` on: drawn, put in, and absent. */
static uint64_t trial_size(unsigned int line)
{
	uint64_t in = 0, size = 0;

	do {
		uint64_t keys = (uint64_t)lab_lines[line].load * LAB_KEYS;

		size += keys - in + keys + LAB_ABSENT;
		in = keys;
		line++;
	} while (goes_on(line));
	return size;
}

/* The first line of a filter, and a layout that it is made in. */
static bool starts_trial(const struct lab *lab, unsigned int line, unsigned int layout)
{
	return lab->cells[line][layout].used && !goes_on(line);
}

static uint64_t lab_size(const struct lab *lab)
{
	unsigned int line, layout;
	uint64_t size = 0;

	for (line = 0; line < LAB_LINES; line++)
		for (layout = 0; layout < LAB_LAYOUTS; layout++)
			if (starts_trial(lab, line, layout))
				size += trial_size(line);
	return size * lab->seeds;
}

int lab_run(struct lab *lab, uint64_t seed, unsigned int seeds, const struct xbloom_options *opts,
	    struct xbloom_error *err)
{
	uint64_t done = 0, total;
	unsigned int i, line, layout;
	int ret;

	*lab = (struct lab){ .seed = seed, .seeds = seeds };
	ret = prepare(lab, err);
	total = lab_size(lab);
	/* Seed by seed, a cell after the other. */
	for (i = 0; !ret && i < seeds * LAB_LINES * LAB_LAYOUTS; i++) {
		line = i / LAB_LAYOUTS % LAB_LINES;
		layout = i % LAB_LAYOUTS;
		if (!starts_trial(lab, line, layout))
			continue;
		ret = trial_run(lab, line, layout, i / LAB_LAYOUTS / LAB_LINES, err);
		done += trial_size(line);
		opts->progress(opts->ctx, "lab", done, total);
	}
	if (!ret)
		judge(lab);
	return ret;
}

void lab_free(struct lab *lab)
{
	free(lab->counts);
	lab->counts = NULL;
}
