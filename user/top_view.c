// SPDX-License-Identifier: GPL-2.0-only
/*
 * The screen of `top`; see top_view.h. Everything is drawn anew each time, and ncurses sends what
 * differs. Lines are cut at the right edge of the screen, so that no text, however long a name is,
 * pushes anything aside.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <ncurses.h>
#include <term.h>
/* Macros of theirs with names of everyday words, and one that cli.h has for something else. */
#undef lines
#undef columns
#undef KEY_OPTIONS

#include "cli.h"
#include "top_view.h"

#define SCREEN_COLUMNS_MIN 60
#define SCREEN_LINES_MIN 10
#define LINE_TEXT 512

/* How long the rest of an escape sequence may be under way before Esc means the key. */
#define ESCAPE_MS 50
#define ASCII_ESCAPE 27
#define ASCII_DELETE 127

enum { PAIR_OK = 1, PAIR_HIGH, PAIR_OVER };

static SCREEN *screen;
static bool in_colour;

/* All that gives the terminal back, made beforehand: in a crash, only system calls are safe. */
#define RESCUE_TEXT 256
static struct {
	bool ready;
	struct termios settings;
	char text[RESCUE_TEXT];
	size_t len;
} rescue;

/* ---- the terminal ---- */

static bool colour_wanted(void)
{
	/* https://no-color.org */
	const char *no = getenv("NO_COLOR");

	return !no || !*no;
}

/* Whether text can be put where it belongs on a terminal of this type. */
static bool can_be_drawn_on(void)
{
	int status;
	bool can = setupterm(NULL, STDOUT_FILENO, &status) == OK && cursor_address;

	if (cur_term)
		del_curterm(cur_term);
	return can;
}

static int keep_for_rescue(int c)
{
	if (rescue.len < RESCUE_TEXT)
		rescue.text[rescue.len++] = (char)c;
	return c;
}

/* What endwin() would send. */
static void prepare_rescue(void)
{
	const char *const ends[] = { exit_attribute_mode, orig_pair, keypad_local, exit_ca_mode,
				     cursor_normal };
	size_t i;

	rescue.len = 0;
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends[i])
			tputs(ends[i], 1, keep_for_rescue);
	rescue.ready = true;
}

void top_view_rescue(void)
{
	if (!rescue.ready)
		return;
	rescue.ready = false;
	/* Nothing more can be done where this fails. */
	if (write(STDOUT_FILENO, rescue.text, rescue.len) < 0)
		return;
	tcsetattr(STDIN_FILENO, TCSANOW, &rescue.settings);
}

int top_view_open(struct xbloom_error *err)
{
	const char *term = getenv("TERM");

	tcgetattr(STDIN_FILENO, &rescue.settings);
	/* The size is the terminal's, whatever LINES and COLUMNS were when the shell exported them. */
	use_env(FALSE);
	use_tioctl(TRUE);
	screen = term && *term && can_be_drawn_on() ? newterm(NULL, stdout, stdin) : NULL;
	if (!screen) {
		snprintf(err->text, sizeof(err->text),
			 "cannot draw on a terminal of type '%s': set TERM to what it is (xterm, "
			 "screen, vt100, linux), or use show, or top --json",
			 term ? term : "");
		return -ENOTSUP;
	}
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	prepare_rescue();
	in_colour = colour_wanted() && has_colors() && start_color() == OK;
	if (in_colour) {
		short background = use_default_colors() == OK ? -1 : COLOR_BLACK;

		init_pair(PAIR_OK, COLOR_GREEN, background);
		init_pair(PAIR_HIGH, COLOR_YELLOW, background);
		init_pair(PAIR_OVER, COLOR_RED, background);
	}
	return 0;
}

bool top_view_can_draw(int timeout_ms)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&out, 1, timeout_ms) > 0;
}

/* How long the end waits for a terminal that takes nothing, as after Ctrl-S or behind a dead line. */
#define CLOSE_WAIT_MS 1000

void top_view_close(void)
{
	/* Who stopped it by Ctrl-S wants the shell back now. On alone undoes only an off. */
	tcflow(STDOUT_FILENO, TCOOFF);
	tcflow(STDOUT_FILENO, TCOON);
	if (!top_view_can_draw(CLOSE_WAIT_MS)) {
		if (rescue.ready)
			tcsetattr(STDIN_FILENO, TCSANOW, &rescue.settings);
		return;
	}
	/* Where the terminal has one screen only, the shell goes on at the bottom of it. */
	move(LINES - 1, 0);
	clrtoeol();
	refresh();
	endwin();
	rescue.ready = false;
	delscreen(screen);
}

/* Asked each time instead of told by a signal: nothing can be missed. */
static void fit_screen(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col ||
	    !is_term_resized(size.ws_row, size.ws_col))
		return;
	resize_term(size.ws_row, size.ws_col);
	/* The terminal may have moved about what it shows. */
	clearok(curscr, TRUE);
}

enum top_key top_view_key(void)
{
	switch (getch()) {
	case ERR:
		return TOP_KEY_NONE;
	case KEY_DOWN:
	case 'j':
	case 'n':
	case '\t':
		return TOP_KEY_NEXT;
	case KEY_UP:
	case 'k':
	case 'p':
	case KEY_BTAB:
		return TOP_KEY_PREVIOUS;
	case KEY_ENTER:
	case '\r':
	case '\n':
		return TOP_KEY_DETAIL;
	case KEY_BACKSPACE:
	case ASCII_ESCAPE:
	case ASCII_DELETE:
	case '\b':
		return TOP_KEY_OVERVIEW;
	case 'u':
		return TOP_KEY_UNITS;
	case 'm':
		return TOP_KEY_MEASURE;
	case ' ':
		return TOP_KEY_PAUSE;
	case '+':
	case '=': /* the same key, on many keyboards */
		return TOP_KEY_LONGER;
	case '-':
		return TOP_KEY_SHORTER;
	case 'h':
	case '?':
		return TOP_KEY_HELP;
	case 'q':
		return TOP_KEY_QUIT;
	default:
		return TOP_KEY_OTHER;
	}
}

/* ---- drawing ---- */

/* Returns the column behind it. */
static int put(int y, int x, attr_t attributes, const char *text)
{
	int room = COLS - x, n;

	if (y < 0 || y >= LINES || room <= 0)
		return x;
	attrset(attributes);
	for (n = 0; text[n] && n < room; n++) {
		/* Names of devices may hold anything. */
		unsigned char c = (unsigned char)text[n];

		mvaddch(y, x + n, c >= ' ' && c < ASCII_DELETE ? c : '?');
	}
	attrset(A_NORMAL);
	return x + n;
}

static attr_t alarm_attributes(const char *alarm)
{
	bool ok = !strcmp(alarm, "ok"), high = !strcmp(alarm, "high");

	if (in_colour)
		return (attr_t)COLOR_PAIR(ok ? PAIR_OK : high ? PAIR_HIGH : PAIR_OVER);
	return ok ? A_NORMAL : A_BOLD;
}

static attr_t warning_attributes(void)
{
	return (in_colour ? (attr_t)COLOR_PAIR(PAIR_HIGH) : 0) | A_BOLD;
}

/* What was asked for is on the way: not yet a number, but not nothing, either. */
#define PENDING "..."

static const double *values_of(const struct top_filter *t, const struct top_ui *ui)
{
	return ui->bits ? t->rates.bits : t->rates.packets;
}

static void draw_title(const struct top_model *m, const struct top_ui *ui)
{
	char left[LINE_TEXT], right[LINE_TEXT];
	int at;

	if (ui->detail)
		snprintf(left, sizeof(left), "xdp-bloom top: %s", ui->selected);
	else
		snprintf(left, sizeof(left), "xdp-bloom top: %zu filter%s", m->n,
			 m->n == 1 ? "" : "s");
	snprintf(right, sizeof(right), "%s%s, every %g s", ui->paused ? "PAUSED, " : "",
		 ui->bits ? "bits/s" : "packets/s", ui->interval);
	/* Filters may differ in the end of their long names alone: not to be covered. */
	if (strlen(left) + strlen(right) >= (size_t)COLS)
		snprintf(right, sizeof(right), "%s", ui->paused ? "PAUSED" : "");
	at = COLS - (int)strlen(right);
	put(0, 0, A_BOLD, left);
	if (at > 0 && right[0]) {
		put(0, at - 1, A_NORMAL, " ");
		put(0, at, A_NORMAL, right);
	}
}

/* Each at most as wide as the narrowest screen. */
static const char *const help_lines[] = {
	"j/k, arrows, Tab, n/p: other filter     Enter: detail",
	"Esc, Backspace: all   u: packets or bits   space: pause",
	"m: measure now   +/-: interval   h: help off   q: quit",
	"(dropped): would be, but for shadow   rate!: they disagree",
};
#define HELP_LINES ((int)(sizeof(help_lines) / sizeof(help_lines[0])))
#define HELP_LINES_DETAIL (HELP_LINES - 1) /* the last explains the overview */

/* Draws the lines at the bottom; returns how many. */
static int draw_bottom(const struct top_ui *ui)
{
	int i, n = ui->detail ? HELP_LINES_DETAIL : HELP_LINES;

	if (ui->message[0]) {
		put(LINES - 1, 0, warning_attributes(), ui->message);
		return 1;
	}
	if (!ui->help) {
		put(LINES - 1, 0, A_NORMAL,
		    ui->detail ? "h help  q quit  Esc all  Tab next  u units  m measure"
			       : "h help  q quit  Enter detail  u units  m measure");
		return 1;
	}
	for (i = 0; i < n; i++)
		put(LINES - n + i, 0, A_NORMAL, help_lines[i]);
	return n;
}

/* ---- all filters, a line each ---- */

enum column {
	COLUMN_NAME,
	COLUMN_ABSENT,
	COLUMN_MAYBE,
	COLUMN_DROPPED,
	COLUMN_SHARE,
	COLUMN_BAR,
	COLUMN_LOAD,
	COLUMN_PREDICTED,
	COLUMN_MEASURED,
	COLUMN_ALARM,
	COLUMN_DEVICES,
	COLUMNS_ALL,
};

/* The widths for 80 columns, with a space between two. */
static const struct {
	const char *title;
	int width;
	bool left;
} columns[COLUMNS_ALL] = {
	[COLUMN_NAME] = { "NAME", 12, true },	      [COLUMN_ABSENT] = { "ABSENT", 6, false },
	[COLUMN_MAYBE] = { "MAYBE", 6, false },	      [COLUMN_DROPPED] = { "DROPPED", 7, false },
	[COLUMN_SHARE] = { "ABSNT%", 6, false },      [COLUMN_BAR] = { "LOAD", 8, true },
	[COLUMN_LOAD] = { "LOAD%", 5, false },	      [COLUMN_PREDICTED] = { "PREDICT%", 8, false },
	[COLUMN_MEASURED] = { "MEASURE%", 8, false }, [COLUMN_ALARM] = { "ALARM", 5, true },
	[COLUMN_DEVICES] = { "DEVICES", 0, true },
};

/* "[", "]" and the mark. */
#define BAR_ENDS 3
#define BAR_WIDE 23
#define NAME_WIDE 24
#define DEVICES_NARROW 12

static int total_width(const int width[COLUMNS_ALL])
{
	int sum = -1, c;

	for (c = 0; c < COLUMNS_ALL; c++)
		sum += width[c] ? width[c] + 1 : 0;
	return sum;
}

/* Spend what is left of the screen on one column, up to `most`. */
static void widen(int width[COLUMNS_ALL], enum column c, int most)
{
	int more = COLS - total_width(width);

	if (width[c] + more > most)
		more = most - width[c];
	if (more > 0)
		width[c] += more;
}

/* What is told twice, or can be had by Enter, goes first where the screen is narrow. */
static void lay_out(int width[COLUMNS_ALL])
{
	static const enum column spare[] = { COLUMN_BAR, COLUMN_SHARE, COLUMN_MEASURED };
	size_t i;
	int c;

	for (c = 0; c < COLUMNS_ALL; c++)
		width[c] = columns[c].width;
	for (i = 0; i < sizeof(spare) / sizeof(spare[0]) && total_width(width) > COLS; i++)
		width[spare[i]] = 0;
	if (COLS - total_width(width) > DEVICES_NARROW) {
		width[COLUMN_DEVICES] = DEVICES_NARROW;
		widen(width, COLUMN_BAR, BAR_WIDE);
	}
	widen(width, COLUMN_NAME, NAME_WIDE);
	if (width[COLUMN_DEVICES])
		widen(width, COLUMN_DEVICES, TOP_DEVICES_TEXT);
}

static void measured_cell(const struct top_filter *t, char cell[LINE_TEXT])
{
	char text[SI_TEXT];

	if (t->measured)
		snprintf(cell, LINE_TEXT, "%s%s", percent_text(t->measurement.fp_measured, text),
			 t->measurement.agree || t->measurement.empty ? "" : "!");
	else
		snprintf(cell, LINE_TEXT, "%s", t->unmeasured.text[0] ? "-" : PENDING);
}

/* What is dropped; in shadow, in brackets, what would be. */
static void dropped_cell(const struct top_filter *t, const struct top_ui *ui, char cell[LINE_TEXT])
{
	const double *values = values_of(t, ui);
	char text[SI_TEXT];

	if (t->rules.shadow)
		snprintf(cell, LINE_TEXT, "(%s)",
			 si_text(t->rated ? rates_row(values, RATES_WOULD_DROP) : NAN, text));
	else
		snprintf(cell, LINE_TEXT, "%s",
			 si_text(t->rated ? rates_row(values, RATES_DROPPED) : NAN, text));
}

/* Whatever the filter called maybe, also where the exact map then decided. */
static double maybe_of(const double *values)
{
	return rates_row(values, RATES_MAYBE) + rates_row(values, RATES_CONFIRMED) +
	       rates_row(values, RATES_REFUTED);
}

static void cell_text(const struct top_filter *t, const struct top_ui *ui, enum column c, int width,
		      char cell[LINE_TEXT])
{
	const double *values = values_of(t, ui);
	char text[LINE_TEXT] = "";

	switch (c) {
	case COLUMN_NAME:
		snprintf(cell, LINE_TEXT, "%s", t->name);
		break;
	case COLUMN_ABSENT:
		si_text(t->rated ? rates_row(values, RATES_ABSENT) : NAN, cell);
		break;
	case COLUMN_MAYBE:
		si_text(t->rated ? maybe_of(values) : NAN, cell);
		break;
	case COLUMN_DROPPED:
		dropped_cell(t, ui, cell);
		break;
	case COLUMN_SHARE:
		percent_text(top_filter_absent_share(t), cell);
		break;
	case COLUMN_BAR:
		bar_text(t->load, t->alarm_percent, (unsigned int)(width - BAR_ENDS), cell);
		break;
	case COLUMN_LOAD:
		snprintf(cell, LINE_TEXT, "%.0f",
			 load_percent(t->load, t->alarm, t->alarm_percent, LOAD_WHOLE));
		break;
	case COLUMN_PREDICTED:
		snprintf(cell, LINE_TEXT, "%s",
			 t->gauged ? percent_text(t->fp_predicted, text) : PENDING);
		break;
	case COLUMN_MEASURED:
		measured_cell(t, cell);
		break;
	case COLUMN_ALARM:
		snprintf(cell, LINE_TEXT, "%s", t->alarm);
		break;
	default:
		snprintf(cell, LINE_TEXT, "%s", t->devices);
		break;
	}
}

/* Draw one cell and return where the next begins. What is too long ends in '~'. */
static int draw_cell(int y, int x, attr_t attributes, enum column c, int width, char *cell)
{
	int len = (int)strlen(cell);

	if (len > width) {
		cell[width - 1] = '~';
		cell[width] = '\0';
		len = width;
	}
	put(y, columns[c].left ? x : x + width - len, attributes, cell);
	return x + width + 1;
}

static void draw_heads(int y, const int width[COLUMNS_ALL])
{
	char cell[LINE_TEXT];
	int c, x = 0;

	for (c = 0; c < COLUMNS_ALL; c++) {
		snprintf(cell, sizeof(cell), "%s", columns[c].title);
		if (width[c])
			x = draw_cell(y, x, A_UNDERLINE, (enum column)c, width[c], cell);
	}
}

static void draw_row(int y, const struct top_filter *t, const struct top_ui *ui,
		     const int width[COLUMNS_ALL])
{
	bool selected = !strcmp(t->name, ui->selected);
	attr_t base = selected ? A_REVERSE : A_NORMAL;
	int c, x = 0;
	char cell[LINE_TEXT];

	if (selected)
		mvhline(y, 0, ' ' | A_REVERSE, COLS);
	if (!t->f) {
		snprintf(cell, sizeof(cell), "%s", t->name);
		x = draw_cell(y, x, base, COLUMN_NAME, width[COLUMN_NAME], cell);
		put(y, x, base, t->broken.text);
		return;
	}
	for (c = 0; c < COLUMNS_ALL; c++) {
		bool coloured = c == COLUMN_BAR || c == COLUMN_ALARM;

		if (!width[c])
			continue;
		cell_text(t, ui, (enum column)c, width[c], cell);
		x = draw_cell(y, x, base | (coloured ? alarm_attributes(t->alarm) : 0),
			      (enum column)c, width[c], cell);
	}
}

/* What a line has no room for, of the selected filter. */
static void draw_selected(int y, const struct top_filter *t)
{
	char text[LINE_TEXT], fields[XBLOOM_FIELDS_TEXT];

	if (!t || !t->f)
		return;
	snprintf(text, sizeof(text), "> %s: %s by %s%s, devices: %s", t->name,
		 policy_name(t->rules.policy), xbloom_fields_text(t->rules.fields, fields),
		 t->rules.shadow ? ", in shadow" : "", t->devices);
	put(y, 0, A_BOLD, text);
}

static size_t position_of(const struct top_model *m, const char *name)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (!strcmp(m->filters[i]->name, name))
			return i;
	return 0;
}

/* Scroll as far as is needed to see the selected line, and no further. */
static void scroll_to(const struct top_model *m, struct top_ui *ui, size_t room)
{
	size_t at = position_of(m, ui->selected);

	if (ui->first > at)
		ui->first = at;
	if (at >= ui->first + room)
		ui->first = at - room + 1;
	if (m->n <= room)
		ui->first = 0;
}

/* Under the title, and above the line of the selected one. */
#define OVERVIEW_TOP 2
#define OVERVIEW_BOTTOM 1

static void draw_overview(const struct top_model *m, struct top_ui *ui, int bottom)
{
	int room = LINES - OVERVIEW_TOP - OVERVIEW_BOTTOM - bottom, y;
	int width[COLUMNS_ALL];
	size_t i;

	if (!m->n) {
		put(OVERVIEW_TOP, 0, A_NORMAL, "there are no filters (xdp-bloom create makes one)");
		return;
	}
	lay_out(width);
	draw_heads(OVERVIEW_TOP - 1, width);
	scroll_to(m, ui, (size_t)room);
	for (y = 0, i = ui->first; i < m->n && y < room; i++, y++)
		draw_row(OVERVIEW_TOP + y, m->filters[i], ui, width);
	draw_selected(LINES - bottom - OVERVIEW_BOTTOM, top_model_find(m, ui->selected));
}

/* ---- one filter ---- */

/*
 * Lines of which the less important give way where there is no room for all. A tail, in its own
 * colour, may follow the text.
 */
enum importance { ALWAYS, USUALLY, WITH_ROOM };

#define INFO_MAX 16
struct info {
	size_t n;
	struct info_line {
		enum importance importance;
		char text[LINE_TEXT];
		attr_t attributes;
		char tail[LINE_TEXT];
	} line[INFO_MAX];
};

__attribute__((format(printf, 3, 4))) static struct info_line *
add_line(struct info *info, enum importance importance, const char *format, ...)
{
	/* There are fewer kinds of lines than room for them. */
	struct info_line *line = &info->line[info->n < INFO_MAX ? info->n++ : INFO_MAX - 1];
	va_list args;

	line->importance = importance;
	line->attributes = A_NORMAL;
	line->tail[0] = '\0';
	va_start(args, format);
	vsnprintf(line->text, sizeof(line->text), format, args);
	va_end(args);
	return line;
}

static void add_what_it_is(struct info *info, const struct top_filter *t)
{
	const struct xbloom_geometry *g = xbloom_geometry(t->f);
	char fields[XBLOOM_FIELDS_TEXT], bytes[HUMAN_TEXT];

	add_line(info, USUALLY, "%s by %s%s%s", policy_name(t->rules.policy),
		 xbloom_fields_text(t->rules.fields, fields),
		 t->rules.confirm ? ", confirmed by an exact map" : "",
		 t->rules.shadow ? ", in shadow (drops nothing)" : "");
	add_line(info, WITH_ROOM, "%s, %s, k %u, generation %u", layout_name(g->layout),
		 human_bytes(g->blocks * XBLOOM_BLOCK_BYTES, bytes), g->k,
		 xbloom_meta(t->f)->generation);
	add_line(info, USUALLY, "devices   %s", t->devices);
}

/* "load      [", "]", the mark, and what follows the bar. */
#define LOAD_LINE_WITHOUT_BAR 45
#define LOAD_CELLS_MAX 40

static void add_load(struct info *info, const struct top_filter *t)
{
	char bar[BAR_TEXT], inserted[HUMAN_TEXT], capacity[HUMAN_TEXT];
	double percent = load_percent(t->load, t->alarm, t->alarm_percent, LOAD_TENTHS);
	int cells = COLS - LOAD_LINE_WITHOUT_BAR;
	struct info_line *line;

	if (cells > LOAD_CELLS_MAX)
		cells = LOAD_CELLS_MAX;
	line = add_line(info, ALWAYS, "load      ");
	line->attributes = alarm_attributes(t->alarm);
	snprintf(line->tail, sizeof(line->tail), "%s %.1f %%, %s (high from %u %%)",
		 bar_text(percent / 100, t->alarm_percent, (unsigned int)cells, bar), percent,
		 t->alarm, t->alarm_percent);
	add_line(info, USUALLY, "keys      %s adds changed a bit, sized for %s",
		 human_count(t->inserted, inserted),
		 human_count(xbloom_meta(t->f)->capacity, capacity));
}

static void add_predicted(struct info *info, const struct top_filter *t)
{
	char predicted[SI_TEXT], target[SI_TEXT];
	double fp_target = (double)xbloom_meta(t->f)->fp_target_femto / XBLOOM_FEMTO;

	if (t->gauged)
		add_line(info, ALWAYS, "predicted %s %%, target %s %%",
			 percent_text(t->fp_predicted, predicted), percent_text(fp_target, target));
	else
		add_line(info, ALWAYS, "predicted " PENDING);
}

static void add_measured(struct info *info, const struct top_model *m, const struct top_filter *t)
{
	const struct xbloom_measurement *r = &t->measurement;
	char rate[SI_TEXT], low[SI_TEXT], high[SI_TEXT], probes[SI_TEXT];
	struct info_line *line;

	if (t->measuring)
		add_line(info, ALWAYS, "measured  now " PENDING);
	else if (!t->measured)
		add_line(info, ALWAYS, "measured  %s",
			 t->unmeasured.text[0] ? t->unmeasured.text : PENDING);
	else if (r->empty)
		add_line(info, ALWAYS, "measured  nothing: the filter is empty");
	else {
		line = add_line(info, ALWAYS, "measured  %s %% (%s .. %s), ",
				percent_text(r->fp_measured, rate), percent_text(r->ci_low, low),
				percent_text(r->ci_high, high));
		line->attributes = r->agree ? A_NORMAL : warning_attributes();
		snprintf(line->tail, sizeof(line->tail), "%s, %s probes, %.0f s ago%s",
			 r->agree ? "agree" : "disagree", si_text((double)r->probes, probes),
			 fmax(0, m->now - t->measured_at),
			 t->inserted != t->measured_inserted ? ", keys came since" : "");
	}
}

static void add_live(struct info *info, const struct top_filter *t)
{
	double live = top_filter_fp_live(t), absent = top_filter_absent_share(t);
	struct info_line *line;
	char text[SI_TEXT];

	if (t->rules.confirm && isfinite(live))
		add_line(info, ALWAYS, "live      %s %% of the packets not listed were refuted",
			 percent_text(live, text));
	else if (t->rules.confirm)
		add_line(info, ALWAYS, "live      no packet that is not listed");
	if (!isfinite(absent)) {
		add_line(info, ALWAYS, "absent    no packet with a key");
		return;
	}
	line = add_line(info, ALWAYS, "absent    %s %% of the packets with a key",
			percent_text(absent, text));
	if (t->rates.live.ceremony) {
		line->attributes = warning_attributes();
		snprintf(line->tail, sizeof(line->tail), ": it gains little here");
	}
}

/* How many lines there are of this importance or more. */
static int count_lines(const struct info *info, enum importance importance)
{
	size_t i;
	int n = 0;

	for (i = 0; i < info->n; i++)
		n += info->line[i].importance <= importance;
	return n;
}

/* Draws at most `room` lines; returns the first row behind them. */
static int draw_info(const struct info *info, int y, int room)
{
	enum importance importance = WITH_ROOM;
	int end = y + room;
	size_t i;

	while (importance > ALWAYS && count_lines(info, importance) > room)
		importance = (enum importance)(importance - 1);
	for (i = 0; i < info->n && y < end; i++) {
		const struct info_line *line = &info->line[i];

		if (line->importance > importance)
			continue;
		put(y, put(y, 0, A_NORMAL, line->text), line->attributes, line->tail);
		y++;
	}
	return y;
}

#define TABLE_NAME_WIDTH 10
#define TABLE_VALUE_WIDTH 9
#define TABLE_SHARE_WIDTH 7
#define TABLE_COLUMNS_MAX 3
/* Enough for the table in columns side by side. */
#define TABLE_LINES_MIN (RATES_ROWS / TABLE_COLUMNS_MAX)

static void draw_share(int y, int x, double share)
{
	int cells = COLS - x - TABLE_SHARE_WIDTH - 1;
	char cell[LINE_TEXT];

	if (!isfinite(share))
		return;
	snprintf(cell, sizeof(cell), "%*.1f", TABLE_SHARE_WIDTH, share * 100);
	put(y, x, A_NORMAL, cell);
	if (cells > (int)BAR_CELLS_MAX)
		cells = BAR_CELLS_MAX;
	if (cells > 0 && share > 0)
		mvhline(y, x + TABLE_SHARE_WIDTH + 1, '#', (int)(share * cells));
}

static void draw_rate(int y, int x, const struct top_filter *t, const double *values,
		      enum rates_row row)
{
	char cell[LINE_TEXT], text[SI_TEXT];

	snprintf(cell, sizeof(cell), "%-*s%*s", TABLE_NAME_WIDTH, rates_row_names[row],
		 TABLE_VALUE_WIDTH, si_text(t->rated ? rates_row(values, row) : NAN, text));
	put(y, x, A_NORMAL, cell);
}

static int rounded_up(int a, int b)
{
	return (a + b - 1) / b;
}

/* Verdicts and their rates; with room for a line each, also their shares of all that came by. */
static void draw_table(const struct top_filter *t, const struct top_ui *ui, int y, int room)
{
	const int width = TABLE_NAME_WIDTH + TABLE_VALUE_WIDTH;
	const double *values = values_of(t, ui);
	double total = t->rated ? rates_total(values) : 0;
	char head[LINE_TEXT];
	int row, rows;

	if (room <= RATES_ROWS) {
		rows = rounded_up(RATES_ROWS, rounded_up(RATES_ROWS, room));
		for (row = 0; row < RATES_ROWS; row++)
			draw_rate(y + row % rows, row / rows * (width + 1), t, values,
				  (enum rates_row)row);
		return;
	}
	snprintf(head, sizeof(head), "%-*s%*s%*s", TABLE_NAME_WIDTH, "verdict", TABLE_VALUE_WIDTH,
		 ui->bits ? "bits/s" : "packets/s", TABLE_SHARE_WIDTH, "%");
	put(y, 0, A_UNDERLINE, head);
	for (row = 0; row < RATES_ROWS; row++) {
		draw_rate(y + 1 + row, 0, t, values, (enum rates_row)row);
		draw_share(y + 1 + row, width,
			   total > 0 ? rates_row(values, (enum rates_row)row) / total : NAN);
	}
}

static void draw_detail(const struct top_model *m, const struct top_ui *ui, int bottom)
{
	const struct top_filter *t = top_model_find(m, ui->selected);
	int y = 1, end = LINES - bottom, table = RATES_ROWS + 1;
	struct info info = { 0 };

	if (!t || !t->f) {
		put(y, 0, A_NORMAL, t ? t->broken.text : "");
		return;
	}
	add_what_it_is(&info, t);
	add_line(&info, WITH_ROOM, "%s", "");
	add_load(&info, t);
	add_predicted(&info, t);
	add_measured(&info, m, t);
	add_live(&info, t);
	add_line(&info, WITH_ROOM, "%s", "");
	if (end - y - table < count_lines(&info, ALWAYS))
		table = TABLE_LINES_MIN;
	y = draw_info(&info, y, end - y - table);
	draw_table(t, ui, y, end - y);
}

void top_view_draw(const struct top_model *m, struct top_ui *ui)
{
	char text[LINE_TEXT];
	int bottom;

	fit_screen();
	erase();
	if (COLS < SCREEN_COLUMNS_MIN || LINES < SCREEN_LINES_MIN) {
		snprintf(text, sizeof(text), "too small: %dx%d, needs %dx%d", COLS, LINES,
			 SCREEN_COLUMNS_MIN, SCREEN_LINES_MIN);
		put(0, 0, A_NORMAL, text);
	} else {
		bottom = draw_bottom(ui);
		if (ui->detail)
			draw_detail(m, ui, bottom);
		else
			draw_overview(m, ui, bottom);
		draw_title(m, ui);
	}
	refresh();
}
