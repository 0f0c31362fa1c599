// SPDX-License-Identifier: GPL-2.0-only
/*
 * The picture of `plan --plot`, in two panels. Left, the price list: rate against bits per key, for
 * split and for classic with the best k. Right, for the two filters that were planned: rate against
 * load, from empty to three times the capacity. Rates are in percent, on a scale of decades.
 */
#include <math.h>

#include "cli.h"
#include "plan_picture.h"
#include "plot.h"

/* Pixels. */
#define WIDTH 1000
#define HEIGHT 580

/* Bits per key: usually these, and more where more were asked for, up to what no one pays. */
#define BITS_LEFT 4
#define BITS_RIGHT 24
#define BITS_MOST 64
#define BITS_STEPS 200
#define BITS_TICS 4
#define BITS_TICS_WIDE 8

/* Percent of the capacity. */
#define LOAD_MOST 300
#define LOAD_STEPS 300
/* How many decades under the rate at capacity are shown. */
#define LOAD_DECADES 2

/* No rate below 10^this is drawn: a packet a second would be called maybe once in 30,000 years. */
#define LOWEST_DECADE (-12)
/* Below this one, a percentage has more zeros than one can count. */
#define PLAIN_DECADE (-6)

/* ---- rates on a logarithmic axis ---- */

/* The decade above 10^d that holds the rate: -2 for 0.05, and, whatever the rounding, for 0.01. */
static int decade(double rate)
{
	int d = rate > 0 ? (int)floor(log10(rate) + 1e-9) : LOWEST_DECADE;

	return d < LOWEST_DECADE ? LOWEST_DECADE : d;
}

/*
 * From 10^low to 1, labelled in percent: "1 %" at 0.01, "10^-6 %" at 1e-8. What gnuplot puts at a
 * place it takes for a format, where %% is a percent sign.
 */
static void rate_axis(FILE *out, int low)
{
	int d;

	fprintf(out, "set logscale y\nset yrange [1e%d:1]\nset ytics (", low);
	for (d = low; d <= 0; d++) {
		if (d < PLAIN_DECADE)
			fprintf(out, "'10^{%d} %%%%' 1e%d", d + 2, d);
		else
			fprintf(out, "'%.*f %%%%' 1e%d", d < -2 ? -2 - d : 0, pow(10, d + 2), d);
		fputs(d < 0 ? ", " : ")\n", out);
	}
}

/* ---- left: bits per key ---- */

static double rate_of_best_k(double bits_per_key)
{
	double best = 1;
	unsigned int k;

	for (k = 1; k <= XBLOOM_CLASSIC_K_MAX; k++)
		best = fmin(best, xbloom_rate_classic(bits_per_key, k));
	return best;
}

static void bits_data(FILE *out, const struct xbloom_size *asked, double left, double right)
{
	int i;

	fputs("$bits << END\n", out);
	for (i = 0; i <= BITS_STEPS; i++) {
		double c = left + (right - left) * i / BITS_STEPS;

		fprintf(out, "%.6g %.9g %.9g\n", c, xbloom_rate_split(c), rate_of_best_k(c));
	}
	fprintf(out, "END\n$asked << END\n%.9g %.9g\nEND\n", asked->bits_per_key, asked->fp);
}

static void draw_bits(FILE *out, const struct xbloom_size *asked)
{
	bool inside = asked->bits_per_key <= BITS_MOST;
	double left = fmax(1, fmin(BITS_LEFT, floor(asked->bits_per_key)));
	double right = fmax(BITS_RIGHT, inside ? ceil(asked->bits_per_key) : 0);
	char rate[HUMAN_TEXT];

	bits_data(out, asked, left, right);
	rate_axis(out, decade(fmin(rate_of_best_k(right), inside ? asked->fp : 1)));
	fprintf(out,
		"set title 'What bits buy' offset 0,0.8\n"
		"set xlabel 'bits per key'\n"
		"set ylabel 'rate: absent keys called maybe'\n"
		"set xrange [%g:%g]\n"
		"set xtics %d\n"
		"plot $bits using 1:2 with lines linetype %d title 'split', "
		"$bits using 1:3 with lines linetype %d title 'classic, best k', ",
		left, right, right > BITS_RIGHT ? BITS_TICS_WIDE : BITS_TICS, PLOT_SPLIT,
		PLOT_CLASSIC);
	human_rate(asked->fp, rate);
	if (inside)
		fprintf(out, "$asked with points linetype %d pointtype 7 title ", PLOT_THIRD);
	else
		fputs("keyentry title 'off to the right: ' . ", out);
	fprintf(out, "'this plan, %.2f bits: %s'\n", asked->bits_per_key, rate);
}

/* ---- right: load ---- */

/* Of one layout, at whole keys, of which small filters have few. */
static void load_data(FILE *out, const struct xbloom_size *size)
{
	uint64_t last = 0;
	int i;

	fprintf(out, "$%s << END\n", layout_name(size->geometry.layout));
	for (i = 1; i <= LOAD_STEPS; i++) {
		double load = LOAD_MOST / 100.0 * i / LOAD_STEPS;
		uint64_t n = (uint64_t)round(load * (double)size->items);

		if (n == last)
			continue;
		last = n;
		fprintf(out, "%.9g %.9g\n", (double)n / (double)size->items * 100,
			xbloom_rate(&size->geometry, n));
	}
	fputs("END\n", out);
}

/* A level of the load, with its name above the panel; the two stand close. */
static void load_mark(FILE *out, const char *name, int percent, const char *side)
{
	fprintf(out,
		"set arrow from first %d, graph 0 to first %d, graph 1 nohead linetype %d back\n"
		"set label '%s %d %%' at first %d, graph 1.035 %s textcolor rgb '#555555'\n",
		percent, percent, PLOT_MARK, name, percent, percent, side);
}

/* The last of the curves; where it lies outside, in words only. */
static void draw_twice(FILE *out, const struct xbloom_size *asked, uint64_t twice)
{
	double percent = (double)twice / (double)asked->items * 100;

	if (!twice)
		return;
	if (percent <= LOAD_MOST)
		fprintf(out, ", $twice with points linetype %d pointtype 6 title ", PLOT_THIRD);
	else
		fputs(", keyentry title 'off to the right: ' . ", out);
	fprintf(out, "'twice that rate, at %.0f %%'", percent);
}

static void draw_load(FILE *out, const struct xbloom_size *asked,
		      const struct plan_layouts *layouts, uint64_t twice)
{
	double lowest = asked->fp;
	uint32_t layout;

	for (layout = 0; layout < PLAN_LAYOUTS; layout++) {
		if (!layouts->fits[layout])
			continue;
		load_data(out, &layouts->size[layout]);
		lowest = fmin(lowest, layouts->size[layout].fp);
	}
	rate_axis(out, decade(lowest * pow(10, -LOAD_DECADES)));
	load_mark(out, "alarm", XBLOOM_ALARM_PERCENT, "right");
	load_mark(out, "capacity", 100, "left");
	fprintf(out,
		"$full << END\n100 %.9g\nEND\n"
		"$twice << END\n%.9g %.9g\nEND\n"
		"set title 'What overload costs' offset 0,0.8\n"
		"set xlabel 'load: keys in the filter, %% of its capacity'\n"
		"set xrange [0:%d]\n"
		"set xtics 50\n"
		"plot ",
		asked->fp, (double)twice / (double)asked->items * 100,
		xbloom_rate(&asked->geometry, twice), LOAD_MOST);
	for (layout = 0; layout < PLAN_LAYOUTS; layout++) {
		const struct xbloom_size *size = &layouts->size[layout];

		if (!layouts->fits[layout])
			fprintf(out, "keyentry title '%s: none for this request', ",
				layout_name(layout));
		else
			fprintf(out,
				"$%s with lines linetype %d title '%s, %.2f bits per key, k %u', ",
				layout_name(layout),
				layout == XBLOOM_LAYOUT_SPLIT ? PLOT_SPLIT : PLOT_CLASSIC,
				layout_name(layout), size->bits_per_key, size->geometry.k);
	}
	fprintf(out, "$full with points linetype %d pointtype 7 title 'this plan, full'",
		PLOT_THIRD);
	draw_twice(out, asked, twice);
	fputs("\n", out);
}

/* ---- both ---- */

int draw_plan(const char *path, const struct xbloom_size *asked, const struct plan_layouts *layouts,
	      uint64_t twice)
{
	char items[HUMAN_TEXT], bytes[HUMAN_TEXT];
	struct plot plot;
	FILE *out = plot_begin(&plot, path, WIDTH, HEIGHT);

	if (!out)
		return EXIT_FAILED;
	/* The legends stand below the panels, where no curve can come. */
	fprintf(out,
		"set multiplot layout 1,2 margins 0.115,0.975,0.33,0.84 spacing 0.14 "
		"title '%s keys, layout %s, %s' font ',16'\n"
		"set key at graph 0, graph -0.22 left top vertical maxrows 4 Left reverse\n",
		human_count(asked->items, items), layout_name(asked->geometry.layout),
		human_bytes(asked->bytes, bytes));
	draw_bits(out, asked);
	draw_load(out, asked, layouts, twice);
	fputs("unset multiplot\n", out);
	return plot_end(&plot);
}
