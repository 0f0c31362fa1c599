// SPDX-License-Identifier: GPL-2.0-only
/*
 * A key is exactly its fields. For every one of the 63 sets of fields, both families and both
 * layouts: the filter program loads, the flow that was added is maybe, a change of any byte of a
 * keyed field makes it absent, and no change of another field does anything.
 */
#include "packet.h"

/* The smallest steps away from a flow: each byte of each field, on its own. */
struct change {
	const char *what;
	uint32_t field;
	size_t offset; /* in struct xbloom_flow */
	uint8_t flip;
	bool v6_only;
};

#define FLOW(member) offsetof(struct xbloom_flow, member)
#define ADDRESS_BYTES(name, bit, member)                                                           \
	{ name " byte 0", bit, FLOW(member) + 0, 0x01, false },                                    \
		{ name " byte 1", bit, FLOW(member) + 1, 0x80, false },                            \
		{ name " byte 2", bit, FLOW(member) + 2, 0x10, false },                            \
		{ name " byte 3", bit, FLOW(member) + 3, 0x01, false },                            \
		{ name " byte 4", bit, FLOW(member) + 4, 0x01, true },                             \
		{ name " byte 5", bit, FLOW(member) + 5, 0x80, true },                             \
		{ name " byte 6", bit, FLOW(member) + 6, 0x10, true },                             \
		{ name " byte 7", bit, FLOW(member) + 7, 0x80, true },                             \
		{ name " byte 8", bit, FLOW(member) + 8, 0x01, true },                             \
		{ name " byte 9", bit, FLOW(member) + 9, 0x80, true },                             \
		{ name " byte 10", bit, FLOW(member) + 10, 0x10, true },                           \
		{ name " byte 11", bit, FLOW(member) + 11, 0x01, true },                           \
		{ name " byte 12", bit, FLOW(member) + 12, 0x01, true },                           \
		{ name " byte 13", bit, FLOW(member) + 13, 0x80, true },                           \
		{ name " byte 14", bit, FLOW(member) + 14, 0x10, true },                           \
	{                                                                                          \
		name " byte 15", bit, FLOW(member) + 15, 0x80, true                                \
	}

static const struct change changes[] = {
	ADDRESS_BYTES("source", XBLOOM_SRC, src),
	ADDRESS_BYTES("destination", XBLOOM_DST, dst),
	{ "source port, high byte", XBLOOM_SPORT, FLOW(ports), 0x80, false },
	{ "source port, low byte", XBLOOM_SPORT, FLOW(ports) + 1, 0x01, false },
	{ "destination port, high byte", XBLOOM_DPORT, FLOW(ports) + 2, 0x80, false },
	{ "destination port, low byte", XBLOOM_DPORT, FLOW(ports) + 3, 0x01, false },
	{ "protocol, TCP to UDP", XBLOOM_PROTO, FLOW(proto), 6 ^ 17, false },
	/* The top bit makes one without ports of it. */
	{ "protocol 134", XBLOOM_PROTO | XBLOOM_FIELDS_PORTS, FLOW(proto), 0x80, false },
};

static const uint16_t other_vlans[] = { 0x123 ^ 0x001, 0x123 ^ 0x800, 0 };

static struct xbloom_flow flow_of(uint32_t family)
{
	struct xbloom_flow flow;
	bool v4 = family == XBLOOM_FAMILY_V4;
	const uint8_t ports[4] = { FRAME_SPORT >> 8, FRAME_SPORT & 0xff, FRAME_DPORT >> 8,
				   FRAME_DPORT & 0xff };

	memset(&flow, 0, sizeof(flow));
	memcpy(&flow.src, v4 ? frame_src4 : frame_src6, v4 ? 4 : 16);
	memcpy(&flow.dst, v4 ? frame_dst4 : frame_dst6, v4 ? 4 : 16);
	memcpy(flow.ports, ports, sizeof(ports));
	flow.vlan = 0x123;
	flow.proto = 6;
	flow.plen = v4 ? 32 : 128;
	flow.family = (uint8_t)family;
	return flow;
}

/* Under policy block: DROP is maybe, PASS is absent. */
static void expect_answer(const struct xbloom *filter, const struct xbloom_flow *flow, bool maybe,
			  uint32_t fields, const char *what)
{
	char text[XBLOOM_FIELDS_TEXT];
	struct frame frame;
	uint32_t verdict;

	frame_of_flow(&frame, flow);
	verdict = run_frame(filter, frame.b, frame.len);
	if (verdict != (maybe ? XDP_DROP : XDP_PASS))
		fail_msg("key %s, IPv%u, %s: %s, and should be %s",
			 xbloom_fields_text(fields, text), flow->family, what,
			 verdict_text(verdict), maybe ? "maybe" : "absent");
}

static void expect_of_changes(const struct xbloom *filter, uint32_t fields, uint32_t family)
{
	size_t i;

	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct xbloom_flow flow = flow_of(family);

		if (changes[i].v6_only && family != XBLOOM_FAMILY_V6)
			continue;
		((uint8_t *)&flow)[changes[i].offset] ^= changes[i].flip;
		expect_answer(filter, &flow, !(fields & changes[i].field), fields, changes[i].what);
	}
	for (i = 0; i < sizeof(other_vlans) / sizeof(other_vlans[0]); i++) {
		struct xbloom_flow flow = flow_of(family);

		flow.vlan = other_vlans[i];
		expect_answer(filter, &flow, !(fields & XBLOOM_VLAN), fields, "another VLAN");
	}
}

struct key_case {
	char name[96];
	uint32_t fields;
	uint32_t layout;
};

static void a_key_is_exactly_its_fields(void **state)
{
	static const uint32_t families[] = { XBLOOM_FAMILY_V4, XBLOOM_FAMILY_V6 };
	const struct key_case *c = *state;
	struct xbloom_rules rules = packet_rules(c->fields, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, c->layout, SPARSE_ITEMS);
	bool addressed = c->fields & XBLOOM_FIELDS_ADDR;
	size_t i;

	for (i = 0; i < 2; i++) {
		struct xbloom_flow flow = flow_of(families[i]), other = flow_of(families[!i]);

		filter_clear(filter);
		expect_answer(filter, &flow, false, c->fields, "in an empty filter");
		xbloom_add(filter, xbloom_hash(filter, &flow));
		expect_answer(filter, &flow, true, c->fields, "the flow that was added");
		expect_of_changes(filter, c->fields, families[i]);
		/* The families meet only where no address tells them apart. */
		expect_answer(filter, &other, !addressed, c->fields, "the other family");
	}
	filter_destroy(filter);
}

int main(void)
{
	static struct key_case cases[2 * XBLOOM_FIELDS_ALL];
	static struct CMUnitTest tests[2 * XBLOOM_FIELDS_ALL];
	uint32_t fields, layout;
	size_t n = 0;

	packet_isolate();
	for (layout = XBLOOM_LAYOUT_SPLIT; layout <= XBLOOM_LAYOUT_CLASSIC; layout++) {
		for (fields = 1; fields <= XBLOOM_FIELDS_ALL; fields++, n++) {
			char text[XBLOOM_FIELDS_TEXT];

			snprintf(cases[n].name, sizeof(cases[n].name),
				 "a key is exactly its fields: %s, %s",
				 xbloom_fields_text(fields, text),
				 layout == XBLOOM_LAYOUT_SPLIT ? "split" : "classic");
			cases[n].fields = fields;
			cases[n].layout = layout;
			tests[n].name = cases[n].name;
			tests[n].test_func = a_key_is_exactly_its_fields;
			tests[n].initial_state = &cases[n];
		}
	}
	return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
