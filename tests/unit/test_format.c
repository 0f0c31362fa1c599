// SPDX-License-Identifier: GPL-2.0-only
/*
 * Formats of lists, below what tests/cli/lists.t asks of whole files: how a format is told, what an
 * entry becomes (a range is checked against the definition of the fewest prefixes), and what several
 * threads, a callback that fails, and somebody who gives up do to a reading.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include "list_internal.h"

static char list[PATH_MAX];

static int make_list(void **state)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	(void)state;
	snprintf(list, sizeof(list), "%s/xbloom-format.XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(list);
	return fd < 0 ? -1 : close(fd);
}

static int remove_list(void **state)
{
	(void)state;
	return unlink(list);
}

static void give(const void *bytes, size_t len)
{
	FILE *f = fopen(list, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* ---- names and detection ---- */

static void formats_have_names(void **state)
{
	struct xbloom_error err;
	enum xbloom_format format;
	unsigned int i;

	(void)state;
	for (i = 0; i < XBLOOM_FORMATS; i++) {
		assert_int_equal(xbloom_format_parse(xbloom_format_name(i), &format, &err), 0);
		assert_int_equal(format, i);
	}
	unit_error_poison(&err);
	assert_int_equal(xbloom_format_parse("Plain", &format, &err), -EINVAL);
	unit_assert_says(&err, "'Plain'");
	unit_assert_says(&err, "spamhaus-json");
	for (i = 0; i < XBLOOM_IGNORED_REASONS; i++)
		assert_true(*xbloom_ignored_name(i) && *xbloom_ignored_name(i) != '?');
}

static void formats_are_told_by_content(void **state)
{
	static const struct {
		const char *head;
		enum xbloom_format format;
		uint32_t fields;
	} cases[] = {
		{ "", XBLOOM_FORMAT_PLAIN, XBLOOM_SRC },
		{ "# add element ip t s { 192.0.2.1 }\n192.0.2.1\n", XBLOOM_FORMAT_PLAIN,
		  XBLOOM_SRC },
		{ "192.0.2.1\n", XBLOOM_FORMAT_PLAIN, XBLOOM_SRC },
		{ "192.0.2.0/24 ; SBL1\n", XBLOOM_FORMAT_PLAIN, XBLOOM_SRC },
		{ "192.0.2.1,443\n", XBLOOM_FORMAT_PLAIN, XBLOOM_SRC | XBLOOM_DPORT },
		{ "192.0.2.1,443\n", XBLOOM_FORMAT_PLAIN, XBLOOM_SRC },
		{ "192.0.2.1,tcp:443\n", XBLOOM_FORMAT_PLAIN, XBLOOM_SRC },
		{ "192.0.2.1, ZZ\n", XBLOOM_FORMAT_CSV, XBLOOM_SRC },
		{ "ip\n192.0.2.1\n", XBLOOM_FORMAT_CSV, XBLOOM_SRC },
		{ "\"id\",\"IP Address\"\n", XBLOOM_FORMAT_CSV, XBLOOM_SRC },
		{ "id;network\n", XBLOOM_FORMAT_CSV, XBLOOM_SRC },
		{ "some words\n", XBLOOM_FORMAT_PLAIN, XBLOOM_SRC },
		{ "create s hash:ip\n", XBLOOM_FORMAT_IPSET, XBLOOM_SRC },
		{ "\n# x\nadd s 192.0.2.1\n", XBLOOM_FORMAT_IPSET, XBLOOM_SRC },
		{ "flush s\n", XBLOOM_FORMAT_IPSET, XBLOOM_SRC },
		{ "add element 192.0.2.1\n", XBLOOM_FORMAT_IPSET, XBLOOM_SRC },
		{ "add element 2001:db8::1\n", XBLOOM_FORMAT_IPSET, XBLOOM_SRC },
		{ "add element inet t s { 192.0.2.1 }\n", XBLOOM_FORMAT_NFT, XBLOOM_SRC },
		{ "#!/usr/sbin/nft -f\nflush ruleset\n", XBLOOM_FORMAT_NFT, XBLOOM_SRC },
		{ "flush set inet t s\n", XBLOOM_FORMAT_NFT, XBLOOM_SRC },
		{ "table inet t {\n", XBLOOM_FORMAT_NFT, XBLOOM_SRC },
		{ "{\"nftables\": [", XBLOOM_FORMAT_NFT_JSON, XBLOOM_SRC },
		{ " \n{ \"cidr\": \"192.0.2.0/24\" }", XBLOOM_FORMAT_SPAMHAUS_JSON, XBLOOM_SRC },
		{ "[{\"id\": 1", XBLOOM_FORMAT_CROWDSEC, XBLOOM_SRC },
		{ "{\"new\": [], \"deleted\": []}", XBLOOM_FORMAT_CROWDSEC, XBLOOM_SRC },
		{ "null\n", XBLOOM_FORMAT_CROWDSEC, XBLOOM_SRC },
		{ LIST_BOM "[", XBLOOM_FORMAT_CROWDSEC, XBLOOM_SRC },
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(cases); i++) {
		struct xbloom_list_options options = { .fields = cases[i].fields };
		struct xbloom_error err = { "" };

		if (xbloom_format_detect(cases[i].head, strlen(cases[i].head), &options,
					 &options.format, &err) ||
		    options.format != cases[i].format)
			fail_msg("\"%s\": %s, expected %s %s", cases[i].head,
				 xbloom_format_name(options.format),
				 xbloom_format_name(cases[i].format), err.text);
	}
}

/* ---- entries ---- */

#define ENTRIES_MAX 512

struct taken {
	unsigned int n;
	struct xbloom_flow flows[ENTRIES_MAX];
	uint32_t fields;
};

static int take(void *ctx, unsigned int worker, const struct xbloom_flow *flow, const char *text,
		size_t len)
{
	struct taken *t = ctx;

	(void)text;
	(void)len;
	assert_int_equal(worker, 0);
	assert_in_range(t->n, 0, ENTRIES_MAX - 1);
	t->flows[t->n++] = *flow;
	return 0;
}

/* Then the text is one entry like this, and counted so. */
static void expect_entry(const char *text, uint32_t fields, const char *key, unsigned int plen,
			 uint64_t masked)
{
	struct xbloom_list_stats stats = { 0 };
	struct taken t = { 0 };
	struct xbloom_error err;
	char buf[XBLOOM_KEY_TEXT];
	bool host;

	if (xbloom_entry_parse(
		    text, strlen(text),
		    &(struct xbloom_list_options){ .fields = fields, .everything = true }, take, &t,
		    &stats, &err))
		fail_msg("%s", err.text);
	assert_int_equal(t.n, 1);
	assert_string_equal(xbloom_key_text(&t.flows[0], fields, buf), key);
	assert_int_equal(t.flows[0].plen, plen);
	host = !plen || plen == (t.flows[0].family == XBLOOM_FAMILY_V4 ? 32 : 128);
	assert_int_equal(stats.keys, host);
	assert_int_equal(stats.prefixes, !host);
	assert_int_equal(stats.masked, masked);
}

static void entries_are_keys_and_prefixes(void **state)
{
	(void)state;
	expect_entry("192.0.2.1", XBLOOM_SRC, "192.0.2.1", 32, 0);
	expect_entry("192.0.2.1/32", XBLOOM_DST, "192.0.2.1", 32, 0);
	expect_entry("192.0.2.1/24", XBLOOM_DST, "192.0.2.0", 24, 1);
	expect_entry("192.0.2.128/25", XBLOOM_SRC, "192.0.2.128", 25, 0);
	expect_entry("192.0.2.255/31", XBLOOM_SRC, "192.0.2.254", 31, 1);
	expect_entry("192.0.2.77/255.255.255.240", XBLOOM_SRC, "192.0.2.64", 28, 1);
	expect_entry("192.0.2.77/255.255.255.255", XBLOOM_SRC, "192.0.2.77", 32, 0);
	expect_entry("2001:db8::1/32", XBLOOM_SRC, "2001:db8::", 32, 1);
	expect_entry("2001:db8::ff/121", XBLOOM_SRC, "2001:db8::80", 121, 1);
	expect_entry("::ffff:192.0.2.9/128", XBLOOM_SRC, "192.0.2.9", 32, 0);
	expect_entry("::ffff:192.0.2.9/120", XBLOOM_SRC, "192.0.2.0", 24, 1);
	expect_entry("192.0.2.4-192.0.2.7", XBLOOM_DST, "192.0.2.4", 30, 0);
	expect_entry("192.0.2.4 - 192.0.2.4", XBLOOM_SRC, "192.0.2.4", 32, 0);
	expect_entry("192.0.2.1,443", XBLOOM_SRC | XBLOOM_DPORT, "192.0.2.1,443", 32, 0);
	expect_entry("192.0.2.1,tcp:443", XBLOOM_SRC | XBLOOM_DPORT, "192.0.2.1,443", 32, 0);
	expect_entry("192.0.2.1,udp:53", XBLOOM_SRC | XBLOOM_DPORT | XBLOOM_PROTO,
		     "192.0.2.1,53,udp", 32, 0);
	expect_entry("192.0.2.1,53,udp", XBLOOM_SRC | XBLOOM_DPORT | XBLOOM_PROTO,
		     "192.0.2.1,53,udp", 32, 0);
}

static void expect_refusal(const char *text, uint32_t fields, const char *says)
{
	struct xbloom_list_stats stats = { 0 };
	struct taken t = { 0 };
	struct xbloom_error err;

	unit_error_poison(&err);
	assert_int_equal(xbloom_entry_parse(text, strlen(text),
					    &(struct xbloom_list_options){ .fields = fields,
									   .everything = true },
					    take, &t, &stats, &err),
			 -EINVAL);
	unit_assert_says(&err, says);
	assert_int_equal(t.n, 0);
	assert_int_equal(stats.keys + stats.prefixes, 0);
	assert_int_equal(xbloom_entry_parse(text, strlen(text),
					    &(struct xbloom_list_options){ .fields = fields,
									   .everything = true },
					    take, &t, NULL, NULL),
			 -EINVAL);
}

static void entries_that_say_nothing_certain_are_refused(void **state)
{
	(void)state;
	expect_refusal("192.0.2.0/33", XBLOOM_SRC, "0 to 32");
	expect_refusal("192.0.2.0/024", XBLOOM_SRC, "prefix length");
	expect_refusal("192.0.2.0/", XBLOOM_SRC, "prefix length");
	expect_refusal("192.0.2.0/-1", XBLOOM_SRC, "prefix length");
	expect_refusal("192.0.2.0/24/24", XBLOOM_SRC, "prefix length");
	expect_refusal("192.0.2.0/0.0.0.255", XBLOOM_SRC, "netmask");
	expect_refusal("192.0.2.0/255.0.255.0", XBLOOM_SRC, "netmask");
	expect_refusal("2001:db8::/255.255.0.0", XBLOOM_SRC, "0 to 128");
	expect_refusal("2001:db8::/129", XBLOOM_SRC, "0 to 128");
	expect_refusal("192.0.2.9-192.0.2.8", XBLOOM_SRC, "backwards");
	expect_refusal("2001:db8::2-2001:db8::1", XBLOOM_SRC, "backwards");
	expect_refusal("192.0.2.9-2001:db8::", XBLOOM_SRC, "family");
	expect_refusal("192.0.2.0/24-192.0.3.0/24", XBLOOM_SRC, "range of prefixes");
	expect_refusal("192.0.2.9-", XBLOOM_SRC, "address");
	expect_refusal("-192.0.2.9", XBLOOM_SRC, "address");
	expect_refusal("192.0.2.1-9", XBLOOM_SRC, "'9'");
	expect_refusal("192.0.2.1,443", XBLOOM_SRC, "too many fields");
	expect_refusal("192.0.2.0/24,443", XBLOOM_SRC | XBLOOM_DPORT, "src or dst alone");
	expect_refusal("192.0.2.0/24,192.0.2.1", XBLOOM_FIELDS_ADDR, "src or dst alone");
	expect_refusal("192.0.2.1,192.0.2.0/24", XBLOOM_FIELDS_ADDR, "src or dst alone");
	expect_refusal("192.0.2.1,80:90", XBLOOM_SRC | XBLOOM_DPORT, "port");
	expect_refusal("192.0.2.1,tcp:443,tcp", XBLOOM_SRC | XBLOOM_DPORT | XBLOOM_PROTO,
		       "too many");
	expect_refusal("192.0.2.1,tcp:1,2", XBLOOM_SRC | XBLOOM_FIELDS_PORTS, "port");
}

/* The fewest prefixes: they follow each other, and none could be twice as large. */
static void ranges_become_the_fewest_prefixes(void **state)
{
	struct unit_random r = { .seed = 41 };
	unsigned int round, i;

	(void)state;
	for (round = 0; round < 2000; round++) {
		unsigned int bits = 1 + (unsigned int)unit_random_below(&r, 32);
		uint64_t a = unit_random(&r) & ((1ULL << bits) - 1);
		uint64_t b = unit_random(&r) & ((1ULL << bits) - 1);
		uint64_t from = a < b ? a : b, last = a < b ? b : a, next = from;
		struct in_addr first4 = { htonl((uint32_t)from) },
			       last4 = { htonl((uint32_t)last) };
		char text[2 * INET_ADDRSTRLEN], one[INET_ADDRSTRLEN], two[INET_ADDRSTRLEN];
		struct xbloom_list_stats stats = { 0 };
		struct taken t = { 0 };
		struct xbloom_error err;

		inet_ntop(AF_INET, &first4, one, sizeof(one));
		inet_ntop(AF_INET, &last4, two, sizeof(two));
		snprintf(text, sizeof(text), "%s-%s", one, two);
		if (xbloom_entry_parse(text, strlen(text),
				       &(struct xbloom_list_options){ .fields = XBLOOM_SRC,
								      .everything = true },
				       take, &t, &stats, &err))
			fail_msg("%s", err.text);
		assert_int_equal(stats.keys, from == last);
		assert_int_equal(stats.prefixes, from != last);
		for (i = 0; i < t.n; i++) {
			uint64_t size = 1ULL << (32 - t.flows[i].plen);
			uint64_t parent = next & ~(2 * size - 1);

			assert_int_equal(ntohl(t.flows[i].src.v4), next);
			assert_int_equal(next % size, 0);
			if (t.flows[i].plen && parent >= from && parent + 2 * size - 1 <= last)
				fail_msg("%s: /%u at %#llx could be larger", text, t.flows[i].plen,
					 (unsigned long long)next);
			next += size;
		}
		assert_int_equal(next, last + 1);
	}
}

static void ranges_of_ipv6_reach_the_ends(void **state)
{
	static const char all[] = "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
	static const char most[] = "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe";
	struct xbloom_error err;
	struct taken t = { 0 };

	(void)state;
	assert_int_equal(xbloom_entry_parse(all, strlen(all),
					    &(struct xbloom_list_options){ .fields = XBLOOM_SRC,
									   .everything = true },
					    take, &t, NULL, &err),
			 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.flows[0].plen, 0);
	t.n = 0;
	assert_int_equal(xbloom_entry_parse(most, strlen(most),
					    &(struct xbloom_list_options){ .fields = XBLOOM_SRC,
									   .everything = true },
					    take, &t, NULL, &err),
			 0);
	/* One of each length from 2 to 128, on both sides of the middle. */
	assert_int_equal(t.n, 2 * 127);
}

/* ---- chunks and threads ---- */

#define MANY 30000
#define NOISY 9

/* Given `n` lines with the addresses 198.18.0.0 + i, one in `noisy` with a comment behind it. */
static void give_many(unsigned int n, unsigned int bad_line, uint64_t noisy)
{
	struct unit_random noise = { .seed = 42 };
	FILE *f = fopen(list, "w");
	unsigned int i;

	assert_non_null(f);
	for (i = 0; i < n; i++) {
		if (i + 1 == bad_line)
			fputs("bad", f);
		fprintf(f, "%*s198.18.%u.%u%s%s", (int)unit_random_below(&noise, 2), "", i >> 8,
			i & 255, !noisy || unit_random_below(&noise, noisy) ? "" : " # noise",
			i + 1 < n ? "\n" : "");
	}
	assert_int_equal(fclose(f), 0);
}

struct counting {
	pthread_t caller;
	unsigned int workers; /* bits */
	unsigned int seen[MANY];
	unsigned int last; /* worker 0 alone: entries must come in order */
	bool ordered;
	int fail_at;
};

static int count(void *ctx, unsigned int worker, const struct xbloom_flow *flow, const char *text,
		 size_t len)
{
	struct counting *c = ctx;
	unsigned int i = ntohl(flow->src.v4) - (198U << 24 | 18U << 16);

	assert_non_null(text);
	assert_true(len >= strlen("198.18.0.0"));
	if (worker >= XBLOOM_READERS_MAX || i >= MANY ||
	    (worker == 0) != !!pthread_equal(pthread_self(), c->caller))
		return -EBADMSG;
	if (c->fail_at && (int)i >= c->fail_at)
		return -ENOSPC;
	__atomic_fetch_or(&c->workers, 1U << worker, __ATOMIC_RELAXED);
	__atomic_fetch_add(&c->seen[i], 1, __ATOMIC_RELAXED);
	if (c->ordered && i && i != c->last + 1)
		return -EBADMSG;
	if (c->ordered)
		c->last = i;
	return 0;
}

static void entries_come_once_whatever_the_chunks_and_threads(void **state)
{
	struct unit_random r = { .seed = 43 };
	struct counting *c = calloc(1, sizeof(*c));
	unsigned int round, i;

	(void)state;
	assert_non_null(c);
	give_many(MANY, 0, NOISY);
	for (round = 0; round < 40; round++) {
		struct xbloom_list_options options = {
			.fields = XBLOOM_SRC,
			.threads = 1 + round % 5,
		};
		struct xbloom_list_stats stats = { 0 };
		struct xbloom_error err = { "" };
		size_t chunk = 1 + unit_random_below(&r, round < 20 ? 100 : 100000);

		*c = (struct counting){ .caller = pthread_self(), .ordered = options.threads == 1 };
		if (xbloom_list_read_chunks(list, &options, chunk, count, c, &stats, &err))
			fail_msg("chunks of %zu: %s", chunk, err.text);
		assert_int_equal(stats.lines, MANY);
		assert_int_equal(stats.keys, MANY);
		assert_int_equal(c->workers >> options.threads, 0);
		for (i = 0; i < MANY; i++)
			assert_int_equal(c->seen[i], 1);
	}
	free(c);
}

static void small_lists_start_no_thread(void **state)
{
	struct xbloom_list_options options = { .fields = XBLOOM_SRC, .threads = 16 };
	struct counting *c = calloc(1, sizeof(*c));
	struct xbloom_error err;

	(void)state;
	assert_non_null(c);
	c->caller = pthread_self();
	c->ordered = true;
	give_many(MANY, 0, NOISY);
	assert_int_equal(xbloom_list_read(list, &options, count, c, NULL, &err), 0);
	assert_int_equal(c->workers, 1);
	free(c);
}

static void first_bad_line_is_told_whatever_the_threads(void **state)
{
	struct counting *c = calloc(1, sizeof(*c));
	unsigned int round;

	(void)state;
	assert_non_null(c);
	c->caller = pthread_self();
	give_many(MANY, 23456, NOISY);
	for (round = 0; round < 50; round++) {
		struct xbloom_list_options options = {
			.fields = XBLOOM_SRC,
			.threads = 1 + round % 4,
		};
		struct xbloom_error err;

		unit_error_poison(&err);
		assert_int_equal(xbloom_list_read_chunks(list, &options, 100 + 50 * round, count, c,
							 NULL, &err),
				 -EINVAL);
		unit_assert_says(&err, ":23456: 'bad");
		assert_int_equal(xbloom_list_read_chunks(list, &options, 100 + 50 * round, count, c,
							 NULL, NULL),
				 -EINVAL);
	}
	free(c);
}

static void callbacks_end_the_reading_with_their_own_words(void **state)
{
	static const char own[] = "the callback's own words";
	struct counting *c = calloc(1, sizeof(*c));
	unsigned int threads;

	(void)state;
	assert_non_null(c);
	c->caller = pthread_self();
	c->fail_at = MANY / 2;
	/* The bad line comes later: nobody looks that far. */
	give_many(MANY, MANY - 5, NOISY);
	for (threads = 1; threads <= 4; threads++) {
		struct xbloom_list_options options = { .fields = XBLOOM_SRC, .threads = threads };
		struct xbloom_error err;

		strcpy(err.text, own);
		assert_int_equal(
			xbloom_list_read_chunks(list, &options, 1000, count, c, NULL, &err),
			-ENOSPC);
		assert_string_equal(err.text, own);
	}
	free(c);
}

/* ---- giving up ---- */

struct patience {
	unsigned int left;
	pthread_t caller;
};

static bool loses_patience(void *ctx)
{
	struct patience *p = ctx;

	assert_true(pthread_equal(pthread_self(), p->caller));
	return !p->left || !--p->left;
}

/* Only the caller is asked, so it has to get to its turn: the others crawl. */
static int crawl(void *ctx, unsigned int worker, const struct xbloom_flow *flow, const char *text,
		 size_t len)
{
	const struct timespec nap = { .tv_nsec = 1000000 };

	(void)ctx;
	(void)flow;
	(void)text;
	(void)len;
	if (worker)
		nanosleep(&nap, NULL);
	return 0;
}

static void reading_is_given_up(void **state)
{
	static const char *const formats[] = { "plain", "csv" };
	unsigned int threads, i;

	(void)state;
	give_many(MANY, 0, 0);
	for (i = 0; i < COUNT_OF(formats); i++) {
		for (threads = 1; threads <= 3; threads++) {
			struct patience p = { .left = 4, .caller = pthread_self() };
			struct xbloom_options opts = { .cancelled = loses_patience, .ctx = &p };
			struct xbloom_list_options options = {
				.fields = XBLOOM_SRC,
				.threads = threads,
				.column = i ? "1" : NULL,
				.opts = &opts,
			};
			struct xbloom_error err;

			unit_error_poison(&err);
			assert_int_equal(xbloom_format_parse(formats[i], &options.format, &err), 0);
			assert_int_equal(xbloom_list_read_chunks(list, &options, 100, crawl, NULL,
								 NULL, &err),
					 -ECANCELED);
			unit_assert_says(&err, "given up");
		}
	}
}

/* A pipe that is open and gives nothing, from the start or after some chunks. */
static void silent_pipes_can_be_left(void **state)
{
	static char some[5000];
	struct counting *c = calloc(1, sizeof(*c));
	size_t i, bytes;

	(void)state;
	assert_non_null(c);
	c->caller = pthread_self();
	for (i = 0; i < sizeof(some); i++)
		some[i] = (char)("198.18.1.1\n"[i % 11]);
	for (bytes = 0; bytes <= sizeof(some); bytes += sizeof(some)) {
		struct patience p = { .left = 3, .caller = pthread_self() };
		struct xbloom_options opts = { .cancelled = loses_patience, .ctx = &p };
		struct xbloom_list_options options = { .fields = XBLOOM_SRC,
						       .threads = 3,
						       .opts = &opts };
		int saved = dup(0), ends[2], ret;
		struct xbloom_error err;

		assert_int_equal(pipe(ends), 0);
		assert_int_equal(write(ends[1], some, bytes), bytes);
		assert_int_equal(dup2(ends[0], 0), 0);
		close(ends[0]);
		unit_error_poison(&err);
		ret = xbloom_list_read_chunks("-", &options, 500, count, c, NULL, &err);
		dup2(saved, 0);
		close(saved);
		close(ends[1]);
		assert_int_equal(ret, -ECANCELED);
		unit_assert_says(&err, "given up");
	}
	free(c);
}

/* ---- raw addresses ---- */

static void raw_addresses_are_taken_as_they_are(void **state)
{
	static const unsigned char six[2][16] = {
		{ 0x20, 0x01, 0x0d, 0xb8, [15] = 7 },
		{ [10] = 0xff, 0xff, 192, 0, 2, 9 },
	};
	struct xbloom_list_options options = { .fields = XBLOOM_DST,
					       .format = XBLOOM_FORMAT_RAW4,
					       .threads = 1 };
	struct xbloom_list_stats stats = { 0 };
	char text[XBLOOM_KEY_TEXT];
	struct taken t = { 0 };
	struct xbloom_error err;

	(void)state;
	/* Line ends, '#' and zeros are bytes like others. */
	give("\n\n\n\n####\0\0\0\0", 12);
	assert_int_equal(xbloom_list_read(list, &options, take, &t, &stats, &err), 0);
	assert_int_equal(t.n, 3);
	assert_string_equal(xbloom_key_text(&t.flows[0], XBLOOM_DST, text), "10.10.10.10");
	assert_string_equal(xbloom_key_text(&t.flows[1], XBLOOM_DST, text), "35.35.35.35");
	assert_string_equal(xbloom_key_text(&t.flows[2], XBLOOM_DST, text), "0.0.0.0");
	assert_int_equal(stats.keys, 3);
	assert_int_equal(stats.lines, 3);

	options.format = XBLOOM_FORMAT_RAW6;
	t.n = 0;
	give(six, sizeof(six));
	assert_int_equal(xbloom_list_read(list, &options, take, &t, &stats, &err), 0);
	assert_int_equal(t.n, 2);
	assert_string_equal(xbloom_key_text(&t.flows[0], XBLOOM_DST, text), "2001:db8::7");
	assert_string_equal(xbloom_key_text(&t.flows[1], XBLOOM_DST, text), "192.0.2.9");

	/* One byte too many, in a chunk of its own. */
	give(six, sizeof(six) - 15);
	unit_error_poison(&err);
	assert_int_equal(xbloom_list_read_chunks(list, &options, 16, take, &t, NULL, &err),
			 -EINVAL);
	unit_assert_says(&err, "byte 16");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_have_names),
		cmocka_unit_test(formats_are_told_by_content),
		cmocka_unit_test(entries_are_keys_and_prefixes),
		cmocka_unit_test(entries_that_say_nothing_certain_are_refused),
		cmocka_unit_test(ranges_become_the_fewest_prefixes),
		cmocka_unit_test(ranges_of_ipv6_reach_the_ends),
		cmocka_unit_test(entries_come_once_whatever_the_chunks_and_threads),
		cmocka_unit_test(small_lists_start_no_thread),
		cmocka_unit_test(first_bad_line_is_told_whatever_the_threads),
		cmocka_unit_test(callbacks_end_the_reading_with_their_own_words),
		cmocka_unit_test(reading_is_given_up),
		cmocka_unit_test(silent_pipes_can_be_left),
		cmocka_unit_test(raw_addresses_are_taken_as_they_are),
	};

	return cmocka_run_group_tests_name("formats", tests, make_list, remove_list);
}
