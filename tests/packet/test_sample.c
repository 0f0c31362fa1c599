// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples: what the filter answered is told with the key that it was asked for, one packet in so
 * many; what it was not asked is not; and what finds the ring buffer full is counted. The verdict is
 * the same with samples as without.
 */
#include <math.h>

#include "packet.h"

static void set_sample(struct xbloom *filter, uint32_t every)
{
	struct xbloom_error error = { "" };
	struct xbloom_rules rules;

	xbloom_rules(filter, &rules);
	rules.sample = every;
	if (xbloom_set_rules(filter, &rules, &error))
		fail_msg("%s", error.text);
	xbloom_rules(filter, &rules);
	assert_int_equal(rules.sample, every);
}

static struct xbloom_samples *samples_open(const struct xbloom *filter)
{
	struct xbloom_samples *s = NULL;
	struct xbloom_error error = { "" };

	if (xbloom_samples_open(filter, &s, &error))
		fail_msg("%s", error.text);
	return s;
}

struct heard {
	uint64_t n;
	struct xbloom_sample last;
};

static int hear(void *ctx, const struct xbloom_sample *sample)
{
	struct heard *h = ctx;

	h->n++;
	h->last = *sample;
	return 0;
}

/* One frame: it has this fate, and is sampled once as this key and reason; 0 words: not at all. */
static void expect_sample(struct xbloom *filter, struct xbloom_samples *s,
			  const struct frame *frame, const char *reason, enum fate fate,
			  const __u64 *words, uint32_t n_words)
{
	struct heard h = { 0 };
	uint32_t i;

	expect_fate(filter, frame, reason, fate);
	assert_int_equal(xbloom_samples_read(s, hear, &h), n_words ? 1 : 0);
	if (!n_words)
		return;
	assert_int_equal(h.n, 1);
	assert_string_equal(xbloom_reason_name(h.last.reason), reason);
	assert_int_equal(h.last.n_words, n_words);
	for (i = 0; i < XBLOOM_KEY_WORDS_MAX; i++)
		assert_true(h.last.words[i] == (i < n_words ? words[i] : 0));
}

static void each_answer_is_told_with_its_key(void **state)
{
	/* Written out from key.h: address, prefix length and family of 192.0.2.7 and 2001:db8::7. */
	static const __u64 key4[] = { 0x00000420070200c0ULL };
	static const __u64 key6[] = { 0x0000068000000000ULL, 0x00000000b80d0120ULL,
				      0x0700000000000000ULL };
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct frame v4, v6, arp, ndp, cut;
	struct xbloom_samples *s;

	(void)state;
	FRAME(&v4, ETH, IP4, UDP);
	FRAME(&v6, ETH, IP6, UDP);
	FRAME(&arp, ETH, ARP);
	FRAME(&ndp, ETH, IP6_HOPS(255), ICMP6(135));
	FRAME(&cut, ETH, IP4, UDP, CUT(1));
	set_sample(filter, 1);
	s = samples_open(filter);
	expect_sample(filter, s, &v4, "absent", PASSES, key4, 1);
	expect_sample(filter, s, &v6, "absent", PASSES, key6, 3);
	filter_add(filter, "192.0.2.7");
	filter_add(filter, "2001:db8::7");
	expect_sample(filter, s, &v4, "maybe", DROPS, key4, 1);
	expect_sample(filter, s, &v6, "maybe", DROPS, key6, 3);
	expect_sample(filter, s, &arp, "not_ip", PASSES, NULL, 0);
	expect_sample(filter, s, &ndp, "ndp", PASSES, NULL, 0);
	expect_sample(filter, s, &cut, "malformed", PASSES, NULL, 0);
	set_sample(filter, 0);
	expect_sample(filter, s, &v4, "maybe", DROPS, NULL, 0);
	xbloom_samples_close(s);
	filter_destroy(filter);
}

static void what_the_exact_map_says_is_told(void **state)
{
	static const __u64 key4[] = { 0x00000420070200c0ULL };
	struct xbloom_hashes h = { .width = xbloom_key_width(XBLOOM_SRC) };
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom_size_request req = { .layout = XBLOOM_LAYOUT_SPLIT, .items = SPARSE_ITEMS };
	struct xbloom_error error = { "" };
	struct xbloom *filter = NULL;
	struct xbloom_flow flow;
	struct xbloom_samples *s;
	struct xbloom_size size;
	struct frame v4;
	uint64_t changed;

	(void)state;
	rules.confirm = true;
	assert_int_equal(xbloom_plan(&req, &size, &error), 0);
	assert_int_equal(xbloom_plan_exact(&size, XBLOOM_SRC, 0, &error), 0);
	assert_int_equal(
		xbloom_create(FILTER, &size, &rules, &packet_hash_key, NULL, NULL, &filter, &error),
		0);
	set_sample(filter, 1);
	s = samples_open(filter);
	FRAME(&v4, ETH, IP4, UDP);
	assert_int_equal(xbloom_key_parse("192.0.2.7", 9, XBLOOM_SRC, &flow, &error), 0);
	xbloom_set_hash(xbloom_geometry(filter), (struct xbloom_block *)xbloom_blocks(filter),
			xbloom_hash(filter, &flow));
	expect_sample(filter, s, &v4, "refuted", PASSES, key4, 1);
	assert_int_equal(xbloom_hashes_push_flow(&h, &packet_hash_key, &flow, XBLOOM_SRC, &error),
			 0);
	assert_int_equal(xbloom_add_all(filter, &h, NULL, &changed, &error), 0);
	expect_sample(filter, s, &v4, "confirmed", DROPS, key4, 1);
	xbloom_hashes_free(&h);
	xbloom_samples_close(s);
	filter_destroy(filter);
}

/* A frame n times in one call. */
static void run_often(const struct xbloom *filter, const struct frame *frame, int n)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame->b, .data_size_in = (__u32)frame->len,
		    .repeat = n);

	assert_int_equal(bpf_prog_test_run_opts(xbloom_prog_fd(filter), &opts), 0);
}

#define EVERY 10
#define RUNS 100000
/* Of a binomial number: outside it once in 500,000 runs. */
#define DEVIATIONS 4.76

static void one_packet_in_so_many_is_told(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	double wanted = (double)RUNS / EVERY, spread = sqrt(wanted * (1 - 1.0 / EVERY));
	struct heard h = { 0 };
	struct xbloom_samples *s;
	struct frame v4;

	(void)state;
	FRAME(&v4, ETH, IP4, UDP);
	set_sample(filter, EVERY);
	s = samples_open(filter);
	run_often(filter, &v4, RUNS);
	xbloom_samples_read(s, hear, &h);
	assert_true(fabs((double)h.n - wanted) < DEVIATIONS * spread);
	assert_int_equal(stats_now(filter).samples, h.n);
	assert_int_equal(stats_now(filter).samples_lost, 0);
	xbloom_samples_close(s);
	filter_destroy(filter);
}

static void what_finds_no_room_is_counted(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	/* A record is its sample and 8 bytes more. */
	uint64_t room = XBLOOM_SAMPLES_BYTES / (sizeof(struct xbloom_sample) + 8);
	struct xbloom_samples *s;
	struct heard h = { 0 };
	struct frame v4;

	(void)state;
	FRAME(&v4, ETH, IP4, UDP);
	set_sample(filter, 1);
	s = samples_open(filter);
	run_often(filter, &v4, 30000);
	assert_in_range(stats_now(filter).samples, room - 1, room);
	assert_int_equal(stats_now(filter).samples + stats_now(filter).samples_lost, 30000);
	assert_int_equal(stats_now(filter).c[XBLOOM_ABSENT][XBLOOM_PASS].packets, 30000);
	xbloom_samples_read(s, hear, &h);
	assert_int_equal(h.n, stats_now(filter).samples);
	run_often(filter, &v4, 100);
	assert_int_equal(xbloom_samples_read(s, hear, &h), 100);
	xbloom_samples_close(s);
	filter_destroy(filter);
}

static void one_reader_at_a_time(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct xbloom_samples *s = NULL, *second = NULL;
	struct xbloom_error error = { "" };

	(void)state;
	assert_int_equal(xbloom_samples_open(filter, &s, &error), -ENOENT);
	set_sample(filter, 1);
	s = samples_open(filter);
	assert_int_equal(xbloom_samples_open(filter, &second, &error), -EBUSY);
	xbloom_samples_close(s);
	s = samples_open(filter);
	xbloom_samples_close(s);
	filter_destroy(filter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_answer_is_told_with_its_key),
		cmocka_unit_test(what_the_exact_map_says_is_told),
		cmocka_unit_test(one_packet_in_so_many_is_told),
		cmocka_unit_test(what_finds_no_room_is_counted),
		cmocka_unit_test(one_reader_at_a_time),
	};

	packet_isolate();
	return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
