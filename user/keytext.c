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

/* An address, or a prefix, as it is meant: ::ffff:192.0.2.1 is the IPv4 address 192.0.2.1. */
struct address {
	uint8_t family; /* XBLOOM_FAMILY_* */
	uint8_t plen;	/* of family */
	uint8_t bytes[XBLOOM_ADDRESS_BYTES];
};

static unsigned int host_bits(uint8_t family)
{
	return family == XBLOOM_FAMILY_V4 ? 32 : 128;
}

/* 255.255.255.0 to 24; a mask with holes is none. */
static bool parse_netmask(struct piece p, unsigned int *bits)
{
	uint32_t raw, mask;

	if (parse_ipv4(p, &raw, NULL))
		return false;
	mask = ntohl(raw);
	*bits = (unsigned int)__builtin_popcount(mask);
	return mask == (*bits ? ~0U << (32 - *bits) : 0);
}

static int parse_plen(struct piece whole, struct piece length, uint8_t written, unsigned int *bits,
		      struct xbloom_error *err)
{
	if (written == XBLOOM_FAMILY_V4 && memchr(length.s, '.', length.len)) {
		if (!parse_netmask(length, bits))
			return xbloom_fail(err, -EINVAL,
					   "'%.*s': '%.*s' is not a netmask: one bits, then zero "
					   "bits",
					   SHOW(whole), SHOW(length));
	} else if (!parse_number(length, host_bits(written), bits)) {
		return xbloom_fail(err, -EINVAL, "'%.*s': bad prefix length: 0 to %u", SHOW(whole),
				   host_bits(written));
	}
	return 0;
}

/* ADDRESS, ADDRESS/LENGTH or ADDRESS/NETMASK. */
static int parse_address(struct piece p, struct address *a, struct xbloom_error *err)
{
	const char *slash = memchr(p.s, '/', p.len);
	struct piece host = { p.s, slash ? (size_t)(slash - p.s) : p.len };
	unsigned int bits, mapped = 128 - 32;
	uint8_t written;
	struct in6_addr v6 = IN6ADDR_ANY_INIT;
	uint32_t v4 = 0;
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
	bits = host_bits(written);
	if (slash) {
		struct piece length = { slash + 1, (size_t)(p.s + p.len - slash - 1) };

		ret = parse_plen(p, length, written, &bits, err);
		if (ret)
			return ret;
	}
	a->family = written;
	if (written == XBLOOM_FAMILY_V6 && IN6_IS_ADDR_V4MAPPED(&v6) && bits >= mapped) {
		a->family = XBLOOM_FAMILY_V4;
		bits -= mapped;
		memcpy(&v4, &v6.s6_addr[12], sizeof(v4));
	}
	a->plen = (uint8_t)bits;
	memset(a->bytes, 0, sizeof(a->bytes));
	if (a->family == XBLOOM_FAMILY_V4)
		memcpy(a->bytes, &v4, sizeof(v4));
	else
		memcpy(a->bytes, &v6, sizeof(v6));
	return 0;
}

/* What a filter of single addresses, or a key of several fields, says to a prefix. */
#define NOT_A_HOST (-EDOM)

/* A host, of the same family as a host that is already there. */
static int parse_host(struct piece p, uint8_t *family, void *addr, struct xbloom_error *err)
{
	struct address a;
	int ret = parse_address(p, &a, err);

	if (ret)
		return ret;
	if (a.plen != host_bits(a.family))
		return NOT_A_HOST;
	if (*family && *family != a.family)
		return xbloom_fail(err, -EINVAL,
				   "'%.*s' is not of the same family as the address before it",
				   SHOW(p));
	*family = a.family;
	memcpy(addr, a.bytes, host_bits(a.family) / 8);
	return 0;
}

static bool named_proto(struct piece p, uint8_t *proto)
{
	size_t i;

	for (i = 0; i < PROTOS; i++) {
		if (piece_is(p, proto_names[i].name)) {
			*proto = proto_names[i].number;
			return true;
		}
	}
	return false;
}

static int parse_proto(struct piece p, uint8_t *proto, struct xbloom_error *err)
{
	unsigned int n;

	if (named_proto(p, proto))
		return 0;
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
		return parse_host(p, &flow->family, &flow->src, err);
	case XBLOOM_DST:
		return parse_host(p, &flow->family, &flow->dst, err);
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

/*
 * Of "tcp:443", as ipset writes the port of a key with one port: take the protocol away, into the
 * flow where it is keyed. Where it is not, the key stands for the port of every protocol. Only by
 * name: to many, 80:90 is a range of ports.
 */
static bool take_proto(uint32_t fields, struct piece *p, struct xbloom_flow *flow)
{
	const char *colon = memchr(p->s, ':', p->len);
	struct piece name = { p->s, colon ? (size_t)(colon - p->s) : 0 };
	uint8_t proto;

	if (!colon || (fields & XBLOOM_FIELDS_PORTS) == XBLOOM_FIELDS_PORTS ||
	    !named_proto(name, &proto))
		return false;
	if (fields & XBLOOM_PROTO)
		flow->proto = proto;
	p->len -= name.len + 1;
	p->s = colon + 1;
	return true;
}

static int parse_fields(struct piece whole, uint32_t fields, struct xbloom_flow *flow,
			struct xbloom_error *err)
{
	const char *rest = whole.s, *end = whole.s + whole.len;
	char names[XBLOOM_FIELDS_TEXT];
	bool has_proto = false;
	size_t i;

	memset(flow, 0, sizeof(*flow));
	for (i = 0; i < FIELDS; i++) {
		uint32_t field = field_names[i].field;
		struct piece p;
		int ret;

		if (!(fields & field) || (field == XBLOOM_PROTO && has_proto))
			continue;
		if (!rest)
			return xbloom_fail(err, -EINVAL, "'%.*s' has no %s: a key here is %s",
					   SHOW(whole), field_names[i].name,
					   xbloom_fields_text(fields, names));
		p = next_piece(&rest, end);
		if (field & XBLOOM_FIELDS_PORTS)
			has_proto = take_proto(fields, &p, flow);
		ret = parse_field(field, p, flow, err);
		if (ret)
			return ret;
	}
	if (rest)
		return xbloom_fail(err, -EINVAL, "'%.*s' has too many fields: a key here is %s",
				   SHOW(whole), xbloom_fields_text(fields, names));
	if (flow->family)
		flow->plen = (uint8_t)host_bits(flow->family);
	return 0;
}

int xbloom_key_parse(const char *text, size_t len, uint32_t fields, struct xbloom_flow *flow,
		     struct xbloom_error *err)
{
	struct piece whole = { text, len };
	int ret = parse_fields(whole, fields, flow, err);

	if (ret == NOT_A_HOST)
		return xbloom_fail(err, -EINVAL,
				   "'%.*s' is a prefix, and this filter takes single addresses "
				   "only",
				   SHOW(whole));
	return ret;
}

/* ---- one entry of a list: a key, a prefix or a range ---- */

static struct piece trim(struct piece p)
{
	while (p.len && (*p.s == ' ' || *p.s == '\t')) {
		p.s++;
		p.len--;
	}
	while (p.len && (p.s[p.len - 1] == ' ' || p.s[p.len - 1] == '\t'))
		p.len--;
	return p;
}

/* Clear the bits behind the prefix; whether any was set. */
static bool mask_address(struct address *a)
{
	unsigned int byte = a->plen / 8, kept = a->plen % 8, bytes = host_bits(a->family) / 8;
	bool masked = false;

	if (kept) {
		uint8_t mask = (uint8_t)(0xff << (8 - kept));

		masked = a->bytes[byte] & ~mask;
		a->bytes[byte++] &= mask;
	}
	for (; byte < bytes; byte++) {
		masked |= a->bytes[byte] != 0;
		a->bytes[byte] = 0;
	}
	return masked;
}

static int parse_range(struct piece whole, const char *dash, struct xbloom_span *span,
		       struct address *first, struct xbloom_error *err)
{
	struct piece from = trim((struct piece){ whole.s, (size_t)(dash - whole.s) });
	struct piece to =
		trim((struct piece){ dash + 1, (size_t)(whole.s + whole.len - dash - 1) });
	struct address last;
	int ret;

	/* A host name or a date, more likely. */
	if (!memchr(from.s, '.', from.len) && !memchr(from.s, ':', from.len))
		return not_an_address(whole, err);
	ret = parse_address(from, first, err);
	if (!ret)
		ret = parse_address(to, &last, err);
	if (ret)
		return ret;
	if (first->family != last.family)
		return xbloom_fail(err, -EINVAL, "'%.*s' runs from one family to the other",
				   SHOW(whole));
	if (first->plen != host_bits(first->family) || last.plen != host_bits(last.family))
		return xbloom_fail(err, -EINVAL,
				   "'%.*s' is a range of prefixes: write the first and the last "
				   "address",
				   SHOW(whole));
	if (memcmp(first->bytes, last.bytes, sizeof(last.bytes)) > 0)
		return xbloom_fail(err, -EINVAL, "'%.*s' runs backwards: %.*s comes before %.*s",
				   SHOW(whole), SHOW(to), SHOW(from));
	span->range = memcmp(first->bytes, last.bytes, sizeof(last.bytes)) != 0;
	memcpy(span->last, last.bytes, sizeof(span->last));
	return 0;
}

int xbloom_span_parse(const char *text, size_t len, uint32_t fields, struct xbloom_span *span,
		      struct xbloom_error *err)
{
	struct piece whole = { text, len };
	char names[XBLOOM_FIELDS_TEXT];
	struct address a;
	const char *dash;
	int ret;

	span->range = span->masked = false;
	if (fields != XBLOOM_SRC && fields != XBLOOM_DST) {
		ret = parse_fields(whole, fields, &span->flow, err);
		return ret != NOT_A_HOST
			       ? ret
			       : xbloom_fail(err, -EINVAL,
					     "'%.*s': a prefix goes only with the key src or dst "
					     "alone",
					     SHOW(whole));
	}
	if (memchr(text, ',', len))
		return xbloom_fail(err, -EINVAL, "'%.*s' has too many fields: a key here is %s",
				   SHOW(whole), xbloom_fields_text(fields, names));
	memset(&span->flow, 0, sizeof(span->flow));
	dash = memchr(text, '-', len);
	ret = dash ? parse_range(whole, dash, span, &a, err) : parse_address(whole, &a, err);
	if (ret)
		return ret;
	if (!dash)
		span->masked = mask_address(&a);
	memcpy(fields == XBLOOM_SRC ? (void *)&span->flow.src : (void *)&span->flow.dst, a.bytes,
	       host_bits(a.family) / 8);
	span->flow.family = a.family;
	span->flow.plen = a.plen;
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
