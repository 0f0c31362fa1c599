// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets of exemptions in the real program, beside a slow twin that compares bits: any prefixes of both
 * families, few as constants and many in the trie; that few ask no trie; that a key which the exact
 * map confirms is exempt as well; and that an IPv6 packet does not pass for an IPv4 host by writing
 * its address as ::ffff:a.b.c.d.
 */
#include <arpa/inet.h>

#include "packet.h"

#define ADDR_BYTES 16
#define SETS 60
#define SET_MAX 24
#define PACKETS 40
#define FEW XBLOOM_EXEMPT_CONSTANTS

/* ---- repeatable random numbers ---- */

static uint64_t rnd_state = 0x9e3779b97f4a7c15;

static uint32_t rnd_below(uint32_t n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (uint32_t)((rnd_state >> 32) * n >> 32);
}

/* ---- the slow twin ---- */

struct slow_prefix {
	uint8_t addr[ADDR_BYTES];
	unsigned int plen;
	uint8_t family;
};

static unsigned int width_of(uint8_t family)
{
	return family == XBLOOM_FAMILY_V4 ? 32 : 128;
}

static bool slow_holds(const struct slow_prefix *p, uint8_t family, const uint8_t *addr)
{
	unsigned int i;

	for (i = 0; i < p->plen && p->family == family; i++)
		if ((p->addr[i / 8] ^ addr[i / 8]) >> (7 - i % 8) & 1)
			return false;
	return p->family == family;
}

static bool slow_is_exempt(const struct slow_prefix *set, size_t n, uint8_t family,
			   const uint8_t *addr)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (slow_holds(&set[i], family, addr))
			return true;
	return false;
}

/* ---- sets and packets ---- */

static void flip(uint8_t *addr, unsigned int bit)
{
	addr[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
}

/* Of any length, but no IPv6 one that all of IPv4 would be in. */
static struct slow_prefix random_prefix(void)
{
	struct slow_prefix p = { .family = rnd_below(2) ? XBLOOM_FAMILY_V6 : XBLOOM_FAMILY_V4 };
	unsigned int i;

	for (i = 0; i < ADDR_BYTES; i++)
		p.addr[i] = (uint8_t)rnd_below(256);
	p.plen = rnd_below(width_of(p.family) + 1);
	if (p.family == XBLOOM_FAMILY_V6) {
		p.addr[0] = 0x20;
		p.plen = p.plen < 3 ? 3 : p.plen;
	}
	return p;
}

/* Of a prefix of the set: an address in it, one whose last fixed bit is another, or any. */
static void random_address(const struct slow_prefix *p, uint8_t *addr)
{
	unsigned int i;

	memcpy(addr, p->addr, ADDR_BYTES);
	for (i = p->plen; i < width_of(p->family); i++)
		if (rnd_below(2))
			flip(addr, i);
	if (p->plen && rnd_below(2))
		flip(addr, rnd_below(3) ? p->plen - 1 : rnd_below(p->plen));
}

static struct xbloom_exemption exemption_of(const struct slow_prefix *p)
{
	struct xbloom_flow flow = { .family = p->family, .plen = (uint8_t)p->plen };
	struct xbloom_error error = { "" };
	struct xbloom_exemption e;

	memcpy(&flow.src, p->addr, ADDR_BYTES);
	if (xbloom_exemption(&flow, XBLOOM_EXEMPT_USER, &e, &error))
		fail_msg("%s", error.text);
	return e;
}

static void put(struct xbloom *f, const struct xbloom_exemption *v, size_t n)
{
	struct xbloom_error error = { "" };

	if (xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER, v, n, &error))
		fail_msg("%s", error.text);
}

static void frame_from(struct frame *frame, uint32_t fields, uint8_t family, const uint8_t *addr)
{
	struct xbloom_flow flow = { .family = family,
				    .proto = IPPROTO_UDP,
				    .ports = { htons(1000), htons(53) } };

	memcpy(fields & XBLOOM_SRC ? (void *)&flow.src : (void *)&flow.dst, addr,
	       width_of(family) / 8);
	frame_of_flow(frame, &flow);
}

static void expect_text(struct xbloom *f, const char *text, const char *reason, enum fate fate)
{
	uint8_t family = strchr(text, ':') ? XBLOOM_FAMILY_V6 : XBLOOM_FAMILY_V4;
	uint8_t addr[ADDR_BYTES];
	struct xbloom_rules rules;
	struct frame frame;

	xbloom_rules(f, &rules);
	assert_int_equal(inet_pton(family == XBLOOM_FAMILY_V4 ? AF_INET : AF_INET6, text, addr), 1);
	frame_from(&frame, rules.fields, family, addr);
	expect_fate(f, &frame, reason, fate);
}

static struct xbloom_exemption exemption_at(const char *text)
{
	struct slow_prefix p = { .family =
					 strchr(text, ':') ? XBLOOM_FAMILY_V6 : XBLOOM_FAMILY_V4 };

	assert_int_equal(inet_pton(p.family == XBLOOM_FAMILY_V4 ? AF_INET : AF_INET6, text, p.addr),
			 1);
	p.plen = width_of(p.family);
	return exemption_of(&p);
}

/* ---- the tests ---- */

/* An empty allow filter drops all: only what is exempt passes. */
static void check_random_sets(uint32_t fields, uint32_t layout)
{
	struct xbloom_rules rules = packet_rules(fields, XBLOOM_POLICY_ALLOW, false);
	struct xbloom *f = filter_create(&rules, layout, SPARSE_ITEMS);
	unsigned int s, i, passed = 0, dropped = 0;

	for (s = 0; s < SETS; s++) {
		struct slow_prefix set[SET_MAX];
		struct xbloom_exemption v[SET_MAX];
		/* As often few as many. */
		unsigned int n = 1 + (s % 2 ? rnd_below(FEW) : FEW + rnd_below(SET_MAX - FEW));

		for (i = 0; i < n; i++) {
			/* Now and then one within another. */
			set[i] = i && !rnd_below(4) ? set[i - 1] : random_prefix();
			if (set[i].plen < width_of(set[i].family) && !rnd_below(4))
				set[i].plen++;
			v[i] = exemption_of(&set[i]);
		}
		put(f, v, n);
		for (i = 0; i < PACKETS; i++) {
			const struct slow_prefix *near = &set[rnd_below(n)];
			uint8_t addr[ADDR_BYTES];
			struct frame frame;
			bool exempt;

			random_address(near, addr);
			exempt = slow_is_exempt(set, n, near->family, addr);
			frame_from(&frame, fields, near->family, addr);
			expect_fate(f, &frame, exempt ? "exempt" : "absent",
				    exempt ? PASSES : DROPS);
			passed += exempt;
			dropped += !exempt;
		}
	}
	assert_in_range(passed, SETS * PACKETS / 10, SETS * PACKETS);
	assert_in_range(dropped, SETS * PACKETS / 10, SETS * PACKETS);
	filter_destroy(f);
}

static void any_set_exempts_what_the_slow_twin_does(void **state)
{
	(void)state;
	check_random_sets(XBLOOM_SRC, XBLOOM_LAYOUT_SPLIT);
	check_random_sets(XBLOOM_DST, XBLOOM_LAYOUT_CLASSIC);
}

/* How many of the maps of the program in the slot are tries. */
static unsigned int tries_of_the_program(void)
{
	struct bpf_prog_info info = { 0 };
	uint32_t ids[64], slot = XBLOOM_SLOT, id = 0, len = sizeof(info), i;
	int slots = bpf_obj_get(FILTER_DIR "/slots"), prog;
	unsigned int tries = 0;

	assert_true(slots >= 0);
	assert_int_equal(bpf_map_lookup_elem(slots, &slot, &id), 0);
	prog = bpf_prog_get_fd_by_id(id);
	assert_true(prog >= 0);
	info.map_ids = (uintptr_t)ids;
	info.nr_map_ids = sizeof(ids) / sizeof(ids[0]);
	assert_int_equal(bpf_obj_get_info_by_fd(prog, &info, &len), 0);
	assert_in_range(info.nr_map_ids, 1, sizeof(ids) / sizeof(ids[0]));
	for (i = 0; i < info.nr_map_ids; i++) {
		struct bpf_map_info map = { 0 };
		uint32_t map_len = sizeof(map);
		int fd = bpf_map_get_fd_by_id(ids[i]);

		assert_true(fd >= 0);
		assert_int_equal(bpf_obj_get_info_by_fd(fd, &map, &map_len), 0);
		tries += map.type == BPF_MAP_TYPE_LPM_TRIE;
		close(fd);
	}
	close(prog);
	close(slots);
	return tries;
}

static void few_ask_no_trie(void **state)
{
	static const uint32_t policies[] = { XBLOOM_POLICY_BLOCK, XBLOOM_POLICY_ALLOW };
	struct xbloom_exemption v[FEW + 1];
	unsigned int p, n;

	(void)state;
	for (n = 0; n < FEW + 1; n++) {
		char text[32];

		snprintf(text, sizeof(text), "198.51.100.%u", n);
		v[n] = exemption_at(text);
	}
	for (p = 0; p < 2; p++) {
		struct xbloom_rules rules = packet_rules(XBLOOM_SRC, policies[p], false);
		struct xbloom *f = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);

		assert_int_equal(tries_of_the_program(), 0);
		for (n = 1; n <= FEW; n++) {
			put(f, v, n);
			assert_int_equal(tries_of_the_program(), 0);
		}
		put(f, v, FEW + 1);
		assert_int_equal(tries_of_the_program(), 1);
		put(f, v, FEW);
		assert_int_equal(tries_of_the_program(), 0);
		filter_destroy(f);
	}
}

/* What the exact map confirms is to be dropped, unless it is exempt; what it refutes passes anyway. */
static void what_is_confirmed_is_exempt_as_well(void **state)
{
	static const char *const listed[] = { "198.51.100.1", "198.51.100.9", "2001:db8::1",
					      "2001:db8::9" };
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom_size_request req = { .layout = XBLOOM_LAYOUT_SPLIT, .items = SPARSE_ITEMS };
	struct xbloom_hashes h = { .width = xbloom_key_width(XBLOOM_SRC) };
	struct xbloom_exemption v[2 + FEW];
	struct xbloom_error error = { "" };
	struct xbloom_size size;
	struct xbloom *f = NULL;
	struct xbloom_flow flow;
	unsigned int i, many;

	(void)state;
	for (i = 0; i < 4; i++) {
		assert_int_equal(
			xbloom_key_parse(listed[i], strlen(listed[i]), XBLOOM_SRC, &flow, &error),
			0);
		assert_int_equal(
			xbloom_hashes_push_flow(&h, &packet_hash_key, &flow, XBLOOM_SRC, &error),
			0);
	}
	rules.confirm = true;
	assert_int_equal(xbloom_plan(&req, &size, &error), 0);
	size.exact_keys = SPARSE_ITEMS;
	if (xbloom_create(FILTER, &size, &rules, &packet_hash_key, &h, NULL, &f, &error))
		fail_msg("%s", error.text);
	/* The bits of one more, without the key: a false positive. */
	assert_int_equal(xbloom_key_parse("198.51.100.77", 13, XBLOOM_SRC, &flow, &error), 0);
	xbloom_set_hash(xbloom_geometry(f), (struct xbloom_block *)xbloom_blocks(f),
			xbloom_hash(f, &flow));
	for (i = 0; i < 4; i++)
		expect_text(f, listed[i], "confirmed", DROPS);
	v[0] = exemption_at(listed[0]);
	v[1] = exemption_at(listed[2]);
	for (i = 0; i < FEW; i++) {
		char text[32];

		snprintf(text, sizeof(text), "203.0.113.%u", i);
		v[2 + i] = exemption_at(text);
	}
	for (many = 0; many < 2; many++) {
		put(f, v, many ? 2 + FEW : 2);
		expect_text(f, listed[0], "exempt", PASSES);
		expect_text(f, listed[1], "confirmed", DROPS);
		expect_text(f, listed[2], "exempt", PASSES);
		expect_text(f, listed[3], "confirmed", DROPS);
		expect_text(f, "198.51.100.77", "refuted", PASSES);
		expect_text(f, "203.0.113.1", "absent", PASSES);
	}
	put(f, NULL, 0);
	expect_text(f, listed[0], "confirmed", DROPS);
	xbloom_hashes_free(&h);
	filter_destroy(f);
}

static void an_ipv6_packet_does_not_pass_for_an_ipv4_host(void **state)
{
	static const uint32_t fields[] = { XBLOOM_SRC, XBLOOM_DST };
	struct xbloom_exemption v[1 + FEW];
	unsigned int i, k;

	(void)state;
	v[0] = exemption_at("198.51.100.7");
	for (i = 0; i < FEW; i++) {
		char text[32];

		snprintf(text, sizeof(text), "203.0.113.%u", i);
		v[1 + i] = exemption_at(text);
	}
	for (k = 0; k < 2; k++) {
		struct xbloom_rules rules = packet_rules(fields[k], XBLOOM_POLICY_ALLOW, false);
		struct xbloom *f = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);

		for (i = 0; i < 2; i++) {
			put(f, v, i ? 1 + FEW : 1);
			expect_text(f, "198.51.100.7", "exempt", PASSES);
			expect_text(f, "::ffff:198.51.100.7", "absent", DROPS);
		}
		filter_destroy(f);
	}
}

/* More than the record can hold: none of it comes into force. */
static void too_many_change_nothing(void **state)
{
	const size_t n = (1u << 20) + 1;
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_ALLOW, false);
	struct xbloom *f = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct xbloom_exemption one = exemption_at("2001:db8::1"), *v, *now;
	struct xbloom_error error = { "" };
	size_t i, n_now;

	(void)state;
	put(f, &one, 1);
	v = calloc(n, sizeof(*v));
	assert_non_null(v);
	for (i = 0; i < n; i++) {
		uint32_t host = htonl((uint32_t)i);

		v[i] = one;
		memcpy(v[i].key.addr + ADDR_BYTES - sizeof(host), &host, sizeof(host));
	}
	assert_int_equal(xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER, v, n, &error), -E2BIG);
	assert_non_null(strstr(error.text, "1048577 exemptions are more than 1048576"));
	assert_int_equal(xbloom_exempt_list(f, &now, &n_now, &error), 0);
	assert_int_equal(n_now, 1);
	expect_text(f, "2001:db8::1", "exempt", PASSES);
	expect_text(f, "2001:db8::2", "absent", DROPS);
	free(now);
	free(v);
	filter_destroy(f);
}

/* With four lengths in four arrays, an exact map and samples, few exemptions and many still load. */
static void the_verifier_takes_the_largest_program(void **state)
{
	static const uint32_t fields[] = { XBLOOM_SRC, XBLOOM_DST };
	struct xbloom_exemption v[FEW + 1];
	unsigned int i, n;

	(void)state;
	for (i = 0; i < FEW + 1; i++) {
		char text[32];

		snprintf(text, sizeof(text), "2001:db8:%x::1", i);
		v[i] = exemption_at(text);
	}
	for (i = 0; i < 8; i++) {
		bool classic = i & 1, allow = i & 4;
		struct xbloom_rules rules =
			packet_rules(fields[i >> 1 & 1],
				     allow ? XBLOOM_POLICY_ALLOW : XBLOOM_POLICY_BLOCK, false);
		struct xbloom_size_request req = {
			.layout = classic ? XBLOOM_LAYOUT_CLASSIC : XBLOOM_LAYOUT_SPLIT,
			.items = 100,
			.fp = 1e-9,
			.asks = 4,
			.hashes = classic ? XBLOOM_CLASSIC_K_MAX : 0,
		};
		struct xbloom_error error = { "" };
		struct xbloom_size size;
		struct xbloom *f = NULL;

		rules.confirm = !allow;
		if (xbloom_plan(&req, &size, &error) ||
		    (rules.confirm && xbloom_plan_exact(&size, rules.fields, 0, &error)))
			fail_msg("%s", error.text);
		size.nets4 = true;
		size.n_plens6 = 4;
		memcpy(size.plens6, (uint32_t[]){ 128, 64, 48, 32 }, sizeof(size.plens6));
		size.lives = XBLOOM_LIVES_MAX;
		size.ttl_ns = 1000000000ULL * 3600;
		if (xbloom_create(FILTER, &size, &rules, &packet_hash_key, NULL, NULL, &f, &error))
			fail_msg("filter %u: %s", i, error.text);
		rules.sample = 1;
		if (xbloom_set_rules(f, &rules, &error))
			fail_msg("filter %u: %s", i, error.text);
		for (n = FEW; n <= FEW + 1; n++) {
			put(f, v, n);
			expect_text(f, "2001:db8:7::1", allow ? "exempt" : "absent", PASSES);
			expect_text(f, "2001:db8:7::2", "absent", allow ? DROPS : PASSES);
			expect_text(f, "198.51.100.1", "absent", allow ? DROPS : PASSES);
		}
		filter_destroy(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_set_exempts_what_the_slow_twin_does),
		cmocka_unit_test(few_ask_no_trie),
		cmocka_unit_test(what_is_confirmed_is_exempt_as_well),
		cmocka_unit_test(an_ipv6_packet_does_not_pass_for_an_ipv4_host),
		cmocka_unit_test(too_many_change_nothing),
		cmocka_unit_test(the_verifier_takes_the_largest_program),
	};

	packet_isolate();
	return cmocka_run_group_tests_name("exempt_set", tests, NULL, NULL);
}
