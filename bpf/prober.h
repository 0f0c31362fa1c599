/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the prober's BPF program and user space agree on: how key number i of a sequence is drawn.
 * Different numbers are different keys, which is what lets who asks for n of them say that n keys
 * were asked for.
 */
#ifndef XBLOOM_PROBER_H
#define XBLOOM_PROBER_H

#include <linux/types.h>

#define XBLOOM_DRAW_ROUNDS 3
#define XBLOOM_DRAW_BITS_MAX 64

struct xbloom_draw {
	__u64 next; /* the number of the next key; each packet takes one */
	__u64 salt;
	__u64 multiplier[XBLOOM_DRAW_ROUNDS]; /* odd */
	__u64 mask;			      /* 2^bits - 1 */
	__u32 shift;			      /* half of bits, at least 1 */
	__u32 fields;
	__u32 family;
	__u32 tagged; /* the frame has a VLAN tag */
};

/*
 * What the fields of a key get that x, of 64 bits, leaves empty: number n of more such numbers
 * (splitmix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
 */
static inline __attribute__((always_inline, unused)) __u64 xbloom_draw_more(__u64 x, unsigned int n)
{
	x += (n + 1) * 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

#endif /* XBLOOM_PROBER_H */
