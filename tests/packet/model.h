/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The slow, obvious twin of bpf/parse.h, written from the RFCs: what must a filter with these key
 * fields make of this frame? It shares no code with the data path and reads byte by byte. It works
 * the other way round, too: first it takes the whole frame apart, asking nothing, then it looks at
 * what the key wants and how far the facts reach.
 *
 *   802.1Q, 802.1ad        tags
 *   RFC 791, 815           IPv4, fragments
 *   RFC 8200, 2675, 4302   IPv6, jumbograms, AH
 *   RFC 4861, 6980         neighbour discovery, and that fragments are none
 */
#ifndef XBLOOM_TESTS_MODEL_H
#define XBLOOM_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "libxbloom.h"

/* The model's answer when the flow holds every keyed field. Otherwise it is a reason. */
#define MODEL_KEYED XBLOOM_REASONS

/* How the search for the upper layer ended. */
enum model_upper {
	UPPER_FOUND,	      /* here it is */
	UPPER_IN_A_PIECE,     /* a later fragment: the protocol is named, the header elsewhere */
	UPPER_LOST_IN_PIECES, /* a later fragment of extension headers: not even that */
	UPPER_TOO_DEEP,	      /* more extension headers than anyone has a use for */
	UPPER_CUT,	      /* the chain leaves the packet */
};

/* All the facts of a frame, whether or not a key wants them. */
struct model_facts {
	enum { LINK_CUT, LINK_TAGS, LINK_OTHER, LINK_IP4, LINK_IP6 } link;
	bool ip_sane; /* header whole, version right, lengths that fit */
	struct xbloom_flow flow;
	enum model_upper upper;
	bool has_ports; /* both ports are inside the packet, or the protocol has none */
	bool is_nd;
};

static inline uint32_t model_u16(const uint8_t *p)
{
	return p[0] * 256u + p[1];
}

static inline bool model_protocol_has_ports(unsigned int protocol)
{
	/* TCP, UDP, DCCP, SCTP, UDP-Lite */
	return protocol == 6 || protocol == 17 || protocol == 33 || protocol == 132 ||
	       protocol == 136;
}

static inline bool model_is_extension(unsigned int protocol)
{
	/* hop-by-hop, routing, fragment, AH, destination options, mobility */
	return protocol == 0 || protocol == 43 || protocol == 44 || protocol == 51 ||
	       protocol == 60 || protocol == 135;
}

/* The upper layer stands at `at` of a packet of `len` bytes. */
static inline void model_ports(struct model_facts *facts, const uint8_t *packet, size_t len,
			       size_t at)
{
	if (!model_protocol_has_ports(facts->flow.proto)) {
		facts->has_ports = true;
		return;
	}
	if (len < at || len - at < 4)
		return;
	memcpy(facts->flow.ports, packet + at, 4);
	facts->has_ports = true;
}

static inline void model_ip4(struct model_facts *facts, const uint8_t *ip, size_t room)
{
	size_t header, total;

	if (room < 20 || ip[0] / 16 != 4)
		return;
	header = ip[0] % 16 * 4u;
	total = model_u16(ip + 2);
	if (total == 0)
		total = room; /* what the stack writes on over 64 KiB */
	if (header < 20 || header > total || total > room)
		return;

	facts->ip_sane = true;
	facts->flow.family = 4;
	facts->flow.plen = 32;
	facts->flow.proto = ip[9];
	memcpy(&facts->flow.src, ip + 12, 4);
	memcpy(&facts->flow.dst, ip + 16, 4);
	if (model_u16(ip + 6) % 0x2000 != 0) {
		facts->upper = UPPER_IN_A_PIECE;
		return;
	}
	facts->upper = UPPER_FOUND;
	model_ports(facts, ip, total, header);
}

/* RFC 8200, 4: where the chain that begins after the fixed header leads. */
static inline void model_chain(struct model_facts *facts, const uint8_t *ip, size_t len)
{
	unsigned int next = ip[6], headers = 0;
	bool fragment = false;
	size_t at = 40;

	for (;;) {
		const uint8_t *header = ip + at;
		unsigned int kind = next;
		size_t size;

		facts->flow.proto = (uint8_t)kind;
		if (!model_is_extension(kind))
			break;
		if (headers == XBLOOM_EXTHDRS_MAX) {
			facts->upper = UPPER_TOO_DEEP;
			return;
		}
		headers++;
		if (len - at < 8) {
			facts->upper = UPPER_CUT;
			return;
		}
		next = header[0];
		if (kind == 44) {
			fragment = true;
			size = 8;
			if (model_u16(header + 2) / 8 != 0) {
				facts->flow.proto = (uint8_t)next;
				facts->upper = model_is_extension(next) ? UPPER_LOST_IN_PIECES
									: UPPER_IN_A_PIECE;
				return;
			}
		} else if (kind == 51) {
			size = header[1] * 4u + 8;
		} else {
			size = header[1] * 8u + 8;
		}
		if (size > len - at) {
			facts->upper = UPPER_CUT;
			return;
		}
		at += size;
	}

	facts->upper = UPPER_FOUND;
	model_ports(facts, ip, len, at);
	if (next == 58 && !fragment && ip[7] == 255 && len > at)
		facts->is_nd = ip[at] >= 133 && ip[at] <= 137;
}

static inline void model_ip6(struct model_facts *facts, const uint8_t *ip, size_t room)
{
	size_t len;

	if (room < 40 || ip[0] / 16 != 6)
		return;
	len = 40 + model_u16(ip + 4);
	if (len == 40 && ip[6] == 0)
		len = room; /* RFC 2675: the length is in the hop-by-hop options */
	if (len > room)
		return;

	facts->ip_sane = true;
	facts->flow.family = 6;
	facts->flow.plen = 128;
	memcpy(&facts->flow.src, ip + 8, 16);
	memcpy(&facts->flow.dst, ip + 24, 16);
	model_chain(facts, ip, len);
}

static inline struct model_facts model_dissect(const uint8_t *frame, size_t len)
{
	struct model_facts facts;
	unsigned int tags = 0;
	size_t at = 12; /* of the EtherType */

	memset(&facts, 0, sizeof(facts));
	facts.link = LINK_CUT;
	for (;;) {
		if (len < at + 2)
			return facts;
		switch (model_u16(frame + at)) {
		case 0x8100:
		case 0x88a8:
			break;
		case 0x0800:
			facts.link = LINK_IP4;
			model_ip4(&facts, frame + at + 2, len - at - 2);
			return facts;
		case 0x86dd:
			facts.link = LINK_IP6;
			model_ip6(&facts, frame + at + 2, len - at - 2);
			return facts;
		default:
			facts.link = LINK_OTHER;
			return facts;
		}
		if (tags == XBLOOM_VLAN_TAGS_MAX) {
			facts.link = LINK_TAGS;
			return facts;
		}
		if (len < at + 6)
			return facts;
		if (tags++ == 0)
			facts.flow.vlan = model_u16(frame + at + 2) % 4096;
		at += 4;
	}
}

/*
 * The reason for which a filter with these fields gives the frame up, or MODEL_KEYED, and then
 * *flow holds its fields.
 */
static inline unsigned int model_reason(const uint8_t *frame, size_t len, uint32_t fields,
					struct xbloom_flow *flow)
{
	struct model_facts facts = model_dissect(frame, len);
	bool wants_ports = fields & (XBLOOM_SPORT | XBLOOM_DPORT);
	bool wants_proto = fields & XBLOOM_PROTO;

	*flow = facts.flow;
	if (facts.link == LINK_OTHER)
		return XBLOOM_NOT_IP;
	if (facts.link == LINK_TAGS)
		return XBLOOM_VLAN_TAGS;
	if (facts.link == LINK_CUT || !facts.ip_sane)
		return XBLOOM_MALFORMED;
	if (facts.is_nd)
		return XBLOOM_NDP;

	/* Addresses and VLAN are known by now, whatever follows. */
	if (!wants_ports && !wants_proto)
		return MODEL_KEYED;
	switch (facts.upper) {
	case UPPER_CUT:
		return XBLOOM_MALFORMED;
	case UPPER_TOO_DEEP:
		return XBLOOM_EXTHDR;
	case UPPER_LOST_IN_PIECES:
		return XBLOOM_FRAGMENT;
	case UPPER_IN_A_PIECE:
		return wants_ports ? XBLOOM_FRAGMENT : MODEL_KEYED;
	case UPPER_FOUND:
		break;
	}
	return !wants_ports || facts.has_ports ? MODEL_KEYED : XBLOOM_MALFORMED;
}

#endif /* XBLOOM_TESTS_MODEL_H */
