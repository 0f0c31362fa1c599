// SPDX-License-Identifier: GPL-2.0-only
/*
 * The prober: every packet that it is run on gets the next key of a sequence written into it, and
 * then goes to a filter program. Only ever run by BPF_PROG_TEST_RUN, over a frame that user space
 * made for the family and fields in question (user/probe.c); attached to nothing.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../include/xbloom/key.h"
#include "prober.h"

char LICENSE[] SEC("license") = "GPL";

/* The filter program that is asked. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} prober_target SEC(".maps");

/* Written by user space before each run. */
struct xbloom_draw draw;

/*
 * A bijection on numbers of `bits` bits. Adding, multiplying by an odd number and xoring with a
 * shift of oneself are bijections each; three rounds of the last two leave nothing of the order.
 */
static __always_inline __u64 xbloom_draw(const struct xbloom_draw *d, __u64 i)
{
	__u64 x = (i + d->salt) & d->mask;
	int r;

#pragma unroll
	for (r = 0; r < XBLOOM_DRAW_ROUNDS; r++) {
		x = (x * d->multiplier[r]) & d->mask;
		x ^= x >> (d->shift & (XBLOOM_DRAW_BITS_MAX - 1));
	}
	return x;
}

/* Where the bits of a key come from: first all of x, then more. */
struct bits {
	__u64 x;    /* as it was drawn */
	__u64 left; /* of the number at hand, lowest bits first */
	__u32 used; /* bits of it */
	__u32 more; /* numbers taken after x */
};

/* Fields come in such an order that none straddles two numbers; see xbloom_prober_bits(). */
static __always_inline __u64 take(struct bits *b, __u32 bits)
{
	__u64 got;

	if (b->used + bits > 64) {
		b->left = xbloom_draw_more(b->x, b->more++);
		b->used = 0;
	}
	got = b->left;
	b->left = bits < 64 ? b->left >> bits : 0;
	b->used += bits;
	return got;
}

static __always_inline void write_upper(struct bits *b, __u8 *proto, __be16 *ports)
{
	if (draw.fields & XBLOOM_SPORT)
		ports[0] = (__u16)take(b, 16);
	if (draw.fields & XBLOOM_DPORT)
		ports[1] = (__u16)take(b, 16);
	if (draw.fields & XBLOOM_PROTO)
		*proto = take(b, 1) & 1 ? IPPROTO_TCP : IPPROTO_UDP;
}

SEC("xdp.frags")
int prober(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *l3 = data + sizeof(struct ethhdr) + (draw.tagged ? 4 : 0);
	struct bits b = { .x = xbloom_draw(&draw, draw.next++) };
	__be16 *tci = data + sizeof(struct ethhdr);
	struct ipv6hdr *ip6 = l3;
	struct iphdr *ip4 = l3;

	/* XDP_ABORTED, and no count: user space made another frame than was agreed. */
	if (l3 + sizeof(*ip6) + sizeof(struct tcphdr) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	b.left = b.x;
	if (draw.family == XBLOOM_FAMILY_V4) {
		if (draw.fields & XBLOOM_SRC)
			ip4->saddr = (__u32)take(&b, 32);
		if (draw.fields & XBLOOM_DST)
			ip4->daddr = (__u32)take(&b, 32);
		write_upper(&b, &ip4->protocol, l3 + sizeof(*ip4));
	} else {
		__u64 *addr = (__u64 *)&ip6->saddr;

		if (draw.fields & XBLOOM_SRC) {
			addr[1] = take(&b, 64);
			addr[0] = take(&b, 64);
		}
		if (draw.fields & XBLOOM_DST) {
			addr[3] = take(&b, 64);
			addr[2] = take(&b, 64);
		}
		write_upper(&b, &ip6->nexthdr, l3 + sizeof(*ip6));
	}
	if (draw.fields & XBLOOM_VLAN && draw.tagged)
		*tci = bpf_htons(take(&b, 12) & XBLOOM_VLAN_MAX);
	bpf_tail_call(ctx, &prober_target, 0);
	return XDP_ABORTED;
}
