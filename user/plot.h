/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pictures, drawn by gnuplot. The caller writes gnuplot's commands and data into a stream; what
 * comes out is an SVG file that is there whole or not at all: it is drawn beside its final name, and
 * takes it, and with it the place of what was there before, only when it is complete. No path ever
 * reaches gnuplot.
 *
 *	if (!plot_check(path))		before long work
 *		return EXIT_FAILED;
 *	...
 *	out = plot_begin(&plot, path, 960, 440);
 *	if (!out)
 *		return EXIT_FAILED;
 *	fputs("$data << END\n1 2\n2 4\nEND\n", out);
 *	fprintf(out, "plot $data using 1:2 with lines linetype %d\n", PLOT_SPLIT);
 *	return plot_end(&plot);
 */
#ifndef XBLOOM_PLOT_H
#define XBLOOM_PLOT_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Line types that plot_begin() defines: told apart by everybody (the colours of Okabe and Ito,
 * "Color Universal Design", 2008), and each but the marks by dash and by point as well.
 */
enum {
	PLOT_SPLIT = 1, /* blue, full */
	PLOT_CLASSIC,	/* vermilion, dashed */
	PLOT_THIRD,	/* green, dash and dot */
	PLOT_FOURTH,	/* purple, dotted */
	PLOT_MARK,	/* grey and thin: levels, what was asked for */
};

struct plot {
	const char *path;
	char *part;	/* where it is drawn */
	int picture;	/* the same, open; -1: not yet */
	int said;	/* what gnuplot writes to stderr; -1: not yet */
	FILE *commands; /* gnuplot's stdin */
	pid_t gnuplot;
	/* As it was before plot_begin(). */
	sigset_t mask;
	struct sigaction on_pipe;
};

/* Whether a picture can have this name and place, and gnuplot is there; if not, it is said. */
bool plot_check(const char *path);

/*
 * Start a picture of this size, in pixels. Terminal, fonts, line types, border and grid are set
 * already. NULL: it was said what is wrong. `path` stays the caller's, until plot_end().
 *
 * Until plot_end() the signals that end a process are held back (see hold_signals()), and SIGPIPE
 * is ignored: do nothing long between the two. Ctrl-C still ends gnuplot, and so the picture.
 */
FILE *plot_begin(struct plot *plot, const char *path, unsigned int width, unsigned int height);

/*
 * Finish it: EXIT_DONE, or EXIT_FAILED, and it was said why. Nothing is left of a picture that
 * failed, and a file that had its name before is as it was.
 */
int plot_end(struct plot *plot);

#endif /* XBLOOM_PLOT_H */
