// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Lists as JSON: what `nft -j list set` prints, Spamhaus' DROP lists (an object a line) and CrowdSec's
 * decisions. yajl reads the text as it comes and keeps nothing of it; here is kept where we are, a
 * stack of roles that follows the brackets, and the one element that is being read. So memory is
 * bounded, whatever the file. Called by list.c.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <yajl/yajl_parse.h>

#include "list_internal.h"

#define DEPTH_MAX 64
#define KEY_MAX 32
#define PARTS_MAX 8
#define PART_MAX LIST_CONCAT_MAX
/* yajl keeps a string until its end: how much text may come without anything that it tells us. */
#define SILENCE_MAX (1 << 20)
#define FEED_MAX 65536

/* What an open bracket, or the text itself, is to us. */
enum role {
	SKIP, /* nothing, with all that is in it */

	NFT_TEXT,
	NFT_ROOT,
	NFT_LIST,
	NFT_ITEM,    /* {"set": ...}, {"add": {"element": ...}}, {"table": ...} */
	NFT_SET,     /* or an element command */
	NFT_MAP,     /* must have no elements */
	NFT_REMOVAL, /* a command that takes away: must not take elements away */
	NFT_ELEMENTS,
	NFT_VALUE,   /* an object that stands for an element, or for a part of one */
	NFT_WRAPPED, /* {"elem": {"val": ..., "timeout": ...}} */
	NFT_PREFIX,
	NFT_RANGE,
	NFT_CONCAT,

	SPAMHAUS_TEXT,
	SPAMHAUS_LINE,

	CROWDSEC_TEXT,
	CROWDSEC_LIST,
	CROWDSEC_ITEM,	 /* a decision, or an alert with decisions */
	CROWDSEC_STREAM, /* {"new": [...], "deleted": [...]}, of the local API */
};

struct frame {
	enum role role;
	bool flag; /* NFT_VALUE: the element itself; CROWDSEC_ITEM: there was a list in it */
	char key[KEY_MAX]; /* of the member that is read; "": of none that we know */
};

struct json {
	struct list_worker *w;
	yajl_handle yajl;
	int ret;      /* of what stopped the parser */
	bool started; /* something else than white space came */

	const char *text; /* the piece that is being parsed */
	size_t counted;	  /* of it, its line ends are in `line` */
	uint64_t line;
	uint64_t silence; /* bytes since yajl told us something */

	unsigned int depth;
	struct frame stack[DEPTH_MAX];

	/* The element, and the line that its key stands in: */
	uint64_t key_line;
	bool concat, timeout, noted, simulated;
	size_t n; /* parts */
	char parts[PARTS_MAX][PART_MAX];
	char a[PART_MAX], b[PART_MAX]; /* of the prefix or range that is being read */
	/* Of Spamhaus and CrowdSec: the address, and what it is. */
	char value[PART_MAX], kind[PART_MAX];
};

/* ---- where we are ---- */

static void count_lines(struct json *j, size_t upto)
{
	for (; j->counted < upto; j->counted++)
		j->line += j->text[j->counted] == '\n';
	j->w->line = j->line;
}

/* yajl told us something, which ends at what it has consumed. */
static void heard(struct json *j)
{
	count_lines(j, yajl_get_bytes_consumed(j->yajl));
	j->silence = 0;
	j->started = true;
}

static struct frame *top(struct json *j)
{
	return &j->stack[j->depth];
}

static bool key_is(const struct frame *f, const char *key)
{
	return !strcmp(f->key, key);
}

static int stop(struct json *j, int ret)
{
	j->ret = ret;
	return ret == 0;
}

static int unexpected(struct json *j, const char *what)
{
	return stop(j, xbloom_list_bad(j->w, "%s where the format has none", what));
}

/* False: it is too long for anything that is a key. */
static bool copy(char *to, size_t room, const void *from, size_t len)
{
	if (len >= room || memchr(from, '\0', len))
		return false;
	memcpy(to, from, len);
	to[len] = '\0';
	return true;
}

static int too_long(struct json *j, const char *text, size_t len)
{
	return xbloom_list_bad(j->w, "'%.*s' is too long for a key", LIST_SHOW(text, len));
}

/* ---- nftables ---- */

static int add_part(struct json *j, const char *text, size_t len)
{
	if (j->n == PARTS_MAX)
		return xbloom_list_bad(j->w, "an element of more than %d parts", PARTS_MAX);
	if (!copy(j->parts[j->n], PART_MAX, text, len))
		return too_long(j, text, len);
	j->key_line = j->line;
	j->n++;
	return 0;
}

static void start_element(struct json *j)
{
	j->concat = j->timeout = j->noted = false;
	j->n = 0;
	j->w->stats.lines++;
}

static int end_element(struct json *j)
{
	char text[PARTS_MAX * (PART_MAX + 3)] = "";
	const char *parts[PARTS_MAX];
	size_t i, len = 0;
	int ret = 0;

	if (!j->n)
		return xbloom_list_bad(j->w, "an element without a key");
	j->w->line = j->key_line;
	for (i = 0; i < j->n; i++) {
		parts[i] = j->parts[i];
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? " . " : "",
					parts[i]);
	}
	if (j->timeout)
		ret = xbloom_list_ignore(j->w, XBLOOM_IGNORED_TIMEOUT, text, len);
	if (!ret && j->noted)
		ret = xbloom_list_ignore(j->w, XBLOOM_IGNORED_COMMENT, text, len);
	if (ret)
		return ret;
	return j->concat ? xbloom_list_concat(j->w, parts, j->n, text, len)
			 : xbloom_list_entry(j->w, text, len);
}

static int nft_member(struct json *j, const struct frame *f, bool array, enum role *role)
{
	if (key_is(f, "set") || key_is(f, "element"))
		*role = array ? SKIP : NFT_SET;
	else if (key_is(f, "add") || key_is(f, "create") || key_is(f, "insert"))
		*role = NFT_ITEM;
	else if (key_is(f, "map"))
		*role = NFT_MAP;
	else if (key_is(f, "delete") || key_is(f, "destroy"))
		*role = NFT_REMOVAL;
	if (*role == NFT_ITEM || *role == NFT_SET)
		return 0;
	return xbloom_list_ignore(
		j->w, key_is(f, "metainfo") ? XBLOOM_IGNORED_METADATA : XBLOOM_IGNORED_CREATE,
		f->key, strlen(f->key));
}

static int nft_value_member(struct json *j, const struct frame *f, bool array, enum role *role)
{
	if (key_is(f, "prefix") && !array)
		*role = NFT_PREFIX;
	else if (key_is(f, "range") && array)
		*role = NFT_RANGE;
	else if (key_is(f, "elem") && !array)
		*role = NFT_WRAPPED;
	else if (key_is(f, "concat") && array) {
		*role = NFT_CONCAT;
		j->concat = true;
	} else {
		return xbloom_list_bad(j->w, "an element made by '%s': this is not a key", f->key);
	}
	j->a[0] = j->b[0] = '\0';
	return 0;
}

static int nft_open(struct json *j, struct frame *f, bool array, enum role *role, bool *element)
{
	bool in_set = f->role == NFT_SET && key_is(f, "elem");

	switch (f->role) {
	case NFT_ROOT:
		*role = key_is(f, "nftables") && array ? NFT_LIST : SKIP;
		return 0;
	case NFT_LIST:
		*role = array ? SKIP : NFT_ITEM;
		return 0;
	case NFT_ITEM:
		return nft_member(j, f, array, role);
	case NFT_MAP:
		if (key_is(f, "elem"))
			return xbloom_list_bad(j->w, "the elements of a map: only sets are read, "
						     "for what is mapped to 'accept' is no entry");
		return 0;
	case NFT_REMOVAL:
		if (key_is(f, "element"))
			return xbloom_list_bad(j->w, "this takes elements away: a list only adds");
		return 0;
	case NFT_SET:
	case NFT_ELEMENTS:
		if (in_set && array) {
			*role = NFT_ELEMENTS;
			return 0;
		}
		if (!in_set && f->role == NFT_SET)
			return 0;
		if (array)
			return xbloom_list_bad(j->w, "an element of a map: only sets are read");
		start_element(j);
		*element = true;
		*role = NFT_VALUE;
		return 0;
	case NFT_VALUE:
		return nft_value_member(j, f, array, role);
	case NFT_WRAPPED:
		*role = key_is(f, "val") ? NFT_VALUE : SKIP;
		j->noted |= key_is(f, "counter");
		return *role == NFT_VALUE && array
			       ? xbloom_list_bad(j->w, "a list where a key should be")
			       : 0;
	case NFT_CONCAT:
		*role = NFT_VALUE;
		return array ? xbloom_list_bad(j->w, "a list where a part of a key should be") : 0;
	default: /* NFT_PREFIX, NFT_RANGE */
		return xbloom_list_bad(j->w, "more than an address where an address should be");
	}
}

static int nft_close(struct json *j, const struct frame *f)
{
	char text[2 * PART_MAX + 1];

	if (f->role == NFT_PREFIX || f->role == NFT_RANGE) {
		char between = f->role == NFT_PREFIX ? '/' : '-';
		int ret;

		if (!*j->a || !*j->b)
			return xbloom_list_bad(j->w, "half of a prefix or range");
		snprintf(text, sizeof(text), "%s%c%s", j->a, between, j->b);
		ret = add_part(j, text, strlen(text));
		if (ret)
			return ret;
	}
	return f->role == NFT_VALUE && f->flag ? end_element(j) : 0;
}

static int nft_scalar(struct json *j, struct frame *f, const char *text, size_t len)
{
	char *half = NULL;
	int ret;

	switch (f->role) {
	case NFT_SET:
		if (!key_is(f, "elem"))
			return 0;
		/* fall through */
	case NFT_ELEMENTS:
		start_element(j);
		ret = add_part(j, text, len);
		return ret ? ret : end_element(j);
	case NFT_CONCAT:
		return add_part(j, text, len);
	case NFT_WRAPPED:
		j->timeout |= key_is(f, "timeout") || key_is(f, "expires");
		j->noted |= key_is(f, "comment");
		return key_is(f, "val") ? add_part(j, text, len) : 0;
	case NFT_VALUE:
		return xbloom_list_bad(j->w, "an element made by '%s': this is not a key", f->key);
	case NFT_PREFIX:
		half = key_is(f, "addr") ? j->a : key_is(f, "len") ? j->b : NULL;
		break;
	case NFT_RANGE:
		half = !*j->a ? j->a : !*j->b ? j->b : NULL;
		break;
	default:
		return 0;
	}
	if (!half)
		return xbloom_list_bad(j->w, "'%.*s' is no part of a prefix or range",
				       LIST_SHOW(text, len));
	return copy(half, PART_MAX, text, len) ? 0 : too_long(j, text, len);
}

/* ---- Spamhaus and CrowdSec: objects of strings ---- */

static int spamhaus_close(struct json *j)
{
	j->w->stats.lines++;
	if (*j->value) {
		j->w->line = j->key_line;
		return xbloom_list_entry(j->w, j->value, strlen(j->value));
	}
	if (!strcmp(j->kind, "metadata"))
		return xbloom_list_ignore(j->w, XBLOOM_IGNORED_METADATA, j->kind, strlen(j->kind));
	return xbloom_list_bad(j->w, "an object with neither \"cidr\" nor the type metadata");
}

static int crowdsec_close(struct json *j, const struct frame *f)
{
	char text[2 * PART_MAX + 1];
	size_t len = strlen(j->value);
	int ret = 0;

	if (f->flag) /* an alert, whose decisions were read */
		return 0;
	j->w->stats.lines++;
	if (!len)
		return xbloom_list_bad(j->w, "a decision without a value");
	j->w->line = j->key_line;
	if (!*j->kind)
		return xbloom_list_bad(j->w, "the decision over '%.*s' has no scope",
				       LIST_SHOW(j->value, len));
	snprintf(text, sizeof(text), "%s %s", j->kind, j->value);
	if (strcasecmp(j->kind, "ip") && strcasecmp(j->kind, "range"))
		return xbloom_list_ignore(j->w, XBLOOM_IGNORED_SCOPE, text, strlen(text));
	if (j->simulated)
		return xbloom_list_ignore(j->w, XBLOOM_IGNORED_SIMULATED, text, strlen(text));
	if (j->timeout)
		ret = xbloom_list_ignore(j->w, XBLOOM_IGNORED_TIMEOUT, text, strlen(text));
	return ret ? ret : xbloom_list_entry(j->w, j->value, len);
}

static int record_scalar(struct json *j, const struct frame *f, const char *text, size_t len)
{
	bool spamhaus = f->role == SPAMHAUS_LINE;

	if (key_is(f, spamhaus ? "cidr" : "value")) {
		j->key_line = j->line;
		return copy(j->value, sizeof(j->value), text, len) ? 0 : too_long(j, text, len);
	}
	if (key_is(f, spamhaus ? "type" : "scope") && !copy(j->kind, sizeof(j->kind), text, len))
		return too_long(j, text, len);
	if (!spamhaus && key_is(f, "duration"))
		j->timeout = true;
	return 0;
}

static int crowdsec_open(struct json *j, struct frame *f, bool array, enum role *role)
{
	bool list =
		array && (f->role == CROWDSEC_STREAM ? key_is(f, "new") : key_is(f, "decisions"));

	if (f->role == CROWDSEC_LIST) {
		if (array)
			return xbloom_list_bad(j->w, "a list where a decision should be");
		*role = CROWDSEC_ITEM;
		*j->value = *j->kind = '\0';
		j->timeout = j->simulated = false;
	} else if (list) {
		*role = CROWDSEC_LIST;
		f->flag = true;
	} else if (f->role == CROWDSEC_STREAM && key_is(f, "deleted")) {
		return xbloom_list_ignore(j->w, XBLOOM_IGNORED_METADATA, f->key, strlen(f->key));
	}
	return 0;
}

/* ---- what yajl tells us ---- */

static int push(struct json *j, bool array)
{
	struct frame *f = top(j);
	enum role role = SKIP;
	bool element = false;
	int ret = 0;

	heard(j);
	switch (f->role) {
	case SKIP:
		break;
	case NFT_TEXT:
		if (array)
			return unexpected(j, "a list");
		role = NFT_ROOT;
		break;
	case SPAMHAUS_TEXT:
		if (array)
			return unexpected(j, "a list");
		role = SPAMHAUS_LINE;
		*j->value = *j->kind = '\0';
		break;
	case SPAMHAUS_LINE:
		break;
	case CROWDSEC_TEXT:
		role = array ? CROWDSEC_LIST : CROWDSEC_STREAM;
		break;
	case CROWDSEC_LIST:
	case CROWDSEC_ITEM:
	case CROWDSEC_STREAM:
		ret = crowdsec_open(j, f, array, &role);
		break;
	default:
		ret = nft_open(j, f, array, &role, &element);
	}
	if (!ret && j->depth + 1 == DEPTH_MAX)
		ret = xbloom_list_bad(j->w, "brackets are nested more than %d deep", DEPTH_MAX);
	if (ret)
		return stop(j, ret);
	j->stack[++j->depth] = (struct frame){ .role = role, .flag = element };
	return 1;
}

static int pop(struct json *j)
{
	struct frame *f = top(j);
	int ret;

	heard(j);
	if (f->role == SPAMHAUS_LINE)
		ret = spamhaus_close(j);
	else if (f->role == CROWDSEC_ITEM)
		ret = crowdsec_close(j, f);
	else
		ret = nft_close(j, f);
	j->depth--;
	return stop(j, ret);
}

static int on_map(void *ctx)
{
	return push(ctx, false);
}

static int on_array(void *ctx)
{
	return push(ctx, true);
}

static int on_end(void *ctx)
{
	return pop(ctx);
}

static int on_key(void *ctx, const unsigned char *key, size_t len)
{
	struct json *j = ctx;
	struct frame *f = top(j);

	heard(j);
	if (!copy(f->key, sizeof(f->key), key, len))
		f->key[0] = '\0';
	return 1;
}

static int scalar(struct json *j, const char *text, size_t len)
{
	struct frame *f = top(j);

	heard(j);
	switch (f->role) {
	case SKIP:
		return 1;
	case NFT_TEXT:
	case SPAMHAUS_TEXT:
	case CROWDSEC_TEXT:
	case NFT_LIST:
	case CROWDSEC_LIST:
		return unexpected(j, "a lone value");
	case SPAMHAUS_LINE:
	case CROWDSEC_ITEM:
		return stop(j, record_scalar(j, f, text, len));
	default:
		return stop(j, nft_scalar(j, f, text, len));
	}
}

static int on_string(void *ctx, const unsigned char *text, size_t len)
{
	return scalar(ctx, (const char *)text, len);
}

static int on_number(void *ctx, const char *text, size_t len)
{
	return scalar(ctx, text, len);
}

/* None of these is a key, nor a part of one. */
static int not_a_key(struct json *j, const char *what)
{
	struct frame *f = top(j);

	heard(j);
	switch (f->role) {
	case NFT_ELEMENTS:
	case NFT_CONCAT:
	case NFT_RANGE:
	case NFT_PREFIX:
	case NFT_VALUE:
	case NFT_TEXT:
	case NFT_LIST:
	case SPAMHAUS_TEXT:
	case CROWDSEC_LIST:
		return unexpected(j, what);
	case NFT_WRAPPED:
		return key_is(f, "val") ? unexpected(j, what) : 1;
	default:
		return 1;
	}
}

static int on_null(void *ctx)
{
	struct json *j = ctx;

	/* CrowdSec has no decisions: null, as a whole or in an alert. */
	if (top(j)->role == CROWDSEC_ITEM && key_is(top(j), "decisions"))
		top(j)->flag = true;
	return not_a_key(j, "null");
}

static int on_boolean(void *ctx, int value)
{
	struct json *j = ctx;

	if (top(j)->role == CROWDSEC_TEXT) {
		heard(j);
		return unexpected(j, "true or false");
	}
	if (top(j)->role == CROWDSEC_ITEM && key_is(top(j), "simulated"))
		j->simulated = value;
	return not_a_key(j, "true or false");
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_map,
	.yajl_map_key = on_key,
	.yajl_end_map = on_end,
	.yajl_start_array = on_array,
	.yajl_end_array = on_end,
};

/* ---- the stream ---- */

static void json_end(void *state)
{
	struct json *j = state;

	if (j && j->yajl)
		yajl_free(j->yajl);
	free(j);
}

static void *begin_as(struct list_worker *w, enum role text)
{
	struct json *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->w = w;
	j->line = 1;
	j->stack[0].role = text;
	j->yajl = yajl_alloc(&callbacks, NULL, j);
	if (!j->yajl) {
		free(j);
		return NULL;
	}
	if (text == SPAMHAUS_TEXT)
		yajl_config(j->yajl, yajl_allow_multiple_values, 1);
	return j;
}

static void *nft_begin(struct list_worker *w)
{
	return begin_as(w, NFT_TEXT);
}

static void *spamhaus_begin(struct list_worker *w)
{
	return begin_as(w, SPAMHAUS_TEXT);
}

static void *crowdsec_begin(struct list_worker *w)
{
	return begin_as(w, CROWDSEC_TEXT);
}

/* What yajl has to say, in one line; or what stopped it. */
static int explain(struct json *j, yajl_status status)
{
	unsigned char *said;
	int ret;

	if (status == yajl_status_ok)
		return 0;
	if (status == yajl_status_client_canceled)
		return j->ret;
	said = yajl_get_error(j->yajl, 0, NULL, 0);
	ret = xbloom_list_bad(j->w, "not JSON: %.200s",
			      said ? (const char *)said : "out of memory");
	j->w->err.text[strcspn(j->w->err.text, "\n")] = '\0';
	if (said)
		yajl_free_error(j->yajl, said);
	return ret;
}

static int json_feed(void *state, const char *text, size_t len)
{
	struct json *j = state;

	while (len) {
		size_t n = len < FEED_MAX ? len : FEED_MAX, i;
		yajl_status status;

		for (i = 0; i < n && !j->started; i++)
			j->started = !strchr(" \t\r\n", text[i]) || !text[i];
		j->text = text;
		j->counted = 0;
		j->silence += n;
		status = yajl_parse(j->yajl, (const unsigned char *)text, n);
		if (status == yajl_status_error)
			count_lines(j, yajl_get_bytes_consumed(j->yajl));
		if (status != yajl_status_ok)
			return explain(j, status);
		count_lines(j, n);
		if (j->silence > SILENCE_MAX)
			return xbloom_list_bad(j->w,
					       "a value of more than %d bytes: this is not a "
					       "list of keys",
					       SILENCE_MAX);
		text += n;
		len -= n;
	}
	return 0;
}

static int json_finish(void *state)
{
	struct json *j = state;

	/* Nothing at all is an empty list, as it is in other formats. */
	if (!j->started)
		return 0;
	j->text = "";
	j->counted = 0;
	return explain(j, yajl_complete_parse(j->yajl))
		       ? xbloom_list_bad(j->w, "the JSON is not complete: is the file cut off?")
		       : 0;
}

const struct list_stream xbloom_stream_nft_json = { nft_begin, json_feed, json_finish, json_end };
const struct list_stream xbloom_stream_spamhaus = { spamhaus_begin, json_feed, json_finish,
						    json_end };
const struct list_stream xbloom_stream_crowdsec = { crowdsec_begin, json_feed, json_finish,
						    json_end };
