// SPDX-License-Identifier: GPL-2.0-only
/*
 * The essay's experiments; see lab.h.
 *
 * Each filter is a scratch filter with a hash key of its own, and a prober with a bijection of its
 * own. For each seed it is emptied and gets keys that no other seed has: with n keys, numbers 0 ..
 * n-1 of the seed are drawn in the kernel and told to us, hashed and put in. Then the kernel's
 * filter program is asked for them again, and must say maybe to each; and for numbers n ..
 * n + LAB_ABSENT - 1, which are other keys because the numbers are others: absent by construction,
 * so that each maybe is a false positive.
 *
 * The hash is a keyed one, and so other keys fill a filter as independently as another hash key
 * would; a program for each seed would have to be loaded and verified, which takes far longer than
 * all the asking.
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

static int no_memory(struct xbloom_error *err)
{
	snprintf(err->text, sizeof(err->text), "out of memory");
	return -ENOMEM;
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

/* A random number that is always the same for this seed, cell and purpose. */
static uint64_t drawn(const struct lab *lab, unsigned int line, uint32_t layout, enum drawn purpose)
{
	const struct xbloom_hash_key key = { lab->seed, LAB_DOMAIN };
	const __u64 words[] = { line, layout, purpose };

	return xbloom_words_hash(&key, words, sizeof(words) / sizeof(words[0]));
}

/* ---- one filter ---- */

struct trial {
	struct lab *lab;
	unsigned int line; /* the first of it */
	uint32_t layout;
	uint64_t keys; /* when it is fullest */
	struct xbloom_hash_key hash_key;
	struct xbloom *filter;
	struct xbloom_prober *prober;
	uint64_t *hashes; /* of the keys of the seed at hand */
	uint64_t *ahead;  /* of those of the next */
};

/* What one asking is for, and what came of it. */
struct asking {
	struct trial *t;
	uint64_t present; /* the first numbers are those of keys in the filter, */
	uint64_t absent;  /* and so many others follow; */
	uint64_t ahead;	  /* from here on, their hashes are kept for the next seed */
	uint64_t told;
	uint64_t lost;	/* of present, called absent */
	uint64_t maybe; /* of absent, called so */
};

/* Each seed has so many numbers to itself. */
static uint64_t stride(const struct trial *t)
{
	return t->keys + LAB_ABSENT;
}

static int trial_open(struct trial *t, struct lab *lab, unsigned int line, uint32_t layout,
		      struct xbloom_error *err)
{
	const struct xbloom_prober_options options = {
		.family = XBLOOM_FAMILY_V4,
		.seed = drawn(lab, line, layout, DRAWN_BIJECTION),
		.tell_maybe = true,
		.tell_absent = true,
	};
	unsigned int last = line;
	int ret;

	while (goes_on(last + 1))
		last++;
	*t = (struct trial){
		.lab = lab,
		.line = line,
		.layout = layout,
		.keys = lab->cells[last][layout].keys,
		.hash_key = { drawn(lab, line, layout, DRAWN_HASH_KEY_0),
			      drawn(lab, line, layout, DRAWN_HASH_KEY_1) },
	};
	t->hashes = calloc(t->keys, sizeof(*t->hashes));
	t->ahead = calloc(t->keys, sizeof(*t->ahead));
	if (!t->hashes || !t->ahead)
		return no_memory(err);
	ret = xbloom_scratch(&lab->cells[line][layout].geometry, LAB_KEYS, XBLOOM_SRC, &t->hash_key,
			     &t->filter, err);
	return ret ? ret : xbloom_prober_open(t->filter, &options, &t->prober, err);
}

static void trial_close(struct trial *t)
{
	if (t->prober)
		xbloom_prober_close(t->prober);
	if (t->filter)
		xbloom_close(t->filter);
	free(t->hashes);
	free(t->ahead);
}

static int on_told(void *ctx, const struct xbloom_sample *sample)
{
	struct asking *a = ctx;
	uint64_t i = a->told++;

	if (i < a->present)
		a->lost += sample->reason == XBLOOM_ABSENT;
	else if (i < a->present + a->absent)
		a->maybe += sample->reason == XBLOOM_MAYBE;
	if (i >= a->ahead && i - a->ahead < a->t->keys)
		a->t->ahead[i - a->ahead] =
			xbloom_words_hash(&a->t->hash_key, sample->words, sample->n_words);
	return 0;
}

/* Ask for n numbers from `first` on. */
static int ask(struct asking *a, uint64_t first, uint64_t n, struct xbloom_error *err)
{
	uint64_t maybe;
	int ret = xbloom_prober_ask(a->t->prober, first, n, &maybe, on_told, a, err);

	if (!ret && a->told != n) {
		snprintf(err->text, sizeof(err->text),
			 "the kernel told only %llu of the %llu keys that it drew",
			 (unsigned long long)a->told, (unsigned long long)n);
		ret = -EIO;
	}
	return ret;
}

/*
 * One seed: from the first line of the filter to the last that goes on with it. Asking for a key
 * takes less than a microsecond, but each call of the kernel some 15 ms, before and after. So the
 * last one also draws the keys of the next seed.
 */
static int trial_run(struct trial *t, unsigned int s, struct xbloom_error *err)
{
	uint64_t first = s * stride(t), in = 0, *swap = t->hashes;
	unsigned int line = t->line;
	int ret;

	t->hashes = t->ahead;
	t->ahead = swap;
	xbloom_clear(t->filter);
	do {
		struct lab_cell *cell = &t->lab->cells[line][t->layout];
		struct asking a = {
			.t = t, .present = cell->keys, .absent = LAB_ABSENT, .ahead = stride(t)
		};
		uint64_t n = cell->keys + LAB_ABSENT;

		for (; in < cell->keys; in++)
			xbloom_add(t->filter, t->hashes[in]);
		if (!goes_on(line + 1))
			n += t->keys;
		ret = ask(&a, first, n, err);
		cell->false_negatives += a.lost;
		cell->maybes[s] = a.maybe;
		line++;
	} while (!ret && goes_on(line));
	return ret;
}

/* The keys of the first seed. */
static int trial_start(struct trial *t, struct xbloom_error *err)
{
	struct asking a = { .t = t };

	return ask(&a, 0, t->keys, err);
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
 * absent keys asked: besides the luck of their draw there is that of the keys put in, which fill
 * one filter a little more than the next, and 20 filters are no more than 20 samples of that.
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
	if (!lab->counts)
		return no_memory(err);
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

struct meter {
	const struct xbloom_options *opts;
	uint64_t done, total; /* seeds of filters, as the keys that a filter is built for */
};

static int run_filter(struct lab *lab, unsigned int line, uint32_t layout, struct meter *meter,
		      struct xbloom_error *err)
{
	struct trial t;
	unsigned int s;
	int ret = trial_open(&t, lab, line, layout, err);

	if (!ret)
		ret = trial_start(&t, err);
	for (s = 0; s < lab->seeds && !ret; s++) {
		ret = trial_run(&t, s, err);
		meter->done += LAB_KEYS;
		meter->opts->progress(meter->opts->ctx, "lab", meter->done, meter->total);
	}
	trial_close(&t);
	return ret;
}

/* A line that begins a filter of this layout, and does not go on with another's. */
static bool begins(const struct lab *lab, unsigned int line, uint32_t layout)
{
	return lab->cells[line][layout].used && !goes_on(line);
}

static uint64_t keys_of_all(const struct lab *lab)
{
	uint64_t filters = 0;
	unsigned int line, layout;

	for (line = 0; line < LAB_LINES; line++)
		for (layout = 0; layout < LAB_LAYOUTS; layout++)
			filters += begins(lab, line, layout);
	return filters * lab->seeds * LAB_KEYS;
}

int lab_run(struct lab *lab, uint64_t seed, unsigned int seeds, const struct xbloom_options *opts,
	    struct xbloom_error *err)
{
	struct meter meter = { .opts = opts };
	unsigned int line, layout;
	int ret;

	*lab = (struct lab){ .seed = seed, .seeds = seeds };
	ret = prepare(lab, err);
	meter.total = keys_of_all(lab);
	for (line = 0; line < LAB_LINES; line++)
		for (layout = 0; layout < LAB_LAYOUTS && !ret; layout++)
			if (begins(lab, line, layout))
				ret = run_filter(lab, line, layout, &meter, err);
	if (!ret)
		judge(lab);
	return ret;
}

void lab_free(struct lab *lab)
{
	free(lab->counts);
	lab->counts = NULL;
}
