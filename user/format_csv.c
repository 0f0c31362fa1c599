// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Lists as CSV (RFC 4180): entries stand in one column, which is found by its number, by a name in the
 * header, or because it alone holds entries. Cells may be quoted, and hold line ends then. The first
 * comma, tab or semicolon decides what separates cells; lines that start with '#' are comments. When
 * more than one column could be meant, nobody guesses. Called by list.c.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "list_internal.h"

/* A record may be as long as a line. */
#define CELLS_MAX 1024
#define SEPARATORS ",\t;"
#define NO_COLUMN SIZE_MAX

/* What feeds call the column of addresses, in small letters. */
static const char *const column_names[] = {
	"ip",	    "ips",	"ip_address", "ip address", "ipaddress", "ip-address",
	"addr",	    "address",	"src_ip",     "srcip",	    "source_ip", "dst_ip",
	"dstip",    "ipv4",	"ipv6",	      "cidr",	    "cidrs",	 "prefix",
	"network",  "net",	"netblock",   "subnet",	    "range",	 "ip_range",
	"ip range", "start_ip", "end_ip",     "ip_start",   "ip_end",
};

struct cell {
	const char *s;
	size_t len;
};

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct cell trimmed(const char *s, size_t len)
{
	while (len && blank(*s)) {
		s++;
		len--;
	}
	while (len && blank(s[len - 1]))
		len--;
	return (struct cell){ s, len };
}

static bool cell_is(struct cell c, const char *name)
{
	return strlen(name) == c.len && !strncasecmp(c.s, name, c.len);
}

static bool names_addresses(struct cell c)
{
	size_t i;

	for (i = 0; i < sizeof(column_names) / sizeof(column_names[0]); i++)
		if (cell_is(c, column_names[i]))
			return true;
	return false;
}

static bool holds_entry(struct cell c, uint32_t fields)
{
	struct xbloom_span span;

	return c.len && !xbloom_span_parse(c.s, c.len, fields, &span, NULL);
}

/* An attempt at an address, right or wrong: no name of a column looks like that. */
static bool looks_like_entry(struct cell c)
{
	return c.len && ((*c.s >= '0' && *c.s <= '9') || memchr(c.s, ':', c.len)) &&
	       (memchr(c.s, '.', c.len) || memchr(c.s, ':', c.len));
}

/* ---- records ---- */

enum place {
	RECORD_START,
	CELL_START,
	BARE,
	QUOTED,
	QUOTE_ENDED, /* or the first of two that mean one */
	COMMENT,
};

struct csv {
	struct list_worker *w;
	enum place place;
	char separator; /* 0: not known yet */
	uint64_t line;	/* of the file, where we are; w->line: where the record starts */
	bool partial;	/* bytes came after the last line end */
	bool header;	/* was read */
	size_t column;
	size_t n; /* cells that ended */
	size_t used;
	size_t starts[CELLS_MAX + 1];
	char text[LIST_LINE_MAX + 1]; /* of the record's cells, without quotes */
};

static struct cell cell_of(const struct csv *c, size_t i)
{
	return trimmed(c->text + c->starts[i], c->starts[i + 1] - c->starts[i]);
}

static int bad_column(struct csv *c, const char *why)
{
	return xbloom_list_bad(c->w, "%s: give --column NUMBER or NAME", why);
}

/* The column whose cell passes the test; NO_COLUMN: none, or *several. */
static size_t find_column(const struct csv *c, bool by_name, bool *several)
{
	size_t i, found = NO_COLUMN;

	*several = false;
	for (i = 0; i < c->n; i++) {
		struct cell cell = cell_of(c, i);

		if (by_name ? !names_addresses(cell)
			    : !holds_entry(cell, c->w->job->options->fields))
			continue;
		*several |= found != NO_COLUMN;
		found = i;
	}
	return *several ? NO_COLUMN : found;
}

static int take_header(struct csv *c)
{
	c->header = true;
	return xbloom_list_ignore(c->w, XBLOOM_IGNORED_HEADER, c->text, c->used);
}

/* "3" is the third column; what is no number is a name. */
static bool column_number(const char *text, size_t *column)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end)
		return false;
	*column = n ? n - 1 : NO_COLUMN;
	return true;
}

static int given_column(struct csv *c, const char *column, bool *header)
{
	size_t i;

	if (column_number(column, &c->column)) {
		struct cell cell;

		if (c->column >= c->n)
			return xbloom_list_bad(c->w, "there is no column %.20s: the line has %zu",
					       column, c->n);
		cell = cell_of(c, c->column);
		*header = cell.len && !looks_like_entry(cell) &&
			  !holds_entry(cell, c->w->job->options->fields);
		return 0;
	}
	*header = true;
	for (i = 0; i < c->n; i++) {
		if (!cell_is(cell_of(c, i), column))
			continue;
		if (c->column != NO_COLUMN)
			return xbloom_list_bad(c->w, "two columns are called '%.60s'", column);
		c->column = i;
	}
	if (c->column == NO_COLUMN)
		return xbloom_list_bad(c->w, "no column is called '%.60s'", column);
	return 0;
}

/* Find the column by the first record, or by the one after a header that does not tell. */
static int choose_column(struct csv *c, bool *header)
{
	const char *given = c->w->job->options->column;
	bool several;
	size_t i;

	*header = false;
	if (given)
		return given_column(c, given, header);
	if (!c->header) {
		c->column = find_column(c, true, &several);
		if (several)
			return bad_column(c, "several columns have names of addresses");
		*header = c->column != NO_COLUMN;
		if (*header)
			return 0;
	}
	c->column = find_column(c, false, &several);
	if (several)
		return bad_column(c, "several columns hold addresses");
	if (c->column != NO_COLUMN)
		return 0;
	for (i = 0; i < c->n; i++) {
		struct cell cell = cell_of(c, i);

		if (looks_like_entry(cell) && memchr(cell.s, '.', cell.len))
			return xbloom_list_entry(c->w, cell.s, cell.len);
	}
	*header = !c->header;
	return c->header ? bad_column(c, "no column holds a key") : 0;
}

static int end_of_record(struct csv *c)
{
	struct cell cell;
	int ret = 0;

	if (c->column == NO_COLUMN) {
		bool header;

		ret = choose_column(c, &header);
		if (ret || header)
			return ret ? ret : take_header(c);
	}
	if (c->column >= c->n)
		return xbloom_list_bad(c->w, "the line has %zu columns, and no column %zu", c->n,
				       c->column + 1);
	cell = cell_of(c, c->column);
	if (!cell.len)
		return xbloom_list_ignore(c->w, XBLOOM_IGNORED_EMPTY, c->text, c->used);
	return xbloom_list_entry(c->w, cell.s, cell.len);
}

static int end_of_cell(struct csv *c)
{
	if (c->n == CELLS_MAX)
		return xbloom_list_bad(c->w, "more than %d columns: this is not a list of keys",
				       CELLS_MAX);
	c->starts[++c->n] = c->used;
	c->place = CELL_START;
	return 0;
}

static int end_of_line(struct csv *c)
{
	bool blank_line = c->place == RECORD_START || c->place == COMMENT;
	int ret = 0;

	/* Blanks alone are no record either. */
	if (c->place == CELL_START && !c->n && !trimmed(c->text, c->used).len)
		blank_line = true;
	if (!blank_line) {
		ret = end_of_cell(c);
		if (!ret)
			ret = end_of_record(c);
	}
	c->n = c->used = 0;
	c->place = RECORD_START;
	return ret;
}

static int put(struct csv *c, char byte)
{
	if (c->used == LIST_LINE_MAX)
		return xbloom_list_bad(c->w,
				       c->place == QUOTED
					       ? "a quote that does not end within %d bytes"
					       : "a line of more than %d bytes: this is not a list "
						 "of keys",
				       LIST_LINE_MAX);
	c->text[c->used++] = byte;
	return 0;
}

static bool is_separator(struct csv *c, char byte)
{
	if (!c->separator && byte && strchr(SEPARATORS, byte))
		c->separator = byte;
	return c->separator && byte == c->separator;
}

static int take_byte(struct csv *c, char byte)
{
	if (c->place == RECORD_START) {
		c->w->line = c->line;
		c->starts[0] = 0;
		c->place = byte == '#' ? COMMENT : CELL_START;
		if (byte == '\n')
			c->place = RECORD_START;
	}
	if (!byte)
		return xbloom_list_bad(c->w, "a zero byte: this is not a text file");
	if (c->place == COMMENT)
		return byte == '\n' ? end_of_line(c) : 0;
	if (c->place == QUOTED) {
		if (byte == '"') {
			c->place = QUOTE_ENDED;
			return 0;
		}
		return put(c, byte);
	}
	if (byte == '\n')
		return end_of_line(c);
	if (is_separator(c, byte))
		return end_of_cell(c);
	if (c->place == QUOTE_ENDED) {
		if (byte == '"') {
			c->place = QUOTED;
			return put(c, byte);
		}
		return blank(byte) ? 0 : xbloom_list_bad(c->w, "text behind the quotes of a cell");
	}
	if (byte == '"' && c->place == CELL_START) {
		c->place = QUOTED;
		c->used = c->starts[c->n];
		return 0;
	}
	if (!blank(byte))
		c->place = BARE;
	return put(c, byte);
}

static void *csv_begin(struct list_worker *w)
{
	struct csv *c = malloc(sizeof(*c));

	if (!c)
		return NULL;
	c->w = w;
	c->place = RECORD_START;
	c->separator = 0;
	c->line = 1;
	c->partial = c->header = false;
	c->column = NO_COLUMN;
	c->n = c->used = 0;
	return c;
}

static int csv_feed(void *state, const char *text, size_t len)
{
	struct csv *c = state;
	size_t i;

	for (i = 0; i < len; i++) {
		int ret = take_byte(c, text[i]);

		if (ret)
			return ret;
		c->partial = text[i] != '\n';
		if (!c->partial) {
			c->line++;
			c->w->stats.lines++;
		}
	}
	return 0;
}

static int csv_finish(void *state)
{
	struct csv *c = state;

	c->w->stats.lines += c->partial;
	if (c->place == QUOTED)
		return xbloom_list_bad(c->w, "a quote that does not end: is the file cut off?");
	return end_of_line(c);
}

static void csv_end(void *state)
{
	free(state);
}

const struct list_stream xbloom_stream_csv = { csv_begin, csv_feed, csv_finish, csv_end };

/* ---- is it one? ---- */

bool xbloom_csv_detect(const char *line, size_t len, uint32_t fields)
{
	const char *end = line + len, *cell = line;
	char separator = 0;
	size_t i;

	for (i = 0; i < len && !separator; i++)
		if (line[i] && strchr(SEPARATORS, line[i]))
			separator = line[i];
	while (cell < end) {
		const char *stop = cell;
		bool quoted = false;
		struct cell c;

		for (; stop < end && (quoted || *stop != separator); stop++)
			quoted ^= *stop == '"';
		c = trimmed(cell, (size_t)(stop - cell));
		if (c.len >= 2 && *c.s == '"' && c.s[c.len - 1] == '"')
			c = trimmed(c.s + 1, c.len - 2);
		if (names_addresses(c) || (separator && holds_entry(c, fields)))
			return true;
		cell = stop < end ? stop + 1 : end;
	}
	return false;
}
