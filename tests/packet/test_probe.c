// SPDX-License-Identifier: GPL-2.0-only
/*
 * The prober, the truth and the measure: different numbers are different keys, the program in the
 * kernel answers as the bits in memory do, nothing that a filter counts or samples is touched, and
 * what `measure` says is what a plain loop over a set finds. And it can say no: when the list is not
 * what is in the filter, and when the bits that are read are not those that are asked.
 *
 * Nothing here is left to chance: hash keys and seeds are fixed, so that each measurement comes out
 * the same every time. Who changes a hash, a position or the draw re-rolls them: a right prediction
 * then lies outside its interval in 5 of 100, and another SEED is the remedy.
 */
#include <arpa/inet.h>
#include <math.h>
#include <sys/mman.h>

#include "internal.h"
#include "packet.h"

#define SEED 1

/* ---- what the tests share ---- */

static uint32_t fields_of(const char *text)
{
	struct xbloom_error error = { "" };
	uint32_t fields;

	if (xbloom_fields_parse(text, &fields, &error))
		fail_msg("%s", error.text);
	return fields;
}

/* A filter that is nowhere but here. */
static struct xbloom *scratch(uint32_t layout, uint32_t fields, uint64_t items, double bits_per_key)
{
	struct xbloom_size_request req = {
		.layout = layout,
		.items = items,
		.bits_per_key = bits_per_key,
	};
	struct xbloom_error error = { "" };
	struct xbloom *filter = NULL;
	struct xbloom_size size;

	if (xbloom_plan(&req, &size, &error) ||
	    xbloom_scratch(&size.geometry, items, fields, &packet_hash_key, &filter, &error))
		fail_msg("%s", error.text);
	return filter;
}

static struct xbloom_prober *prober(const struct xbloom *filter, uint32_t family, uint64_t seed,
				    bool told)
{
	const struct xbloom_prober_options options = {
		.family = family,
		.seed = seed,
		.tell_maybe = told,
		.tell_absent = told,
	};
	struct xbloom_error error = { "" };
	struct xbloom_prober *p = NULL;

	if (xbloom_prober_open(filter, &options, &p, &error))
		fail_msg("%s", error.text);
	return p;
}

/* Returns how many of the keys first .. first + n - 1 are called maybe. */
static uint64_t ask(struct xbloom_prober *p, uint64_t first, uint64_t n, xbloom_sample_fn fn,
		    void *ctx)
{
	struct xbloom_error error = { "" };
	uint64_t maybe = 0;

	if (xbloom_prober_ask(p, first, n, &maybe, fn, ctx, &error))
		fail_msg("%s", error.text);
	return maybe;
}

static uint64_t hash_of(const struct xbloom_sample *sample)
{
	return xbloom_words_hash(&packet_hash_key, sample->words, sample->n_words);
}

static int put_in(void *ctx, const struct xbloom_sample *sample)
{
	xbloom_add(ctx, hash_of(sample));
	return 0;
}

/* The first n keys of a sequence go in. */
static void fill(struct xbloom *filter, uint32_t family, uint64_t n)
{
	struct xbloom_prober *p = prober(filter, family, SEED, true);

	ask(p, 0, n, put_in, filter);
	xbloom_prober_close(p);
}

/* A list in a file that has no name; *path names it all the same. Ends with list_close(). */
struct list {
	FILE *file;
	char path[64];
};

static struct list list_open(void)
{
	int fd = memfd_create("list", MFD_CLOEXEC);
	struct list l = { .file = fd < 0 ? NULL : fdopen(fd, "w") };

	if (!l.file)
		fail_msg("no file for a list: %s", strerror(errno));
	snprintf(l.path, sizeof(l.path), "/proc/self/fd/%d", fd);
	return l;
}

static struct xbloom_truth *truth_of(const struct xbloom *filter, const struct list *lists,
				     size_t n)
{
	struct xbloom_error error = { "" };
	struct xbloom_truth *truth = NULL;
	const char *paths[2] = { NULL };
	size_t i;

	for (i = 0; i < n; i++) {
		fflush(lists[i].file);
		paths[i] = lists[i].path;
	}
	if (xbloom_truth_open(filter, paths, n, NULL, &truth, &error))
		fail_msg("%s", error.text);
	return truth;
}

static struct xbloom_measurement measure(const struct xbloom *filter,
					 struct xbloom_measure_options options)
{
	struct xbloom_error error = { "" };
	struct xbloom_measurement m;

	if (!options.seed)
		options.seed = SEED;
	if (xbloom_measure(filter, &options, &m, &error))
		fail_msg("%s", error.text);
	return m;
}

/* ---- different numbers are different keys ---- */

/*
 * The sequences that are looked at. All of those of up to 2^17 keys: then each key of the shape comes
 * once. Of a random function 200,000 draws would have five keys twice in 2^32, and 75 in 2^28.
 */
static const struct shape {
	const char *fields;
	uint32_t family;
	unsigned int bits;
	uint64_t draws;
} shapes[] = {
	{ "proto", 4, 1, 2 },
	{ "vlan", 4, 12, 4096 },
	{ "proto,vlan", 6, 13, 8192 },
	{ "dport", 4, 16, 65536 },
	{ "sport", 6, 16, 65536 },
	{ "dport,proto", 4, 17, 131072 },
	{ "sport,vlan", 4, 28, 200000 },
	{ "sport,dport,proto,vlan", 6, 45, 200000 },
	{ "src", 4, 32, 1000000 },
	{ "dst", 4, 32, 200000 },
	{ "src,proto", 4, 33, 200000 },
	{ "src,dst", 4, 64, 200000 },
	{ "src,sport,vlan", 4, 60, 200000 },
	{ "src,sport,dport", 4, 64, 200000 },
	{ "src,sport,dport,proto,vlan", 4, 77, 200000 },
	{ "5tuple", 4, 97, 200000 },
	{ "src,dst,sport,dport,proto,vlan", 4, 109, 200000 },
	{ "src", 6, 128, 1000000 },
	{ "dst,vlan", 6, 140, 200000 },
	{ "5tuple", 6, 289, 200000 },
	{ "src,dst,sport,dport,proto,vlan", 6, 301, 200000 },
};

/* TCP is 6 and UDP 17: four bits of a word differ for one that is drawn. */
#define PROTO_BITS 4

struct look {
	struct xbloom_hashes hashes;
	__u64 any[XBLOOM_KEY_WORDS_MAX], all[XBLOOM_KEY_WORDS_MAX];
	uint64_t set[XBLOOM_KEY_WORDS_MAX][64];
};

static int look(void *ctx, const struct xbloom_sample *sample)
{
	struct xbloom_error error = { "" };
	struct look *l = ctx;
	unsigned int w, b;

	for (w = 0; w < XBLOOM_KEY_WORDS_MAX; w++) {
		l->any[w] |= sample->words[w];
		l->all[w] &= sample->words[w];
		for (b = 0; b < 64; b++)
			l->set[w][b] += sample->words[w] >> b & 1;
	}
	return xbloom_hashes_push(&l->hashes, hash_of(sample), &error);
}

/* What never changes in word 0, by key.h: how long the address is, and of what family. */
static __u64 constant_head(uint32_t fields, uint32_t family)
{
	__u64 plen = family == XBLOOM_FAMILY_V4 ? 32 : 128;

	return fields & XBLOOM_FIELDS_ADDR ? plen << 32 | (__u64)family << 40 : 0;
}

static void look_at(const struct shape *s)
{
	struct look l = { .all = { ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL } };
	uint32_t fields = fields_of(s->fields);
	struct xbloom *filter = scratch(XBLOOM_LAYOUT_SPLIT, fields, 1000, 10);
	struct xbloom_prober *p = prober(filter, s->family, SEED, true);
	unsigned int w, b, varying = 0;
	uint64_t twice;

	assert_int_equal(xbloom_prober_bits(p), s->bits);
	assert_int_equal(ask(p, 0, s->draws, look, &l), 0);
	assert_int_equal(l.hashes.n, s->draws);
	twice = xbloom_hashes_distinct(&l.hashes);
	if (twice)
		fail_msg("%s IPv%u: %llu of %llu keys came twice", s->fields, s->family,
			 (unsigned long long)twice, (unsigned long long)s->draws);
	for (w = 0; w < XBLOOM_KEY_WORDS_MAX; w++) {
		assert_int_equal(l.all[w], w ? 0 : constant_head(fields, s->family));
		for (b = 0; b < 64; b++) {
			double off = (double)l.set[w][b] - (double)s->draws / 2;

			if (!((l.any[w] & ~l.all[w]) >> b & 1))
				continue;
			varying++;
			/* Set in half of the keys: six standard deviations, for 5,000 bits in all. */
			if (fabs(off) > 3 * sqrt((double)s->draws))
				fail_msg("%s IPv%u: bit %u of word %u is set in %llu of %llu keys",
					 s->fields, s->family, b, w,
					 (unsigned long long)l.set[w][b],
					 (unsigned long long)s->draws);
		}
	}
	/* Every bit of every keyed field is drawn, and none of another. */
	assert_int_equal(varying, s->bits + (fields & XBLOOM_PROTO ? PROTO_BITS - 1 : 0));
	xbloom_hashes_free(&l.hashes);
	xbloom_prober_close(p);
	xbloom_close(filter);
}

static void different_numbers_are_different_keys(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		look_at(&shapes[i]);
}

/* ---- a sequence is that of its seed ---- */

#define SEQUENCE 1000

struct sequence {
	struct xbloom_sample samples[SEQUENCE];
	size_t n;
};

static int remember(void *ctx, const struct xbloom_sample *sample)
{
	struct sequence *s = ctx;

	if (s->n == SEQUENCE)
		return -E2BIG;
	s->samples[s->n++] = *sample;
	return 0;
}

static void a_number_is_a_key_until_the_seed_changes(void **state)
{
	struct xbloom *filter = scratch(XBLOOM_LAYOUT_SPLIT, XBLOOM_FIELDS_5TUPLE, 1000, 10);
	struct xbloom_prober *p = prober(filter, XBLOOM_FAMILY_V6, SEED, true);
	struct sequence *s = calloc(3, sizeof(*s));
	size_t i, same = 0;

	(void)state;
	assert_non_null(s);
	ask(p, 0, SEQUENCE, remember, &s[0]);
	assert_int_equal(s[0].n, SEQUENCE);
	/* In two pieces, the later one first, by another prober. */
	xbloom_prober_close(p);
	p = prober(filter, XBLOOM_FAMILY_V6, SEED, true);
	s[1].n = SEQUENCE / 2;
	ask(p, SEQUENCE / 2, SEQUENCE / 2, remember, &s[1]);
	s[1].n = 0;
	ask(p, 0, SEQUENCE / 2, remember, &s[1]);
	assert_memory_equal(s[0].samples, s[1].samples, sizeof(s[0].samples));
	xbloom_prober_close(p);
	p = prober(filter, XBLOOM_FAMILY_V6, SEED + 1, true);
	ask(p, 0, SEQUENCE, remember, &s[2]);
	for (i = 0; i < SEQUENCE; i++)
		same += !memcmp(&s[0].samples[i], &s[2].samples[i], sizeof(s[0].samples[i]));
	assert_int_equal(same, 0);
	free(s);
	xbloom_prober_close(p);
	xbloom_close(filter);
}

static int give_up(void *ctx, const struct xbloom_sample *sample)
{
	uint64_t *left = ctx;

	(void)sample;
	if (!*left)
		return -ECANCELED;
	--*left;
	return 0;
}

static int count(void *ctx, const struct xbloom_sample *sample)
{
	uint64_t *n = ctx;

	(void)sample;
	++*n;
	return 0;
}

static void who_has_heard_enough_hears_no_more(void **state)
{
	struct xbloom *filter = scratch(XBLOOM_LAYOUT_SPLIT, XBLOOM_SRC, 1000, 10);
	struct xbloom_prober *p = prober(filter, XBLOOM_FAMILY_V4, SEED, true);
	struct xbloom_error error = { "" };
	uint64_t left = 10, maybe, heard = 0;

	(void)state;
	assert_int_equal(xbloom_prober_ask(p, 0, 1000, &maybe, give_up, &left, &error), -ECANCELED);
	assert_true(error.text[0]);
	ask(p, 0, 500, count, &heard);
	assert_int_equal(heard, 500);
	xbloom_prober_close(p);
	xbloom_close(filter);
}

/* ---- the program in the kernel, and the bits ---- */

struct compare {
	const struct xbloom *filter;
	uint64_t maybe, absent, other;
};

static int compare(void *ctx, const struct xbloom_sample *sample)
{
	struct compare *c = ctx;
	bool maybe = xbloom_test(c->filter, hash_of(sample));

	c->maybe += maybe && sample->reason == XBLOOM_MAYBE;
	c->absent += !maybe && sample->reason == XBLOOM_ABSENT;
	c->other += sample->reason != (maybe ? XBLOOM_MAYBE : XBLOOM_ABSENT);
	return 0;
}

#define FILLED 20000
#define ASKED 400000 /* more than one batch */

static void the_program_answers_as_the_bits_do(void **state)
{
	static const struct {
		uint32_t layout;
		const char *fields;
		uint32_t family;
	} cases[] = {
		{ XBLOOM_LAYOUT_SPLIT, "src", XBLOOM_FAMILY_V4 },
		{ XBLOOM_LAYOUT_SPLIT, "5tuple", XBLOOM_FAMILY_V6 },
		{ XBLOOM_LAYOUT_CLASSIC, "src", XBLOOM_FAMILY_V6 },
		{ XBLOOM_LAYOUT_CLASSIC, "src,dport,vlan", XBLOOM_FAMILY_V4 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct xbloom *filter =
			scratch(cases[i].layout, fields_of(cases[i].fields), FILLED, 6);
		struct compare c = { .filter = filter };
		struct xbloom_prober *p, *silent;
		uint64_t maybe;

		fill(filter, cases[i].family, FILLED);
		p = prober(filter, cases[i].family, SEED, true);
		maybe = ask(p, 0, ASKED, compare, &c);
		assert_int_equal(c.other, 0);
		assert_int_equal(c.maybe, maybe);
		assert_int_equal(c.absent, ASKED - maybe);
		/* No key that was put in is lost, and at 6 bits a key there are false positives. */
		assert_true(maybe > FILLED + 1000);
		silent = prober(filter, cases[i].family, SEED, false);
		assert_int_equal(ask(silent, 0, ASKED, NULL, NULL), maybe);
		assert_int_equal(ask(silent, 0, FILLED, NULL, NULL), FILLED);
		xbloom_prober_close(silent);
		xbloom_prober_close(p);
		xbloom_close(filter);
	}
}

/* ---- nothing of the filter is touched ---- */

static int64_t samples_waiting(const struct xbloom *filter)
{
	struct xbloom_samples *samples = NULL;
	struct xbloom_error error = { "" };
	uint64_t heard = 0;
	int64_t n;

	if (xbloom_samples_open(filter, &samples, &error))
		fail_msg("%s", error.text);
	n = xbloom_samples_read(samples, count, &heard);
	xbloom_samples_close(samples);
	return n;
}

static void what_a_filter_counts_and_samples_stays_as_it_is(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_ALLOW, true);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, 1000);
	struct xbloom_error error = { "" };
	struct xbloom_stats before, after;
	struct xbloom_measurement m;
	struct frame frame;

	(void)state;
	/* Every packet is sampled, would be dropped, and is let through: none of it by a prober. */
	rules.sample = 1;
	if (xbloom_set_rules(filter, &rules, &error))
		fail_msg("%s", error.text);
	FRAME(&frame, ETH, IP4, UDP);
	expect_fate(filter, &frame, "absent", WOULD_DROP);
	assert_int_equal(samples_waiting(filter), 1);
	before = stats_now(filter);
	assert_int_equal(before.samples, 1);
	fill(filter, XBLOOM_FAMILY_V4, 1000);
	m = measure(filter, (struct xbloom_measure_options){ 0 });
	assert_true(m.agree);
	assert_true(m.false_positives > 0);
	after = stats_now(filter);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(samples_waiting(filter), 0);
	filter_destroy(filter);
}

/* ---- the truth ---- */

static bool truth_has(const struct xbloom_truth *truth, uint32_t fields, const char *key)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX] = { 0 };
	struct xbloom_error error = { "" };
	struct xbloom_flow flow;

	if (xbloom_key_parse(key, strlen(key), fields, &flow, &error))
		fail_msg("%s", error.text);
	return xbloom_truth_has(truth, words, xbloom_key_words(&flow, fields, words));
}

static void lists_are_the_truth(void **state)
{
	uint32_t fields = fields_of("src,dport");
	struct xbloom *filter = scratch(XBLOOM_LAYOUT_SPLIT, fields, 1000, 10);
	struct list lists[2] = { list_open(), list_open() };
	struct xbloom_error error = { "" };
	struct xbloom_truth *truth, *none = NULL;
	const char *paths[2] = { lists[0].path, lists[1].path };

	(void)state;
	fputs("192.0.2.1,53\n192.0.2.2,53\n192.0.2.1,53\n", lists[0].file);
	fputs("2001:db8::1,53 # a comment\n\n192.0.2.2,53\n", lists[1].file);
	truth = truth_of(filter, lists, 2);
	assert_int_equal(xbloom_truth_keys(truth), 3);
	/* It outlives the filter. */
	xbloom_close(filter);
	assert_true(truth_has(truth, fields, "192.0.2.1,53"));
	assert_true(truth_has(truth, fields, "192.0.2.2,53"));
	assert_true(truth_has(truth, fields, "2001:db8::1,53"));
	assert_false(truth_has(truth, fields, "192.0.2.1,54"));
	assert_false(truth_has(truth, fields, "192.0.2.3,53"));
	assert_false(truth_has(truth, fields, "2001:db8::2,53"));
	xbloom_truth_close(truth);

	filter = scratch(XBLOOM_LAYOUT_SPLIT, fields, 1000, 10);
	fputs("192.0.2.9\n", lists[1].file);
	fflush(lists[1].file);
	assert_int_equal(xbloom_truth_open(filter, paths, 2, NULL, &none, &error), -EINVAL);
	/* The file, its line, and what stands there. */
	assert_non_null(strstr(error.text, lists[1].path));
	assert_non_null(strstr(error.text, ":4: "));
	assert_non_null(strstr(error.text, "192.0.2.9"));
	assert_int_equal(xbloom_truth_open(filter, NULL, 0, NULL, &none, &error), -ENOENT);
	assert_non_null(strstr(error.text, "--from"));
	fclose(lists[0].file);
	lists[0] = list_open();
	paths[0] = lists[0].path;
	assert_int_equal(xbloom_truth_open(filter, paths, 1, NULL, &none, &error), -ENODATA);
	fclose(lists[0].file);
	fclose(lists[1].file);
	xbloom_close(filter);
}

/* ---- the measure, and a plain loop ---- */

#define ALL_PORTS 65536

/* Every thirteenth port: 5,042 of them. */
static bool is_in(uint32_t port)
{
	return port % 13 == 0;
}

static uint64_t port_hash(uint32_t port)
{
	struct xbloom_flow flow = { .ports = { 0, htons((uint16_t)port) } };

	return xbloom_key_hash(&packet_hash_key, &flow, XBLOOM_DPORT);
}

static void of_all_ports_each_is_counted_once_and_rightly(void **state)
{
	static const uint32_t layouts[] = { XBLOOM_LAYOUT_SPLIT, XBLOOM_LAYOUT_CLASSIC };
	uint64_t false_positives, listed;
	struct xbloom_measurement m;
	uint32_t port;
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct xbloom *filter = scratch(layouts[i], XBLOOM_DPORT, 5000, 8);
		struct list list = list_open();
		struct xbloom_truth *truth;

		for (port = 0; port < ALL_PORTS; port++) {
			if (!is_in(port))
				continue;
			xbloom_add(filter, port_hash(port));
			fprintf(list.file, "%u\n", port);
		}
		false_positives = 0;
		listed = 0;
		for (port = 0; port < ALL_PORTS; port++) {
			false_positives += !is_in(port) && xbloom_test(filter, port_hash(port));
			listed += is_in(port);
		}
		truth = truth_of(filter, &list, 1);
		m = measure(filter, (struct xbloom_measure_options){ .truth = truth,
								     .verified = XBLOOM_BY_LIST,
								     .probes = ALL_PORTS });
		assert_int_equal(m.listed, listed);
		assert_int_equal(m.probes, ALL_PORTS - listed);
		assert_int_equal(m.false_positives, false_positives);
		assert_true(m.exhausted);
		assert_true(m.agree);
		assert_int_equal(m.verified, XBLOOM_BY_LIST);
		assert_int_equal(m.space_bits, 16);
		xbloom_truth_close(truth);
		fclose(list.file);
		xbloom_close(filter);
	}
}

/* The same ports in a filter that knows them exactly. */
static void the_exact_map_is_as_good_as_a_list(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_DPORT, XBLOOM_POLICY_BLOCK, false);
	struct xbloom_size_request req = {
		.layout = XBLOOM_LAYOUT_SPLIT,
		.items = 5000,
		.bits_per_key = 8,
	};
	struct xbloom_hashes h = { .width = xbloom_key_width(XBLOOM_DPORT) };
	struct xbloom_error error = { "" };
	struct xbloom_truth *truth = NULL;
	struct xbloom *filter = NULL;
	struct xbloom_measurement m;
	uint64_t false_positives = 0;
	struct xbloom_size size;
	uint32_t port;

	(void)state;
	rules.confirm = true;
	assert_int_equal(xbloom_plan(&req, &size, &error), 0);
	size.exact_keys = 6000;
	for (port = 0; port < ALL_PORTS; port++) {
		struct xbloom_flow flow = { .ports = { 0, htons((uint16_t)port) } };

		if (is_in(port) &&
		    xbloom_hashes_push_flow(&h, &packet_hash_key, &flow, XBLOOM_DPORT, &error))
			fail_msg("%s", error.text);
	}
	xbloom_hashes_distinct(&h);
	if (xbloom_create(FILTER, &size, &rules, &packet_hash_key, &h, NULL, &filter, &error))
		fail_msg("%s", error.text);
	for (port = 0; port < ALL_PORTS; port++)
		false_positives += !is_in(port) && xbloom_test(filter, port_hash(port));
	if (xbloom_truth_open(filter, NULL, 0, NULL, &truth, &error))
		fail_msg("%s", error.text);
	assert_int_equal(xbloom_truth_keys(truth), 0);
	assert_true(truth_has(truth, XBLOOM_DPORT, "13"));
	assert_false(truth_has(truth, XBLOOM_DPORT, "14"));
	m = measure(filter, (struct xbloom_measure_options){ .truth = truth,
							     .verified = XBLOOM_BY_EXACT,
							     .probes = ALL_PORTS });
	/* And its program, which would have refuted them, was asked without the map. */
	assert_int_equal(m.false_positives, false_positives);
	assert_int_equal(m.listed, h.n);
	assert_true(m.agree);
	assert_int_equal(m.verified, XBLOOM_BY_EXACT);
	xbloom_truth_close(truth);
	xbloom_hashes_free(&h);
	filter_destroy(filter);
}

/* ---- how much is asked ---- */

static void as_many_keys_as_the_interval_needs(void **state)
{
	static const uint32_t layouts[] = { XBLOOM_LAYOUT_SPLIT, XBLOOM_LAYOUT_CLASSIC };
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct xbloom *filter = scratch(layouts[i], XBLOOM_SRC, 20000, 8);
		struct xbloom_measurement m;
		struct xbloom_gauge gauge;

		fill(filter, XBLOOM_FAMILY_V6, 20000);
		xbloom_gauge(filter, &gauge);
		m = measure(filter, (struct xbloom_measure_options){ 0 });
		assert_true(m.narrow);
		assert_true(m.ci_high - m.ci_low <= XBLOOM_MEASURE_WIDTH * m.fp_measured);
		/* 4 * 1.96^2 / 0.1^2 = 1,537 hits are needed, and not many more are sought. */
		assert_in_range(m.false_positives, 1450, 2000);
		assert_true(m.agree);
		assert_false(m.exhausted);
		assert_int_equal(m.verified, XBLOOM_BY_SPACE);
		assert_int_equal(m.space_bits, 128);
		assert_true(m.fp_predicted == gauge.fp_predicted);
		assert_true(m.fp_measured == (double)m.false_positives / (double)m.probes);
		/* So many and no more, where that is asked for. */
		m = measure(filter, (struct xbloom_measure_options){ .probes = 12345 });
		assert_int_equal(m.probes, 12345);
		assert_false(m.narrow);
		assert_true(m.needed > 12345);
		xbloom_close(filter);
	}
}

static void a_budget_of_time_ends_it(void **state)
{
	struct xbloom *filter = scratch(XBLOOM_LAYOUT_SPLIT, XBLOOM_SRC, 100000, 20);
	struct xbloom_measurement m;

	(void)state;
	/* A rate of 1e-10, for which no time would do. */
	fill(filter, XBLOOM_FAMILY_V4, 5000);
	m = measure(filter, (struct xbloom_measure_options){ .seconds = 0.1 });
	assert_true(m.probes > 0);
	assert_false(m.narrow);
	assert_false(m.exhausted);
	assert_int_equal(m.false_positives, 0);
	assert_true(m.ci_low == 0);
	assert_true(m.ci_high > m.fp_predicted);
	assert_true(m.seconds >= 0.1);
	xbloom_close(filter);
}

static void empty_and_full_filters_can_be_measured(void **state)
{
	static const uint64_t probes[] = { 28, 2000, 10000 };
	/* 10,240 bits: whole blocks, so that there are no bits beyond the last to be set. */
	struct xbloom *filter = scratch(XBLOOM_LAYOUT_CLASSIC, XBLOOM_SRC, 1024, 10);
	struct xbloom_measurement m;
	size_t i;

	(void)state;
	m = measure(filter, (struct xbloom_measure_options){ 0 });
	assert_true(m.empty);
	assert_true(m.agree);
	assert_int_equal(m.probes, 0);
	memset(filter->blocks, 0xff, filter->geometry.blocks * XBLOOM_BLOCK_BYTES);
	/* 28 is one of the numbers of which a rounded interval would end below 1. */
	for (i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		m = measure(filter, (struct xbloom_measure_options){ .probes = probes[i] });
		assert_false(m.empty);
		assert_int_equal(m.false_positives, probes[i]);
		assert_true(m.fp_measured == 1);
		assert_true(m.ci_high == 1);
		assert_true(m.fp_predicted == 1);
		assert_true(m.agree);
	}
	xbloom_close(filter);
}

static void a_small_space_needs_a_list(void **state)
{
	struct xbloom *filter = scratch(XBLOOM_LAYOUT_SPLIT, XBLOOM_DPORT, 1000, 10);
	struct xbloom_measure_options options = { 0 };
	struct xbloom_error error = { "" };
	struct xbloom_measurement m;

	(void)state;
	xbloom_add(filter, port_hash(53));
	assert_int_equal(xbloom_measure(filter, &options, &m, &error), -EDOM);
	assert_non_null(strstr(error.text, "2^16"));
	assert_non_null(strstr(error.text, "--from"));
	xbloom_close(filter);
}

/* ---- it can say no ---- */

static void a_list_that_lacks_keys_disagrees(void **state)
{
	struct xbloom *filter = scratch(XBLOOM_LAYOUT_SPLIT, XBLOOM_DPORT, 5000, 10);
	struct list list = list_open();
	struct xbloom_measurement m;
	struct xbloom_truth *truth;
	uint32_t port, left_out = 0;

	(void)state;
	for (port = 0; port < ALL_PORTS; port += 13) {
		xbloom_add(filter, port_hash(port));
		if (port % 2)
			fprintf(list.file, "%u\n", port);
		else
			left_out++;
	}
	truth = truth_of(filter, &list, 1);
	m = measure(filter,
		    (struct xbloom_measure_options){ .truth = truth, .verified = XBLOOM_BY_LIST });
	assert_false(m.agree);
	assert_true(m.ci_low > m.fp_predicted);
	assert_true(m.false_positives >= left_out);
	xbloom_truth_close(truth);
	fclose(list.file);
	xbloom_close(filter);
}

/*
 * The prediction is read from this process's mapping and the answers come from the kernel's map. When
 * the two are not the same bits, by a twentieth of the blocks, it shows.
 */
static void other_bits_than_those_asked_disagree(void **state)
{
	static const uint32_t layouts[] = { XBLOOM_LAYOUT_SPLIT, XBLOOM_LAYOUT_CLASSIC };
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct xbloom *filter = scratch(layouts[i], XBLOOM_SRC, 20000, 8);
		size_t len = filter->geometry.blocks * XBLOOM_BLOCK_BYTES;
		struct xbloom_block *theirs = filter->blocks, *copy = NULL;
		struct xbloom_measure_options options = { .probes = 400000 };

		fill(filter, XBLOOM_FAMILY_V6, 20000);
		assert_true(measure(filter, options).agree);
		assert_int_equal(posix_memalign((void **)&copy, XBLOOM_BLOCK_BYTES, len), 0);
		memcpy(copy, theirs, len);
		memset(copy, 0, len / 20 / XBLOOM_BLOCK_BYTES * XBLOOM_BLOCK_BYTES);
		filter->blocks = copy;
		assert_false(measure(filter, options).agree);
		filter->blocks = theirs;
		free(copy);
		xbloom_close(filter);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(different_numbers_are_different_keys),
		cmocka_unit_test(a_number_is_a_key_until_the_seed_changes),
		cmocka_unit_test(who_has_heard_enough_hears_no_more),
		cmocka_unit_test(the_program_answers_as_the_bits_do),
		cmocka_unit_test(what_a_filter_counts_and_samples_stays_as_it_is),
		cmocka_unit_test(lists_are_the_truth),
		cmocka_unit_test(of_all_ports_each_is_counted_once_and_rightly),
		cmocka_unit_test(the_exact_map_is_as_good_as_a_list),
		cmocka_unit_test(as_many_keys_as_the_interval_needs),
		cmocka_unit_test(a_budget_of_time_ends_it),
		cmocka_unit_test(empty_and_full_filters_can_be_measured),
		cmocka_unit_test(a_small_space_needs_a_list),
		cmocka_unit_test(a_list_that_lacks_keys_disagrees),
		cmocka_unit_test(other_bits_than_those_asked_disagree),
	};

	packet_isolate();
	return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
