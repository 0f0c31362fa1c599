// SPDX-License-Identifier: GPL-2.0-only
/*
 * Special ranges: what the quick look counts, a slow twin counts, too, which compares an entry with
 * each range bit by bit. The twin knows the ranges as text, as they are printed; that they are the
 * right ones is compared with a table written from the registries. What the machine has of its own
 * is among them, whatever that is here.
 */
#include <arpa/inet.h>

#include "unit.h"

#define ENTRIES 200000u
#define WORKERS 3u

/* ---- the slow twin ---- */

struct slow_range {
	uint8_t addr[16];
	unsigned int plen;
	uint8_t family;
	uint64_t entries;
};

static struct slow_range slow_parse(const char *text)
{
	struct slow_range r = { .family = strchr(text, ':') ? XBLOOM_FAMILY_V6 : XBLOOM_FAMILY_V4 };
	const char *slash = strchr(text, '/');
	char addr[INET6_ADDRSTRLEN];

	snprintf(addr, sizeof(addr), "%.*s", (int)(slash ? slash - text : (long)strlen(text)),
		 text);
	assert_int_equal(inet_pton(r.family == XBLOOM_FAMILY_V4 ? AF_INET : AF_INET6, addr, r.addr),
			 1);
	r.plen = slash ? (unsigned int)atoi(slash + 1) : r.family == XBLOOM_FAMILY_V4 ? 32 : 128;
	return r;
}

static int bit(const uint8_t *addr, unsigned int i)
{
	return addr[i / 8] >> (7 - i % 8) & 1;
}

/* Two prefixes share an address when they agree in every bit that both of them fix. */
static bool slow_touches(const struct slow_range *r, uint8_t family, const uint8_t *addr,
			 unsigned int plen)
{
	unsigned int i;

	if (r->family != family)
		return false;
	for (i = 0; i < plen && i < r->plen; i++)
		if (bit(addr, i) != bit(r->addr, i))
			return false;
	return true;
}

/* ---- entries ---- */

static struct xbloom_special *special_open(uint32_t fields)
{
	struct xbloom_error err = { "" };
	struct xbloom_special *s = NULL;

	if (xbloom_special_open(fields, &s, &err))
		fail_msg("%s", err.text);
	return s;
}

static struct xbloom_flow flow_of(const char *text, uint32_t fields)
{
	struct xbloom_flow flow = { 0 };
	struct slow_range r = slow_parse(text);

	flow.family = r.family;
	flow.plen = (uint8_t)r.plen;
	memcpy(fields & XBLOOM_SRC ? flow.src.v6 : flow.dst.v6, r.addr, sizeof(r.addr));
	return flow;
}

static uint64_t entries_of(const struct xbloom_special *s, const char *range, const char *name)
{
	struct xbloom_special_range r;
	size_t i;

	for (i = 0; xbloom_special_range(s, i, &r); i++)
		if (!strcmp(r.range, range) && (!name || !strcmp(r.name, name)))
			return r.entries;
	fail_msg("there is no range %s (%s)", range, name ? name : "of any name");
	return 0;
}

/* The i-th range, with its count and a twin of it. */
static bool range_at(const struct xbloom_special *s, size_t i, struct xbloom_special_range *r,
		     struct slow_range *slow)
{
	if (!xbloom_special_range(s, i, r))
		return false;
	*slow = slow_parse(r->range);
	return true;
}

static void clear_host_bits(uint8_t *addr, unsigned int plen, unsigned int width)
{
	unsigned int i;

	for (i = plen; i < width; i++)
		addr[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
}

/* Near a range more often than not: within it, around its ends, or so short that it covers it. */
static struct slow_range random_entry(struct unit_random *rnd, const struct slow_range *ranges,
				      size_t n)
{
	struct slow_range e = { .family = unit_random_below(rnd, 2) ? XBLOOM_FAMILY_V6
								    : XBLOOM_FAMILY_V4 };
	unsigned int width, i;

	for (i = 0; i < sizeof(e.addr); i++)
		e.addr[i] = (uint8_t)unit_random(rnd);
	if (unit_random_below(rnd, 4)) {
		const struct slow_range *near = &ranges[unit_random_below(rnd, n)];
		unsigned int flip;

		e.family = near->family;
		for (i = 0; i < near->plen; i++)
			if (bit(e.addr, i) != bit(near->addr, i))
				e.addr[i / 8] ^= (uint8_t)(0x80 >> i % 8);
		flip = (unsigned int)unit_random_below(rnd, 2 * (near->plen + 1));
		if (flip < near->plen)
			e.addr[flip / 8] ^= (uint8_t)(0x80 >> flip % 8);
	}
	width = e.family == XBLOOM_FAMILY_V4 ? 32 : 128;
	e.plen =
		unit_random_below(rnd, 2) ? width : (unsigned int)unit_random_below(rnd, width + 1);
	clear_host_bits(e.addr, e.plen, width);
	return e;
}

/* ---- the tests ---- */

static void the_ranges_are_those_of_the_registries(void **state)
{
	static const struct {
		const char *range, *name;
	} wanted[] = {
		{ "0.0.0.0/8", "this network" },
		{ "10.0.0.0/8", "private" },
		{ "100.64.0.0/10", "shared by carriers" },
		{ "127.0.0.0/8", "loopback" },
		{ "169.254.0.0/16", "link-local" },
		{ "172.16.0.0/12", "private" },
		{ "192.168.0.0/16", "private" },
		{ "224.0.0.0/4", "multicast" },
		{ "255.255.255.255", "broadcast" },
		{ "::", "unspecified" },
		{ "::1", "loopback" },
		{ "::ffff:0.0.0.0/96", "IPv4 written as IPv6" },
		{ "fc00::/7", "private (unique local)" },
		{ "fe80::/10", "link-local" },
		{ "ff00::/8", "multicast" },
	};
	struct xbloom_special *s = special_open(XBLOOM_SRC);
	struct xbloom_special_range r;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(wanted); i++) {
		assert_true(xbloom_special_range(s, i, &r));
		assert_string_equal(r.range, wanted[i].range);
		assert_string_equal(r.name, wanted[i].name);
		assert_int_equal(r.entries, 0);
	}
	/* The rest is the machine's. */
	for (; xbloom_special_range(s, i, &r); i++)
		if (strncmp(r.name, "the network of ", 15) &&
		    strncmp(r.name, "a gateway of ", 13) &&
		    strcmp(r.name, "a resolver of this machine"))
			fail_msg("%s is %s", r.range, r.name);
	xbloom_special_close(s);
}

static void first_and_last_of_a_range_are_in_it_and_their_neighbours_are_not(void **state)
{
	static const struct {
		const char *range, *in[2], *out[2];
	} edges[] = {
		{ "0.0.0.0/8", { "0.0.0.0", "0.255.255.255" }, { "1.0.0.0", "255.255.255.254" } },
		{ "10.0.0.0/8", { "10.0.0.0", "10.255.255.255" }, { "9.255.255.255", "11.0.0.0" } },
		{ "100.64.0.0/10",
		  { "100.64.0.0", "100.127.255.255" },
		  { "100.63.255.255", "100.128.0.0" } },
		{ "127.0.0.0/8",
		  { "127.0.0.0", "127.255.255.255" },
		  { "126.255.255.255", "128.0.0.0" } },
		{ "169.254.0.0/16",
		  { "169.254.0.0", "169.254.255.255" },
		  { "169.253.255.255", "169.255.0.0" } },
		{ "172.16.0.0/12",
		  { "172.16.0.0", "172.31.255.255" },
		  { "172.15.255.255", "172.32.0.0" } },
		{ "192.168.0.0/16",
		  { "192.168.0.0", "192.168.255.255" },
		  { "192.167.255.255", "192.169.0.0" } },
		{ "224.0.0.0/4",
		  { "224.0.0.0", "239.255.255.255" },
		  { "223.255.255.255", "240.0.0.0" } },
		{ "255.255.255.255",
		  { "255.255.255.255", "255.255.255.254/31" },
		  { "255.255.255.254", "255.255.255.252/31" } },
		{ "::1", { "::1", "::/127" }, { "::2", "::" } },
		{ "::ffff:0.0.0.0/96",
		  { "::ffff:0:0", "::ffff:ffff:ffff" },
		  { "::fffe:ffff:ffff", "::1:0:0:0" } },
		{ "fc00::/7",
		  { "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
		  { "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe00::" } },
		{ "fe80::/10",
		  { "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
		  { "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fec0::" } },
		{ "ff00::/8",
		  { "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
		  { "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ff00" } },
	};
	static const uint32_t fields[] = { XBLOOM_SRC, XBLOOM_DST, XBLOOM_FIELDS_5TUPLE };
	size_t i, f, e;

	(void)state;
	for (f = 0; f < COUNT_OF(fields); f++) {
		struct xbloom_special *s = special_open(fields[f]);

		for (i = 0; i < COUNT_OF(edges); i++) {
			uint64_t before = entries_of(s, edges[i].range, NULL);

			for (e = 0; e < 2; e++) {
				struct xbloom_flow in = flow_of(edges[i].in[e], fields[f]);
				struct xbloom_flow out = flow_of(edges[i].out[e], fields[f]);

				xbloom_special_seen(s, 0, &in);
				xbloom_special_seen(s, 0, &out);
			}
			if (entries_of(s, edges[i].range, NULL) != before + 2)
				fail_msg("%s with fields %x: %" PRIu64 " of its 2 edges",
					 edges[i].range, fields[f],
					 entries_of(s, edges[i].range, NULL) - before);
		}
		xbloom_special_close(s);
	}
}

static void a_prefix_that_covers_a_range_is_one_entry_of_it(void **state)
{
	static const char *const covering[] = { "0.0.0.0/1", "0.0.0.0/0", "8.0.0.0/5",
						"10.0.0.0/7" };
	struct xbloom_special *s = special_open(XBLOOM_SRC);
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(covering); i++) {
		struct xbloom_flow flow = flow_of(covering[i], XBLOOM_SRC);

		xbloom_special_seen(s, 0, &flow);
		assert_int_equal(entries_of(s, "10.0.0.0/8", NULL), i + 1);
	}
	assert_int_equal(entries_of(s, "0.0.0.0/8", NULL), 2);
	assert_int_equal(entries_of(s, "224.0.0.0/4", NULL), 1);
	assert_int_equal(entries_of(s, "ff00::/8", NULL), 0);
	xbloom_special_close(s);
}

/* Entries of all lengths in both families, divided among workers as readers do. */
static void it_counts_as_the_slow_twin_does(void **state)
{
	struct unit_random rnd = { .seed = 20261201 };
	struct xbloom_special *s = special_open(XBLOOM_DST);
	struct slow_range *ranges = NULL;
	struct xbloom_special_range r;
	uint64_t touched = 0;
	size_t n = 0, i, e;

	(void)state;
	while (xbloom_special_range(s, n, &r))
		n++;
	ranges = calloc(n, sizeof(*ranges));
	assert_non_null(ranges);
	for (i = 0; i < n; i++)
		assert_true(range_at(s, i, &r, &ranges[i]));
	for (e = 0; e < ENTRIES; e++) {
		struct slow_range entry = random_entry(&rnd, ranges, n);
		struct xbloom_flow flow = { .family = entry.family, .plen = (uint8_t)entry.plen };

		memcpy(flow.dst.v6, entry.addr, sizeof(entry.addr));
		/* The other address is nobody's business. */
		memset(flow.src.v6, 0x7f, sizeof(flow.src.v6));
		xbloom_special_seen(s, (unsigned int)(e % WORKERS), &flow);
		for (i = 0; i < n; i++)
			ranges[i].entries +=
				slow_touches(&ranges[i], entry.family, entry.addr, entry.plen);
	}
	for (i = 0; i < n; i++) {
		assert_true(xbloom_special_range(s, i, &r));
		if (r.entries != ranges[i].entries)
			fail_msg("%s (%s): %" PRIu64 " entries, the twin has %" PRIu64, r.range,
				 r.name, r.entries, ranges[i].entries);
		/* Or there would have been nothing to compare. */
		assert_in_range(r.entries, 1, ENTRIES - 1);
		touched += r.entries;
	}
	assert_in_range(touched, ENTRIES / 4, UINT32_MAX);
	free(ranges);
	xbloom_special_close(s);
}

static void a_key_without_an_address_touches_nothing(void **state)
{
	struct xbloom_special *s = special_open(XBLOOM_DPORT | XBLOOM_PROTO);
	struct xbloom_flow flow = flow_of("10.0.0.1", XBLOOM_SRC);
	struct xbloom_special_range r;
	size_t i;

	(void)state;
	xbloom_special_seen(s, 0, &flow);
	for (i = 0; xbloom_special_range(s, i, &r); i++)
		assert_int_equal(r.entries, 0);
	assert_true(i > 0);
	xbloom_special_close(s);
	xbloom_special_close(NULL);
}

/* ---- exemptions, as far as they need no kernel ---- */

static void what_ipv4_lives_in_is_no_exemption_of_ipv6(void **state)
{
	struct xbloom_exemption e;
	struct xbloom_error err;
	char text[XBLOOM_EXEMPTION_TEXT];
	unsigned int plen;

	(void)state;
	for (plen = 0; plen <= 128; plen++) {
		struct xbloom_flow mapped = { .family = XBLOOM_FAMILY_V6, .plen = (uint8_t)plen };
		struct xbloom_flow other = mapped;

		inet_pton(AF_INET6, "::ffff:192.0.2.1", mapped.src.v6);
		inet_pton(AF_INET6, "2001:db8::1", other.src.v6);
		unit_error_poison(&err);
		if (plen < 96) {
			assert_int_equal(xbloom_exemption(&mapped, 1, &e, &err), -EINVAL);
			unit_assert_says(&err, "all IPv4");
		} else {
			/* As people write it who mean IPv4. */
			assert_int_equal(xbloom_exemption(&mapped, 1, &e, &err), 0);
			assert_null(strchr(xbloom_exemption_text(&e, text), ':'));
		}
		/* 2001:db8::/n begins with 0010: from there on IPv4 is not in it. */
		assert_int_equal(xbloom_exemption(&other, 1, &e, &err), plen < 3 ? -EINVAL : 0);
	}
}

static void an_exemption_is_written_as_it_was_read(void **state)
{
	static const struct {
		const char *in, *out;
	} texts[] = {
		{ "192.0.2.7", "192.0.2.7" },
		{ "192.0.2.0/24", "192.0.2.0/24" },
		{ "0.0.0.0/0", "0.0.0.0/0" },
		{ "192.0.2.77/28", "192.0.2.64/28" },
		{ "2001:db8::1", "2001:db8::1" },
		{ "2001:db8::/32", "2001:db8::/32" },
		{ "2001:db8:ffff::/33", "2001:db8:8000::/33" },
		{ "8000::/1", "8000::/1" },
	};
	char text[XBLOOM_EXEMPTION_TEXT];
	struct xbloom_exemption e;
	struct xbloom_error err;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(texts); i++) {
		struct xbloom_flow flow = flow_of(texts[i].in, XBLOOM_SRC);

		assert_int_equal(xbloom_exemption(&flow, 1, &e, &err), 0);
		assert_string_equal(xbloom_exemption_text(&e, text), texts[i].out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ranges_are_those_of_the_registries),
		cmocka_unit_test(first_and_last_of_a_range_are_in_it_and_their_neighbours_are_not),
		cmocka_unit_test(a_prefix_that_covers_a_range_is_one_entry_of_it),
		cmocka_unit_test(it_counts_as_the_slow_twin_does),
		cmocka_unit_test(a_key_without_an_address_touches_nothing),
		cmocka_unit_test(what_ipv4_lives_in_is_no_exemption_of_ipv6),
		cmocka_unit_test(an_exemption_is_written_as_it_was_read),
	};

	return cmocka_run_group_tests_name("special", tests, NULL, NULL);
}
