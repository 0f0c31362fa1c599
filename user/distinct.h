/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A sample of the distinct keys of a stream, in memory that is fixed from the start: 56 bytes a key
 * and 8 of index. `watch` has two, of the answers of an interval and of those since the bits last
 * changed.
 *
 * Every key has a hash under a secret of the set's own, and the set keeps those whose hash is at
 * most `limit`; when it is full, the limit is halved, and about half of them go. Whether a key stays
 * depends on that hash alone: not on how often it came, nor on what was answered. So those that
 * stay are a uniform sample of the distinct keys that came, and a share among them is an estimate
 * without bias of the share among all. (Wegman's adaptive sampling: Flajolet, "On Adaptive
 * Sampling", 1990.)
 */
#ifndef XBLOOM_DISTINCT_H
#define XBLOOM_DISTINCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../include/xbloom/key.h"

/*
 * Keys that are kept. At a rate of 1 % a full set has 655 false positives, which is 4 % exact (one
 * standard deviation); no fewer than half are kept once it was full.
 */
#define XBLOOM_DISTINCT_KEYS 65536u

struct xbloom_distinct_key {
	uint64_t hash; /* under the set's secret */
	__u64 words[XBLOOM_KEY_WORDS_MAX];
	uint32_t n_words;
	bool maybe; /* the answer, when it first came */
};

/* To be read; written by the functions below only. */
struct xbloom_distinct_set {
	struct xbloom_hash_key secret;
	uint64_t limit; /* the largest hash that is kept */
	size_t capacity;
	size_t n;
	struct xbloom_distinct_key *v; /* n of them, in no order */
	uint32_t *index;	       /* open addressing: 1 + place in v[]; 0: free */
};

/*
 * `capacity` is a power of two, 2 or more; the secret is copied. 0 or -ENOMEM; free with
 * xbloom_distinct_free(), also after a failure.
 */
int xbloom_distinct_init(struct xbloom_distinct_set *s, size_t capacity,
			 const struct xbloom_hash_key *secret);
void xbloom_distinct_free(struct xbloom_distinct_set *s);

/* Forget all keys. */
void xbloom_distinct_clear(struct xbloom_distinct_set *s);

/*
 * A key of 1 .. XBLOOM_KEY_WORDS_MAX words was answered. True: it is new, and kept. Its first answer
 * is the one that counts.
 */
bool xbloom_distinct_put(struct xbloom_distinct_set *s, const __u64 *words, unsigned int n_words,
			 bool maybe);

#endif /* XBLOOM_DISTINCT_H */
