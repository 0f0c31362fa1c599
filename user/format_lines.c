// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Formats whose lines or records stand for themselves, so that a list can be cut between any two of
 * them: plain lists, `ipset save`, and raw addresses. Called by list.c, from several threads.
 */
#include <string.h>

#include "list_internal.h"

/* ---- what is no line of a text ---- */

static int check_line(struct list_worker *w, const char *line, size_t len)
{
	if (memchr(line, '\0', len))
		return xbloom_list_bad(w, "a zero byte: this is not a text file");
	if (len > LIST_LINE_MAX)
		return xbloom_list_bad(w,
				       "a line of more than %d bytes: this is not a list of keys",
				       LIST_LINE_MAX);
	if (len && memchr(line, '\r', len - 1))
		return xbloom_list_bad(
			w, "a carriage return within the line: convert its line ends first");
	return 0;
}

/* ---- plain lists ---- */

static bool ends_entry(char c)
{
	return list_is_space(c) || c == '#' || c == ';';
}

/* The next word from `at` on, which a comment ends. */
static const char *next_word(const char *at, const char *end, size_t *len)
{
	const char *word;

	while (at < end && list_is_space(*at))
		at++;
	for (word = at; at < end && !ends_entry(*at);)
		at++;
	*len = (size_t)(at - word);
	return word;
}

static bool looks_like_address(const char *word, size_t len)
{
	return len && ((*word >= '0' && *word <= '9') || memchr(word, ':', len)) &&
	       (memchr(word, '.', len) || memchr(word, ':', len));
}

const char *xbloom_plain_entry(const char *line, size_t len, size_t *entry_len)
{
	const char *end = line + len, *first, *second, *last;
	size_t first_len, second_len, last_len;

	first = next_word(line, end, &first_len);
	second = next_word(first + first_len, end, &second_len);
	*entry_len = first_len;
	if (!first_len || !second_len)
		return first;
	/* "a - b", "a -b" and "a- b" are ranges, where b could be nothing else. */
	if (*second == '-') {
		last = second + 1;
		last_len = second_len - 1;
		if (!last_len)
			last = next_word(last, end, &last_len);
	} else if (first[first_len - 1] == '-') {
		last = second;
		last_len = second_len;
	} else {
		return first;
	}
	if (looks_like_address(last, last_len))
		*entry_len = (size_t)(last + last_len - first);
	return first;
}

/*
 * The straight way for the commonest line of all, an IPv4 address and a line end; NULL: it is
 * another, or a wrong one. Returns what is behind it. The text ends with a line feed, which stops
 * every loop.
 */
static inline const char *plain_ipv4(const char *p, __u32 *raw, size_t *len)
{
	unsigned char bytes[4];
	const char *start = p;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		unsigned int n = (unsigned int)(*p - '0'), digit;

		if (n > 9)
			return NULL;
		digit = (unsigned int)(*++p - '0');
		if (digit <= 9) {
			if (!n)
				return NULL; /* a leading zero */
			n = 10 * n + digit;
			digit = (unsigned int)(*++p - '0');
			if (digit <= 9) {
				n = 10 * n + digit;
				p++;
			}
		}
		if (n > 255 || (i < 3 && *p++ != '.'))
			return NULL;
		bytes[i] = (unsigned char)n;
	}
	*len = (size_t)(p - start);
	if (*p == '\r')
		p++;
	if (*p != '\n')
		return NULL;
	memcpy(raw, bytes, sizeof(bytes));
	return p + 1;
}

static int plain_line(struct list_worker *w, const char *line, size_t len)
{
	int ret = check_line(w, line, len);
	const char *entry;
	size_t entry_len;

	if (ret)
		return ret;
	entry = xbloom_plain_entry(line, len, &entry_len);
	return entry_len ? xbloom_list_entry(w, entry, entry_len) : 0;
}

static bool is_lone_address(uint32_t fields)
{
	return fields == XBLOOM_SRC || fields == XBLOOM_DST;
}

int xbloom_lines_plain(struct list_worker *w, const char *text, const char *end)
{
	uint32_t fields = w->job->options->fields;
	bool straight = is_lone_address(fields);
	struct xbloom_flow flow = { .family = XBLOOM_FAMILY_V4, .plen = 32 };
	__u32 *raw = fields == XBLOOM_SRC ? &flow.src.v4 : &flow.dst.v4;

	while (text < end) {
		const char *behind = NULL;
		size_t len;
		int ret;

		w->line++;
		if (straight)
			behind = plain_ipv4(text, raw, &len);
		if (behind) {
			ret = xbloom_list_host(w, &flow, text, len);
		} else {
			behind = (const char *)memchr(text, '\n', (size_t)(end - text)) + 1;
			ret = plain_line(w, text, (size_t)(behind - 1 - text));
		}
		if (ret)
			return ret;
		text = behind;
	}
	return 0;
}

/* ---- ipset save ---- */

struct words {
	const char *at, *end;
};

/* The next word; one in double quotes may hold blanks. False at the end of the line. */
static bool take_word(struct words *words, const char **word, size_t *len)
{
	const char *at = words->at, *end = words->end, *quote;

	while (at < end && list_is_space(*at))
		at++;
	*word = at;
	if (at < end && *at == '"') {
		quote = memchr(at + 1, '"', (size_t)(end - at - 1));
		at = quote ? quote + 1 : end;
	}
	while (at < end && !list_is_space(*at))
		at++;
	words->at = at;
	*len = (size_t)(at - *word);
	return *len;
}

static bool word_is(const char *word, size_t len, const char *is)
{
	return strlen(is) == len && !memcmp(word, is, len);
}

static bool word_is_one_of(const char *word, size_t len, const char *const *list)
{
	for (; *list; list++)
		if (word_is(word, len, *list))
			return true;
	return false;
}

/* ipset(8), options of an entry, with or without a value. */
static const char *const counters_and_marks[] = { "packets", "bytes",	 "skbmark",
						  "skbprio", "skbqueue", NULL };
static const char *const bare_options[] = { "-exist", "-!", "-quiet", "-q", NULL };

struct entry_options {
	bool nomatch, timeout, comment;
};

static int entry_options(struct list_worker *w, struct words *words, struct entry_options *o)
{
	const char *word;
	size_t len;

	while (take_word(words, &word, &len)) {
		bool timeout = word_is(word, len, "timeout");
		bool comment = word_is(word, len, "comment") ||
			       word_is_one_of(word, len, counters_and_marks);
		const char *value;
		size_t value_len;

		if (word_is(word, len, "nomatch"))
			o->nomatch = true;
		else if (timeout || comment) {
			if (!take_word(words, &value, &value_len))
				return xbloom_list_bad(w,
						       "'%.*s' has no value: is the line cut "
						       "off?",
						       LIST_SHOW(word, len));
			if (*value == '"' && (value_len < 2 || value[value_len - 1] != '"'))
				return xbloom_list_bad(w, "%.*s: the quote does not end",
						       LIST_SHOW(value, value_len));
			/* 0 is for ever. */
			o->timeout |= timeout && !word_is(value, value_len, "0");
			o->comment |= comment;
		} else if (!word_is_one_of(word, len, bare_options)) {
			return xbloom_list_bad(w, "'%.*s' is not an option of an ipset entry",
					       LIST_SHOW(word, len));
		}
	}
	return 0;
}

static int ipset_add(struct list_worker *w, struct words *words, const char *line, size_t len)
{
	struct entry_options o = { 0 };
	const char *word, *entry;
	size_t word_len, entry_len;
	int ret;

	do {
		if (!take_word(words, &word, &word_len))
			return xbloom_list_bad(w, "'%.*s' names no set", LIST_SHOW(line, len));
	} while (word_is_one_of(word, word_len, bare_options));
	if (!take_word(words, &entry, &entry_len))
		return xbloom_list_bad(w, "'%.*s' has no entry", LIST_SHOW(line, len));
	ret = entry_options(w, words, &o);
	if (ret)
		return ret;
	if (o.nomatch)
		return xbloom_list_ignore(w, XBLOOM_IGNORED_NOMATCH, line, len);
	if (o.timeout)
		ret = xbloom_list_ignore(w, XBLOOM_IGNORED_TIMEOUT, line, len);
	if (!ret && o.comment)
		ret = xbloom_list_ignore(w, XBLOOM_IGNORED_COMMENT, line, len);
	return ret ? ret : xbloom_list_entry(w, entry, entry_len);
}

static const char *const add_words[] = { "add", "-A", "--add", NULL };
static const char *const set_words[] = { "create",  "-N", "--create",  "flush",	 "-F", "--flush",
					 "destroy", "-X", "--destroy", "swap",	 "-W", "--swap",
					 "rename",  "-E", "--rename",  "COMMIT", NULL };

static int ipset_line(struct list_worker *w, const char *line, size_t len)
{
	struct words words = { line, line + len };
	int ret = check_line(w, line, len);
	const char *word;
	size_t word_len;

	if (ret || !take_word(&words, &word, &word_len) || *word == '#')
		return ret;
	len = (size_t)(line + len - word);
	if (len && word[len - 1] == '\r')
		len--;
	if (word_is_one_of(word, word_len, add_words))
		return ipset_add(w, &words, word, len);
	if (word_is_one_of(word, word_len, set_words))
		return xbloom_list_ignore(w, XBLOOM_IGNORED_CREATE, word, len);
	return xbloom_list_bad(w, "'%.*s' is not a line of `ipset save`: add or create",
			       LIST_SHOW(word, len));
}

int xbloom_lines_ipset(struct list_worker *w, const char *text, const char *end)
{
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		int ret;

		w->line++;
		ret = ipset_line(w, text, (size_t)(newline - text));
		if (ret)
			return ret;
		text = newline + 1;
	}
	return 0;
}

/* ---- raw addresses ---- */

int xbloom_records_raw4(struct list_worker *w, const char *text, const char *end)
{
	struct xbloom_flow flow = { .family = XBLOOM_FAMILY_V4, .plen = 32 };
	__u32 *raw = w->job->options->fields == XBLOOM_SRC ? &flow.src.v4 : &flow.dst.v4;

	for (; text < end; text += sizeof(*raw)) {
		int ret;

		w->line++;
		memcpy(raw, text, sizeof(*raw));
		ret = xbloom_list_host(w, &flow, NULL, 0);
		if (ret)
			return ret;
	}
	return 0;
}

int xbloom_records_raw6(struct list_worker *w, const char *text, const char *end)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

	for (; text < end; text += XBLOOM_ADDRESS_BYTES) {
		struct xbloom_flow flow = { .family = XBLOOM_FAMILY_V6, .plen = 128 };
		void *to = w->job->options->fields == XBLOOM_SRC ? (void *)&flow.src
								 : (void *)&flow.dst;
		int ret;

		w->line++;
		if (!memcmp(text, mapped, sizeof(mapped))) {
			flow.family = XBLOOM_FAMILY_V4;
			flow.plen = 32;
			memcpy(to, text + sizeof(mapped), sizeof(__u32));
		} else {
			memcpy(to, text, XBLOOM_ADDRESS_BYTES);
		}
		ret = xbloom_list_host(w, &flow, NULL, 0);
		if (ret)
			return ret;
	}
	return 0;
}
