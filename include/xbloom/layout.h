/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The filter itself: where the bits of a hash lie, and how they are tested and set.
 *
 * The memory is an array of 64-byte blocks, eight 64-bit words each. Two layouts share it:
 *
 *   split    One block per key, one bit in each of its eight words. One cache line is touched, and
 *            the test is branch-free.
 *   classic  The textbook filter: k bits anywhere in m, by double hashing. Bit p is bit p % 64 of
 *            word p / 64 % 8 of block p / 512; m need not fill the last block.
 *
 * Nothing here knows who calls it. BPF looks blocks up in a map, user space and the kernel index
 * them in memory; they share the positions, and so agree bit for bit.
 */
#ifndef XBLOOM_LAYOUT_H
#define XBLOOM_LAYOUT_H

#include "siphash.h"

#define XBLOOM_LAYOUT_SPLIT 0u
#define XBLOOM_LAYOUT_CLASSIC 1u

#define XBLOOM_BLOCK_WORDS 8u
#define XBLOOM_WORD_BITS 64u
#define XBLOOM_BLOCK_BITS 512u
#define XBLOOM_BLOCK_BYTES 64u

/* A split block is chosen by 32 bits of hash, and a BPF array counts its elements in 32 bits. */
#define XBLOOM_BLOCKS_MAX 0xffffffffULL
/* 512 MiB. Beyond it the two multiplications of xbloom_classic_bit() would overflow. */
#define XBLOOM_CLASSIC_BITS_MAX (1ULL << 32)
#define XBLOOM_SPLIT_K 8u
#define XBLOOM_CLASSIC_K_MAX 30u

struct xbloom_block {
	__u64 w[XBLOOM_BLOCK_WORDS];
} __attribute__((aligned(64)));

/* ---- split ---- */

/* floor(high 32 bits of h * blocks / 2^32): uniform over blocks, without a division. */
XBLOOM_INLINE __u64 xbloom_split_block(__u64 h, __u64 blocks)
{
	return ((h >> 32) * blocks) >> 32;
}

/*
 * The bit, 0..63, of word i: the top six bits of the low half of h times an odd constant. The
 * constants are the first 256 bits of the fraction of pi, made odd: nobody chose them.
 */
XBLOOM_INLINE __u32 xbloom_split_bit(__u64 h, unsigned int i)
{
	const __u32 multiplier[XBLOOM_BLOCK_WORDS] = {
		0x243f6a89u, 0x85a308d3u, 0x13198a2fu, 0x03707345u,
		0xa4093823u, 0x299f31d1u, 0x082efa99u, 0xec4e6c89u,
	};

	return ((__u32)h * multiplier[i]) >> 26;
}

/* 1 when all eight bits are set (maybe), 0 when any is not (absent). No branches. */
XBLOOM_INLINE __u32 xbloom_split_test(const struct xbloom_block *block, __u64 h)
{
	__u64 all = 1;
	unsigned int i;

#ifdef __clang__
#pragma clang loop unroll(full)
#endif
	for (i = 0; i < XBLOOM_BLOCK_WORDS; i++)
		all &= *(const volatile __u64 *)&block->w[i] >> xbloom_split_bit(h, i);
	return (__u32)all & 1;
}

/* ---- classic ---- */

/* 2^64 / golden ratio, odd: spreads what it multiplies, and no two powers of it are the same. */
#define XBLOOM_SPREAD 0x9e3779b97f4a7c15ULL

/*
 * The probes of a key: double hashing over the ring of 64-bit numbers, with a step that is itself
 * multiplied after each probe. Constant steps would do for common rates, but two keys whose starts
 * and steps nearly agree then share all their probes: 100 keys at a rate of 1e-6 were measured at
 * 5e-5. The ring has 64 bits and not 32, because scaling 32-bit numbers to m near 2^32 would give
 * some bits twice the weight of others. The first step comes from the low half of h, which has next
 * to no say in the first position, and is odd, so that it never comes to a stand.
 */
struct xbloom_probe {
	__u64 at;
	__u64 step;
};

XBLOOM_INLINE struct xbloom_probe xbloom_classic_first(__u64 h)
{
	return (struct xbloom_probe){
		.at = h,
		.step = (xbloom_rotl64(h, 32) * XBLOOM_SPREAD) | 1,
	};
}

XBLOOM_INLINE void xbloom_classic_next(struct xbloom_probe *p)
{
	p->at += p->step;
	p->step *= XBLOOM_SPREAD;
}

/* floor(x * bits / 2^64) for bits <= 2^32: the bit that a point x of the ring falls on. */
XBLOOM_INLINE __u64 xbloom_classic_bit(__u64 x, __u64 bits)
{
	return ((x >> 32) * bits + (((x & 0xffffffffULL) * bits) >> 32)) >> 32;
}

/* ---- both, for who has the blocks in memory ---- */

#ifndef __bpf__

/* The geometry of a filter: everything that its positions depend on besides the hash. */
struct xbloom_geometry {
	__u64 blocks; /* 1 .. XBLOOM_BLOCKS_MAX */
	__u64 bits;   /* classic: m, 1 .. min(2^32, 512 * blocks); split: 512 * blocks */
	__u32 layout;
	__u32 k; /* split: 8; classic: 1 .. XBLOOM_CLASSIC_K_MAX */
};

/* 1 maybe, 0 absent. */
XBLOOM_INLINE __u32 xbloom_test_hash(const struct xbloom_geometry *g,
				     const struct xbloom_block *blocks, __u64 h)
{
	struct xbloom_probe p;
	unsigned int i;

	if (g->layout == XBLOOM_LAYOUT_SPLIT)
		return xbloom_split_test(&blocks[xbloom_split_block(h, g->blocks)], h);

	p = xbloom_classic_first(h);
	for (i = 0; i < g->k; i++, xbloom_classic_next(&p)) {
		__u64 bit = xbloom_classic_bit(p.at, g->bits);
		const volatile __u64 *word;

		word = &blocks[bit / XBLOOM_BLOCK_BITS]
				.w[bit / XBLOOM_WORD_BITS % XBLOOM_BLOCK_WORDS];
		if (!(*word >> (bit % XBLOOM_WORD_BITS) & 1))
			return 0;
	}
	return 1;
}

/*
 * Set one bit; 1 when it was clear. The plain look first spares a locked write to a line that
 * has the bit already; the atomic OR loses no bit to another writer.
 */
XBLOOM_INLINE __u32 xbloom_set_bit(__u64 *word, __u32 bit)
{
	__u64 mask = 1ULL << bit;

	if (*(const volatile __u64 *)word & mask)
		return 0;
	return !(__atomic_fetch_or(word, mask, __ATOMIC_RELAXED) & mask);
}

/* Insert. 1 when at least one bit changed. */
XBLOOM_INLINE __u32 xbloom_set_hash(const struct xbloom_geometry *g, struct xbloom_block *blocks,
				    __u64 h)
{
	struct xbloom_probe p;
	__u32 changed = 0;
	unsigned int i;

	if (g->layout == XBLOOM_LAYOUT_SPLIT) {
		struct xbloom_block *b = &blocks[xbloom_split_block(h, g->blocks)];

		for (i = 0; i < XBLOOM_BLOCK_WORDS; i++)
			changed |= xbloom_set_bit(&b->w[i], xbloom_split_bit(h, i));
		return changed;
	}

	p = xbloom_classic_first(h);
	for (i = 0; i < g->k; i++, xbloom_classic_next(&p)) {
		__u64 bit = xbloom_classic_bit(p.at, g->bits);

		changed |= xbloom_set_bit(&blocks[bit / XBLOOM_BLOCK_BITS]
						   .w[bit / XBLOOM_WORD_BITS % XBLOOM_BLOCK_WORDS],
					  bit % XBLOOM_WORD_BITS);
	}
	return changed;
}

#endif /* !__bpf__ */

#endif /* XBLOOM_LAYOUT_H */
