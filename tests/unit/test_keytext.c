// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keys and field sets as people write them. What is good is read as what it says and comes back
 * in its one canonical form; what could mean two things, or nothing, is refused with a line that
 * says why. Every key is handed over without a terminating zero, in memory of exactly its size,
 * so that the sanitizers see a read too far.
 */
#include "unit.h"

#include <arpa/inet.h>

/* ---- field sets ---- */

static const struct {
	const char *text;
	uint32_t fields;
} good_fields[] = {
	{ "src", XBLOOM_SRC },
	{ "dst", XBLOOM_DST },
	{ "sport", XBLOOM_SPORT },
	{ "dport", XBLOOM_DPORT },
	{ "proto", XBLOOM_PROTO },
	{ "vlan", XBLOOM_VLAN },
	{ "src,dst", XBLOOM_SRC | XBLOOM_DST },
	{ "src,dport", XBLOOM_SRC | XBLOOM_DPORT },
	{ "src,vlan", XBLOOM_SRC | XBLOOM_VLAN },
	{ "dst,dport,proto", XBLOOM_DST | XBLOOM_DPORT | XBLOOM_PROTO },
	{ "5tuple", XBLOOM_FIELDS_5TUPLE },
	{ "src,dst,sport,dport,proto", XBLOOM_FIELDS_5TUPLE },
	{ "5tuple,vlan", XBLOOM_FIELDS_ALL },
	{ "src,dst,sport,dport,proto,vlan", XBLOOM_FIELDS_ALL },
};

static void field_sets_are_read(void **state)
{
	struct xbloom_error err;
	uint32_t fields;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(good_fields); i++) {
		if (xbloom_fields_parse(good_fields[i].text, &fields, &err))
			fail_msg("%s", err.text);
		assert_int_equal(fields, good_fields[i].fields);
	}
}

static void refuse_fields(const char *text)
{
	struct xbloom_error err;
	uint32_t fields;
	int ret;

	unit_error_poison(&err);
	ret = xbloom_fields_parse(text, &fields, &err);
	if (ret != -EINVAL)
		fail_msg("fields \"%s\": %d, expected -EINVAL", text, ret);
	unit_assert_one_line(&err);
	assert_int_equal(xbloom_fields_parse(text, &fields, NULL), -EINVAL);
}

static void unknown_and_malformed_field_sets_are_refused(void **state)
{
	static const char *const bad[] = {
		"",	    ",",      "src,",	       ",src",	   "src,,dst",	 "src dst",
		"src, dst", " src",   "source",	       "sr",	   "srcc",	 "port",
		"ip",	    "all",    "src;dst",       "src\ndst", "src\033[2J", "5tupl",
		"5-tuple",  "6tuple", "src,sport,foo",
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(bad); i++)
		refuse_fields(bad[i]);
}

static void unknown_field_is_named_in_the_message(void **state)
{
	struct xbloom_error err;
	uint32_t fields;

	(void)state;
	assert_int_equal(xbloom_fields_parse("src,prot", &fields, &err), -EINVAL);
	unit_assert_says(&err, "prot");
}

static void field_named_twice_is_refused(void **state)
{
	(void)state;
	refuse_fields("src,src");
	refuse_fields("src,dst,src");
	refuse_fields("5tuple,src");
	refuse_fields("src,5tuple");
	refuse_fields("5tuple,5tuple");
	refuse_fields("vlan,vlan");
}

/*
 * A key is written in the canonical order. Were "dport,sport" taken for "sport,dport", every line
 * written as its owner thinks would be read the other way round, and nobody would be told.
 */
static void fields_out_of_order_are_refused(void **state)
{
	(void)state;
	refuse_fields("dst,src");
	refuse_fields("dport,sport");
	refuse_fields("dport,src");
	refuse_fields("vlan,src");
	refuse_fields("vlan,5tuple");
	refuse_fields("src,dst,dport,sport,proto");
}

static void every_field_set_comes_back_from_its_text(void **state)
{
	char buf[XBLOOM_FIELDS_TEXT], again[XBLOOM_FIELDS_TEXT];
	struct xbloom_error err;
	uint32_t fields, back;

	(void)state;
	for (fields = 1; fields <= XBLOOM_FIELDS_ALL; fields++) {
		assert_ptr_equal(xbloom_fields_text(fields, buf), buf);
		assert_in_range(strlen(buf), 1, XBLOOM_FIELDS_TEXT - 1);
		if (xbloom_fields_parse(buf, &back, &err))
			fail_msg("%s", err.text);
		assert_int_equal(back, fields);
		assert_string_equal(xbloom_fields_text(back, again), buf);
	}
	assert_string_equal(xbloom_fields_text(XBLOOM_FIELDS_5TUPLE, buf), "5tuple");
	assert_string_equal(xbloom_fields_text(XBLOOM_SRC | XBLOOM_DPORT, buf), "src,dport");
}

/* ---- keys ---- */

/* From memory that ends where the text does. */
static int parse(const char *text, size_t len, uint32_t fields, struct xbloom_flow *flow,
		 struct xbloom_error *err)
{
	char *copy = malloc(len ? len : 1);
	int ret;

	assert_non_null(copy);
	memcpy(copy, text, len);
	memset(flow, 0xa5, sizeof(*flow));
	unit_error_poison(err);
	ret = xbloom_key_parse(copy, len, fields, flow, err);
	free(copy);
	return ret;
}

static struct xbloom_flow good(const char *text, uint32_t fields)
{
	struct xbloom_error err;
	struct xbloom_flow flow;

	if (parse(text, strlen(text), fields, &flow, &err))
		fail_msg("%s", err.text);
	return flow;
}

static void refuse_bytes(const char *text, size_t len, uint32_t fields, const char *says)
{
	struct xbloom_error err;
	struct xbloom_flow flow;
	int ret = parse(text, len, fields, &flow, &err);

	if (ret != -EINVAL)
		fail_msg("key \"%s\", fields 0x%x: %d, expected -EINVAL", text, fields, ret);
	unit_assert_says(&err, says);
	assert_int_equal(xbloom_key_parse(text, len, fields, &flow, NULL), -EINVAL);
}

static void refuse(const char *text, uint32_t fields, const char *says)
{
	refuse_bytes(text, strlen(text), fields, says);
}

static void refuse_all(const char *const *text, size_t n, uint32_t fields)
{
	while (n--)
		refuse(text[n], fields, "");
}

/* Both texts name the same key, and the second is its canonical form. */
static void assert_canonical(const char *text, const char *canonical, uint32_t fields)
{
	struct xbloom_flow a = good(text, fields), b = good(canonical, fields);
	__u64 wa[XBLOOM_KEY_WORDS_MAX] = { 0 }, wb[XBLOOM_KEY_WORDS_MAX] = { 0 };
	char buf[XBLOOM_KEY_TEXT];

	assert_int_equal(xbloom_key_words(&a, fields, wa), xbloom_key_words(&b, fields, wb));
	assert_memory_equal(wa, wb, sizeof(wa));
	assert_string_equal(xbloom_key_text(&a, fields, buf), canonical);
	assert_string_equal(xbloom_key_text(&b, fields, buf), canonical);
}

static void ipv4_is_read_as_on_the_wire(void **state)
{
	static const uint8_t wire[] = { 192, 0, 2, 7 };
	struct xbloom_flow f = good("192.0.2.7", XBLOOM_SRC);

	(void)state;
	assert_int_equal(f.family, XBLOOM_FAMILY_V4);
	assert_int_equal(f.plen, 32);
	assert_memory_equal(&f.src.v4, wire, sizeof(wire));

	f = good("192.0.2.7", XBLOOM_DST);
	assert_int_equal(f.family, XBLOOM_FAMILY_V4);
	assert_memory_equal(&f.dst.v4, wire, sizeof(wire));
}

static void ipv6_is_read_as_on_the_wire(void **state)
{
	static const uint8_t wire[] = {
		0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1
	};
	struct xbloom_flow f = good("2001:db8::1", XBLOOM_SRC);

	(void)state;
	assert_int_equal(f.family, XBLOOM_FAMILY_V6);
	assert_int_equal(f.plen, 128);
	assert_memory_equal(&f.src.v6, wire, sizeof(wire));
}

static void five_tuple_is_read_field_by_field(void **state)
{
	struct xbloom_flow f = good("192.0.2.7,198.51.100.1,40000,443,tcp,100", XBLOOM_FIELDS_ALL);

	(void)state;
	assert_int_equal(f.src.v4, inet_addr("192.0.2.7"));
	assert_int_equal(f.dst.v4, inet_addr("198.51.100.1"));
	assert_int_equal(f.ports[0], htons(40000));
	assert_int_equal(f.ports[1], htons(443));
	assert_int_equal(f.proto, 6);
	assert_int_equal(f.vlan, 100);
}

static void ipv4_is_strictly_a_dotted_quad(void **state)
{
	static const char *const bad[] = {
		"1",
		"1.2",
		"1.2.3",
		"1.2.3.4.5",
		"1.2.3.4.",
		".1.2.3.4",
		"1..2.3",
		"1.2.3.",
		"256.1.1.1",
		"1.1.1.256",
		"1.1.1.999",
		"1.1.1.1000",
		"3221225991",
		"0xc0000207",
		"0x7f.0.0.1",
		"1.2.3.0x4",
		"-1.2.3.4",
		"+1.2.3.4",
		"1.2.3.-4",
		"1.2.3.4x",
		"1.2.3.a",
		"a.b.c.d",
		"1,2,3,4",
		"1.2.3.4 ",
		" 1.2.3.4",
		"1.2. 3.4",
		"1.2.3.4\t",
		"1.2.3.4\n",
		"",
		"host",
		"localhost",
		"example.com",
		"*",
		"any",
		"1.2.3.*",
		"1.2.3.4-9",
		"1.2.3.4294967300",
		"1.2.3.18446744073709551620",
	};

	(void)state;
	refuse_all(bad, COUNT_OF(bad), XBLOOM_SRC);
	refuse_all(bad, COUNT_OF(bad), XBLOOM_DST);
	assert_canonical("0.0.0.0", "0.0.0.0", XBLOOM_SRC);
	assert_canonical("255.255.255.255", "255.255.255.255", XBLOOM_SRC);
}

/* 010 is 8 to inet_aton and 10 to most people. */
static void zero_padded_octets_are_refused_as_ambiguous(void **state)
{
	static const char *const bad[] = { "010.0.0.1",	 "10.0.0.010", "192.000.2.7", "00.0.0.0",
					   "192.0.02.7", "1.2.3.004",  "001.2.3.4" };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(bad); i++)
		refuse(bad[i], XBLOOM_SRC, "ambiguous");
	refuse("192.0.2.7,010.0.0.1", XBLOOM_SRC | XBLOOM_DST, "ambiguous");
	/* Inside an IPv6 address too. */
	refuse("::ffff:192.0.02.7", XBLOOM_SRC, "");
}

static void ipv6_is_read_in_all_its_forms(void **state)
{
	(void)state;
	assert_canonical("2001:DB8::1", "2001:db8::1", XBLOOM_SRC);
	assert_canonical("2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1", XBLOOM_SRC);
	assert_canonical("2001:db8:0:0:0::1", "2001:db8::1", XBLOOM_SRC);
	assert_canonical("2001:db8::c000:207", "2001:db8::c000:207", XBLOOM_SRC);
	assert_canonical("2001:db8::192.0.2.7", "2001:db8::c000:207", XBLOOM_SRC);
	assert_canonical("::", "::", XBLOOM_SRC);
	assert_canonical("::1", "::1", XBLOOM_SRC);
	assert_canonical("1::", "1::", XBLOOM_DST);
	assert_canonical("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255",
			 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", XBLOOM_SRC);
}

static void malformed_ipv6_is_refused(void **state)
{
	static const char *const bad[] = {
		":",
		":::",
		"1:2:3:4:5:6:7",
		"1:2:3:4:5:6:7:8:9",
		"1::2::3",
		"12345::",
		"g::1",
		"[2001:db8::1]",
		"[2001:db8::1]:443",
		"2001:db8::1 ",
		" 2001:db8::1",
		"2001:db8::1:",
		":2001:db8::1",
		"2001:db8::1.2.3",
		"2001:db8::256.0.0.1",
		"::ffff:1.2.3",
		"0000:0000:0000:0000:0000:0000:0000:0000:0000",
		"00000000000000000000000000000000000000000000000000000000::1",
	};

	(void)state;
	refuse_all(bad, COUNT_OF(bad), XBLOOM_SRC);
}

/* The same host must not be two keys. */
static void ipv4_mapped_ipv6_is_ipv4(void **state)
{
	struct xbloom_flow f = good("::ffff:192.0.2.7", XBLOOM_SRC);

	(void)state;
	assert_int_equal(f.family, XBLOOM_FAMILY_V4);
	assert_int_equal(f.plen, 32);
	assert_canonical("::ffff:192.0.2.7", "192.0.2.7", XBLOOM_SRC);
	assert_canonical("::FFFF:c000:207", "192.0.2.7", XBLOOM_SRC);
	assert_canonical("0:0:0:0:0:ffff:c000:0207", "192.0.2.7", XBLOOM_DST);
	assert_canonical("::ffff:192.0.2.7,198.51.100.1", "192.0.2.7,198.51.100.1",
			 XBLOOM_SRC | XBLOOM_DST);
	assert_canonical("192.0.2.7,::ffff:198.51.100.1", "192.0.2.7,198.51.100.1",
			 XBLOOM_SRC | XBLOOM_DST);
	/* Its neighbours are not mapped. */
	assert_int_equal(good("::fffe:192.0.2.7", XBLOOM_SRC).family, XBLOOM_FAMILY_V6);
	assert_int_equal(good("::192.0.2.7", XBLOOM_SRC).family, XBLOOM_FAMILY_V6);
	assert_int_equal(good("::1:ffff:192.0.2.7", XBLOOM_SRC).family, XBLOOM_FAMILY_V6);
	assert_int_equal(good("64:ff9b::192.0.2.7", XBLOOM_SRC).family, XBLOOM_FAMILY_V6);
}

static void full_prefix_length_means_the_host(void **state)
{
	(void)state;
	assert_canonical("192.0.2.7/32", "192.0.2.7", XBLOOM_SRC);
	assert_canonical("2001:db8::1/128", "2001:db8::1", XBLOOM_DST);
	assert_canonical("::ffff:192.0.2.7/128", "192.0.2.7", XBLOOM_SRC);
	assert_canonical("192.0.2.7/32,443", "192.0.2.7,443", XBLOOM_SRC | XBLOOM_DPORT);
	assert_canonical("192.0.2.7/32,198.51.100.1/32", "192.0.2.7,198.51.100.1",
			 XBLOOM_SRC | XBLOOM_DST);
}

/* A network taken for its first address would let the rest of it through. */
static void other_prefixes_are_refused(void **state)
{
	static const char *const bad[] = {
		"10.0.0.0/8",
		"192.0.2.0/24",
		"0.0.0.0/0",
		"192.0.2.7/31",
		"192.0.2.7/33",
		"192.0.2.7/128",
		"192.0.2.7/",
		"192.0.2.7/-1",
		"192.0.2.7/x",
		"192.0.2.7/032",
		"192.0.2.7/3 2",
		"192.0.2.7/32/32",
		"2001:db8::/32",
		"2001:db8::/64",
		"2001:db8::1/127",
		"2001:db8::1/129",
		"2001:db8::1/",
		"::/0",
		"2001:db8::1/1280",
		"192.0.2.7/255.255.255.0",
		"192.0.2.7/4294967328",
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(bad); i++) {
		refuse(bad[i], XBLOOM_SRC, "prefix");
		refuse(bad[i], XBLOOM_DST, "prefix");
	}
	refuse("192.0.2.0/24,443", XBLOOM_SRC | XBLOOM_DPORT, "prefix");
	refuse("/32", XBLOOM_SRC, "");
	refuse("/", XBLOOM_SRC, "");
}

static void zones_are_refused(void **state)
{
	(void)state;
	refuse("fe80::1%eth0", XBLOOM_SRC, "");
	refuse("fe80::1%1", XBLOOM_SRC, "");
	refuse("fe80::1%", XBLOOM_SRC, "");
	refuse("fe80::1%eth0/128", XBLOOM_SRC, "");
	refuse("192.0.2.7%eth0", XBLOOM_SRC, "");
}

static void families_do_not_mix_in_a_key(void **state)
{
	(void)state;
	refuse("192.0.2.7,2001:db8::1", XBLOOM_SRC | XBLOOM_DST, "famil");
	refuse("2001:db8::1,192.0.2.7", XBLOOM_SRC | XBLOOM_DST, "famil");
	refuse("2001:db8::1,::ffff:192.0.2.7", XBLOOM_SRC | XBLOOM_DST, "famil");
}

static void ports_are_decimal_numbers_up_to_65535(void **state)
{
	static const char *const bad[] = {
		"65536", "99999",  "100000", "4294967296", "18446744073709551616",
		"-1",	 "+1",	   "0x50",   "80 ",	   " 80",
		"8 0",	 "",	   "http",   "80.0",	   "80-90",
		"1e3",	 "80\n",   "*",	     "8o",	   "00080",
		"80:90", "655350",
	};
	unsigned int port;
	char text[16];

	(void)state;
	for (port = 0; port <= 65535; port++) {
		snprintf(text, sizeof(text), "%u", port);
		assert_int_equal(good(text, XBLOOM_SPORT).ports[0], htons((uint16_t)port));
		assert_int_equal(good(text, XBLOOM_DPORT).ports[1], htons((uint16_t)port));
	}
	refuse_all(bad, COUNT_OF(bad), XBLOOM_SPORT);
	refuse_all(bad, COUNT_OF(bad), XBLOOM_DPORT);
}

static void protocols_go_by_name_or_number(void **state)
{
	static const struct {
		const char *name;
		uint8_t number; /* IANA */
	} known[] = {
		{ "icmp", 1 }, { "tcp", 6 }, { "udp", 17 },    { "dccp", 33 },	{ "gre", 47 },
		{ "esp", 50 }, { "ah", 51 }, { "icmpv6", 58 }, { "sctp", 132 }, { "udplite", 136 },
	};
	static const char *const bad[] = { "256", "-1",	  "1000", "",		"tcpp",
					   "tc",  "tcp ", " tcp", "tcp/udp",	"0x6",
					   "6.0", "any",  "*",	  "99999999999" };
	char text[16], buf[XBLOOM_KEY_TEXT];
	unsigned int n;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(known); i++) {
		assert_int_equal(good(known[i].name, XBLOOM_PROTO).proto, known[i].number);
		snprintf(text, sizeof(text), "%u", known[i].number);
		assert_canonical(text, known[i].name, XBLOOM_PROTO);
	}
	for (n = 0; n <= 255; n++) {
		struct xbloom_flow f;

		snprintf(text, sizeof(text), "%u", n);
		f = good(text, XBLOOM_PROTO);
		assert_int_equal(f.proto, n);
		xbloom_key_text(&f, XBLOOM_PROTO, buf);
		assert_int_equal(good(buf, XBLOOM_PROTO).proto, n);
	}
	refuse_all(bad, COUNT_OF(bad), XBLOOM_PROTO);
}

static void vlans_are_numbers_up_to_4094(void **state)
{
	static const char *const bad[] = { "4095", "4096",    "-1",   "",
					   "0x64", "vlan100", "100 ", "65636" };
	unsigned int id;
	char text[16];

	(void)state;
	for (id = 0; id <= 4094; id++) {
		snprintf(text, sizeof(text), "%u", id);
		assert_int_equal(good(text, XBLOOM_VLAN).vlan, id);
	}
	refuse_all(bad, COUNT_OF(bad), XBLOOM_VLAN);
}

static void missing_and_surplus_fields_are_refused(void **state)
{
	(void)state;
	refuse("192.0.2.7", XBLOOM_SRC | XBLOOM_DPORT, "");
	refuse("192.0.2.7,", XBLOOM_SRC | XBLOOM_DPORT, "");
	refuse(",443", XBLOOM_SRC | XBLOOM_DPORT, "");
	refuse("443", XBLOOM_SRC | XBLOOM_DPORT, "");
	refuse("443,192.0.2.7", XBLOOM_SRC | XBLOOM_DPORT, "");
	refuse("192.0.2.7,443,", XBLOOM_SRC | XBLOOM_DPORT, "");
	refuse("192.0.2.7,443,tcp", XBLOOM_SRC | XBLOOM_DPORT, "");
	refuse("192.0.2.7,443", XBLOOM_SRC, "");
	refuse("192.0.2.7,", XBLOOM_SRC, "");
	refuse(",192.0.2.7", XBLOOM_SRC, "");
	refuse("192.0.2.7,198.51.100.1,40000,443", XBLOOM_FIELDS_5TUPLE, "");
	refuse("192.0.2.7,198.51.100.1,40000,443,tcp,1", XBLOOM_FIELDS_5TUPLE, "");
	refuse("192.0.2.7,198.51.100.1,40000,tcp,443", XBLOOM_FIELDS_5TUPLE, "");
	refuse("192.0.2.7,,40000,443,tcp", XBLOOM_FIELDS_5TUPLE, "");
	refuse(",,,,", XBLOOM_FIELDS_5TUPLE, "");
	refuse(",,,,,,,,,,,,", XBLOOM_FIELDS_5TUPLE, "");
}

static void bad_part_is_named_in_the_message(void **state)
{
	(void)state;
	refuse("192.0.2.700", XBLOOM_SRC, "192.0.2.700");
	refuse("192.0.2.7,70000", XBLOOM_SRC | XBLOOM_DPORT, "70000");
	refuse("192.0.2.7,tpc", XBLOOM_SRC | XBLOOM_PROTO, "tpc");
	refuse("4095", XBLOOM_VLAN, "4095");
	refuse("10.0.0.0/8", XBLOOM_SRC, "10.0.0.0/8");
}

/* A key ends where its length says, and a zero byte is no end. */
static void length_rules_and_not_a_zero_byte(void **state)
{
	struct xbloom_error err;
	struct xbloom_flow flow;

	(void)state;
	assert_int_equal(parse("192.0.2.77", 9, XBLOOM_SRC, &flow, &err), 0);
	assert_int_equal(flow.src.v4, inet_addr("192.0.2.7"));
	assert_int_equal(parse("192.0.2.7,443", 11, XBLOOM_SRC | XBLOOM_DPORT, &flow, &err), 0);
	assert_int_equal(flow.ports[1], htons(4));

	refuse_bytes("192.0.2.7\0", 10, XBLOOM_SRC, "");
	refuse_bytes("192.0.2\0.7", 10, XBLOOM_SRC, "");
	refuse_bytes("2001:db8::1\0", 12, XBLOOM_SRC, "");
	refuse_bytes("2001:db8::1\0junk", 16, XBLOOM_SRC, "");
	refuse_bytes("443\0", 4, XBLOOM_DPORT, "");
	refuse_bytes("tcp\0", 4, XBLOOM_PROTO, "");
	refuse_bytes("fe80::1\0%eth0", 13, XBLOOM_SRC, "");
	refuse_bytes("", 0, XBLOOM_SRC, "");
	refuse_bytes("\0", 1, XBLOOM_SRC, "");
}

/* Whatever a line holds, the message stays one line, of bounded length. */
static void garbage_is_refused_politely(void **state)
{
	static const uint32_t fields[] = { XBLOOM_SRC,	XBLOOM_DPORT,	      XBLOOM_PROTO,
					   XBLOOM_VLAN, XBLOOM_FIELDS_5TUPLE, XBLOOM_FIELDS_ALL };
	struct unit_random r = { .seed = 1 };
	struct xbloom_error err;
	struct xbloom_flow flow;
	size_t i, len = 1 << 20;
	char *big = malloc(len);
	unsigned int round;

	(void)state;
	assert_non_null(big);
	memset(big, '1', len);
	for (i = 0; i < COUNT_OF(fields); i++)
		refuse_bytes(big, len, fields[i], "");
	memset(big, ':', len);
	refuse_bytes(big, len, XBLOOM_SRC, "");
	memset(big, ',', len);
	refuse_bytes(big, len, XBLOOM_FIELDS_ALL, "");

	refuse("\033[2J\033]0;owned\007", XBLOOM_SRC, "");
	refuse("1.2.3.4\r\n\t\v\f\b\177", XBLOOM_SRC, "");
	refuse("%s%n%s%n", XBLOOM_SRC, "");

	/* Random bytes from what keys are made of: accepted or refused, never anything else. */
	for (round = 0; round < 200000; round++) {
		static const char alphabet[] = "0123456789abcdefABCDEF:.,/%:.,12 \ttcpudp\0-+xg";
		size_t n = unit_random_below(&r, 48);
		uint32_t set = fields[unit_random_below(&r, COUNT_OF(fields))];
		char buf[XBLOOM_KEY_TEXT];

		for (i = 0; i < n; i++)
			big[i] = alphabet[unit_random_below(&r, sizeof(alphabet))];
		if (parse(big, n, set, &flow, &err)) {
			unit_assert_one_line(&err);
		} else {
			xbloom_key_text(&flow, set, buf);
			assert_canonical(buf, buf, set);
		}
	}
	free(big);
}

/* ---- round trips ---- */

/* Any flow, through text and back, gives the same words; the text has one form. */
static void random_flows_come_back_from_their_text(void **state)
{
	struct unit_random r = { .seed = 2 };
	unsigned int round;

	(void)state;
	for (round = 0; round < 50000; round++) {
		uint32_t fields = 1 + (uint32_t)unit_random_below(&r, XBLOOM_FIELDS_ALL);
		__u64 before[XBLOOM_KEY_WORDS_MAX] = { 0 }, after[XBLOOM_KEY_WORDS_MAX] = { 0 };
		struct xbloom_flow f = { .family = XBLOOM_FAMILY_V4, .plen = 32 }, back;
		char buf[XBLOOM_KEY_TEXT], again[XBLOOM_KEY_TEXT];
		unsigned int n;

		if (unit_random_below(&r, 2)) {
			uint8_t *byte = (uint8_t *)&f.src, *other = (uint8_t *)&f.dst;

			f.family = XBLOOM_FAMILY_V6;
			f.plen = 128;
			/* Many zeros, for the short forms; the first byte keeps it unmapped. */
			for (n = 0; n < 16; n++) {
				byte[n] = unit_random_below(&r, 3) ? 0 : unit_random(&r) & 0xff;
				other[n] = unit_random_below(&r, 3) ? 0 : unit_random(&r) & 0xff;
			}
			byte[0] |= 0x20;
			other[0] |= 0x20;
		} else {
			f.src.v4 = (uint32_t)unit_random(&r);
			f.dst.v4 = (uint32_t)unit_random(&r);
		}
		f.ports[0] = (uint16_t)unit_random(&r);
		f.ports[1] = (uint16_t)unit_random(&r);
		f.proto = (uint8_t)unit_random(&r);
		f.vlan = (uint16_t)unit_random_below(&r, XBLOOM_VLAN_MAX);

		assert_ptr_equal(xbloom_key_text(&f, fields, buf), buf);
		assert_in_range(strlen(buf), 1, XBLOOM_KEY_TEXT - 1);
		back = good(buf, fields);
		n = xbloom_key_words(&f, fields, before);
		assert_int_equal(xbloom_key_words(&back, fields, after), n);
		assert_memory_equal(before, after, sizeof(before));
		assert_string_equal(xbloom_key_text(&back, fields, again), buf);
	}
}

static void canonical_text_is_the_documented_one(void **state)
{
	(void)state;
	assert_canonical("192.0.2.7,443", "192.0.2.7,443", XBLOOM_SRC | XBLOOM_DPORT);
	assert_canonical("192.0.2.7,198.51.100.1,40000,443,6",
			 "192.0.2.7,198.51.100.1,40000,443,tcp", XBLOOM_FIELDS_5TUPLE);
	assert_canonical("2001:DB8:0::1,2001:db8::2,0,65535,17,4094",
			 "2001:db8::1,2001:db8::2,0,65535,udp,4094", XBLOOM_FIELDS_ALL);
	assert_canonical("255,0", "255,0", XBLOOM_PROTO | XBLOOM_VLAN);
}

/* The longest key there is fits its buffer. */
static void longest_key_fits(void **state)
{
	static const char longest[] = "2001:1111:2222:3333:4444:5555:6666:7777,"
				      "2001:1111:2222:3333:4444:5555:6666:7777,"
				      "65535,65535,udplite,4094";

	(void)state;
	assert_canonical(longest, longest, XBLOOM_FIELDS_ALL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(field_sets_are_read),
		cmocka_unit_test(unknown_and_malformed_field_sets_are_refused),
		cmocka_unit_test(unknown_field_is_named_in_the_message),
		cmocka_unit_test(field_named_twice_is_refused),
		cmocka_unit_test(fields_out_of_order_are_refused),
		cmocka_unit_test(every_field_set_comes_back_from_its_text),
		cmocka_unit_test(ipv4_is_read_as_on_the_wire),
		cmocka_unit_test(ipv6_is_read_as_on_the_wire),
		cmocka_unit_test(five_tuple_is_read_field_by_field),
		cmocka_unit_test(ipv4_is_strictly_a_dotted_quad),
		cmocka_unit_test(zero_padded_octets_are_refused_as_ambiguous),
		cmocka_unit_test(ipv6_is_read_in_all_its_forms),
		cmocka_unit_test(malformed_ipv6_is_refused),
		cmocka_unit_test(ipv4_mapped_ipv6_is_ipv4),
		cmocka_unit_test(full_prefix_length_means_the_host),
		cmocka_unit_test(other_prefixes_are_refused),
		cmocka_unit_test(zones_are_refused),
		cmocka_unit_test(families_do_not_mix_in_a_key),
		cmocka_unit_test(ports_are_decimal_numbers_up_to_65535),
		cmocka_unit_test(protocols_go_by_name_or_number),
		cmocka_unit_test(vlans_are_numbers_up_to_4094),
		cmocka_unit_test(missing_and_surplus_fields_are_refused),
		cmocka_unit_test(bad_part_is_named_in_the_message),
		cmocka_unit_test(length_rules_and_not_a_zero_byte),
		cmocka_unit_test(garbage_is_refused_politely),
		cmocka_unit_test(random_flows_come_back_from_their_text),
		cmocka_unit_test(canonical_text_is_the_documented_one),
		cmocka_unit_test(longest_key_fits),
	};

	return cmocka_run_group_tests_name("keys as text", tests, NULL, NULL);
}
