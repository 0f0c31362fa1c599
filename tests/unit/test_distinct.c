// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sample of distinct keys against a slow twin that remembers every key: what stays is exactly
 * what has a small enough hash, each key once and with its first answer, however often it came.
 */
#include "unit.h"

#include <math.h>

#include "distinct.h"

#define SEED 0x64697374696e6374ULL

/* Small enough to be filled many times over in a moment. */
#define SMALL 64u
#define STREAM 20000u

static struct xbloom_hash_key secret_of(uint64_t n)
{
	return (struct xbloom_hash_key){ SEED ^ n, ~n };
}

/* Key number n: of one to five words, of which the numbers of another differ in one at least. */
static unsigned int key_words(uint64_t n, __u64 words[XBLOOM_KEY_WORDS_MAX])
{
	unsigned int i, n_words = 1 + n % XBLOOM_KEY_WORDS_MAX;

	memset(words, 0, XBLOOM_KEY_WORDS_MAX * sizeof(*words));
	for (i = 0; i < n_words; i++)
		words[i] = n << i;
	return n_words;
}

static bool put(struct xbloom_distinct_set *s, uint64_t n, bool maybe)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX];
	unsigned int n_words = key_words(n, words);

	return xbloom_distinct_put(s, words, n_words, maybe);
}

static uint64_t hash_of(const struct xbloom_distinct_set *s, uint64_t n)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX];
	unsigned int n_words = key_words(n, words);

	return xbloom_words_hash(&s->secret, words, n_words);
}

/* The twin: all keys below `range` that came, with their first answer. */
struct twin {
	bool *came, *maybe;
	uint64_t range;
};

static void twin_open(struct twin *t, uint64_t range)
{
	*t = (struct twin){ calloc(range, sizeof(bool)), calloc(range, sizeof(bool)), range };
	assert_non_null(t->came);
	assert_non_null(t->maybe);
}

static void twin_close(struct twin *t)
{
	free(t->came);
	free(t->maybe);
}

static void twin_put(struct twin *t, uint64_t n, bool maybe)
{
	if (!t->came[n])
		t->maybe[n] = maybe;
	t->came[n] = true;
}

static const struct xbloom_distinct_key *find(const struct xbloom_distinct_set *s, uint64_t hash)
{
	const struct xbloom_distinct_key *found = NULL;
	size_t i;

	for (i = 0; i < s->n; i++) {
		if (s->v[i].hash != hash)
			continue;
		assert_null(found); /* each key once */
		found = &s->v[i];
	}
	return found;
}

/* The set holds the twin's keys up to its limit, and nothing else. */
static void assert_same(const struct xbloom_distinct_set *s, const struct twin *t)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX];
	size_t expected = 0;
	uint64_t n;

	for (n = 0; n < t->range; n++) {
		const struct xbloom_distinct_key *key;

		if (!t->came[n] || hash_of(s, n) > s->limit)
			continue;
		expected++;
		key = find(s, hash_of(s, n));
		assert_non_null(key);
		assert_int_equal(key->n_words, key_words(n, words));
		assert_memory_equal(key->words, words, sizeof(words));
		assert_int_equal(key->maybe, t->maybe[n]);
	}
	assert_int_equal(s->n, expected);
	assert_true(s->n <= s->capacity);
}

static void every_key_is_kept_once_while_there_is_room(void **state)
{
	const struct xbloom_hash_key secret = secret_of(1);
	struct xbloom_distinct_set s;
	struct twin t;
	uint64_t n;
	int round;

	(void)state;
	assert_int_equal(xbloom_distinct_init(&s, SMALL, &secret), 0);
	twin_open(&t, SMALL);
	for (round = 0; round < 3; round++) {
		for (n = 0; n < SMALL; n++) {
			/* The answer changes when it comes again: the first one stays. */
			bool maybe = (n + (uint64_t)round) % 3 == 0;

			assert_int_equal(put(&s, n, maybe), round == 0);
			twin_put(&t, n, maybe);
		}
		assert_int_equal(s.limit, UINT64_MAX);
		assert_same(&s, &t);
	}
	twin_close(&t);
	xbloom_distinct_free(&s);
}

/* Streams of few and many distinct keys, some often and some once, for sets of all small sizes. */
static void what_is_kept_is_what_has_a_small_hash(void **state)
{
	struct unit_random random = { .seed = SEED };
	size_t capacity;

	(void)state;
	for (capacity = 2; capacity <= 1024; capacity *= 2) {
		const struct xbloom_hash_key secret = secret_of(capacity);
		struct xbloom_distinct_set s;
		uint64_t i, last_limit;
		struct twin t;

		assert_int_equal(xbloom_distinct_init(&s, capacity, &secret), 0);
		twin_open(&t, STREAM);
		last_limit = s.limit;
		for (i = 0; i < STREAM; i++) {
			/* The square of a fraction: small numbers come much more often. */
			double x = (double)unit_random_below(&random, STREAM) / STREAM;
			uint64_t n = (uint64_t)(x * x * STREAM);
			bool maybe = unit_random_below(&random, 4) == 0;
			bool news = put(&s, n, maybe);

			assert_true(!news || (!t.came[n] && hash_of(&s, n) <= s.limit));
			twin_put(&t, n, maybe);
			assert_true(s.limit == last_limit || s.limit < last_limit);
			last_limit = s.limit;
		}
		assert_true(s.limit < UINT64_MAX);
		assert_same(&s, &t);
		twin_close(&t);
		xbloom_distinct_free(&s);
	}
}

static void key_that_comes_a_million_times_weighs_once(void **state)
{
	const struct xbloom_hash_key secret = secret_of(2);
	struct xbloom_distinct_set s;
	uint64_t i;

	(void)state;
	assert_int_equal(xbloom_distinct_init(&s, SMALL, &secret), 0);
	for (i = 0; i < 1000000; i++)
		assert_int_equal(put(&s, 7, true), i == 0);
	assert_int_equal(s.n, 1);
	xbloom_distinct_free(&s);
}

/*
 * The share of maybes among those kept estimates that among all, without bias, though maybes come
 * ten times as often: the mean over 400 secrets of samples of 512 to 1,024 keys has a standard
 * deviation of at most sqrt(0.1 * 0.9 / 512) / sqrt(400) = 0.00066; six of them are never seen. A
 * sample of packets would give a share of 0.53.
 */
static void share_among_the_kept_is_that_of_all(void **state)
{
	const uint64_t keys = 8192, sets = 400;
	struct xbloom_distinct_set s;
	double sum = 0;
	uint64_t set, n;
	size_t i;

	(void)state;
	for (set = 0; set < sets; set++) {
		const struct xbloom_hash_key secret = secret_of(1000 + set);
		size_t maybes = 0;

		assert_int_equal(xbloom_distinct_init(&s, 1024, &secret), 0);
		for (n = 0; n < keys; n++)
			for (i = 0; i < (n % 10 ? 1 : 10); i++)
				put(&s, n, n % 10 == 0);
		for (i = 0; i < s.n; i++)
			maybes += s.v[i].maybe;
		assert_in_range(s.n, 1, 1024);
		sum += (double)maybes / (double)s.n;
		xbloom_distinct_free(&s);
	}
	if (fabs(sum / (double)sets - 0.1) > 0.004)
		fail_msg("share %g among the kept, of all 0.1", sum / (double)sets);
}

static void cleared_set_is_as_new(void **state)
{
	const struct xbloom_hash_key secret = secret_of(3);
	struct xbloom_distinct_set s;
	struct twin t;
	uint64_t n;

	(void)state;
	assert_int_equal(xbloom_distinct_init(&s, SMALL, &secret), 0);
	for (n = 0; n < STREAM; n++)
		put(&s, n, true);
	assert_true(s.limit < UINT64_MAX);
	xbloom_distinct_clear(&s);
	assert_int_equal(s.n, 0);
	twin_open(&t, SMALL);
	for (n = 0; n < SMALL; n++) {
		assert_true(put(&s, n, false));
		twin_put(&t, n, false);
	}
	assert_same(&s, &t);
	twin_close(&t);
	xbloom_distinct_free(&s);
}

/* Two million keys through a set of the size that watch has: its memory is what it was. */
static void memory_stays_what_it_was(void **state)
{
	const struct xbloom_hash_key secret = secret_of(4);
	const struct xbloom_distinct_key *v;
	struct xbloom_distinct_set s;
	const uint32_t *index;
	uint64_t n;

	(void)state;
	assert_int_equal(xbloom_distinct_init(&s, XBLOOM_DISTINCT_KEYS, &secret), 0);
	v = s.v;
	index = s.index;
	for (n = 0; n < 2000000; n++)
		put(&s, n, false);
	assert_ptr_equal(s.v, v);
	assert_ptr_equal(s.index, index);
	/* Half are left after a halving; eight standard deviations of that are 1,024. */
	assert_in_range(s.n, XBLOOM_DISTINCT_KEYS / 2 - 1024, XBLOOM_DISTINCT_KEYS);
	xbloom_distinct_free(&s);
}

static void freeing_twice_is_harmless(void **state)
{
	const struct xbloom_hash_key secret = secret_of(5);
	struct xbloom_distinct_set s;

	(void)state;
	assert_int_equal(xbloom_distinct_init(&s, SMALL, &secret), 0);
	xbloom_distinct_free(&s);
	xbloom_distinct_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_kept_once_while_there_is_room),
		cmocka_unit_test(what_is_kept_is_what_has_a_small_hash),
		cmocka_unit_test(key_that_comes_a_million_times_weighs_once),
		cmocka_unit_test(share_among_the_kept_is_that_of_all),
		cmocka_unit_test(cleared_set_is_as_new),
		cmocka_unit_test(memory_stays_what_it_was),
		cmocka_unit_test(freeing_twice_is_harmless),
	};

	return cmocka_run_group_tests_name("distinct keys", tests, NULL, NULL);
}
