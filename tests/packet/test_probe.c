// SPDX-License-Identifier: GPL-2.0-only
/*
 * The prober and the measure: every key that is drawn is another one and of the filter's own shape;
 * the program that is asked answers as the filter does; what is listed is told from what is not; and
 * the measure can disagree, when the bits that the program reads are not those that it predicts from.
 */
#include <math.h>

#include "packet.h"

/* For a look into an open filter, and a lie about its bits. */
#include "internal.h"

/* ---- what is drawn ---- */

struct collected {
	struct xbloom_hashes
		words; /* as v: the words of all keys, n_words each, for sorting by hash */
	unsigned int n_words;
	uint64_t told;
	uint32_t reason;
	uint64_t ports[65536 / 64]; /* seen, when the key is one port */
};

static const struct xbloom_hash_key word_key = { 1, 2 };

static int collect(void *ctx, const struct xbloom_sample *s)
{
	struct collected *c = ctx;

	c->told++;
	assert_int_equal(s->reason, c->reason);
	if (!c->n_words)
		c->n_words = s->n_words;
	assert_int_equal(s->n_words, c->n_words);
	if (s->n_words == 1 && s->words[0] >> 32 == 0) {
		uint32_t port = (uint32_t)(s->words[0] >> 16);

		c->ports[port / 64] |= 1ULL << port % 64;
	}
	/* 64 bits of hash: of a million keys, two share one with a chance of 1 in 36 million. */
	return xbloom_hashes_push(&c->words, xbloom_words_hash(&word_key, s->words, s->n_words),
				  NULL);
}

static struct xbloom *scratch(const char *fields_text, uint64_t items, uint32_t layout)
{
	struct xbloom_size_request req = { .layout = layout, .items = items };
	struct xbloom_error error = { "" };
	struct xbloom *filter = NULL;
	struct xbloom_size size;
	uint32_t fields;

	if (xbloom_fields_parse(fields_text, &fields, &error) || xbloom_plan(&req, &size, &error) ||
	    xbloom_scratch(&size.geometry, items, fields, &packet_hash_key, &filter, &error))
		fail_msg("%s: %s", fields_text, error.text);
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
		fail_msg("prober: %s", error.text);
	return p;
}

static void ask(struct xbloom_prober *p, uint64_t first, uint64_t n, uint64_t *maybe,
		xbloom_sample_fn fn, void *ctx)
{
	struct xbloom_error error = { "" };

	if (xbloom_prober_ask(p, first, n, maybe, fn, ctx, &error))
		fail_msg("ask: %s", error.text);
}

static void no_key_is_drawn_twice(void **state)
{
	static const struct {
		const char *fields;
		uint32_t family;
		unsigned int bits, n_words;
		uint64_t n; /* 0: all of them */
	} shapes[] = {
		{ "dport", XBLOOM_FAMILY_V4, 16, 1, 0 },
		{ "sport", XBLOOM_FAMILY_V6, 16, 1, 0 },
		{ "dport,proto", XBLOOM_FAMILY_V4, 17, 1, 0 },
		{ "vlan", XBLOOM_FAMILY_V6, 12, 1, 0 },
		{ "proto", XBLOOM_FAMILY_V4, 1, 1, 0 },
		{ "sport,dport,proto,vlan", XBLOOM_FAMILY_V6, 45, 1, 200000 },
		{ "src", XBLOOM_FAMILY_V4, 32, 1, 1000000 },
		{ "dst", XBLOOM_FAMILY_V4, 32, 1, 200000 },
		{ "src", XBLOOM_FAMILY_V6, 128, 3, 200000 },
		{ "src,dst", XBLOOM_FAMILY_V4, 64, 2, 200000 },
		{ "src,sport,vlan", XBLOOM_FAMILY_V4, 60, 2, 200000 },
		{ "src,sport,dport,proto,vlan", XBLOOM_FAMILY_V4, 77, 2, 200000 },
		{ "5tuple", XBLOOM_FAMILY_V4, 97, 2, 200000 },
		{ "5tuple", XBLOOM_FAMILY_V6, 289, 5, 200000 },
		{ "src,dst,sport,dport,proto,vlan", XBLOOM_FAMILY_V6, 301, 5, 200000 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct xbloom *filter =
			scratch(shapes[i].fields, SPARSE_ITEMS, XBLOOM_LAYOUT_SPLIT);
		struct xbloom_prober *p = prober(filter, shapes[i].family, i, true);
		struct collected c = { .reason = XBLOOM_ABSENT };
		uint64_t n = shapes[i].n ? shapes[i].n : 1ULL << shapes[i].bits, maybe;

		assert_int_equal(xbloom_prober_bits(p), shapes[i].bits);
		ask(p, 0, n, &maybe, collect, &c);
		assert_int_equal(maybe, 0); /* the filter is empty */
		assert_int_equal(c.told, n);
		assert_int_equal(c.n_words, shapes[i].n_words);
		assert_int_equal(xbloom_hashes_distinct(&c.words), 0);
		if (!strcmp(shapes[i].fields, "dport")) {
			size_t w;

			for (w = 0; w < sizeof(c.ports) / sizeof(c.ports[0]); w++)
				assert_true(c.ports[w] == ~0ULL);
		}
		xbloom_hashes_free(&c.words);
		xbloom_prober_close(p);
		xbloom_close(filter);
	}
}

/* The sum of all hashes: the same keys, in whatever order. */
static int add_up(void *ctx, const struct xbloom_sample *s)
{
	*(uint64_t *)ctx += xbloom_words_hash(&word_key, s->words, s->n_words);
	return 0;
}

static uint64_t sum_of(struct xbloom_prober *p, uint64_t first, uint64_t n)
{
	uint64_t sum = 0, maybe;

	ask(p, first, n, &maybe, add_up, &sum);
	return sum;
}

static void a_number_is_always_the_same_key(void **state)
{
	struct xbloom *filter = scratch("src", SPARSE_ITEMS, XBLOOM_LAYOUT_CLASSIC);
	struct xbloom_prober *one = prober(filter, XBLOOM_FAMILY_V6, 7, true);
	struct xbloom_prober *same = prober(filter, XBLOOM_FAMILY_V6, 7, true);
	struct xbloom_prober *other = prober(filter, XBLOOM_FAMILY_V6, 8, true);
	uint64_t all = sum_of(one, 0, 300000);

	(void)state;
	assert_true(all == sum_of(one, 0, 1000) + sum_of(one, 1000, 299000));
	assert_true(all == sum_of(same, 0, 300000));
	assert_true(all != sum_of(other, 0, 300000));
	xbloom_prober_close(one);
	xbloom_prober_close(same);
	xbloom_prober_close(other);
	xbloom_close(filter);
}

/* ---- what is answered ---- */

struct twin {
	const struct xbloom *filter;
	uint64_t maybe, absent;
};

static int compare(void *ctx, const struct xbloom_sample *s)
{
	struct twin *t = ctx;
	bool maybe =
		xbloom_test(t->filter, xbloom_words_hash(&packet_hash_key, s->words, s->n_words));

	assert_int_equal(s->reason, maybe ? XBLOOM_MAYBE : XBLOOM_ABSENT);
	if (maybe)
		t->maybe++;
	else
		t->absent++;
	return 0;
}

static int put_in(void *ctx, const struct xbloom_sample *s)
{
	xbloom_add(ctx, xbloom_words_hash(&packet_hash_key, s->words, s->n_words));
	return 0;
}

static void the_program_answers_as_the_filter_does(void **state)
{
	static const uint32_t layouts[] = { XBLOOM_LAYOUT_SPLIT, XBLOOM_LAYOUT_CLASSIC };
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct xbloom *filter = scratch("5tuple", 20000, layouts[i]);
		struct xbloom_prober *p = prober(filter, XBLOOM_FAMILY_V4, 3, true);
		struct twin t = { .filter = filter };
		uint64_t maybe;

		ask(p, 0, 60000, &maybe, put_in, filter); /* thrice its capacity */
		ask(p, 0, 160000, &maybe, compare, &t);
		assert_int_equal(t.maybe, maybe);
		assert_int_equal(t.maybe + t.absent, 160000);
		assert_in_range(t.maybe, 60000, 160000);
		assert_in_range(t.absent, 1000, 100000);
		xbloom_prober_close(p);
		xbloom_close(filter);
	}
}

static int give_up(void *ctx, const struct xbloom_sample *s)
{
	(void)s;
	return ++*(int *)ctx == 100 ? -ECANCELED : 0;
}

static void who_listens_can_give_up(void **state)
{
	struct xbloom *filter = scratch("src", SPARSE_ITEMS, XBLOOM_LAYOUT_SPLIT);
	struct xbloom_prober *p = prober(filter, XBLOOM_FAMILY_V4, 1, true);
	struct xbloom_error error = { "" };
	uint64_t maybe;
	int told = 0;

	(void)state;
	assert_int_equal(xbloom_prober_ask(p, 0, 1000, &maybe, give_up, &told, &error), -ECANCELED);
	assert_int_equal(told, 100);
	xbloom_prober_close(p);
	xbloom_close(filter);
}

/* ---- measuring ---- */

static void measure(const struct xbloom *filter, const struct xbloom_measure_options *options,
		    struct xbloom_measurement *m)
{
	struct xbloom_error error = { "" };

	if (xbloom_measure(filter, options, m, &error))
		fail_msg("measure: %s", error.text);
}

/* Filled by numbers, not by a prober. */
static void fill(struct xbloom *filter, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++) {
		const __u64 words[3] = { i, ~i, i << 7 };

		xbloom_add(filter, xbloom_words_hash(&packet_hash_key, words, 3));
	}
}

static void the_interval_is_as_narrow_as_promised(void **state)
{
	struct xbloom *filter = scratch("src", 20000, XBLOOM_LAYOUT_SPLIT);
	const struct xbloom_measure_options options = { .seed = 11 };
	struct xbloom_measurement m;

	(void)state;
	fill(filter, 20000);
	measure(filter, &options, &m);
	assert_true(m.narrow && !m.exhausted && !m.empty);
	assert_true(m.ci_high - m.ci_low <= XBLOOM_MEASURE_WIDTH * m.fp_measured);
	assert_true(m.ci_low < m.fp_measured && m.fp_measured < m.ci_high);
	assert_true(fabs(m.fp_measured - 0.01) < 0.001);
	assert_int_equal(m.verified, XBLOOM_BY_SPACE);
	assert_int_equal(m.space_bits, 128);
	assert_int_equal(m.listed, 0);
	assert_true(m.agree); /* by its seed, always */
	xbloom_close(filter);
}

/* The prediction is read from memory that is not what the program reads: some bits of it are gone. */
static void a_wrong_prediction_is_found_out(void **state)
{
	struct xbloom *filter = scratch("src", 20000, XBLOOM_LAYOUT_SPLIT);
	const struct xbloom_measure_options options = { .seed = 12 };
	uint64_t i, blocks = xbloom_geometry(filter)->blocks;
	struct xbloom_block *real = filter->blocks, *altered;
	struct xbloom_measurement m;

	(void)state;
	fill(filter, 20000);
	altered = malloc(blocks * sizeof(*altered));
	assert_non_null(altered);
	memcpy(altered, real, blocks * sizeof(*altered));
	for (i = 0; i < blocks; i++)
		altered[i].w[i % XBLOOM_BLOCK_WORDS] &= 0x5555555555555555ULL;
	filter->blocks = altered;
	measure(filter, &options, &m);
	filter->blocks = real;
	free(altered);
	assert_false(m.agree);
	assert_true(m.ci_low > m.fp_predicted);
	measure(filter, &options, &m);
	assert_true(m.agree); /* by its seed, always */
	xbloom_close(filter);
}

static void an_empty_and_a_full_filter_are_measured(void **state)
{
	struct xbloom *filter = scratch("src", 1000, XBLOOM_LAYOUT_CLASSIC);
	const struct xbloom_measure_options options = { .seed = 13 };
	struct xbloom_measurement m;

	(void)state;
	measure(filter, &options, &m);
	assert_true(m.empty && m.agree);
	assert_int_equal(m.probes, 0);
	memset((void *)xbloom_blocks(filter), 0xff,
	       xbloom_geometry(filter)->blocks * sizeof(struct xbloom_block));
	measure(filter, &options, &m);
	assert_true(m.fp_measured == 1 && m.ci_high == 1);
	assert_true(m.probes > 0 && m.false_positives == m.probes);
	xbloom_close(filter);
}

static void few_keys_need_a_truth(void **state)
{
	struct xbloom *filter = scratch("dport", 5000, XBLOOM_LAYOUT_SPLIT);
	const struct xbloom_measure_options options = { .seed = 14 };
	struct xbloom_error error = { "" };
	struct xbloom_measurement m;

	(void)state;
	fill(filter, 5000);
	assert_int_equal(xbloom_measure(filter, &options, &m, &error), -EDOM);
	assert_non_null(strstr(error.text, "2^16"));
	assert_non_null(strstr(error.text, "--from"));
	xbloom_close(filter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_key_is_drawn_twice),
		cmocka_unit_test(a_number_is_always_the_same_key),
		cmocka_unit_test(the_program_answers_as_the_filter_does),
		cmocka_unit_test(who_listens_can_give_up),
		cmocka_unit_test(the_interval_is_as_narrow_as_promised),
		cmocka_unit_test(a_wrong_prediction_is_found_out),
		cmocka_unit_test(an_empty_and_a_full_filter_are_measured),
		cmocka_unit_test(few_keys_need_a_truth),
	};

	packet_isolate();
	return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
