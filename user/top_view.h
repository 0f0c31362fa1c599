/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The screen of `top`: draws a model on a terminal and reads keys from it. The only file that knows
 * ncurses. Nothing is told by colour alone, and nothing but ASCII is written.
 */
#ifndef XBLOOM_TOP_VIEW_H
#define XBLOOM_TOP_VIEW_H

#include "top_model.h"

#define TOP_MESSAGE 128

/* What the user has chosen to see. */
struct top_ui {
	char selected[XBLOOM_NAME_MAX]; /* "": none, as there is no filter */
	bool detail;			/* of the selected one; else all */
	bool bits;			/* rates in bits; else packets */
	bool help;
	bool paused;
	double interval;
	size_t first;		   /* filter on the first line of the overview */
	char message[TOP_MESSAGE]; /* said until the next key */
};

enum top_key {
	TOP_KEY_NONE, /* no key is waiting */
	TOP_KEY_OTHER,
	TOP_KEY_NEXT,
	TOP_KEY_PREVIOUS,
	TOP_KEY_DETAIL,
	TOP_KEY_OVERVIEW,
	TOP_KEY_UNITS,
	TOP_KEY_MEASURE,
	TOP_KEY_PAUSE,
	TOP_KEY_LONGER,
	TOP_KEY_SHORTER,
	TOP_KEY_HELP,
	TOP_KEY_QUIT,
};

/* Take the terminal on stdin and stdout. -ENOTSUP: it cannot do what is needed, and err says so. */
int top_view_open(struct xbloom_error *err);
/* Whether the terminal takes what is drawn, within so many milliseconds. */
bool top_view_can_draw(int timeout_ms);
/* Give it back as it was. */
void top_view_close(void);
/* The same from the handler of a signal that means a crash; does nothing when it was given back. */
void top_view_rescue(void);
void top_view_draw(const struct top_model *m, struct top_ui *ui);
/* The next key, without waiting. */
enum top_key top_view_key(void);

#endif /* XBLOOM_TOP_VIEW_H */
