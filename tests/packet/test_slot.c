// SPDX-License-Identifier: GPL-2.0-only
/*
 * The slot, and what is in it: an empty one passes everything and counts it, whatever the policy;
 * new rules hold from the next packet on and leave keys and counters alone; a filter program that
 * cannot reach its bits passes.
 */
#include "packet.h"

#include "xdp_bloom.skel.h"

static const uint32_t policies[] = { XBLOOM_POLICY_BLOCK, XBLOOM_POLICY_ALLOW };

static void empty_the_slot(void)
{
	int slots = bpf_obj_get(FILTER_DIR "/slots");
	uint32_t slot = XBLOOM_SLOT;

	if (slots < 0)
		fail_msg("%s/slots: %s", FILTER_DIR, strerror(errno));
	assert_int_equal(bpf_map_delete_elem(slots, &slot), 0);
	close(slots);
}

static void set_rules(struct xbloom *filter, uint32_t fields, uint32_t policy, bool shadow)
{
	struct xbloom_rules rules = packet_rules(fields, policy, shadow);
	struct xbloom_error error = { "" };

	if (xbloom_set_rules(filter, &rules, &error) < 0)
		fail_msg("set rules: %s", error.text);
}

static void an_empty_slot_passes_and_counts_no_filter(void **state)
{
	struct frame listed, unlisted, malformed, arp, jumbo;
	size_t i;

	(void)state;
	FRAME(&listed, ETH, IP4, UDP);
	FRAME(&unlisted, ETH, IP6, UDP);
	FRAME(&malformed, ETH, IP4, UDP, CUT(1));
	FRAME(&arp, ETH, ARP);
	FRAME(&jumbo, ETH, IP4, UDP, DATA(8000));
	for (i = 0; i < 2; i++) {
		struct xbloom_rules rules = packet_rules(XBLOOM_SRC, policies[i], false);
		struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);

		filter_add(filter, "192.0.2.7");
		expect(filter, &listed, "maybe");
		expect(filter, &unlisted, "absent");

		empty_the_slot();
		expect(filter, &listed, "no_filter");
		expect(filter, &unlisted, "no_filter");
		expect(filter, &malformed, "no_filter");
		expect(filter, &arp, "no_filter");
		expect(filter, &jumbo, "no_filter");
		filter_destroy(filter);
	}
}

static void new_rules_fill_an_empty_slot(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct frame listed;

	(void)state;
	FRAME(&listed, ETH, IP4, UDP);
	filter_add(filter, "192.0.2.7");
	empty_the_slot();
	expect(filter, &listed, "no_filter");
	set_rules(filter, XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	expect(filter, &listed, "maybe");
	filter_destroy(filter);
}

/* expect() asks the filter for its rules: so it also holds them to what they say. */
static void new_rules_hold_from_the_next_packet_and_keep_the_keys(void **state)
{
	static const struct {
		uint32_t policy;
		bool shadow;
	} steps[] = {
		{ XBLOOM_POLICY_ALLOW, false }, { XBLOOM_POLICY_BLOCK, false },
		{ XBLOOM_POLICY_BLOCK, true },	{ XBLOOM_POLICY_ALLOW, true },
		{ XBLOOM_POLICY_BLOCK, true },	{ XBLOOM_POLICY_BLOCK, false },
		{ XBLOOM_POLICY_BLOCK, false }, { XBLOOM_POLICY_ALLOW, true },
		{ XBLOOM_POLICY_ALLOW, false }, { XBLOOM_POLICY_BLOCK, false },
	};
	struct frame listed, unlisted, malformed;
	uint32_t layout;
	size_t i;

	(void)state;
	FRAME(&listed, ETH, IP4, UDP);
	FRAME(&unlisted, ETH, IP6, UDP);
	FRAME(&malformed, ETH, IP4, UDP, CUT(1));
	for (layout = XBLOOM_LAYOUT_SPLIT; layout <= XBLOOM_LAYOUT_CLASSIC; layout++) {
		struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
		struct xbloom *filter = filter_create(&rules, layout, SPARSE_ITEMS);

		filter_add(filter, "192.0.2.7");
		for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
			set_rules(filter, XBLOOM_SRC, steps[i].policy, steps[i].shadow);
			xbloom_rules(filter, &rules);
			assert_int_equal(rules.policy, steps[i].policy);
			assert_int_equal(rules.shadow, steps[i].shadow);
			expect(filter, &listed, "maybe");
			expect(filter, &unlisted, "absent");
			expect(filter, &malformed, "malformed");
		}
		filter_destroy(filter);
	}
}

static void new_rules_keep_the_counters(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct xbloom_stats before, after;
	struct frame frame;

	(void)state;
	FRAME(&frame, ETH, IP4, UDP);
	expect(filter, &frame, "absent");
	filter_add(filter, "192.0.2.7");
	expect(filter, &frame, "maybe");
	before = stats_now(filter);

	set_rules(filter, XBLOOM_SRC, XBLOOM_POLICY_ALLOW, true);
	after = stats_now(filter);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(after.c[XBLOOM_ABSENT][XBLOOM_PASS].packets, 1);
	assert_int_equal(after.c[XBLOOM_MAYBE][XBLOOM_DROP].packets, 1);
	filter_destroy(filter);
}

static void a_filter_cannot_change_its_fields(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct xbloom_error error = { "" };
	struct frame frame;

	(void)state;
	FRAME(&frame, ETH, IP4, UDP);
	filter_add(filter, "192.0.2.7");
	rules.fields = XBLOOM_DST;
	assert_true(xbloom_set_rules(filter, &rules, &error) < 0);
	assert_string_not_equal(error.text, "");
	expect(filter, &frame, "maybe");
	filter_destroy(filter);
}

static void a_second_reader_sees_the_same_counters(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_ALLOW, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct xbloom *reader = NULL;
	struct xbloom_error error = { "" };
	struct xbloom_stats one, two;
	struct frame frame;

	(void)state;
	FRAME(&frame, ETH, IP4, UDP);
	if (xbloom_open(FILTER, 0, NULL, &reader, &error) < 0)
		fail_msg("open: %s", error.text);
	expect(filter, &frame, "absent");
	expect(reader, &frame, "absent");
	one = stats_now(filter);
	two = stats_now(reader);
	assert_memory_equal(&one, &two, sizeof(one));
	assert_int_equal(two.c[XBLOOM_ABSENT][XBLOOM_DROP].packets, 2);
	xbloom_close(reader);
	filter_destroy(filter);
}

/*
 * No filter is made that way, so the program is loaded by itself, with more blocks in its
 * constants than the map has: the look-up of most of them fails.
 */
static void a_program_that_cannot_reach_its_bits_passes(uint32_t policy, uint32_t layout)
{
	struct xdp_bloom_bpf *skel = xdp_bloom_bpf__open();
	struct xbloom_stats *stats;
	uint64_t errors = 0, packets = 0;
	struct frame frame;
	uint32_t zero = 0;
	int cpus = libbpf_num_possible_cpus(), cpu, i;

	assert_non_null(skel);
	assert_true(cpus > 0);
	skel->rodata->params.policy = policy;
	skel->rodata->params.layout = layout;
	skel->rodata->params.blocks = 1u << 20;
	skel->rodata->params.bits = (uint64_t)XBLOOM_BLOCK_BITS << 20;
	skel->rodata->params.unkeyed_drop = XBLOOM_UNKEYED_ALL;
	assert_int_equal(xdp_bloom_bpf__load(skel), 0);

	for (i = 0; i < 100; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, opts, .repeat = 1);

		FRAME(&frame, ETH, IP4, UDP);
		frame.b[frame.l3 + 15] = (uint8_t)i;
		opts.data_in = frame.b;
		opts.data_size_in = (uint32_t)frame.len;
		assert_int_equal(
			bpf_prog_test_run_opts(bpf_program__fd(skel->progs.xdp_bloom_slot), &opts),
			0);
		assert_int_equal(opts.retval, XDP_PASS);
	}

	stats = calloc((size_t)cpus, sizeof(*stats));
	assert_non_null(stats);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(skel->maps.xbloom_stats), &zero, stats),
			 0);
	for (cpu = 0; cpu < cpus; cpu++) {
		errors += stats[cpu].c[XBLOOM_ERROR][XBLOOM_PASS].packets;
		packets += stats[cpu].c[XBLOOM_ABSENT][XBLOOM_PASS].packets;
		packets += stats[cpu].c[XBLOOM_ABSENT][XBLOOM_DROP].packets;
	}
	free(stats);
	assert_int_equal(packets, 0);
	assert_int_equal(errors, 100);
	xdp_bloom_bpf__destroy(skel);
}

static void a_missing_block_passes_under_either_policy(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		a_program_that_cannot_reach_its_bits_passes(policies[i], XBLOOM_LAYOUT_SPLIT);
		a_program_that_cannot_reach_its_bits_passes(policies[i], XBLOOM_LAYOUT_CLASSIC);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_slot_passes_and_counts_no_filter),
		cmocka_unit_test(new_rules_fill_an_empty_slot),
		cmocka_unit_test(new_rules_hold_from_the_next_packet_and_keep_the_keys),
		cmocka_unit_test(new_rules_keep_the_counters),
		cmocka_unit_test(a_filter_cannot_change_its_fields),
		cmocka_unit_test(a_second_reader_sees_the_same_counters),
		cmocka_unit_test(a_missing_block_passes_under_either_policy),
	};

	packet_isolate();
	return cmocka_run_group_tests_name("slot", tests, NULL, NULL);
}
