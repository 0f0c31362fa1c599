/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From a frame to a flow: Ethernet, up to four VLAN tags, IPv4 with options, IPv6 with extension
 * headers, ports. Reads no further than the key needs, and treats a frame as the stack would: a
 * packet that says it is longer than its frame is malformed, padding is not payload.
 *
 * xbloom_parse() is called by the filter program and by the benchmark's programs. `fields` is a
 * constant wherever it is called, and the branches it rules out are gone from the loaded program.
 */
#ifndef XBLOOM_BPF_PARSE_H
#define XBLOOM_BPF_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../include/xbloom/maps.h"

/* The flow holds the key's fields. Otherwise xbloom_parse() returns an enum xbloom_reason. */
#define XBLOOM_KEYED (-1)

#define IP_FRAGMENT_OFFSET 0x1fff
#define IPV6_FRAGMENT_OFFSET 0xfff8
#define IPV6_HOP_LIMIT_ND 255 /* RFC 4861: what crossed a router is not neighbour discovery */
#define ICMPV6_ND_FIRST 133   /* router solicitation */
#define ICMPV6_ND_LAST 137    /* redirect */
#define IPPROTO_MOBILITY 135
/*
 * An upper-layer header starts within 32 KiB (Ethernet, tags, IPv6 and eight extension headers of
 * 2 KiB at most are half of that); the mask is how the verifier is told.
 */
#define XBLOOM_L4_MASK 0x7fff
/* Room for an Ethernet frame of 1500 bytes with four VLAN tags. */
#define XBLOOM_ONE_BUFFER 1536

struct xbloom_vlan_tag {
	__be16 tci;
	__be16 proto;
};

struct xbloom_ipv6_ext {
	__u8 next;
	__u8 len;
	__be16 frag; /* fragment header only: offset and flags */
	__be32 rest;
};

/* Where in the frame the parser stands. Offsets count from the frame's first byte. */
struct xbloom_cursor {
	void *data;
	void *data_end;
	__u64 frame_len; /* of the whole frame, or see xbloom_first_buffer_len() */
	__u32 l3;
	__u32 l4;
	__u32 end; /* where the IP packet says that it ends; at most frame_len */
};

static __always_inline __u64 xbloom_whole_frame_len(struct xdp_md *ctx)
{
	return bpf_xdp_get_buff_len(ctx);
}

/*
 * To ask for the length of a whole frame is a call, a tenth of the price of a packet. So a first
 * buffer of up to XBLOOM_ONE_BUFFER is taken for the frame until the packet says that it is longer;
 * drivers fill 2 KiB or more before they begin another. Where one does not, a frame whose packet
 * ends in so small a first buffer is counted without the padding in its other buffers, and nothing
 * else changes.
 */
static __always_inline __u64 xbloom_first_buffer_len(struct xdp_md *ctx)
{
	__u64 len = ctx->data_end - ctx->data;

	return len > XBLOOM_ONE_BUFFER ? xbloom_whole_frame_len(ctx) : len;
}

static __always_inline int xbloom_is_vlan(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

static __always_inline int xbloom_has_ports(__u8 proto)
{
	switch (proto) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
	case IPPROTO_UDPLITE:
		return 1;
	default:
		return 0;
	}
}

/*
 * Ports of the protocols that have them: the first four bytes of the header, source port first.
 * Other protocols (ICMP, GRE, ESP, ...) are keyed with both ports zero.
 */
static __always_inline int xbloom_parse_ports(struct xbloom_cursor *c, struct xbloom_flow *f)
{
	__u32 l4 = c->l4;
	__u16 *ports;

	if (!xbloom_has_ports(f->proto))
		return XBLOOM_KEYED;
	if (l4 + 4 > c->end)
		return XBLOOM_MALFORMED;
	ports = c->data + (l4 & XBLOOM_L4_MASK);
	if ((void *)(ports + 2) > c->data_end)
		return XBLOOM_MALFORMED;
	f->ports[0] = ports[0];
	f->ports[1] = ports[1];
	return XBLOOM_KEYED;
}

static __always_inline int xbloom_parse_ipv4(struct xdp_md *ctx, struct xbloom_cursor *c,
					     struct xbloom_flow *f, __u32 fields)
{
	struct iphdr *ip = c->data + c->l3;
	__u32 header_len, total_len;

	if ((void *)(ip + 1) > c->data_end)
		return XBLOOM_MALFORMED;
	if (ip->version != 4)
		return XBLOOM_MALFORMED;
	total_len = bpf_ntohs(ip->tot_len);
	if (!total_len || c->l3 + total_len > c->frame_len)
		c->frame_len = xbloom_whole_frame_len(ctx);
	header_len = ip->ihl * 4;
	if (header_len < sizeof(*ip) || c->l3 + header_len > c->frame_len)
		return XBLOOM_MALFORMED;

	/* The stack itself writes length 0 on a packet of over 64 KiB (BIG TCP): not checked. */
	c->end = c->frame_len;
	if (total_len) {
		if (total_len < header_len || c->l3 + total_len > c->frame_len)
			return XBLOOM_MALFORMED;
		c->end = c->l3 + total_len;
	}

	f->family = XBLOOM_FAMILY_V4;
	f->plen = 32;
	f->proto = ip->protocol;
	f->src.v4 = ip->saddr;
	f->dst.v4 = ip->daddr;

	if (!(fields & XBLOOM_FIELDS_PORTS))
		return XBLOOM_KEYED;
	if (ip->frag_off & bpf_htons(IP_FRAGMENT_OFFSET))
		return XBLOOM_FRAGMENT;
	c->l4 = c->l3 + header_len;
	return xbloom_parse_ports(c, f);
}

/*
 * The IPv6 extension headers, and how each counts its length. All have 8 bytes, and so many more
 * for each unit of their length byte: 8, in AH 4, and 0 in a fragment header, where that byte is
 * reserved. A table and not a switch, because the verifier follows every branch in every order in
 * which headers can come: by a switch the walk cost it 470,000 instructions of its million, by
 * the table 20,000.
 */
#define XBLOOM_IS_EXTHDR 0x80
#define XBLOOM_EXTHDR_UNIT 0x0f
static const __u8 xbloom_exthdrs[256] = {
	[IPPROTO_HOPOPTS] = XBLOOM_IS_EXTHDR | 8,  [IPPROTO_ROUTING] = XBLOOM_IS_EXTHDR | 8,
	[IPPROTO_DSTOPTS] = XBLOOM_IS_EXTHDR | 8,  [IPPROTO_MOBILITY] = XBLOOM_IS_EXTHDR | 8,
	[IPPROTO_FRAGMENT] = XBLOOM_IS_EXTHDR | 0, [IPPROTO_AH] = XBLOOM_IS_EXTHDR | 4,
};

/*
 * Walk the extension headers to the upper-layer protocol. Returns XBLOOM_KEYED with c->l4 and
 * f->proto at that protocol, or the reason why it was not reached; f->proto is then the last
 * next-header value read.
 */
static __always_inline int xbloom_walk_exthdrs(struct xbloom_cursor *c, struct xbloom_flow *f,
					       int *fragmented)
{
	__u32 l4 = c->l4;
	unsigned int i;

	for (i = 0; i <= XBLOOM_EXTHDRS_MAX; i++) {
		__u8 kind = xbloom_exthdrs[f->proto];
		struct xbloom_ipv6_ext *ext;

		if (!kind) {
			c->l4 = l4;
			return XBLOOM_KEYED;
		}
		if (i == XBLOOM_EXTHDRS_MAX)
			break;
		ext = c->data + (l4 & XBLOOM_L4_MASK);
		if ((void *)(ext + 1) > c->data_end || l4 + sizeof(*ext) > c->end)
			return XBLOOM_MALFORMED;
		if (f->proto == IPPROTO_FRAGMENT) {
			*fragmented = 1;
			if (ext->frag & bpf_htons(IPV6_FRAGMENT_OFFSET)) {
				f->proto = ext->next;
				return XBLOOM_FRAGMENT;
			}
		}
		f->proto = ext->next;
		l4 += sizeof(*ext) + ext->len * (kind & XBLOOM_EXTHDR_UNIT);
		if (l4 > c->end)
			return XBLOOM_MALFORMED;
	}
	return XBLOOM_EXTHDR;
}

static __always_inline int xbloom_is_ndp(const struct xbloom_cursor *c, __u8 hop_limit)
{
	__u8 *type = c->data + (c->l4 & XBLOOM_L4_MASK);

	if (hop_limit != IPV6_HOP_LIMIT_ND || c->l4 >= c->end || (void *)(type + 1) > c->data_end)
		return 0;
	return *type >= ICMPV6_ND_FIRST && *type <= ICMPV6_ND_LAST;
}

static __always_inline int xbloom_parse_ipv6(struct xdp_md *ctx, struct xbloom_cursor *c,
					     struct xbloom_flow *f, __u32 fields)
{
	struct ipv6hdr *ip = c->data + c->l3;
	int walked, fragmented = 0;
	__u32 payload_len;
	__u64 *addr;

	if ((void *)(ip + 1) > c->data_end)
		return XBLOOM_MALFORMED;
	if (ip->version != 6)
		return XBLOOM_MALFORMED;

	/* Payload length 0 before hop-by-hop options is a jumbogram's: not checked. */
	payload_len = bpf_ntohs(ip->payload_len);
	if (!payload_len || c->l3 + sizeof(*ip) + payload_len > c->frame_len)
		c->frame_len = xbloom_whole_frame_len(ctx);
	c->end = c->frame_len;
	if (payload_len || ip->nexthdr != IPPROTO_HOPOPTS) {
		if (c->l3 + sizeof(*ip) + payload_len > c->frame_len)
			return XBLOOM_MALFORMED;
		c->end = c->l3 + sizeof(*ip) + payload_len;
	}

	f->family = XBLOOM_FAMILY_V6;
	f->plen = 128;
	f->proto = ip->nexthdr;
	addr = (__u64 *)&ip->saddr;
	f->src.v6[0] = addr[0];
	f->src.v6[1] = addr[1];
	f->dst.v6[0] = addr[2];
	f->dst.v6[1] = addr[3];

	/*
	 * The walk is also made for a key of addresses alone, to find neighbour discovery; how it
	 * ends is then nobody's business, or a listed source could hide behind a bad header.
	 */
	c->l4 = c->l3 + sizeof(*ip);
	walked = xbloom_walk_exthdrs(c, f, &fragmented);
	if (walked == XBLOOM_KEYED && f->proto == IPPROTO_ICMPV6 && !fragmented &&
	    xbloom_is_ndp(c, ip->hop_limit))
		return XBLOOM_NDP;

	if (!(fields & (XBLOOM_FIELDS_PORTS | XBLOOM_PROTO)))
		return XBLOOM_KEYED;
	if (walked == XBLOOM_FRAGMENT && !(fields & XBLOOM_FIELDS_PORTS) &&
	    !xbloom_exthdrs[f->proto])
		return XBLOOM_KEYED; /* the fragment header names the protocol */
	if (walked != XBLOOM_KEYED)
		return walked;
	if (!(fields & XBLOOM_FIELDS_PORTS))
		return XBLOOM_KEYED;
	return xbloom_parse_ports(c, f);
}

static __always_inline int xbloom_parse_frame(struct xdp_md *ctx, struct xbloom_cursor *c,
					      struct xbloom_flow *f, __u32 fields)
{
	struct ethhdr *eth = c->data;
	__be16 proto;
	int i;

	if ((void *)(eth + 1) > c->data_end)
		return XBLOOM_MALFORMED;
	proto = eth->h_proto;

#pragma unroll
	for (i = 0; i < (int)XBLOOM_VLAN_TAGS_MAX; i++) {
		struct xbloom_vlan_tag *tag = c->data + c->l3;

		if (!xbloom_is_vlan(proto))
			break;
		if ((void *)(tag + 1) > c->data_end)
			return XBLOOM_MALFORMED;
		if (i == 0)
			f->vlan = bpf_ntohs(tag->tci) & XBLOOM_VLAN_MAX;
		proto = tag->proto;
		c->l3 += sizeof(*tag);
	}

	switch (proto) {
	case bpf_htons(ETH_P_IP):
		return xbloom_parse_ipv4(ctx, c, f, fields);
	case bpf_htons(ETH_P_IPV6):
		return xbloom_parse_ipv6(ctx, c, f, fields);
	case bpf_htons(ETH_P_8021Q):
	case bpf_htons(ETH_P_8021AD):
		return XBLOOM_VLAN_TAGS;
	default:
		return XBLOOM_NOT_IP;
	}
}

/*
 * Fill the keyed fields of *f from the frame of ctx; *frame_len gets the length of the frame.
 * Returns XBLOOM_KEYED, or the reason why there is no key: XBLOOM_NOT_IP, XBLOOM_NDP, or one of
 * the unkeyed ones.
 */
static __always_inline int xbloom_parse(struct xdp_md *ctx, __u32 fields, struct xbloom_flow *f,
					__u64 *frame_len)
{
	struct xbloom_cursor c = {
		.data = (void *)(long)ctx->data,
		.data_end = (void *)(long)ctx->data_end,
		.frame_len = xbloom_first_buffer_len(ctx),
		.l3 = sizeof(struct ethhdr),
	};
	int reason = xbloom_parse_frame(ctx, &c, f, fields);

	if (reason != XBLOOM_KEYED)
		c.frame_len = xbloom_whole_frame_len(ctx);
	*frame_len = c.frame_len;
	return reason;
}

#endif /* XBLOOM_BPF_PARSE_H */
