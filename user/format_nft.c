// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Lists as nftables writes them: `nft list set`, `nft list ruleset`, and scripts of `add element`.
 * Only what stands between the braces of a set's elements is taken; the addresses of rules are not a
 * list. What would make the list another one than is read (delete, define, include) is refused, and so
 * are maps, whose elements may be accepted as well as dropped. Called by list.c.
 */
#include <stdlib.h>
#include <string.h>

#include "list_internal.h"

/* Words of a statement, of an element; parts of a concatenation. */
#define WORDS_MAX 16
#define WORD_MAX 128
#define DEPTH_MAX 64

/* What may follow an element's key, nft(8); some of it with a value. */
static const char *const option_words[] = { "timeout", "expires", "comment", "counter", "limit",
					    "quota",   "last",	  "ct",	     NULL };

struct nft {
	struct list_worker *w;
	uint64_t line;
	bool partial; /* bytes came after the last line end */
	bool comment;
	bool quoted;
	bool escaped;  /* the byte before was a backslash */
	bool elements; /* between the braces of a set's elements */
	bool any;      /* of this element or statement something was read */
	bool options;  /* behind the element's key */
	bool timeout, noted;
	bool assigned; /* the statement's last token was '=' */
	unsigned int depth;
	uint64_t start; /* the line that the element or statement starts in */
	size_t n;	/* words[], of the statement or of the element's key */
	char words[WORDS_MAX][WORD_MAX];
	size_t word_len; /* of the word that is being read */
	char word[LIST_LINE_MAX + 1];
};

static bool is_one_of(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(word, *list))
			return true;
	return false;
}

static const char *word_at(const struct nft *f, size_t i)
{
	return i < f->n ? f->words[i] : "";
}

/* The words that were read, with blanks between. */
static size_t join(const struct nft *f, char out[WORDS_MAX * WORD_MAX])
{
	size_t i, used = 0;

	for (i = 0; i < f->n; i++) {
		size_t len = strlen(f->words[i]);

		if (i)
			out[used++] = ' ';
		memcpy(out + used, f->words[i], len);
		used += len;
	}
	return used;
}

static void start_over(struct nft *f)
{
	f->n = 0;
	f->any = f->options = f->timeout = f->noted = f->assigned = false;
}

/* ---- elements ---- */

/* "192.0.2.1 . tcp . 443": every other word is a dot. */
static bool is_concat(const struct nft *f)
{
	size_t i;

	for (i = 1; i < f->n; i += 2)
		if (strcmp(f->words[i], "."))
			return false;
	return f->n > 1 && f->n % 2;
}

static int end_of_element(struct nft *f)
{
	char text[WORDS_MAX * WORD_MAX];
	const char *parts[WORDS_MAX];
	size_t len = join(f, text), i;
	int ret = 0;

	f->w->line = f->start;
	if (!f->any)
		return 0;
	if (!f->n)
		return xbloom_list_bad(f->w, "an element without a key");
	if (f->timeout)
		ret = xbloom_list_ignore(f->w, XBLOOM_IGNORED_TIMEOUT, text, len);
	if (!ret && f->noted)
		ret = xbloom_list_ignore(f->w, XBLOOM_IGNORED_COMMENT, text, len);
	if (ret)
		return ret;
	if (!is_concat(f))
		return xbloom_list_entry(f->w, text, len);
	for (i = 0; i < f->n; i += 2)
		parts[i / 2] = f->words[i];
	return xbloom_list_concat(f->w, parts, f->n / 2 + 1, text, len);
}

static int element_word(struct nft *f, const char *word)
{
	if (!strcmp(word, ":")) {
		f->w->line = f->start;
		return xbloom_list_bad(f->w,
				       "'%.60s' is in a map: only sets are read, for what is "
				       "mapped to 'accept' is no entry",
				       word_at(f, 0));
	}
	if (is_one_of(word, option_words))
		f->options = true;
	if (f->options) {
		f->timeout |= !strcmp(word, "timeout") || !strcmp(word, "expires");
		f->noted |= !strcmp(word, "comment") || !strcmp(word, "counter");
		return 0;
	}
	if (f->n == WORDS_MAX || strlen(word) >= WORD_MAX)
		return xbloom_list_bad(f->w, "'%.60s' is not an element that could be a key", word);
	strcpy(f->words[f->n++], word);
	return 0;
}

/* ---- statements ---- */

static int end_of_statement(struct nft *f)
{
	char text[WORDS_MAX * WORD_MAX];
	size_t len = join(f, text);
	const char *verb = word_at(f, 0);

	f->w->line = f->start;
	if (!f->any)
		return 0;
	if ((!strcmp(verb, "delete") || !strcmp(verb, "destroy")) &&
	    !strcmp(word_at(f, 1), "element"))
		return xbloom_list_bad(f->w, "'%.*s' takes elements away: a list only adds",
				       LIST_SHOW(text, len));
	if (!strcmp(verb, "define") || !strcmp(verb, "include"))
		return xbloom_list_bad(f->w,
				       "'%.*s' is not followed: give what `nft list set` prints",
				       LIST_SHOW(text, len));
	if (!strcmp(verb, "elements") || !strcmp(word_at(f, 1), "element"))
		return xbloom_list_bad(f->w, "'%.*s' is followed by no elements in braces",
				       LIST_SHOW(text, len));
	return xbloom_list_ignore(f->w, XBLOOM_IGNORED_CREATE, text, len);
}

static int statement_word(struct nft *f, const char *word)
{
	f->assigned = !strcmp(word, "=");
	/* Rules may have any number of words; the first ones say what a statement is. */
	if (f->n < WORDS_MAX && strlen(word) < WORD_MAX)
		strcpy(f->words[f->n++], word);
	return 0;
}

static bool opens_elements(const struct nft *f)
{
	const char *verb = word_at(f, 0);

	if (!strcmp(verb, "elements"))
		return f->assigned;
	return (!strcmp(verb, "add") || !strcmp(verb, "create")) &&
	       !strcmp(word_at(f, 1), "element");
}

static int open_brace(struct nft *f)
{
	int ret = 0;

	if (f->elements)
		return xbloom_list_bad(f->w, "a brace among elements");
	f->elements = opens_elements(f);
	if (!f->elements) {
		ret = end_of_statement(f);
		if (!ret && f->depth++ == DEPTH_MAX)
			ret = xbloom_list_bad(f->w, "braces are nested more than %d deep",
					      DEPTH_MAX);
	}
	start_over(f);
	return ret;
}

static int close_brace(struct nft *f)
{
	int ret = f->elements ? end_of_element(f) : end_of_statement(f);

	if (!ret && !f->elements && !f->depth)
		ret = xbloom_list_bad(f->w, "a closing brace that none has opened");
	if (!f->elements)
		f->depth--;
	f->elements = false;
	start_over(f);
	return ret;
}

/* ---- words and marks ---- */

static int end_of_word(struct nft *f)
{
	if (!f->word_len)
		return 0;
	f->word[f->word_len] = '\0';
	f->word_len = 0;
	if (!f->any)
		f->start = f->line;
	f->any = true;
	return f->elements ? element_word(f, f->word) : statement_word(f, f->word);
}

static int take_mark(struct nft *f, char mark)
{
	int ret = 0;

	f->w->line = f->any ? f->start : f->line;
	switch (mark) {
	case '{':
		return open_brace(f);
	case '}':
		f->w->line = f->line;
		return close_brace(f);
	case ',':
		if (!f->elements)
			return 0;
		ret = f->any ? end_of_element(f)
			     : xbloom_list_bad(f->w, "a comma without an element before it");
		break;
	case '\n':
		if (f->elements)
			return 0;
		ret = end_of_statement(f);
		break;
	case ';':
		if (f->elements)
			return xbloom_list_bad(f->w, "a semicolon among elements");
		ret = end_of_statement(f);
		break;
	}
	start_over(f);
	return ret;
}

static int put(struct nft *f, char byte)
{
	if (f->word_len == LIST_LINE_MAX) {
		f->w->line = f->line;
		return xbloom_list_bad(f->w,
				       "a word of more than %d bytes: this is not a list of "
				       "keys",
				       LIST_LINE_MAX);
	}
	f->word[f->word_len++] = byte;
	return 0;
}

static int take_byte(struct nft *f, char byte)
{
	bool escaped;
	int ret;

	f->w->line = f->line;
	if (!byte)
		return xbloom_list_bad(f->w, "a zero byte: this is not a text file");
	if (f->quoted) {
		if (byte == '\n')
			return xbloom_list_bad(f->w, "a quote that does not end in its line");
		f->quoted = byte != '"';
		return put(f, byte);
	}
	if (f->comment && byte != '\n')
		return 0;
	f->comment = byte == '#' && !f->word_len;
	if (f->comment)
		return 0;
	if (byte == '"')
		f->quoted = true;
	if (!strchr(" \t\r\\{},;=\n", byte)) {
		f->escaped = false;
		return put(f, byte);
	}
	ret = end_of_word(f);
	escaped = f->escaped && byte == '\n';
	f->escaped = byte == '\\';
	/* The line goes on. */
	if (ret || escaped)
		return ret;
	if (byte == '=' && !f->elements)
		return statement_word(f, "=");
	return strchr("{},;\n", byte) ? take_mark(f, byte) : 0;
}

static void *nft_begin(struct list_worker *w)
{
	struct nft *f = malloc(sizeof(*f));

	if (!f)
		return NULL;
	f->w = w;
	f->line = f->start = 1;
	f->partial = f->comment = f->quoted = f->escaped = f->elements = false;
	f->depth = 0;
	f->word_len = 0;
	start_over(f);
	return f;
}

static int nft_feed(void *state, const char *text, size_t len)
{
	struct nft *f = state;
	size_t i;

	for (i = 0; i < len; i++) {
		int ret = take_byte(f, text[i]);

		if (ret)
			return ret;
		f->partial = text[i] != '\n';
		if (!f->partial) {
			f->line++;
			f->w->stats.lines++;
		}
	}
	return 0;
}

static int nft_finish(void *state)
{
	struct nft *f = state;
	int ret;

	f->w->stats.lines += f->partial;
	f->w->line = f->line;
	if (f->quoted)
		return xbloom_list_bad(f->w, "a quote that does not end in its line");
	ret = end_of_word(f);
	if (!ret && !f->elements)
		ret = end_of_statement(f);
	f->w->line = f->line;
	if (!ret && (f->elements || f->depth))
		ret = xbloom_list_bad(f->w, "a brace is not closed: is the file cut off?");
	return ret;
}

static void nft_end(void *state)
{
	free(state);
}

const struct list_stream xbloom_stream_nft = { nft_begin, nft_feed, nft_finish, nft_end };
