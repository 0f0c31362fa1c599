// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom lab: the essay's four experiments, asked of the program in the kernel, on one screen of
 * 80x24. The answer is no when a key was lost or the predictions are wrong.
 */
#include <inttypes.h>

#include "cli.h"
#include "lab.h"
#include "plot.h"

#define DEFAULT_SEED 1
/* Enough for intervals of 1 to 3 % of most rates, within the time that one likes to wait. */
#define DEFAULT_SEEDS 20

enum { OPT_SEED = OPT_FIRST, OPT_SEEDS, OPT_PLOT };

static const struct option options[] = {
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "seeds", required_argument, NULL, OPT_SEEDS },
	{ "plot", required_argument, NULL, OPT_PLOT },
	COMMON_OPTIONS,
};

struct request {
	uint64_t seed;
	uint64_t seeds;
	const char *plot;
	bool json;
};

/* The essay's own layout first. */
static const uint32_t shown[LAB_LAYOUTS] = { XBLOOM_LAYOUT_CLASSIC, XBLOOM_LAYOUT_SPLIT };

/* ---- one screen ---- */

/* Columns: a label, and for each layout what was predicted, measured, and whether they agree. */
static void print_head(const struct lab *lab)
{
	printf("Share of absent keys called maybe by the program in the kernel, over %u seeds\n",
	       lab->seeds);
	printf("%-15s------- layout classic -------   -------- layout split --------\n", "");
	printf("%-13spredicted measured, 95 %%     ok  predicted measured, 95 %%     ok\n", "");
}

/* What an experiment shows. */
static void print_heading(const struct lab *lab, enum lab_experiment experiment)
{
	const struct lab_cell *c = lab->cells[0];
	char keys[HUMAN_TEXT], lost[HUMAN_TEXT];

	switch (experiment) {
	case LAB_DIRECTION:
		printf("1 It errs in one direction: of %s keys put in, %s are called absent\n",
		       human_count(lab->seeds * (c[0].keys + c[1].keys), keys),
		       human_count(c[0].false_negatives + c[1].false_negatives, lost));
		break;
	case LAB_BITS:
		puts("2 Bits are the price: each one more a key takes about a third off the rate");
		break;
	case LAB_HASHES:
		puts("3 The best k is a minimum: too few hashes lose, and so do too many");
		break;
	case LAB_OVERFILL:
		puts("4 Overfilling is silent: at three times the load, half and more are maybe");
		break;
	}
}

static void print_cell(const struct lab_cell *cell)
{
	printf("%.5f %.5f +- %.5f %s", cell->predicted, cell->measured, cell->high - cell->measured,
	       cell->agree ? "yes" : "NO");
}

static void print_line(const struct lab *lab, unsigned int line)
{
	const struct lab_cell *cells = lab->cells[line];
	const struct lab_line *l = &lab_lines[line];
	char label[2 * HUMAN_TEXT], keys[HUMAN_TEXT];

	if (l->experiment == LAB_OVERFILL)
		snprintf(label, sizeof(label), "%s keys", human_count(cells[0].keys, keys));
	else
		snprintf(label, sizeof(label), "%2u bits k %u", l->bits_per_key, l->k);
	printf(" %-14s", label);
	print_cell(&cells[XBLOOM_LAYOUT_CLASSIC]);
	if (cells[XBLOOM_LAYOUT_SPLIT].used) {
		fputs(cells[XBLOOM_LAYOUT_CLASSIC].agree ? "   " : "    ", stdout);
		print_cell(&cells[XBLOOM_LAYOUT_SPLIT]);
	}
	putchar('\n');
}

static void print_verdict(const struct lab *lab)
{
	char lost[HUMAN_TEXT];

	printf("\n%u of %u intervals hold the prediction; at 95 %%, one in twenty misses by "
	       "chance\n",
	       lab->agreeing, lab->intervals);
	if (lab->false_negatives)
		printf("%s keys that were put in are called absent: the filter is broken\n",
		       human_count(lab->false_negatives, lost));
	else if (!lab->sound)
		puts("So many misses are no chance: the predictions are wrong, or the filter is");
}

static void print_lab(const struct lab *lab)
{
	unsigned int line;

	print_head(lab);
	for (line = 0; line < LAB_LINES; line++) {
		if (!line || lab_lines[line].experiment != lab_lines[line - 1].experiment)
			print_heading(lab, lab_lines[line].experiment);
		print_line(lab, line);
	}
	print_verdict(lab);
}

/* ---- JSON ---- */

static struct json_object *cell_json(const struct lab_cell *cell, uint32_t layout,
				     unsigned int seeds)
{
	struct json_object *o = json_object_new_object();
	struct json_object *maybes = json_object_new_array();
	unsigned int s;

	for (s = 0; s < seeds; s++)
		json_object_array_add(maybes, json_u64(cell->maybes[s]));
	json_add(o, "layout", json_object_new_string(layout_name(layout)));
	json_add(o, "keys", json_u64(cell->keys));
	json_add(o, "bits", json_u64(cell->geometry.bits));
	json_add(o, "k", json_u64(cell->geometry.k));
	json_add(o, "false_negatives", json_u64(cell->false_negatives));
	json_add(o, "false_positives", maybes);
	json_add(o, "fp_predicted", json_number(cell->predicted));
	json_add(o, "fp_measured", json_number(cell->measured));
	json_add(o, "ci_low", json_number(cell->low));
	json_add(o, "ci_high", json_number(cell->high));
	json_add(o, "agree", json_object_new_boolean(cell->agree));
	return o;
}

static struct json_object *experiment_json(const struct lab *lab, enum lab_experiment experiment)
{
	struct json_object *o = json_object_new_object();
	struct json_object *rows = json_object_new_array();
	unsigned int line, i;

	for (line = 0; line < LAB_LINES; line++) {
		for (i = 0; i < LAB_LAYOUTS; i++) {
			const struct lab_cell *cell = &lab->cells[line][shown[i]];

			if (lab_lines[line].experiment == experiment && cell->used)
				json_object_array_add(rows, cell_json(cell, shown[i], lab->seeds));
		}
	}
	json_add(o, "number", json_u64(experiment));
	json_add(o, "name", json_object_new_string(lab_name(experiment)));
	json_add(o, "rows", rows);
	return o;
}

static void print_lab_json(const struct lab *lab)
{
	struct json_object *o = json_object_new_object();
	struct json_object *experiments = json_object_new_array();
	unsigned int e;

	for (e = LAB_DIRECTION; e <= LAB_EXPERIMENTS; e++)
		json_object_array_add(experiments, experiment_json(lab, e));
	json_add(o, "seed", json_u64(lab->seed));
	json_add(o, "seeds", json_u64(lab->seeds));
	json_add(o, "keys", json_u64(LAB_KEYS));
	json_add(o, "absent", json_u64(LAB_ABSENT));
	json_add(o, "false_negatives", json_u64(lab->false_negatives));
	json_add(o, "intervals", json_u64(lab->intervals));
	json_add(o, "agreeing", json_u64(lab->agreeing));
	json_add(o, "agree", json_object_new_boolean(lab->sound));
	json_add(o, "experiments", experiments);
	print_json(o);
}

/* ---- the verb ---- */

static bool parse_seeds(const char *text, uint64_t *seeds)
{
	if (!parse_count("--seeds", text, COUNT_MAX, seeds))
		return false;
	if (*seeds < LAB_SEEDS_MIN || *seeds > LAB_SEEDS_MAX) {
		fail("--seeds '%s' is not between %u, to see their spread, and %u", text,
		     LAB_SEEDS_MIN, LAB_SEEDS_MAX);
		return false;
	}
	return true;
}

static bool parse(int argc, char **argv, struct request *r)
{
	bool good = true;
	int c;

	while (good && (c = next_option(&verb_lab, argc, argv, options)) != -1) {
		switch (c) {
		case OPT_SEED:
			good = parse_count("--seed", optarg, COUNT_MAX, &r->seed);
			break;
		case OPT_SEEDS:
			good = parse_seeds(optarg, &r->seeds);
			break;
		case OPT_PLOT:
			r->plot = optarg;
			break;
		case OPT_JSON:
			r->json = true;
			break;
		default:
			return false;
		}
	}
	if (good && optind < argc) {
		fail("lab takes no argument '%s' (xdp-bloom lab --help)", argv[optind]);
		return false;
	}
	return good;
}

static int run(int argc, char **argv)
{
	struct request r = { .seed = DEFAULT_SEED, .seeds = DEFAULT_SEEDS };
	struct xbloom_error err = { "" };
	struct lab lab;
	int status;

	/* Whether it can be drawn is asked before the long part. */
	if (!parse(argc, argv, &r) || (r.plot && !plot_check(r.plot)))
		return EXIT_FAILED;
	if (lab_run(&lab, r.seed, (unsigned int)r.seeds, cli_options(), &err)) {
		lab_free(&lab);
		return fail_err(&err);
	}
	progress_done();
	if (r.json)
		print_lab_json(&lab);
	else
		print_lab(&lab);
	status = lab.sound ? EXIT_DONE : EXIT_NO;
	if (r.plot && lab_plot(&lab, r.plot) != EXIT_DONE)
		status = EXIT_FAILED;
	lab_free(&lab);
	return status;
}

const struct verb verb_lab = {
	.name = "lab",
	.summary = "run the four experiments on a filter of this kernel",
	.help = "usage: xdp-bloom lab [--seed N] [--seeds N] [--plot FILE.svg]\n"
		"\n"
		"  --seed N     the sample: a run with the same one gives the same figures "
		"(default 1)\n"
		"  --seeds N    filters for each figure, 5 to 1000 (default 20)\n"
		"  --plot FILE  draw four panels, as SVG (needs gnuplot)\n"
		"  --json       one JSON object\n"
		"\n"
		"Exit status 1: a key that was put in is called absent, or more predictions miss "
		"their\n"
		"interval than chance can explain.\n",
	.run = run,
};
