// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The formats of lists: their names, and how the first 64 KiB of a list tell which one it is. Called
 * by list.c before anything is read, and by the verbs for --format.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "list_internal.h"

static const char *const format_names[XBLOOM_FORMATS] = {
	[XBLOOM_FORMAT_AUTO] = "auto",	       [XBLOOM_FORMAT_PLAIN] = "plain",
	[XBLOOM_FORMAT_IPSET] = "ipset",       [XBLOOM_FORMAT_NFT] = "nft",
	[XBLOOM_FORMAT_NFT_JSON] = "nft-json", [XBLOOM_FORMAT_SPAMHAUS_JSON] = "spamhaus-json",
	[XBLOOM_FORMAT_CROWDSEC] = "crowdsec", [XBLOOM_FORMAT_CSV] = "csv",
	[XBLOOM_FORMAT_RAW4] = "raw4",	       [XBLOOM_FORMAT_RAW6] = "raw6",
};

static const char *const ignored_names[XBLOOM_IGNORED_REASONS] = {
	[XBLOOM_IGNORED_CREATE] = "create",	[XBLOOM_IGNORED_HEADER] = "header",
	[XBLOOM_IGNORED_METADATA] = "metadata", [XBLOOM_IGNORED_NOMATCH] = "nomatch",
	[XBLOOM_IGNORED_SCOPE] = "scope",	[XBLOOM_IGNORED_SIMULATED] = "simulated",
	[XBLOOM_IGNORED_EMPTY] = "empty",	[XBLOOM_IGNORED_TIMEOUT] = "timeout",
	[XBLOOM_IGNORED_COMMENT] = "comment",
};

int xbloom_format_parse(const char *name, enum xbloom_format *format, struct xbloom_error *err)
{
	unsigned int i;

	for (i = 0; i < XBLOOM_FORMATS; i++) {
		if (!strcmp(name, format_names[i])) {
			*format = i;
			return 0;
		}
	}
	return xbloom_fail(err, -EINVAL,
			   "'%.60s' is not a format of lists: choose from auto, plain, ipset, nft, "
			   "nft-json, spamhaus-json, crowdsec, csv, raw4, raw6",
			   name);
}

const char *xbloom_format_name(enum xbloom_format format)
{
	return format < XBLOOM_FORMATS ? format_names[format] : "?";
}

const char *xbloom_ignored_name(enum xbloom_ignored reason)
{
	return reason < XBLOOM_IGNORED_REASONS ? ignored_names[reason] : "?";
}

/* ---- by content ---- */

struct text {
	const char *s;
	size_t len;
};

static bool starts_with(struct text t, const char *start, size_t len)
{
	return t.len >= len && !memcmp(t.s, start, len);
}

/* Every other of the first bytes is zero: text as some editors save it, without a mark. */
#define UTF16_SEEN 16
static bool is_utf16(struct text t)
{
	size_t i, zeros[2] = { 0, 0 };

	if (starts_with(t, "\xff\xfe", 2) || starts_with(t, "\xfe\xff", 2))
		return true;
	if (t.len < UTF16_SEEN)
		return false;
	for (i = 0; i < UTF16_SEEN; i++)
		zeros[i % 2] += !t.s[i];
	return zeros[0] + zeros[1] == UTF16_SEEN / 2 && (!zeros[0] || !zeros[1]);
}

static bool is_blank(char c)
{
	return list_is_space(c) || c == '\n';
}

/* The first line that says something; the rest of the text is moved behind it. */
static bool next_line(struct text *t, struct text *line)
{
	while (t->len) {
		const char *newline = memchr(t->s, '\n', t->len);
		size_t len = newline ? (size_t)(newline - t->s) : t->len;

		*line = (struct text){ t->s, len };
		t->s += newline ? len + 1 : len;
		t->len -= newline ? len + 1 : len;
		while (line->len && is_blank(line->s[line->len - 1]))
			line->len--;
		while (line->len && is_blank(*line->s)) {
			line->s++;
			line->len--;
		}
		if (line->len && *line->s != '#' && *line->s != ';')
			return true;
	}
	return false;
}

static struct text first_word(struct text *line)
{
	struct text word = { line->s, 0 };

	while (word.len < line->len && !is_blank(word.s[word.len]))
		word.len++;
	line->s += word.len;
	line->len -= word.len;
	while (line->len && is_blank(*line->s)) {
		line->s++;
		line->len--;
	}
	return word;
}

static bool is_one_of(struct text word, const char *const *list)
{
	for (; *list; list++)
		if (strlen(*list) == word.len && !memcmp(word.s, *list, word.len))
			return true;
	return false;
}

/*
 * Whether the plain reading of a line gives a key, or would give one with other fields: of a list of
 * "address,port" for a filter of addresses the error says what is wrong, where CSV would read half.
 */
static bool is_key(struct text line, uint32_t fields)
{
	const uint32_t others[] = { fields, XBLOOM_SRC | XBLOOM_DPORT, XBLOOM_FIELDS_ADDR,
				    XBLOOM_SRC | XBLOOM_DPORT | XBLOOM_PROTO,
				    XBLOOM_FIELDS_5TUPLE };
	struct xbloom_span span;
	size_t len, i;
	const char *entry = xbloom_plain_entry(line.s, line.len, &len);

	for (i = 0; len && i < sizeof(others) / sizeof(others[0]); i++)
		if (!xbloom_span_parse(entry, len, others[i], &span, NULL))
			return true;
	return false;
}

/* ---- JSON ---- */

static bool contains(struct text t, const char *what)
{
	return memmem(t.s, t.len, what, strlen(what));
}

static int detect_json(struct text t, enum xbloom_format *format, struct xbloom_error *err)
{
	if (contains(t, "\"nftables\""))
		*format = XBLOOM_FORMAT_NFT_JSON;
	else if (*t.s == '{' && (contains(t, "\"cidr\"") || contains(t, "\"metadata\"")))
		*format = XBLOOM_FORMAT_SPAMHAUS_JSON;
	else if (*t.s == '[' || *t.s == 'n' || contains(t, "\"new\""))
		*format = XBLOOM_FORMAT_CROWDSEC;
	else
		return xbloom_fail(err, -EINVAL,
				   "JSON that is neither nftables' nor Spamhaus' nor CrowdSec's");
	return 0;
}

/* ---- text ---- */

static const char *const ipset_verbs[] = { "create", "-N", "add", "-A", NULL };
static const char *const both_verbs[] = { "flush", "destroy", NULL };
static const char *const nft_words[] = { "table",  "set",     "elements", "delete",
					 "define", "include", NULL };
static const char *const nft_objects[] = { "table", "chain",   "rule",	  "set",
					   "map",   "element", "ruleset", NULL };

static enum xbloom_format detect_text(struct text t, const struct xbloom_list_options *options)
{
	struct text line, rest, first, second;

	if (!next_line(&t, &line))
		return XBLOOM_FORMAT_PLAIN;
	rest = line;
	first = first_word(&rest);
	second = first_word(&rest);
	if (is_one_of(first, nft_words))
		return XBLOOM_FORMAT_NFT;
	if (is_one_of(first, ipset_verbs) || is_one_of(first, both_verbs)) {
		struct text third = first_word(&rest);

		/* A set of ipset may be called "element"; then comes an address or a type. */
		if (is_one_of(second, nft_objects) && !memchr(third.s, ':', third.len) &&
		    !memchr(third.s, '.', third.len))
			return XBLOOM_FORMAT_NFT;
		return second.len ? XBLOOM_FORMAT_IPSET : XBLOOM_FORMAT_PLAIN;
	}
	if (is_key(line, options->fields))
		return XBLOOM_FORMAT_PLAIN;
	return xbloom_csv_detect(line.s, line.len, options->fields) ? XBLOOM_FORMAT_CSV
								    : XBLOOM_FORMAT_PLAIN;
}

int xbloom_format_detect(const char *head, size_t len, const struct xbloom_list_options *options,
			 enum xbloom_format *format, struct xbloom_error *err)
{
	struct text t = { head, len };
	bool null;
	size_t i;

	if (is_utf16(t))
		return xbloom_fail(err, -EINVAL,
				   "UTF-16 text: convert it to UTF-8 first (iconv -f UTF-16 -t "
				   "UTF-8)");
	if (options->format != XBLOOM_FORMAT_AUTO)
		return 0;
	if (starts_with(t, LIST_BOM, strlen(LIST_BOM)))
		t = (struct text){ head + strlen(LIST_BOM), len - strlen(LIST_BOM) };
	while (t.len && is_blank(*t.s))
		t = (struct text){ t.s + 1, t.len - 1 };
	/* What CrowdSec prints when it has no decisions. */
	null = starts_with(t, "null", 4);
	for (i = 4; null && i < t.len; i++)
		null = is_blank(t.s[i]);
	if (t.len && (*t.s == '{' || *t.s == '[' || null))
		return detect_json(t, format, err);
	*format = detect_text(t, options);
	return 0;
}
