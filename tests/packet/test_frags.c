// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jumbo frames. A frame of more than a page reaches XDP in several buffers, of which a program
 * sees only the first; what the test run makes of 9000 bytes is what a driver makes of them. Such
 * a frame is keyed like any other, its length is that of all its buffers, and so are its bytes in
 * the counters.
 */
#include "packet.h"

#define JUMBO 9000u

#define BLOCK XBLOOM_POLICY_BLOCK
#define ALLOW XBLOOM_POLICY_ALLOW

/* Under block maybe is what drops, under allow absent is. */
static void expect_absent_then_maybe(uint32_t fields, uint32_t policy, const char *key,
				     const struct frame *frame)
{
	struct xbloom_rules rules = packet_rules(fields, policy, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);

	expect(filter, frame, "absent");
	filter_add(filter, key);
	expect(filter, frame, "maybe");
	filter_destroy(filter);
}

static void expect_reason(uint32_t fields, uint32_t policy, const char *reason,
			  const struct frame *frame)
{
	struct xbloom_rules rules = packet_rules(fields, policy, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);

	expect(filter, frame, reason);
	filter_destroy(filter);
}

static void a_jumbo_ipv4_frame_is_keyed_and_counted_whole(void **state)
{
	struct frame frame;

	(void)state;
	FRAME(&frame, ETH, IP4, UDP, DATA(JUMBO - 14 - 20 - 8));
	assert_int_equal(frame.len, JUMBO);
	expect_absent_then_maybe(XBLOOM_SRC, BLOCK, "192.0.2.7", &frame);
	expect_absent_then_maybe(XBLOOM_FIELDS_5TUPLE, ALLOW, "192.0.2.7,198.51.100.1,40000,53,udp",
				 &frame);
}

static void a_jumbo_ipv6_frame_is_keyed_and_counted_whole(void **state)
{
	struct frame frame;

	(void)state;
	FRAME(&frame, ETH, VLAN(5), IP6, HOPOPTS, TCP, DATA(JUMBO - 14 - 4 - 40 - 8 - 20));
	assert_int_equal(frame.len, JUMBO);
	expect_absent_then_maybe(XBLOOM_SRC, BLOCK, "2001:db8::7", &frame);
	expect_absent_then_maybe(XBLOOM_FIELDS_ALL, ALLOW,
				 "2001:db8::7,2001:db8:1::1,40000,53,tcp,5", &frame);
}

static void a_jumbo_frame_of_no_ip_passes_and_is_counted_whole(void **state)
{
	struct frame frame;

	(void)state;
	FRAME(&frame, ETH, NOT_IP(0x8847, JUMBO - 14));
	expect_reason(XBLOOM_SRC, BLOCK, "not_ip", &frame);
}

/* The length check knows of all buffers: one byte too few is malformed, none is not. */
static void a_jumbo_frame_that_lost_a_byte_is_malformed(void **state)
{
	struct frame frame;

	(void)state;
	FRAME(&frame, ETH, IP4, UDP, DATA(JUMBO - 14 - 20 - 8), CUT(1));
	expect_reason(XBLOOM_SRC, ALLOW, "malformed", &frame);
	FRAME(&frame, ETH, IP6, UDP, DATA(JUMBO - 14 - 40 - 8), CUT(1));
	expect_reason(XBLOOM_FIELDS_5TUPLE, BLOCK, "malformed", &frame);
}

static void padding_of_many_buffers_is_not_payload(void **state)
{
	struct frame frame;

	(void)state;
	FRAME(&frame, ETH, IP4, NEXT(17), PADDING(JUMBO - 14 - 20));
	expect_reason(XBLOOM_FIELDS_5TUPLE, ALLOW, "malformed", &frame);
	expect_absent_then_maybe(XBLOOM_SRC, BLOCK, "192.0.2.7", &frame);
}

/*
 * Headers that go on in the second buffer cannot be read: there is no port key, but the source
 * does not hide behind them.
 */
static void a_source_is_found_whose_ports_lie_in_another_buffer(void **state)
{
	struct frame frame;

	(void)state;
	FRAME(&frame, ETH, IP6, EXT(60, 255, 2048), EXT(60, 255, 2048), UDP, DATA(4000));
	expect_reason(XBLOOM_FIELDS_5TUPLE, ALLOW, "malformed", &frame);
	expect_absent_then_maybe(XBLOOM_SRC, BLOCK, "2001:db8::7", &frame);
	expect_absent_then_maybe(XBLOOM_PROTO, ALLOW, "udp", &frame);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_jumbo_ipv4_frame_is_keyed_and_counted_whole),
		cmocka_unit_test(a_jumbo_ipv6_frame_is_keyed_and_counted_whole),
		cmocka_unit_test(a_jumbo_frame_of_no_ip_passes_and_is_counted_whole),
		cmocka_unit_test(a_jumbo_frame_that_lost_a_byte_is_malformed),
		cmocka_unit_test(padding_of_many_buffers_is_not_payload),
		cmocka_unit_test(a_source_is_found_whose_ports_lie_in_another_buffer),
	};

	packet_isolate();
	return cmocka_run_group_tests_name("frags", tests, NULL, NULL);
}
