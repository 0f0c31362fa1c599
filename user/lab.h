/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The four experiments of "A Bloom Filter Lies in One Direction Only", on our own filter: what is
 * asked, in a table of lines, and what the program in the kernel answers, over many seeds. lab.c
 * runs them, cmd_lab.c prints and lab_plot.c draws what came of it.
 */
#ifndef XBLOOM_LAB_H
#define XBLOOM_LAB_H

#include "libxbloom.h"

/* What a filter is built for, and how many absent keys it is asked, as in the essay. */
#define LAB_KEYS 10000u
#define LAB_ABSENT 20000u

/* Fewer seeds make an interval of next to nothing; more take hours. */
#define LAB_SEEDS_MIN 5u
#define LAB_SEEDS_MAX 1000u

enum lab_experiment {
	LAB_DIRECTION = 1, /* it never errs on a key that is in it */
	LAB_BITS,	   /* 4 to 16 bits a key, at the best k */
	LAB_HASHES,	   /* 1 to 20 hashes, at 8 bits a key */
	LAB_OVERFILL,	   /* at its load and at three times it */
};
#define LAB_EXPERIMENTS 4u
#define LAB_LINES 12u
#define LAB_LAYOUTS 2u /* indexed by XBLOOM_LAYOUT_* */

/*
 * One question: a filter, and how full it is. With a load above 1 it is the filter of the line
 * before, filled further. All but the LAB_HASHES are asked of a split filter as well, which has a k
 * of its own.
 */
struct lab_line {
	enum lab_experiment experiment;
	unsigned int bits_per_key; /* at LAB_KEYS */
	unsigned int k;		   /* of classic */
	unsigned int load;	   /* times LAB_KEYS are in it */
};
extern const struct lab_line lab_lines[LAB_LINES];
/* Short and stable, as --json has it. */
const char *lab_name(enum lab_experiment experiment);

/* The answers to one line, of one layout. */
struct lab_cell {
	bool used;
	struct xbloom_geometry geometry;
	uint64_t keys;
	uint64_t false_negatives; /* over all seeds */
	uint64_t *maybes;	  /* of LAB_ABSENT absent keys, one number a seed */
	double predicted;
	double measured;  /* the mean over the seeds */
	double low, high; /* its 95 % interval */
	bool agree;	  /* predicted lies in it */
};

struct lab {
	uint64_t seed; /* everything that is drawn follows from it */
	unsigned int seeds;
	struct lab_cell cells[LAB_LINES][LAB_LAYOUTS];
	/* Over all cells. */
	unsigned int intervals;
	unsigned int agreeing;
	uint64_t false_negatives;
	bool sound; /* no false negative, and no more intervals miss than chance can explain */
	uint64_t *counts; /* the memory behind maybes */
};

/*
 * Run everything, with `seeds` filters for each cell, LAB_SEEDS_MIN .. LAB_SEEDS_MAX, and tell
 * opts->progress. Needs the right to load BPF programs. Free with lab_free(), also after an error.
 */
int lab_run(struct lab *lab, uint64_t seed, unsigned int seeds, const struct xbloom_options *opts,
	    struct xbloom_error *err);
void lab_free(struct lab *lab);

/* Draw it (lab_plot.c), as SVG: an exit status, and it was said what went wrong. */
int lab_plot(const struct lab *lab, const char *path);

#endif /* XBLOOM_LAB_H */
