// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A sample of the distinct keys of a stream in fixed memory; see distinct.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "distinct.h"

/* Half the places are free at least: a look meets one and a half entries on average. */
#define INDEX_PER_KEY 2

int xbloom_distinct_init(struct xbloom_distinct_set *s, size_t capacity,
			 const struct xbloom_hash_key *secret)
{
	*s = (struct xbloom_distinct_set){
		.secret = *secret,
		.limit = UINT64_MAX,
		.capacity = capacity,
		.v = calloc(capacity, sizeof(*s->v)),
		.index = calloc(capacity * INDEX_PER_KEY, sizeof(*s->index)),
	};
	return s->v && s->index ? 0 : -ENOMEM;
}

void xbloom_distinct_free(struct xbloom_distinct_set *s)
{
	free(s->v);
	free(s->index);
	*s = (struct xbloom_distinct_set){ 0 };
}

static void clear_index(struct xbloom_distinct_set *s)
{
	memset(s->index, 0, s->capacity * INDEX_PER_KEY * sizeof(*s->index));
}

void xbloom_distinct_clear(struct xbloom_distinct_set *s)
{
	s->n = 0;
	s->limit = UINT64_MAX;
	clear_index(s);
}

/* Where the hash is in the index, or would be. The limit binds its high bits: these are the low. */
static uint32_t *place(const struct xbloom_distinct_set *s, uint64_t hash)
{
	size_t mask = s->capacity * INDEX_PER_KEY - 1, i = hash & mask;

	while (s->index[i] && s->v[s->index[i] - 1].hash != hash)
		i = (i + 1) & mask;
	return &s->index[i];
}

static void halve(struct xbloom_distinct_set *s)
{
	size_t i, kept = 0;

	s->limit /= 2;
	clear_index(s);
	for (i = 0; i < s->n; i++) {
		if (s->v[i].hash > s->limit)
			continue;
		s->v[kept] = s->v[i];
		*place(s, s->v[kept].hash) = (uint32_t)kept + 1;
		kept++;
	}
	s->n = kept;
}

bool xbloom_distinct_put(struct xbloom_distinct_set *s, const __u64 *words, unsigned int n_words,
			 bool maybe)
{
	uint64_t hash = xbloom_words_hash(&s->secret, words, n_words);
	struct xbloom_distinct_key *key;

	if (hash > s->limit || *place(s, hash))
		return false;
	/* Before the new one is in: it has to take its chance like the others. */
	while (s->n == s->capacity)
		halve(s);
	if (hash > s->limit)
		return false;
	key = &s->v[s->n];
	*key = (struct xbloom_distinct_key){ .hash = hash, .n_words = n_words, .maybe = maybe };
	memcpy(key->words, words, n_words * sizeof(*words));
	s->n++;
	*place(s, hash) = (uint32_t)s->n;
	return true;
}
