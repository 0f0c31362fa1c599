// SPDX-License-Identifier: GPL-2.0-only
/*
 * The picture of `lab --plot`: a panel for each experiment, with what is predicted as a line and
 * what was measured as points with their intervals.
 */
#include <inttypes.h>
#include <math.h>

#include "cli.h"
#include "lab.h"
#include "plot.h"

/* In pixels. */
#define WIDTH 1000u
#define HEIGHT 820u

/* More points than this beside each other are a smear. */
#define SEEDS_SHOWN 50u

static const uint32_t layouts[LAB_LAYOUTS] = { XBLOOM_LAYOUT_CLASSIC, XBLOOM_LAYOUT_SPLIT };

static int line_type(uint32_t layout)
{
	return layout == XBLOOM_LAYOUT_SPLIT ? PLOT_SPLIT : PLOT_CLASSIC;
}

/* ---- data ---- */

/* Where a line stands on its panel's axis. */
static double place(const struct lab_line *line)
{
	switch (line->experiment) {
	case LAB_BITS:
		return line->bits_per_key;
	case LAB_HASHES:
		return line->k;
	default:
		return line->load;
	}
}

/* $measuredE_L: x, rate, low, high of each cell. */
static void write_measured(FILE *out, const struct lab *lab, enum lab_experiment experiment,
			   uint32_t layout)
{
	unsigned int line;

	fprintf(out, "$measured%d_%u << END\n", experiment, layout);
	for (line = 0; line < LAB_LINES; line++) {
		const struct lab_cell *c = &lab->cells[line][layout];

		if (lab_lines[line].experiment == experiment && c->used)
			fprintf(out, "%g %.9g %.9g %.9g\n", place(&lab_lines[line]), c->measured,
				c->low, c->high);
	}
	fputs("END\n", out);
}

static unsigned int seeds_shown(const struct lab *lab)
{
	return lab->seeds < SEEDS_SHOWN ? lab->seeds : SEEDS_SHOWN;
}

/* So that the points of the two layouts do not hide each other. */
#define BESIDE 0.13

static double beside(uint32_t layout)
{
	return layout == XBLOOM_LAYOUT_SPLIT ? BESIDE : -BESIDE;
}

/* The same for the seeds of the first experiment, one by one: each is a share of LAB_ABSENT. */
static void write_seeds(FILE *out, const struct lab *lab, uint32_t layout)
{
	const struct lab_cell *c = &lab->cells[0][layout];
	unsigned int s;

	fprintf(out, "$measured%d_%u << END\n", LAB_DIRECTION, layout);
	for (s = 0; s < seeds_shown(lab); s++) {
		double low, high;

		xbloom_wilson(c->maybes[s], LAB_ABSENT, &low, &high);
		fprintf(out, "%g %.9g %.9g %.9g\n", s + 1 + beside(layout),
			(double)c->maybes[s] / LAB_ABSENT, low, high);
	}
	fputs("END\n", out);
}

static double best_rate(double bits_per_key, uint32_t layout)
{
	double best = 1;
	unsigned int k;

	if (layout == XBLOOM_LAYOUT_SPLIT)
		return xbloom_rate_split(bits_per_key);
	for (k = 1; k <= XBLOOM_CLASSIC_K_MAX; k++)
		best = fmin(best, xbloom_rate_classic(bits_per_key, k));
	return best;
}

/* The first and last x of a panel, and the step of its curve. */
struct axis {
	double first, last, step;
};
static const struct axis axes[] = {
	[LAB_DIRECTION] = { 0, 0, 1 }, /* as many as there are seeds */
	[LAB_BITS] = { 3, 17, 0.25 },
	[LAB_HASHES] = { 1, 21, 1 },
	[LAB_OVERFILL] = { 0.1, 3.5, 0.05 },
};

static double predicted_at(const struct lab *lab, enum lab_experiment experiment, uint32_t layout,
			   double x)
{
	const struct xbloom_geometry *g = &lab->cells[0][layout].geometry;

	switch (experiment) {
	case LAB_BITS:
		return best_rate(x, layout);
	case LAB_HASHES:
		return xbloom_rate_classic((double)g->bits / LAB_KEYS, (unsigned int)x);
	case LAB_OVERFILL:
		return xbloom_rate(g, (uint64_t)(x * LAB_KEYS));
	default:
		return xbloom_rate(g, LAB_KEYS);
	}
}

/* $predictedE_L: x, rate. */
static void write_predicted(FILE *out, const struct lab *lab, enum lab_experiment experiment,
			    uint32_t layout)
{
	struct axis a = axes[experiment];
	unsigned int i;

	if (experiment == LAB_DIRECTION)
		a.last = seeds_shown(lab) + 1;
	fprintf(out, "$predicted%d_%u << END\n", experiment, layout);
	for (i = 0; a.first + i * a.step <= a.last; i++) {
		double x = a.first + i * a.step;

		fprintf(out, "%g %.9g\n", x, predicted_at(lab, experiment, layout, x));
	}
	fputs("END\n", out);
}

static void write_data(FILE *out, const struct lab *lab)
{
	unsigned int e, i;

	for (e = LAB_DIRECTION; e <= LAB_EXPERIMENTS; e++) {
		for (i = 0; i < LAB_LAYOUTS; i++) {
			write_predicted(out, lab, e, layouts[i]);
			if (e == LAB_DIRECTION)
				write_seeds(out, lab, layouts[i]);
			else
				write_measured(out, lab, e, layouts[i]);
		}
	}
}

/* ---- panels ---- */

/* Curves and points; those of the experiment with k are of layout classic alone. */
static void draw(FILE *out, enum lab_experiment experiment)
{
	unsigned int i, n = experiment == LAB_HASHES ? 1 : LAB_LAYOUTS;

	fputs("plot ", out);
	for (i = 0; i < n; i++) {
		int type = line_type(layouts[i]);

		fprintf(out,
			"%s$predicted%d_%u using 1:2 with lines linetype %d notitle, "
			"$measured%d_%u using 1:2:3:4 with yerrorbars linetype %d dashtype solid "
			"linewidth 1.2 pointsize 0.6 notitle, "
			"keyentry with linespoints linetype %d pointsize 0.6 title '%s'",
			i ? ", " : "", experiment, layouts[i], type, experiment, layouts[i], type,
			type, layout_name(layouts[i]));
	}
	fputc('\n', out);
}

static void title(FILE *out, enum lab_experiment experiment, const char *text, const char *x,
		  const char *y)
{
	fprintf(out,
		"set title \"{/:Bold=15 %d  %s}\" textcolor rgb '#222222'\n"
		"set xlabel '%s'\nset ylabel '%s'\n",
		experiment, text, x, y);
}

static void panel_direction(FILE *out, const struct lab *lab)
{
	const struct lab_cell *c = lab->cells[0];
	char keys[HUMAN_TEXT], lost[HUMAN_TEXT], text[4 * HUMAN_TEXT];

	snprintf(text, sizeof(text), "It errs in one direction: %s of %s keys lost",
		 human_count(c[0].false_negatives + c[1].false_negatives, lost),
		 human_count(lab->seeds * (c[0].keys + c[1].keys), keys));
	title(out, LAB_DIRECTION, text, "filter, each with keys of its own",
	      "absent keys called maybe");
	fprintf(out,
		"set xrange [0:%u]\nset yrange [0:0.04]\nset ytics 0.01\n"
		"set format y '%%.2f'\nset key bottom right horizontal\n",
		seeds_shown(lab) + 1);
	draw(out, LAB_DIRECTION);
}

static void panel_bits(FILE *out)
{
	title(out, LAB_BITS, "Bits are the price", "bits per key, at the best k", "");
	fprintf(out,
		"set xrange [%g:%g]\nset xtics 4\nset logscale y\nset yrange [0.0002:1]\n"
		"set ytics auto\nset format y '%%g'\nset key top right vertical\n",
		axes[LAB_BITS].first, axes[LAB_BITS].last);
	draw(out, LAB_BITS);
	fputs("unset logscale y\n", out);
}

static void panel_hashes(FILE *out)
{
	title(out, LAB_HASHES, "Too few hashes lose, and so do too many",
	      "k, the number of hashes, at 8 bits a key", "absent keys called maybe");
	fprintf(out,
		"set xrange [0:%g]\nset xtics (1, 2, 6, 12, 20)\nset yrange [0:0.2]\n"
		"set format y '%%.2f'\nset key top left vertical\n",
		axes[LAB_HASHES].last);
	draw(out, LAB_HASHES);
}

static void panel_overfill(FILE *out)
{
	title(out, LAB_OVERFILL, "Overfilling is silent",
	      "load: keys, by those that the filter was built for", "");
	fprintf(out,
		"set xrange [0:%g]\nset xtics 1\nset yrange [0:0.8]\nset format y '%%.1f'\n"
		"set key bottom right vertical\n"
		"set arrow 1 from 1, graph 0 to 1, graph 1 nohead linetype %d back\n"
		"set label 1 'built for this' at 1.05, graph 0.6 textcolor rgb '#555555'\n",
		axes[LAB_OVERFILL].last, PLOT_MARK);
	draw(out, LAB_OVERFILL);
}

int lab_plot(const struct lab *lab, const char *path)
{
	struct plot plot;
	FILE *out = plot_begin(&plot, path, WIDTH, HEIGHT);

	if (!out)
		return EXIT_FAILED;
	write_data(out, lab);
	fputs("set multiplot layout 2,2 margins 0.08,0.97,0.08,0.88 spacing 0.09,0.14 "
	      "title \"{/:Bold=18 A Bloom filter in the kernel}\\n"
	      "lines: predicted; points: measured, with 95 % intervals\"\n",
	      out);
	panel_direction(out, lab);
	panel_bits(out);
	panel_hashes(out);
	panel_overfill(out);
	fputs("unset multiplot\n", out);
	return plot_end(&plot);
}
