// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Keys as people write them: fields separated by commas, in the order src,dst,sport,dport,proto,
 * vlan, to a flow and back. Strict where a lenient reading could mean another address.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "internal.h"

struct piece {
	const char *s;
	size_t len;
};

/* How much of a bad piece a message repeats. */
#define SHOWN 60
#define SHOW(p) (int)((p).len < SHOWN ? (p).len : SHOWN), (p).s

static const struct {
	const char *name;
	uint32_t field;
} field_names[] = {
	{ "src", XBLOOM_SRC },	   { "dst", XBLOOM_DST },     { "sport", XBLOOM_SPORT },
	{ "dport", XBLOOM_DPORT }, { "proto", XBLOOM_PROTO }, { "vlan", XBLOOM_VLAN },
};
#define FIELDS (sizeof(field_names) / sizeof(field_names[0]))

/* The protocols that people name; others go by number. */
static const struct {
	const char *name;
	uint8_t number;
} proto_names[] = {
	{ "tcp", IPPROTO_TCP },		{ "udp", IPPROTO_UDP },	      { "icmp", IPPROTO_ICMP },
	{ "sctp", IPPROTO_SCTP },	{ "icmpv6", IPPROTO_ICMPV6 }, { "gre", IPPROTO_GRE },
	{ "esp", IPPROTO_ESP },		{ "ah", IPPROTO_AH },	      { "dccp", IPPROTO_DCCP },
	{ "udplite", IPPROTO_UDPLITE },
};
#define PROTOS (sizeof(proto_names) / sizeof(proto_names[0]))

static bool piece_is(struct piece p, const char *word)
{
	return strlen(word) == p.len && !memcmp(p.s, word, p.len);
}

/* The part before the next comma; *rest moves behind it, to NULL after the last. */
static struct piece next_piece(const char **rest, const char *end)
{
	const char *start = *rest;
	const char *comma = memchr(start, ',', (size_t)(end - start));
	const char *stop = comma ? comma : end;

	*rest = comma ? comma + 1 : NULL;
	return (struct piece){ start, (size_t)(stop - start) };
}

/* ---- sets of fields ---- */

int xbloom_fields_parse(const char *text, uint32_t *fields, struct xbloom_error *err)
{
	const char *rest = text, *end = text + strlen(text);
	uint32_t set = 0;

	while (rest) {
		struct piece p = next_piece(&rest, end);
		uint32_t field = 0;
		size_t i;

		if (piece_is(p, "5tuple"))
			field = XBLOOM_FIELDS_5TUPLE;
		for (i = 0; i < FIELDS; i++)
			if (piece_is(p, field_names[i].name))
				field = field_names[i].field;
		if (!field)
			return xbloom_fail(err, -EINVAL,
					   "unknown key field '%.*s': choose from src, dst, sport, "
					   "dport, proto, vlan, or 5tuple",
					   SHOW(p));
		if (set & field)
			return xbloom_fail(err, -EINVAL, "key field '%.*s' is named twice",
					   SHOW(p));
		/* Keys are read in one order; another one here would suggest another one there. */
		if (field < set)
			return xbloom_fail(
				err, -EINVAL,
				"key field '%.*s' comes too late: the order is src,dst,sport,"
				"dport,proto,vlan",
				SHOW(p));
		set |= field;
	}
	*fields = set;
	return 0;
}

const char *xbloom_fields_text(uint32_t fields, char buf[XBLOOM_FIELDS_TEXT])
{
	size_t i;

	buf[0] = '\0';
	if ((fields & XBLOOM_FIELDS_5TUPLE) == XBLOOM_FIELDS_5TUPLE) {
		strcat(buf, "5tuple");
		fields &= ~XBLOOM_FIELDS_5TUPLE;
	}
	for (i = 0; i < FIELDS; i++) {
		if (!(fields & field_names[i].field))
			continue;
		if (buf[0])
			strcat(buf, ",");
		strcat(buf, field_names[i].name);
	}
	return buf;
}

/* ---- one key ---- */

/* A decimal number up to max; sign, space and leading zeros are not part of one. */
static bool parse_number(struct piece p, unsigned int max, unsigned int *out)
{
	unsigned int n = 0;
	size_t i;

	if (!p.len || p.len > 5 || (p.len > 1 && p.s[0] == '0'))
		return false;
	for (i = 0; i < p.len; i++) {
		if (p.s[i] < '0' || p.s[i] > '9')
			return false;
		n = n * 10 + (unsigned int)(p.s[i] - '0');
	}
	*out = n;
	return n <= max;
}

static int not_an_address(struct piece p, struct xbloom_error *err)
{
	return xbloom_fail(err, -EINVAL, "'%.*s' is not an IPv4 or IPv6 address", SHOW(p));
}

static int parse_ipv4(struct piece p, uint32_t *raw, struct xbloom_error *err)
{
	unsigned char bytes[4];
	size_t i = 0, octet;

	for (octet = 0; octet < 4; octet++) {
		size_t start = i;
		unsigned int n = 0;

		while (i < p.len && i - start < 4 && p.s[i] >= '0' && p.s[i] <= '9')
			n = n * 10 + (unsigned int)(p.s[i++] - '0');
		if (i == start || n > 255 || i - start > 3)
			return not_an_address(p, err);
		if (i - start > 1 && p.s[start] == '0')
			return xbloom_fail(err, -EINVAL,
					   "'%.*s' is ambiguous: octet %.*s may be meant as octal; "
					   "write it without leading zeros",
					   SHOW(p), (int)(i - start), p.s + start);
		bytes[octet] = (unsigned char)n;
		if (octet < 3 && (i >= p.len || p.s[i++] != '.'))
			return not_an_address(p, err);
	}
	if (i != p.len)
		return not_an_address(p, err);
	memcpy(raw, bytes, sizeof(bytes));
	return 0;
}

static int parse_ipv6(struct piece p, struct in6_addr *out, struct xbloom_error *err)
{
	char text[INET6_ADDRSTRLEN];

	if (p.len >= sizeof(text) || memchr(p.s, '\0', p.len))
		return not_an_address(p, err);
	memcpy(text, p.s, p.len);
	text[p.len] = '\0';
	if (strchr(text, '%'))
		return xbloom_fail(err, -EINVAL,
				   "'%.*s': an address with a zone (%%eth0) means nothing on the "
				   "wire; leave the zone out",
				   SHOW(p));
	if (inet_pton(AF_INET6, text, out) != 1)
		return not_an_address(p, err);
	return 0;
}

/* One address; *family is its own, and must agree with a family that is already there. */
static int parse_address(struct piece p, uint8_t *family, void *addr, struct xbloom_error *err)
{
	const char *slash = memchr(p.s, '/', p.len);
	struct piece host = { p.s, slash ? (size_t)(slash - p.s) : p.len };
	struct in6_addr v6;
	uint32_t v4 = 0;
	uint8_t written, meant;
	int ret;

	if (!host.len)
		return not_an_address(p, err);
	if (memchr(host.s, ':', host.len)) {
		written = XBLOOM_FAMILY_V6;
		ret = parse_ipv6(host, &v6, err);
	} else {
		written = XBLOOM_FAMILY_V4;
		ret = parse_ipv4(host, &v4, err);
	}
	if (ret)
		return ret;

	meant = written;
	if (written == XBLOOM_FAMILY_V6 && IN6_IS_ADDR_V4MAPPED(&v6)) {
		meant = XBLOOM_FAMILY_V4;
		memcpy(&v4, &v6.s6_addr[12], sizeof(v4));
	}
	if (slash) {
		struct piece length = { slash + 1, (size_t)(p.s + p.len - slash - 1) };
		unsigned int bits, all = written == XBLOOM_FAMILY_V4 ? 32 : 128;

		if (!parse_number(length, all, &bits))
			return xbloom_fail(err, -EINVAL, "'%.*s': bad prefix length", SHOW(p));
		if (bits != all)
			return xbloom_fail(err, -EINVAL,
					   "'%.*s' is a prefix, and this filter takes single "
					   "addresses only",
					   SHOW(p));
	}
	if (*family && *family != meant)
		return xbloom_fail(err, -EINVAL,
				   "'%.*s' is not of the same family as the address before it",
				   SHOW(p));
	*family = meant;
	if (meant == XBLOOM_FAMILY_V4)
		memcpy(addr, &v4, sizeof(v4));
	else
		memcpy(addr, &v6, sizeof(v6));
	return 0;
}

static int parse_proto(struct piece p, uint8_t *proto, struct xbloom_error *err)
{
	unsigned int n;
	size_t i;

	for (i = 0; i < PROTOS; i++) {
		if (piece_is(p, proto_names[i].name)) {
			*proto = proto_names[i].number;
			return 0;
		}
	}
	if (!parse_number(p, 255, &n))
		return xbloom_fail(err, -EINVAL,
				   "'%.*s' is not a protocol: tcp, udp, sctp, icmp, icmpv6, ... or "
				   "a number up to 255",
				   SHOW(p));
	*proto = (uint8_t)n;
	return 0;
}

static int parse_port(struct piece p, uint16_t *raw, struct xbloom_error *err)
{
	unsigned int n;

	if (!parse_number(p, 65535, &n))
		return xbloom_fail(err, -EINVAL, "'%.*s' is not a port (0 to 65535)", SHOW(p));
	*raw = htons((uint16_t)n);
	return 0;
}

static int parse_vlan(struct piece p, uint16_t *vlan, struct xbloom_error *err)
{
	unsigned int n;

	if (!parse_number(p, XBLOOM_VLAN_MAX - 1, &n))
		return xbloom_fail(err, -EINVAL, "'%.*s' is not a VLAN id (0 to 4094)", SHOW(p));
	*vlan = (uint16_t)n;
	return 0;
}

static int parse_field(uint32_t field, struct piece p, struct xbloom_flow *flow,
		       struct xbloom_error *err)
{
	switch (field) {
	case XBLOOM_SRC:
		return parse_address(p, &flow->family, &flow->src, err);
	case XBLOOM_DST:
		return parse_address(p, &flow->family, &flow->dst, err);
	case XBLOOM_SPORT:
		return parse_port(p, &flow->ports[0], err);
	case XBLOOM_DPORT:
		return parse_port(p, &flow->ports[1], err);
	case XBLOOM_PROTO:
		return parse_proto(p, &flow->proto, err);
	default:
		return parse_vlan(p, &flow->vlan, err);
	}
}

int xbloom_key_parse(const char *text, size_t len, uint32_t fields, struct xbloom_flow *flow,
		     struct xbloom_error *err)
{
	const char *rest = text, *end = text + len;
	char names[XBLOOM_FIELDS_TEXT];
	struct piece whole = { text, len };
	size_t i;

	memset(flow, 0, sizeof(*flow));
	for (i = 0; i < FIELDS; i++) {
		int ret;

		if (!(fields & field_names[i].field))
			continue;
		if (!rest)
			return xbloom_fail(err, -EINVAL, "'%.*s' has no %s: a key here is %s",
					   SHOW(whole), field_names[i].name,
					   xbloom_fields_text(fields, names));
		ret = parse_field(field_names[i].field, next_piece(&rest, end), flow, err);
		if (ret)
			return ret;
	}
	if (rest)
		return xbloom_fail(err, -EINVAL, "'%.*s' has too many fields: a key here is %s",
				   SHOW(whole), xbloom_fields_text(fields, names));
	if (flow->family)
		flow->plen = flow->family == XBLOOM_FAMILY_V4 ? 32 : 128;
	return 0;
}

/* ---- back to text ---- */

static void field_text(uint32_t field, const struct xbloom_flow *flow, char *out, size_t room)
{
	int family = flow->family == XBLOOM_FAMILY_V4 ? AF_INET : AF_INET6;
	size_t i;

	switch (field) {
	case XBLOOM_SRC:
		inet_ntop(family, &flow->src, out, (socklen_t)room);
		return;
	case XBLOOM_DST:
		inet_ntop(family, &flow->dst, out, (socklen_t)room);
		return;
	case XBLOOM_SPORT:
		snprintf(out, room, "%u", ntohs(flow->ports[0]));
		return;
	case XBLOOM_DPORT:
		snprintf(out, room, "%u", ntohs(flow->ports[1]));
		return;
	case XBLOOM_PROTO:
		for (i = 0; i < PROTOS; i++) {
			if (proto_names[i].number == flow->proto) {
				snprintf(out, room, "%s", proto_names[i].name);
				return;
			}
		}
		snprintf(out, room, "%u", flow->proto);
		return;
	default:
		snprintf(out, room, "%u", flow->vlan);
	}
}

const char *xbloom_key_text(const struct xbloom_flow *flow, uint32_t fields,
			    char buf[XBLOOM_KEY_TEXT])
{
	size_t i, used = 0;

	buf[0] = '\0';
	for (i = 0; i < FIELDS; i++) {
		if (!(fields & field_names[i].field))
			continue;
		if (used)
			buf[used++] = ',';
		field_text(field_names[i].field, flow, buf + used, XBLOOM_KEY_TEXT - used);
		used += strlen(buf + used);
	}
	return buf;
}
