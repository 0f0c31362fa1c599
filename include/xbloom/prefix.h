/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Prefixes of addresses, in three forms, each made for who asks:
 *
 *   nets4    IPv4 prefixes of up to /24: one bit for each /24, exact. Whatever their lengths, a
 *            packet costs one look into 2 MiB.
 *   plens6   IPv6 prefixes: keys of their own in the filter, (length, masked address), for which a
 *            packet is asked under each length that the filter has.
 *   exempt   an address and a mask, to compare with.
 *
 * "Raw" means as the bytes stand in memory and on the wire.
 *
 * Why not one line for all lengths, a block that a short prefix chooses and into which all keys under
 * it go? Because addresses are not spread evenly, and such a block is as full as its prefix is popular.
 * Take 100,000 keys in 10,000 /32s, of which number r holds a share as 1/r: the first has 10,200 of
 * them, and 60 % of all keys are in blocks that hold more than the 51 which they are made for at 10 bits
 * a key. With 100 a block of 512 bits is wrong at 16 %, with 300 at 93 %. To choose the block by that and
 * by something longer, is to look at several lines, which is what is done here: at most three more, none
 * of which waits for another, in blocks that are evenly full, at a rate that can be predicted whatever
 * the list is. And for IPv4 no filter is as good as 2 MiB of exact bits: at 1 % the same memory holds
 * 1,660,000 keys, and one /8 alone is 65,536 /24s.
 */
#ifndef XBLOOM_PREFIX_H
#define XBLOOM_PREFIX_H

#include "key.h"
#include "layout.h"

#define XBLOOM_PLEN4_HOST 32u
#define XBLOOM_PLEN6_HOST 128u

/* The first n bits, 0 to 64, of eight raw bytes. At 12: ff f0 00 00 00 00 00 00. */
XBLOOM_INLINE __u64 xbloom_raw_mask(unsigned int n)
{
	return XBLOOM_BIG64(n ? ~0ULL << (64 - n) : 0);
}

/* The same of an address of 16 bytes, 0 to 128. */
XBLOOM_INLINE void xbloom_raw_mask128(unsigned int n, __u64 mask[2])
{
	mask[0] = xbloom_raw_mask(n < 64 ? n : 64);
	mask[1] = xbloom_raw_mask(n < 64 ? 0 : n - 64);
}

/* ---- nets4 ---- */

#define XBLOOM_NETS4_PLEN 24u
#define XBLOOM_NETS4_BLOCKS ((1u << XBLOOM_NETS4_PLEN) / XBLOOM_BLOCK_BITS)

/* The number of the /24 that a raw address is in. 192.0.2.7: 0xc00002. */
XBLOOM_INLINE __u32 xbloom_net4(__u32 v4)
{
	return XBLOOM_BIG32(v4) >> (XBLOOM_PLEN4_HOST - XBLOOM_NETS4_PLEN);
}

/* Whether the bit of /24 number n is set in its block, number n / 512. */
XBLOOM_INLINE __u32 xbloom_net4_test(const struct xbloom_block *block, __u32 n)
{
	__u64 word = block->w[n / XBLOOM_WORD_BITS % XBLOOM_BLOCK_WORDS];

	return word >> (n % XBLOOM_WORD_BITS) & 1;
}

/* ---- plens6 ---- */

/* Lengths that a packet is asked for at most, a host's 128 included. */
#define XBLOOM_PLENS6_MAX 4u

struct xbloom_plen6 {
	__u64 mask[2]; /* raw */
	__u32 plen;
	__u32 reserved;
};

/* The prefix of this length that the keyed address of an IPv6 flow is in, as a key. */
XBLOOM_INLINE void xbloom_flow_to_prefix6(struct xbloom_flow *f, __u32 fields,
					  const struct xbloom_plen6 *p)
{
	__u64 *addr = fields & XBLOOM_SRC ? f->src.v6 : f->dst.v6;

	addr[0] &= p->mask[0];
	addr[1] &= p->mask[1];
	f->plen = (__u8)p->plen;
}

/* What that took away, for who needs the flow as it was. */
struct xbloom_addr6 {
	__u64 addr[2];
};

XBLOOM_INLINE struct xbloom_addr6 xbloom_flow_addr6(const struct xbloom_flow *f, __u32 fields)
{
	const __u64 *addr = fields & XBLOOM_SRC ? f->src.v6 : f->dst.v6;

	return (struct xbloom_addr6){ { addr[0], addr[1] } };
}

XBLOOM_INLINE void xbloom_flow_restore6(struct xbloom_flow *f, __u32 fields,
					const struct xbloom_addr6 *whole)
{
	__u64 *addr = fields & XBLOOM_SRC ? f->src.v6 : f->dst.v6;

	addr[0] = whole->addr[0];
	addr[1] = whole->addr[1];
	f->plen = XBLOOM_PLEN6_HOST;
}

/* ---- exempt ---- */

/* IPv4 stands as ::ffff:a.b.c.d, so that one kind of look does for both families. */
struct xbloom_exempt {
	__u64 addr[2];
	__u64 mask[2];
};

/* The second half of ::ffff:a.b.c.d, raw. */
XBLOOM_INLINE __u64 xbloom_v4_mapped(__u32 v4)
{
	return XBLOOM_BIG64(0xffffULL << 32 | XBLOOM_BIG32(v4));
}

/* Whether a raw address is one of ::ffff:0:0/96. */
XBLOOM_INLINE __u32 xbloom_is_v4_mapped(const __u64 addr[2])
{
	return !addr[0] && XBLOOM_BIG64(addr[1]) >> 32 == 0xffff;
}

/* The address of a flow that exemptions are about: the keyed one, and of two the source. */
XBLOOM_INLINE void xbloom_exempt_addr(const struct xbloom_flow *f, __u32 fields, __u64 addr[2])
{
	int dst = (fields & XBLOOM_FIELDS_ADDR) == XBLOOM_DST;

	if (f->family == XBLOOM_FAMILY_V4) {
		addr[0] = 0;
		addr[1] = xbloom_v4_mapped(dst ? f->dst.v4 : f->src.v4);
	} else {
		addr[0] = dst ? f->dst.v6[0] : f->src.v6[0];
		addr[1] = dst ? f->dst.v6[1] : f->src.v6[1];
		/* One that writes so is not that IPv4 host: it becomes nobody's address. */
		if (xbloom_is_v4_mapped(addr))
			addr[0] = ~0ULL;
	}
}

XBLOOM_INLINE __u32 xbloom_exempt_match(const struct xbloom_exempt *e, const __u64 addr[2])
{
	return !(((addr[0] ^ e->addr[0]) & e->mask[0]) | ((addr[1] ^ e->addr[1]) & e->mask[1]));
}

#endif /* XBLOOM_PREFIX_H */
