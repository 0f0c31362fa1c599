// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exemptions, in the real program: what is exempt passes where it would be dropped, is counted so, and
 * changes nothing else. Up to eight are constants, more are in a trie; both in one table, since a
 * packet must not be able to tell them apart.
 */
#include <arpa/inet.h>

#include "packet.h"

#define FRIEND "198.51.100.7"
#define FRIEND_NET "203.0.113.0/25"
#define FRIEND6 "2001:db8:7::/48"

/* How many others there are beside the three: none; up to the most constants; one too many; many. */
static const unsigned int fillings[] = { 0, XBLOOM_EXEMPT_CONSTANTS - 3,
					 XBLOOM_EXEMPT_CONSTANTS - 2, 100 };
#define FILLINGS (sizeof(fillings) / sizeof(fillings[0]))

static struct xbloom_exemption exemption(const char *text)
{
	struct xbloom_flow flow = { .family = strchr(text, ':') ? XBLOOM_FAMILY_V6
								: XBLOOM_FAMILY_V4 };
	char addr[INET6_ADDRSTRLEN];
	struct xbloom_exemption e;
	const char *slash = strchr(text, '/');
	struct xbloom_error error = { "" };
	bool v4 = flow.family == XBLOOM_FAMILY_V4;

	snprintf(addr, sizeof(addr), "%.*s", (int)(slash ? slash - text : (long)strlen(text)),
		 text);
	flow.plen = (uint8_t)(slash ? atoi(slash + 1) : v4 ? 32 : 128);
	assert_int_equal(inet_pton(v4 ? AF_INET : AF_INET6, addr, &flow.src), 1);
	if (xbloom_exemption(&flow, XBLOOM_EXEMPT_USER, &e, &error))
		fail_msg("%s: %s", text, error.text);
	return e;
}

/* The three friends, and so many others. */
static void exempt(struct xbloom *f, unsigned int others)
{
	struct xbloom_exemption v[3 + 100];
	struct xbloom_error error = { "" };
	unsigned int i;

	v[0] = exemption(FRIEND);
	v[1] = exemption(FRIEND_NET);
	v[2] = exemption(FRIEND6);
	for (i = 0; i < others; i++) {
		char text[32];

		snprintf(text, sizeof(text), "198.18.%u.0/24", i);
		v[3 + i] = exemption(text);
	}
	if (xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER, v, 3 + others, &error))
		fail_msg("%s", error.text);
}

static void expect_from(struct xbloom *f, uint32_t fields, const char *addr, const char *reason,
			enum fate fate)
{
	struct xbloom_flow flow = { .proto = IPPROTO_UDP, .ports = { htons(1000), htons(53) } };
	bool v4 = !strchr(addr, ':');
	void *keyed = fields & XBLOOM_SRC ? (void *)&flow.src : (void *)&flow.dst;
	struct frame frame;

	flow.family = v4 ? XBLOOM_FAMILY_V4 : XBLOOM_FAMILY_V6;
	assert_int_equal(inet_pton(v4 ? AF_INET : AF_INET6, addr, keyed), 1);
	frame_of_flow(&frame, &flow);
	expect_fate(f, &frame, reason, fate);
}

/* Everybody is in the filter under block, and nobody under allow: all are to be dropped. */
static void check_all(uint32_t fields, uint32_t policy, bool shadow)
{
	static const char *const all[] = { FRIEND,	   "203.0.113.5",   "2001:db8:7::1",
					   "198.51.100.8", "203.0.113.200", "2001:db8:8::1" };
	struct xbloom_rules rules = packet_rules(fields, policy, shadow);
	struct xbloom *f = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	const char *reason = policy == XBLOOM_POLICY_BLOCK ? "maybe" : "absent";
	enum fate fate = shadow ? WOULD_DROP : DROPS;
	size_t i, n;

	for (i = 0; i < 6 && policy == XBLOOM_POLICY_BLOCK; i++)
		filter_add(f, all[i]);
	for (i = 0; i < 6; i++)
		expect_from(f, fields, all[i], reason, fate);
	for (n = 0; n < FILLINGS; n++) {
		exempt(f, fillings[n]);
		for (i = 0; i < 3; i++)
			expect_from(f, fields, all[i], "exempt", PASSES);
		for (; i < 6; i++)
			expect_from(f, fields, all[i], reason, fate);
		/* One of the others, which nobody put in. */
		if (fillings[n] && policy == XBLOOM_POLICY_ALLOW)
			expect_from(f, fields, "198.18.0.9", "exempt", PASSES);
		if (fillings[n] && policy == XBLOOM_POLICY_BLOCK)
			expect_from(f, fields, "198.18.0.9", "absent", PASSES);
	}
	assert_int_equal(xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER, NULL, 0, NULL), 0);
	for (i = 0; i < 6; i++)
		expect_from(f, fields, all[i], reason, fate);
	filter_destroy(f);
}

static void what_is_exempt_is_not_dropped_by_block(void **state)
{
	(void)state;
	check_all(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	check_all(XBLOOM_DST, XBLOOM_POLICY_BLOCK, false);
}

static void nor_by_allow(void **state)
{
	(void)state;
	check_all(XBLOOM_SRC, XBLOOM_POLICY_ALLOW, false);
	check_all(XBLOOM_DST, XBLOOM_POLICY_ALLOW, false);
}

static void in_shadow_it_would_not_have_been(void **state)
{
	(void)state;
	check_all(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, true);
	check_all(XBLOOM_SRC, XBLOOM_POLICY_ALLOW, true);
}

/* Under a port key a later fragment has no key, and under allow is dropped for that. */
static void a_packet_without_a_key_is_exempt_by_its_source(void **state)
{
	struct xbloom_rules rules =
		packet_rules(XBLOOM_SRC | XBLOOM_DPORT, XBLOOM_POLICY_ALLOW, false);
	struct xbloom *f = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct frame frame, cut;
	struct in_addr addr;
	size_t n;

	(void)state;
	FRAME(&frame, ETH, IP4_FRAGMENT(10, 0), UDP, DATA(20));
	inet_pton(AF_INET, FRIEND, &addr);
	expect(f, &frame, "fragment");
	for (n = 0; n < FILLINGS; n++) {
		exempt(f, fillings[n]);
		memcpy(frame.b + frame.l3 + 12, &addr, sizeof(addr));
		expect_fate(f, &frame, "exempt", PASSES);
		/* Without a whole header there is no source to look at. */
		cut = frame;
		cut.len = cut.l3 + 19;
		expect_fate(f, &cut, "malformed", DROPS);
		memset(frame.b + frame.l3 + 12, 1, sizeof(addr));
		expect_fate(f, &frame, "fragment", DROPS);
	}
	filter_destroy(f);
}

/* Of two keyed addresses it is the source that counts: the destination is often our own. */
static void of_two_addresses_the_source_counts(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_FIELDS_5TUPLE, XBLOOM_POLICY_ALLOW, false);
	struct xbloom *f = filter_create(&rules, XBLOOM_LAYOUT_CLASSIC, SPARSE_ITEMS);
	size_t n;

	(void)state;
	for (n = 0; n < FILLINGS; n++) {
		exempt(f, fillings[n]);
		expect_from(f, XBLOOM_SRC, FRIEND, "exempt", PASSES);
		expect_from(f, XBLOOM_DST, FRIEND, "absent", DROPS);
	}
	filter_destroy(f);
}

/* IPv4 stands among IPv6 addresses: neither is taken for the other. */
static void families_do_not_meet(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_ALLOW, false);
	struct xbloom *f = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct xbloom_flow wide = { .family = XBLOOM_FAMILY_V6 };
	struct xbloom_exemption v[2], e;
	struct xbloom_error error = { "" };

	(void)state;
	v[0] = exemption("0.0.0.0/0");
	assert_int_equal(xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER, v, 1, &error), 0);
	expect_from(f, XBLOOM_SRC, "192.0.2.1", "exempt", PASSES);
	expect_from(f, XBLOOM_SRC, "2001:db8::1", "absent", DROPS);
	v[0] = exemption("2000::/3");
	assert_int_equal(xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER, v, 1, &error), 0);
	expect_from(f, XBLOOM_SRC, "192.0.2.1", "absent", DROPS);
	expect_from(f, XBLOOM_SRC, "2001:db8::1", "exempt", PASSES);
	assert_int_equal(xbloom_exemption(&wide, XBLOOM_EXEMPT_USER, &e, &error), -EINVAL);
	assert_non_null(strstr(error.text, "all IPv4"));
	filter_destroy(f);
}

/* What is there for two reasons goes when both do. */
static void reasons_are_kept_apart(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_ALLOW, false);
	struct xbloom *f = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct xbloom_exemption mine = exemption(FRIEND), own = mine, *v;
	size_t n;

	(void)state;
	own.why = XBLOOM_EXEMPT_OWN;
	assert_int_equal(xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER, &mine, 1, NULL), 0);
	assert_int_equal(xbloom_exempt_replace(f, XBLOOM_EXEMPT_GUARD, &own, 1, NULL), 0);
	assert_int_equal(xbloom_exempt_list(f, &v, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(v[0].why, XBLOOM_EXEMPT_USER | XBLOOM_EXEMPT_OWN);
	free(v);
	assert_int_equal(xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER, NULL, 0, NULL), 0);
	expect_from(f, XBLOOM_SRC, FRIEND, "exempt", PASSES);
	assert_int_equal(xbloom_exempt_replace(f, XBLOOM_EXEMPT_GUARD, NULL, 0, NULL), 0);
	expect_from(f, XBLOOM_SRC, FRIEND, "absent", DROPS);
	filter_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_exempt_is_not_dropped_by_block),
		cmocka_unit_test(nor_by_allow),
		cmocka_unit_test(in_shadow_it_would_not_have_been),
		cmocka_unit_test(a_packet_without_a_key_is_exempt_by_its_source),
		cmocka_unit_test(of_two_addresses_the_source_counts),
		cmocka_unit_test(families_do_not_meet),
		cmocka_unit_test(reasons_are_kept_apart),
	};

	packet_isolate();
	return cmocka_run_group_tests_name("exempt", tests, NULL, NULL);
}
