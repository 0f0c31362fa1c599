// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A vector of key hashes. A filter learns nothing of a key but its 64-bit hash, so a list of
 * hashes is all that counting and filling need: eight bytes a key, and sorted it lets a fill walk
 * the blocks in the order of memory (the block of a split filter rises with the hash).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Where a bucket is small enough that comparing beats counting. */
#define INSERTION_SORT_MAX 48
#define FIRST_ROOM 4096

int xbloom_hashes_push(struct xbloom_hashes *h, uint64_t hash, struct xbloom_error *err)
{
	if (h->n == h->room) {
		size_t room = h->room ? h->room + h->room / 2 : FIRST_ROOM;
		uint64_t *v = reallocarray(h->v, room, sizeof(*v));

		if (!v)
			return xbloom_fail(err, -ENOMEM, "out of memory after %zu keys", h->n);
		h->v = v;
		h->room = room;
	}
	h->v[h->n++] = hash;
	return 0;
}

int xbloom_hashes_push_words(struct xbloom_hashes *h, const __u64 *words, struct xbloom_error *err)
{
	if (h->words_n == h->words_room) {
		size_t room = h->words_room ? h->words_room + h->words_room / 2 : FIRST_ROOM;
		__u64 *v = reallocarray(h->words, room, h->width * sizeof(*v));

		if (!v)
			return xbloom_fail(err, -ENOMEM, "out of memory after %zu keys",
					   h->words_n);
		h->words = v;
		h->words_room = room;
	}
	memcpy(h->words + h->words_n * h->width, words, h->width * sizeof(*words));
	h->words_n++;
	return 0;
}

int xbloom_hashes_push_flow(struct xbloom_hashes *h, const struct xbloom_hash_key *key,
			    const struct xbloom_flow *flow, uint32_t fields,
			    struct xbloom_error *err)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX] = { 0 };
	unsigned int n = xbloom_key_words(flow, fields, words);
	int ret = xbloom_hashes_push(h, xbloom_words_hash(key, words, n), err);

	return ret || !h->width ? ret : xbloom_hashes_push_words(h, words, err);
}

int xbloom_hashes_append_words(struct xbloom_hashes *to, const struct xbloom_hashes *from,
			       struct xbloom_error *err)
{
	size_t n = to->words_n + from->words_n;

	if (!from->words_n)
		return 0;
	if (n > to->words_room) {
		__u64 *v = reallocarray(to->words, n, to->width * sizeof(*v));

		if (!v)
			return xbloom_fail(err, -ENOMEM, "out of memory after %zu keys",
					   to->words_n);
		to->words = v;
		to->words_room = n;
	}
	memcpy(to->words + to->words_n * to->width, from->words,
	       from->words_n * from->width * sizeof(*from->words));
	to->words_n = n;
	return 0;
}

static void insertion_sort(uint64_t *v, size_t n)
{
	size_t i, j;

	for (i = 1; i < n; i++) {
		uint64_t x = v[i];

		for (j = i; j > 0 && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

void xbloom_radix_partition(uint64_t *v, size_t n, unsigned int shift,
			    size_t start[XBLOOM_DIGITS + 1])
{
	size_t next[XBLOOM_DIGITS];
	size_t count[XBLOOM_DIGITS] = { 0 };
	unsigned int d;
	size_t i;

	for (i = 0; i < n; i++)
		count[v[i] >> shift & (XBLOOM_DIGITS - 1)]++;
	start[0] = 0;
	for (d = 0; d < XBLOOM_DIGITS; d++) {
		next[d] = start[d];
		start[d + 1] = start[d] + count[d];
	}
	for (d = 0; d < XBLOOM_DIGITS; d++) {
		while (next[d] < start[d + 1]) {
			uint64_t x = v[next[d]];
			unsigned int home;

			while ((home = x >> shift & (XBLOOM_DIGITS - 1)) != d) {
				uint64_t other = v[next[home]];

				v[next[home]++] = x;
				x = other;
			}
			v[next[d]++] = x;
		}
	}
}

/*
 * Sort in place by the digit at `shift`, then each bucket by the next (American flag sort:
 * McIlroy, Bostic and McIlroy, "Engineering Radix Sort", 1993). Hashes are uniform, so the
 * recursion ends after log256(n) levels; eight is the most for equal ones.
 */
void xbloom_radix_sort(uint64_t *v, size_t n, unsigned int shift)
{
	size_t start[XBLOOM_DIGITS + 1];
	unsigned int d;

	if (n <= INSERTION_SORT_MAX) {
		insertion_sort(v, n);
		return;
	}
	xbloom_radix_partition(v, n, shift, start);
	for (d = 0; d < XBLOOM_DIGITS && shift; d++)
		xbloom_radix_sort(v + start[d], start[d + 1] - start[d], shift - XBLOOM_DIGIT_BITS);
}

size_t xbloom_drop_repeated(uint64_t *v, size_t n)
{
	size_t i, kept = 0;

	for (i = 0; i < n; i++)
		if (!i || v[i] != v[i - 1])
			v[kept++] = v[i];
	return kept;
}

uint64_t xbloom_hashes_distinct(struct xbloom_hashes *h)
{
	size_t kept;
	uint64_t dropped;

	if (!h->n)
		return 0;
	xbloom_radix_sort(h->v, h->n, XBLOOM_FIRST_SHIFT);
	kept = xbloom_drop_repeated(h->v, h->n);
	dropped = h->n - kept;
	h->n = kept;
	return dropped;
}

void xbloom_hashes_free(struct xbloom_hashes *h)
{
	free(h->v);
	free(h->words);
	*h = (struct xbloom_hashes){ 0 };
}
