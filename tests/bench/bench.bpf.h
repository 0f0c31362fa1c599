/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the benchmark's BPF programs and its user-space half agree on: which addresses are in the
 * set, which are not, and how a stream of them is drawn. An address is computed from its index,
 * so drawing one costs no memory access that the lookup under test would then be charged for.
 */
#ifndef BENCH_BPF_H
#define BENCH_BPF_H

#include <linux/types.h>

/* Indexes are numbers of 31 bits; the last bit of an address says whether it is in the set. */
#define BENCH_INDEX_BITS 31
#define BENCH_INDEXES (1U << BENCH_INDEX_BITS)
#define BENCH_INDEX_MASK (BENCH_INDEXES - 1)

#define BENCH_ABSENT 0u
#define BENCH_PRESENT 1u
#define BENCH_MODES 2u

/* Written before each run; one packet reads it and advances `state`. */
struct bench_generator {
	__u64 state;
	__u32 range; /* indexes are drawn from 0 .. range - 1, at most BENCH_INDEXES */
	__u32 mode;  /* BENCH_ABSENT or BENCH_PRESENT */
};

/* A host route, as an LPM trie wants its keys: the address in wire order. */
struct bench_lpm_key {
	__u32 prefix_len;
	__u32 addr;
};

/*
 * The address, as a number, of an index. Multiplying by an odd number and xoring with a shift of
 * oneself are both bijections on 31 bits, so distinct indexes have distinct addresses, spread over
 * the whole space; those in the set are odd and the others even, so the two never meet and no
 * prefix shorter than 32 tells them apart. (Fractions of the golden ratio and of sqrt(2).)
 */
static inline __u32 bench_address(__u32 index, __u32 mode)
{
	__u32 x = index;

	x = (x * 0x9e3779b9u) & BENCH_INDEX_MASK;
	x ^= x >> 15;
	x = (x * 0x6a09e667u) & BENCH_INDEX_MASK;
	x ^= x >> 16;
	return x << 1 | mode;
}

/* The next number of the stream: an LCG of period 2^64, of which the high half is used. */
static inline __u64 bench_next(__u64 state)
{
	return state * 0x5851f42d4c957f2dULL + 0x14057b7ef767814fULL;
}

#endif /* BENCH_BPF_H */
