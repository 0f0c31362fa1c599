/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames by name. A frame is written as the stack of its layers, outermost first,
 *
 *	FRAME(&f, ETH, VLAN(5), IP6, HOPOPTS, FRAGMENT(0, 1), UDP, DATA(16), PADDING(4));
 *
 * and each layer names itself in the one before it. The IP lengths are filled in when the packet
 * ends: at PADDING or at the first of the lies (VERSION, IHL, LENGTH, LONGER, CUT), which change a
 * finished frame. All frames carry the same flow, the constants below; whatever is not a header
 * field that the data path reads is filled with bytes that would be noticed if they were read.
 * Checksums are left alone: XDP runs before anyone looks at them.
 */
#ifndef XBLOOM_TESTS_FRAMES_H
#define XBLOOM_TESTS_FRAMES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "libxbloom.h"

/* The flow of every frame. As a key: 192.0.2.7,198.51.100.1,40000,53 or 2001:db8::7,... */
static const uint8_t frame_src4[4] = { 192, 0, 2, 7 };
static const uint8_t frame_dst4[4] = { 198, 51, 100, 1 };
static const uint8_t frame_src6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 7 };
static const uint8_t frame_dst6[16] = { 0x20, 0x01, 0x0d, 0xb8, 0, 1, [15] = 1 };
#define FRAME_SPORT 40000u
#define FRAME_DPORT 53u

#define FRAME_ROOM 10240u
#define FRAME_LAYERS 20u
#define FRAME_ETH_LEN 14u

/* Bytes nobody should read: of upper layers, and of the padding after a short packet. */
#define FRAME_FILL 0xee
#define FRAME_FILL_PADDING 0xa5

enum layer_kind {
	LAYER_END,
	LAYER_ETH,
	LAYER_TAG,
	LAYER_NOT_IP,
	LAYER_IP4,
	LAYER_IP6,
	LAYER_EXT,
	LAYER_FRAGMENT,
	LAYER_PORTS,
	LAYER_NO_PORTS,
	LAYER_NEXT,
	LAYER_DATA,
	LAYER_PADDING,
	/* Lies about a finished frame. */
	LAYER_VERSION,
	LAYER_IHL,
	LAYER_LENGTH,
	LAYER_LONGER,
	LAYER_CUT,
};

struct layer {
	enum layer_kind kind;
	uint32_t a, b, c;
};

/* clang-format off */
#define ETH			{ .kind = LAYER_ETH }
#define TAG(type, tci)		{ .kind = LAYER_TAG, .a = (type), .b = (tci) }
#define VLAN(id)		TAG(0x8100, id)
#define QINQ(id)		TAG(0x88a8, id)

/* What is not IP: an EtherType (or an 802.3 length) and that many bytes. */
#define NOT_IP(type, bytes)	{ .kind = LAYER_NOT_IP, .a = (type), .b = (bytes) }
#define ARP			NOT_IP(0x0806, 28)
#define LLDP			NOT_IP(0x88cc, 46)
#define LLC_802_3		NOT_IP(46, 46)

#define IP4			{ .kind = LAYER_IP4 }
#define IP4_OPTIONS(words)	{ .kind = LAYER_IP4, .a = (words) }
#define IP4_DF			{ .kind = LAYER_IP4, .b = 0x4000 }
#define IP4_FRAGMENT(off8, more) { .kind = LAYER_IP4, .b = (more) << 13 | (off8) }
#define IP6			{ .kind = LAYER_IP6, .a = 64 }
#define IP6_HOPS(limit)		{ .kind = LAYER_IP6, .a = (limit) }

/* An IPv6 extension header with the length byte `says` and `has` bytes. */
#define EXT(proto, says, has)	{ .kind = LAYER_EXT, .a = (proto), .b = (says), .c = (has) }
#define HOPOPTS			EXT(0, 0, 8)
#define ROUTING			EXT(43, 2, 24)
#define DSTOPTS			EXT(60, 1, 16)
#define MOBILITY		EXT(135, 0, 8)
#define AUTH			EXT(51, 4, 24) /* AH counts 4-byte units, less 2 */
#define FRAGMENT(off8, more)	{ .kind = LAYER_FRAGMENT, .a = (off8), .b = (more) }

/* Upper layers, with ports in their first four bytes and without. */
#define PORTS(proto, bytes)	{ .kind = LAYER_PORTS, .a = (proto), .b = (bytes) }
#define TCP			PORTS(6, 20)
#define UDP			PORTS(17, 8)
#define DCCP			PORTS(33, 16)
#define SCTP			PORTS(132, 12)
#define UDPLITE			PORTS(136, 8)
#define NO_PORTS(proto, type)	{ .kind = LAYER_NO_PORTS, .a = (proto), .b = (type), .c = 24 }
#define ICMP(type)		NO_PORTS(1, type)
#define ICMP6(type)		NO_PORTS(58, type)
#define GRE			NO_PORTS(47, 0x30)
#define ESP			NO_PORTS(50, 0xc0)

/* Name the next protocol without its header. */
#define NEXT(proto)		{ .kind = LAYER_NEXT, .a = (proto) }
#define NO_NEXT_HEADER		NEXT(59)

#define DATA(bytes)		{ .kind = LAYER_DATA, .a = (bytes) }
#define PADDING(bytes)		{ .kind = LAYER_PADDING, .a = (bytes) }

#define VERSION(n)		{ .kind = LAYER_VERSION, .a = (n) }
#define IHL(words)		{ .kind = LAYER_IHL, .a = (words) }
#define LENGTH(bytes)		{ .kind = LAYER_LENGTH, .a = (bytes) }
/* The IP packet says that it is that much longer than it is. */
#define LONGER(bytes)		{ .kind = LAYER_LONGER, .a = (bytes) }
/* The frame loses its last bytes. */
#define CUT(bytes)		{ .kind = LAYER_CUT, .a = (bytes) }
/* clang-format on */

struct frame {
	size_t len;
	size_t l3;     /* of the IP header; 0 without one */
	size_t l4;     /* of the upper layer; 0 without one */
	size_t ip_end; /* where the IP packet ends and padding begins; 0 until it is known */
	size_t next;   /* the field that names the next layer, and its width */
	size_t next_width;
	uint8_t b[FRAME_ROOM];
};

static inline void frame_put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static inline uint32_t frame_get16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

/* Append bytes; returns where they begin. */
static inline uint8_t *frame_append(struct frame *f, size_t bytes, uint8_t fill)
{
	uint8_t *at = f->b + f->len;

	assert(bytes <= FRAME_ROOM - f->len);
	memset(at, fill, bytes);
	f->len += bytes;
	return at;
}

static inline void frame_next_is(struct frame *f, uint32_t type)
{
	if (f->next_width == 2)
		frame_put16(f->b + f->next, type);
	else
		f->b[f->next] = (uint8_t)type;
}

static inline void frame_next_at(struct frame *f, const uint8_t *field, size_t width)
{
	f->next = (size_t)(field - f->b);
	f->next_width = width;
}

static inline void frame_eth(struct frame *f)
{
	static const uint8_t macs[12] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 };
	uint8_t *eth = frame_append(f, FRAME_ETH_LEN, 0);

	memcpy(eth, macs, sizeof(macs));
	frame_next_at(f, eth + 12, 2);
}

static inline void frame_tag(struct frame *f, uint32_t type, uint32_t tci)
{
	uint8_t *tag;

	frame_next_is(f, type);
	tag = frame_append(f, 4, 0);
	frame_put16(tag, tci);
	frame_next_at(f, tag + 2, 2);
}

static inline void frame_ip4(struct frame *f, uint32_t option_words, uint32_t fragment)
{
	uint8_t *ip;

	frame_next_is(f, 0x0800);
	f->l3 = f->len;
	ip = frame_append(f, 20, 0);
	ip[0] = (uint8_t)(0x45 + option_words);
	frame_put16(ip + 6, fragment);
	ip[8] = 64;
	memcpy(ip + 12, frame_src4, 4);
	memcpy(ip + 16, frame_dst4, 4);
	frame_append(f, (size_t)option_words * 4, 1); /* option 1: no operation */
	frame_next_at(f, ip + 9, 1);
}

static inline void frame_ip6(struct frame *f, uint32_t hop_limit)
{
	uint8_t *ip;

	frame_next_is(f, 0x86dd);
	f->l3 = f->len;
	ip = frame_append(f, 40, 0);
	ip[0] = 0x60;
	ip[7] = (uint8_t)hop_limit;
	memcpy(ip + 8, frame_src6, 16);
	memcpy(ip + 24, frame_dst6, 16);
	frame_next_at(f, ip + 6, 1);
}

static inline void frame_ext(struct frame *f, uint32_t proto, uint32_t says, size_t has)
{
	uint8_t *ext;

	frame_next_is(f, proto);
	ext = frame_append(f, has, FRAME_FILL);
	ext[1] = (uint8_t)says;
	frame_next_at(f, ext, 1);
}

static inline void frame_fragment(struct frame *f, uint32_t off8, uint32_t more)
{
	uint8_t *ext;

	frame_next_is(f, 44);
	ext = frame_append(f, 8, FRAME_FILL);
	ext[1] = 0;
	frame_put16(ext + 2, off8 << 3 | more);
	frame_next_at(f, ext, 1);
}

static inline void frame_upper(struct frame *f, uint32_t proto, size_t bytes)
{
	frame_next_is(f, proto);
	f->l4 = f->len;
	frame_append(f, bytes, FRAME_FILL);
}

static inline void frame_ports(struct frame *f, uint32_t sport, uint32_t dport)
{
	frame_put16(f->b + f->l4, sport);
	frame_put16(f->b + f->l4 + 2, dport);
}

/* The IP length field: the whole packet in IPv4, what follows the header in IPv6. */
static inline uint8_t *frame_length_field(struct frame *f)
{
	assert(f->l3);
	return f->b + f->l3 + (f->b[f->l3] >> 4 == 4 ? 2 : 4);
}

/* The packet ends here: say so in its header, once. */
static inline void frame_end_ip(struct frame *f)
{
	if (!f->l3 || f->ip_end)
		return;
	f->ip_end = f->len;
	frame_put16(frame_length_field(f),
		    (uint32_t)(f->len - f->l3 - (f->b[f->l3] >> 4 == 4 ? 0 : 40)));
}

static inline void frame_layer(struct frame *f, const struct layer *l)
{
	if (l->kind >= LAYER_PADDING)
		frame_end_ip(f);

	switch (l->kind) {
	case LAYER_END:
		break;
	case LAYER_ETH:
		frame_eth(f);
		break;
	case LAYER_TAG:
		frame_tag(f, l->a, l->b);
		break;
	case LAYER_NOT_IP:
		frame_next_is(f, l->a);
		frame_append(f, l->b, FRAME_FILL);
		break;
	case LAYER_IP4:
		frame_ip4(f, l->a, l->b);
		break;
	case LAYER_IP6:
		frame_ip6(f, l->a);
		break;
	case LAYER_EXT:
		frame_ext(f, l->a, l->b, l->c);
		break;
	case LAYER_FRAGMENT:
		frame_fragment(f, l->a, l->b);
		break;
	case LAYER_PORTS:
		frame_upper(f, l->a, l->b);
		frame_ports(f, FRAME_SPORT, FRAME_DPORT);
		break;
	case LAYER_NO_PORTS:
		frame_upper(f, l->a, l->c);
		f->b[f->l4] = (uint8_t)l->b;
		break;
	case LAYER_NEXT:
		frame_next_is(f, l->a);
		break;
	case LAYER_DATA:
		frame_append(f, l->a, FRAME_FILL);
		break;
	case LAYER_PADDING:
		frame_append(f, l->a, FRAME_FILL_PADDING);
		break;
	case LAYER_VERSION:
		f->b[f->l3] = (uint8_t)((f->b[f->l3] & 0x0f) | l->a << 4);
		break;
	case LAYER_IHL:
		f->b[f->l3] = (uint8_t)((f->b[f->l3] & 0xf0) | l->a);
		break;
	case LAYER_LENGTH:
		frame_put16(frame_length_field(f), l->a);
		break;
	case LAYER_LONGER:
		frame_put16(frame_length_field(f), frame_get16(frame_length_field(f)) + l->a);
		break;
	case LAYER_CUT:
		assert(f->len >= FRAME_ETH_LEN + l->a);
		f->len -= l->a;
		break;
	}
}

/* Build a frame from up to FRAME_LAYERS layers; a shorter array ends with LAYER_END. */
static inline void frame_build(struct frame *f, const struct layer *layers)
{
	unsigned int i;

	memset(f, 0, offsetof(struct frame, b));
	for (i = 0; i < FRAME_LAYERS && layers[i].kind != LAYER_END; i++)
		frame_layer(f, &layers[i]);
	frame_end_ip(f);
}

#define FRAME(f, ...) frame_build(f, (const struct layer[]){ __VA_ARGS__, { .kind = LAYER_END } })

/* A packet of exactly this flow; a protocol with ports. VLAN 0 is untagged. */
static inline void frame_of_flow(struct frame *f, const struct xbloom_flow *flow)
{
	uint8_t *addrs;
	size_t width;

	memset(f, 0, offsetof(struct frame, b));
	frame_eth(f);
	if (flow->vlan)
		frame_tag(f, 0x8100, flow->vlan);
	if (flow->family == XBLOOM_FAMILY_V4) {
		frame_ip4(f, 0, 0);
		addrs = f->b + f->l3 + 12;
		width = 4;
	} else {
		frame_ip6(f, 64);
		addrs = f->b + f->l3 + 8;
		width = 16;
	}
	frame_upper(f, flow->proto, 20);
	frame_end_ip(f);

	memcpy(addrs, &flow->src, width);
	memcpy(addrs + width, &flow->dst, width);
	memcpy(f->b + f->l4, flow->ports, sizeof(flow->ports));
}

#endif /* XBLOOM_TESTS_FRAMES_H */
