/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SipHash over whole 64-bit words, keyed with 128 bits.
 *
 * This is SipHash-c-d as published (Aumasson and Bernstein, "SipHash: a fast short-input PRF",
 * 2012) for messages whose length is a multiple of eight bytes, so that every vector for such a
 * length applies. The filter uses c=1, d=3; the tests also run c=2, d=4 against the paper's own
 * vectors, with the same code. Pure C for three worlds: BPF, user space, kernel.
 */
#ifndef XBLOOM_SIPHASH_H
#define XBLOOM_SIPHASH_H

#include <linux/types.h>

#define XBLOOM_INLINE static inline __attribute__((always_inline, unused))

/* The rounds of the filter's own hash: SipHash-1-3. */
#define XBLOOM_SIP_C 1
#define XBLOOM_SIP_D 3

/* The secret: two words, read little-endian from the 16 key bytes. */
struct xbloom_hash_key {
	__u64 k0;
	__u64 k1;
};

struct xbloom_sip {
	__u64 v0, v1, v2, v3;
};

XBLOOM_INLINE __u64 xbloom_rotl64(__u64 x, unsigned int n)
{
	return (x << n) | (x >> (64 - n));
}

XBLOOM_INLINE void xbloom_sip_round(struct xbloom_sip *s)
{
	s->v0 += s->v1;
	s->v1 = xbloom_rotl64(s->v1, 13) ^ s->v0;
	s->v0 = xbloom_rotl64(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = xbloom_rotl64(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = xbloom_rotl64(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = xbloom_rotl64(s->v1, 17) ^ s->v2;
	s->v2 = xbloom_rotl64(s->v2, 32);
}

XBLOOM_INLINE void xbloom_sip_word(struct xbloom_sip *s, __u64 word, unsigned int c)
{
	unsigned int i;

	s->v3 ^= word;
	for (i = 0; i < c; i++)
		xbloom_sip_round(s);
	s->v0 ^= word;
}

/*
 * Hash n words (0 <= n <= max) with c compression and d finalisation rounds. `max`, `c` and `d`
 * are compile-time constants: the loops unroll and no index is left to bound at run time.
 */
XBLOOM_INLINE __u64 xbloom_siphash_cd(const struct xbloom_hash_key *key, const __u64 *words,
				      unsigned int n, unsigned int max, unsigned int c,
				      unsigned int d)
{
	struct xbloom_sip s = {
		.v0 = key->k0 ^ 0x736f6d6570736575ULL,
		.v1 = key->k1 ^ 0x646f72616e646f6dULL,
		.v2 = key->k0 ^ 0x6c7967656e657261ULL,
		.v3 = key->k1 ^ 0x7465646279746573ULL,
	};
	unsigned int i;

#ifdef __clang__
#pragma clang loop unroll(full)
#endif
	for (i = 0; i < max; i++)
		if (i < n)
			xbloom_sip_word(&s, words[i], c);

	/* The closing word carries the message length in bytes, modulo 256, in its top byte. */
	xbloom_sip_word(&s, (__u64)n << 59, c);

	s.v2 ^= 0xff;
	for (i = 0; i < d; i++)
		xbloom_sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

#endif /* XBLOOM_SIPHASH_H */
