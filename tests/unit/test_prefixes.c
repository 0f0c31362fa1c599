// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prefixes, before a filter has them: merging keeps the set of addresses and nothing else, by a slow
 * twin that has every address of a small universe; the lengths that are chosen for IPv6 come to as few
 * keys as any choice does, by trying all of them; what is expanded is what was counted, and covers the
 * same addresses; and what is too much is refused in one line that says what to do.
 */
#include <math.h>

#include "unit.h"

#include "internal.h"

#define ROUNDS 400

/* ---- prefixes by hand ---- */

static void push(struct xbloom_prefixes *p, const char *text)
{
	struct xbloom_error err = { "" };
	struct xbloom_span span;

	if (xbloom_span_parse(text, strlen(text), XBLOOM_SRC, &span, &err))
		fail_msg("%s: %s", text, err.text);
	if (xbloom_prefixes_push(p, &span.flow, XBLOOM_SRC, &err))
		fail_msg("%s", err.text);
}

static void push_all(struct xbloom_prefixes *p, const char *const *texts, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		push(p, texts[i]);
}

static void assert_are(const struct xbloom_prefixes *p, const char *const *texts, size_t n)
{
	struct xbloom_prefixes expected = { 0 };
	size_t i;

	push_all(&expected, texts, n);
	assert_int_equal(p->n, n);
	for (i = 0; i < n; i++) {
		assert_int_equal(p->v[i].family, expected.v[i].family);
		assert_int_equal(p->v[i].plen, expected.v[i].plen);
		assert_true(p->v[i].addr[0] == expected.v[i].addr[0]);
		assert_true(p->v[i].addr[1] == expected.v[i].addr[1]);
	}
	xbloom_prefixes_free(&expected);
}

#define ASSERT_MERGES(p, gone, ...)                                                                \
	do {                                                                                       \
		static const char *const left[] = { __VA_ARGS__ };                                 \
		assert_int_equal(xbloom_prefixes_merge(p), gone);                                  \
		assert_are(p, left, COUNT_OF(left));                                               \
		xbloom_prefixes_free(p);                                                           \
	} while (0)

#define PUSH(p, ...)                                                                               \
	do {                                                                                       \
		static const char *const texts[] = { __VA_ARGS__ };                                \
		push_all(p, texts, COUNT_OF(texts));                                               \
	} while (0)

/* ---- merging ---- */

static void halves_become_one_again_and_again(void **state)
{
	struct xbloom_prefixes p = { 0 };

	(void)state;
	PUSH(&p, "192.0.2.0/25", "192.0.2.128/25");
	ASSERT_MERGES(&p, 1, "192.0.2.0/24");
	PUSH(&p, "198.18.0.0/18", "198.18.64.0/18", "198.18.192.0/18", "198.18.128.0/19",
	     "198.18.160.0/19");
	ASSERT_MERGES(&p, 4, "198.18.0.0/16");
	/* Neighbours, but not halves of one prefix. */
	PUSH(&p, "198.51.101.0/24", "198.51.102.0/24");
	ASSERT_MERGES(&p, 0, "198.51.101.0/24", "198.51.102.0/24");
	/* Across the border between the two words of an address. */
	PUSH(&p, "2001:db8::8000:0:0:0/65", "2001:db8::/65", "2001:db8:0:1::/64");
	ASSERT_MERGES(&p, 2, "2001:db8::/63");
	PUSH(&p, "0.0.0.0/1", "128.0.0.0/1");
	ASSERT_MERGES(&p, 1, "0.0.0.0/0");
}

static void what_is_covered_goes(void **state)
{
	struct xbloom_prefixes p = { 0 };

	(void)state;
	PUSH(&p, "198.18.0.0/15", "198.19.7.0/24", "198.18.0.0/15", "192.0.2.4/31");
	ASSERT_MERGES(&p, 2, "192.0.2.4/31", "198.18.0.0/15");
	/* The families never meet, though the bits are the same. */
	PUSH(&p, "2001:db8::/32", "32.1.13.184/31", "2001:db8:1::/48");
	ASSERT_MERGES(&p, 1, "32.1.13.184/31", "2001:db8::/32");
	assert_int_equal(xbloom_prefixes_merge(&p), 0);
}

/*
 * The twin: a bit for each of 4,096 addresses, spread over the whole of an address of either family.
 * Prefixes of those bits alone are prefixes of the universe.
 */
#define UNIVERSE_BITS 12
#define UNIVERSE (1u << UNIVERSE_BITS)

struct twin {
	uint8_t family;
	unsigned int base; /* the length of what all have in common */
	bool listed[UNIVERSE];
};

static void twin_push(struct twin *t, struct xbloom_prefixes *p, unsigned int first,
		      unsigned int bits)
{
	struct xbloom_prefix one = { .family = t->family, .plen = (uint8_t)(t->base + bits) };
	struct xbloom_error err = { "" };
	struct xbloom_flow flow;
	unsigned int i, n = UNIVERSE >> bits, at = 64 - UNIVERSE_BITS;

	/* Bits base .. base + 11 of the address, which may straddle its words. */
	first &= ~(n - 1);
	if (t->base <= at) {
		one.addr[0] = (uint64_t)first << (at - t->base);
	} else if (t->base < 64) {
		one.addr[0] = (uint64_t)first >> (t->base - at);
		one.addr[1] = (uint64_t)first << (64 - (t->base - at));
	} else {
		one.addr[1] = (uint64_t)first << (at + 64 - t->base);
	}
	xbloom_prefix_flow(&one, XBLOOM_DST, &flow);
	if (xbloom_prefixes_push(p, &flow, XBLOOM_DST, &err))
		fail_msg("%s", err.text);
	for (i = 0; i < n; i++)
		t->listed[first + i] = true;
}

static unsigned int universe_of(const struct twin *t, const struct xbloom_prefix *p)
{
	unsigned int at = 64 - UNIVERSE_BITS;

	if (t->base <= at)
		return p->addr[0] >> (at - t->base) & (UNIVERSE - 1);
	if (t->base < 64)
		return (p->addr[0] << (t->base - at) | p->addr[1] >> (64 - (t->base - at))) &
		       (UNIVERSE - 1);
	return p->addr[1] >> (at + 64 - t->base) & (UNIVERSE - 1);
}

static bool is_whole(const struct twin *t, unsigned int first, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!t->listed[first + i])
			return false;
	return true;
}

/* The fewest prefixes of [first, first + n): one when all is listed, or those of its halves. */
static unsigned int fewest(const struct twin *t, unsigned int first, unsigned int n)
{
	if (is_whole(t, first, n))
		return 1;
	return n == 1 ? 0 : fewest(t, first, n / 2) + fewest(t, first + n / 2, n / 2);
}

static void merging_keeps_the_set_with_the_fewest(void **state)
{
	static const struct {
		uint8_t family;
		unsigned int base;
	} places[] = { { 4, 0 }, { 4, 13 }, { 4, 20 }, { 6, 0 }, { 6, 52 }, { 6, 57 }, { 6, 116 } };
	struct unit_random random = { .seed = 0x70726566 };
	unsigned int round, i;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		struct twin t = { .family = places[round % COUNT_OF(places)].family,
				  .base = places[round % COUNT_OF(places)].base };
		bool covered[UNIVERSE] = { false };
		struct xbloom_prefixes p = { 0 };
		unsigned int n = (unsigned int)unit_random_below(&random, 60);
		size_t at;

		for (i = 0; i < n; i++)
			twin_push(&t, &p, (unsigned int)unit_random_below(&random, UNIVERSE),
				  1 + (unsigned int)unit_random_below(&random, UNIVERSE_BITS));
		assert_int_equal(xbloom_prefixes_merge(&p) + p.n, n);
		assert_int_equal(p.n, fewest(&t, 0, UNIVERSE));
		for (at = 0; at < p.n; at++) {
			unsigned int first = universe_of(&t, &p.v[at]);
			unsigned int many = UNIVERSE >> (p.v[at].plen - t.base);

			for (i = first; i < first + many; i++) {
				assert_false(covered[i]);
				covered[i] = true;
			}
		}
		assert_memory_equal(covered, t.listed, sizeof(covered));
		/* And each address is found, or not, by the search that the truth makes. */
		for (i = 0; i < UNIVERSE; i++) {
			struct xbloom_prefixes address = { 0 };
			struct twin scratch = { .family = t.family, .base = t.base };

			twin_push(&scratch, &address, i, UNIVERSE_BITS);
			assert_int_equal(xbloom_prefixes_cover(&p, &address.v[0]), t.listed[i]);
			xbloom_prefixes_free(&address);
		}
		xbloom_prefixes_free(&p);
	}
}

/* ---- lengths ---- */

static void push_v6(struct xbloom_prefixes *p, unsigned int plen, struct unit_random *random)
{
	struct xbloom_error err = { "" };
	struct xbloom_flow flow = { .family = XBLOOM_FAMILY_V6, .plen = (uint8_t)plen };

	flow.src.v6[0] = unit_random(random);
	flow.src.v6[1] = unit_random(random);
	if (xbloom_prefixes_push(p, &flow, XBLOOM_SRC, &err))
		fail_msg("%s", err.text);
}

/* The keys that prefixes come to under these lengths, which include 128. */
static double keys_under(const struct xbloom_prefixes *p, const unsigned int *plens, unsigned int n)
{
	double keys = 0;
	size_t at;

	for (at = 0; at < p->n; at++) {
		unsigned int i, to = 128;

		for (i = 0; i < n; i++)
			if (plens[i] >= p->v[at].plen && plens[i] < to)
				to = plens[i];
		keys += ldexp(1, (int)(to - p->v[at].plen));
	}
	return keys;
}

struct brute {
	const struct xbloom_prefixes *p;
	double best[XBLOOM_PLENS6_MAX +
		    1]; /* with so many lengths, 128 and the given ones among them */
};

/* Every set of up to four lengths of 8 .. 128, whether the list has them or not. */
static void try_all(struct brute *b, unsigned int *plens, unsigned int n, unsigned int from)
{
	double keys = keys_under(b->p, plens, n);
	unsigned int plen;

	if (keys < b->best[n])
		b->best[n] = keys;
	for (plen = from; n < XBLOOM_PLENS6_MAX && plen < 128; plen++) {
		plens[n] = plen;
		try_all(b, plens, n + 1, plen + 1);
	}
}

static void lengths_are_as_good_as_any(void **state)
{
	struct unit_random random = { .seed = 0x6c656e67 };
	unsigned int round;

	(void)state;
	for (round = 0; round < 12; round++) {
		unsigned int given[XBLOOM_PLENS6_MAX] = { 128 }, n_given = 1, i, n;
		unsigned int low = 24 + (unsigned int)unit_random_below(&random, 60);
		unsigned int kinds = 1 + (unsigned int)unit_random_below(&random, 6);
		struct brute b = { .best = { INFINITY, INFINITY, INFINITY, INFINITY, INFINITY } };
		struct xbloom_prefix_plan plan;
		struct xbloom_prefixes p = { 0 };
		struct xbloom_error err = { "" };
		double least = INFINITY;

		for (i = 0; i < kinds; i++) {
			unsigned int plen = low + (unsigned int)unit_random_below(&random, 20);

			for (n = (unsigned int)unit_random_below(&random, 9); n--;)
				push_v6(&p, plen, &random);
		}
		/* Some lengths are there before the list comes. */
		for (i = round % 3; i--;)
			given[n_given++] =
				20 + (unsigned int)unit_random_below(&random, 50) + 50 * i;
		b.p = &p;
		try_all(&b, given, n_given, low);
		if (xbloom_prefixes_plan(&p, given, n_given, UINT64_MAX, &plan, &err))
			fail_msg("%s", err.text);
		assert_int_equal(plan.keys6, keys_under(&p, plan.plens6, plan.n_plens6));
		assert_true((double)plan.keys6 == b.best[plan.n_plens6]);
		/* So many lengths, that no other number of them is worth more: see KEYS_FREE. */
		for (n = n_given; n <= XBLOOM_PLENS6_MAX; n++)
			least = fmin(least, ldexp(b.best[n] + 1024, (int)n));
		assert_true(ldexp((double)plan.keys6 + 1024, (int)plan.n_plens6) == least);
		assert_int_equal(plan.plens6[0], 128);
		for (i = 0; i < n_given; i++) {
			for (n = 0; n < plan.n_plens6 && plan.plens6[n] != given[i]; n++)
				;
			assert_true(n < plan.n_plens6);
		}
		for (n = 1; n < plan.n_plens6; n++)
			assert_true(plan.plens6[n] < plan.plens6[n - 1]);
		xbloom_prefixes_free(&p);
	}
}

/* The lengths of real lists, and what comes of them. */
static void a_length_pays_for_itself(void **state)
{
	static const struct {
		unsigned int plen[3], count[3];
		unsigned int n, plens6[XBLOOM_PLENS6_MAX];
		uint64_t keys;
	} lists[] = {
		/* Only /48s: they cannot be hosts. */
		{ { 48 }, { 1000 }, 2, { 128, 48 }, 1000 },
		/* A few of /47 are two of /48 each, and no length of their own. */
		{ { 48, 47 }, { 1000, 50 }, 2, { 128, 48 }, 1100 },
		/* 10 of /32 would be 655,360 of /48. */
		{ { 48, 32 }, { 1000, 10 }, 3, { 128, 48, 32 }, 1010 },
		/* 8 of /121 are 1,024 hosts, and no packet pays for a length. */
		{ { 121 }, { 8 }, 1, { 128 }, 1024 },
		{ { 112 }, { 16 }, 2, { 128, 112 }, 16 },
		{ { 0 }, { 0 }, 1, { 128 }, 0 },
	};
	struct unit_random random = { .seed = 0x70617973 };
	unsigned int i, j, n;

	(void)state;
	for (i = 0; i < COUNT_OF(lists); i++) {
		struct xbloom_prefixes p = { 0 };
		struct xbloom_prefix_plan plan;
		struct xbloom_error err = { "" };

		for (j = 0; j < COUNT_OF(lists[i].plen); j++)
			for (n = lists[i].count[j]; n--;)
				push_v6(&p, lists[i].plen[j], &random);
		assert_int_equal(xbloom_prefixes_plan(&p, NULL, 0, 0, &plan, &err), 0);
		assert_int_equal(plan.keys6, lists[i].keys);
		assert_int_equal(plan.n_plens6, lists[i].n);
		assert_memory_equal(plan.plens6, lists[i].plens6, sizeof(plan.plens6));
		xbloom_prefixes_free(&p);
	}
}

static void too_much_is_refused_with_what_to_do(void **state)
{
	static const unsigned int plens[] = { 20, 29, 36, 44, 56 };
	static const uint32_t full[] = { 128, 100, 90, 80 };
	struct unit_random random = { .seed = 0x6d756368 };
	struct xbloom_prefixes p = { 0 };
	struct xbloom_prefix_plan plan;
	struct xbloom_error err;
	unsigned int i;

	(void)state;
	for (i = 0; i < COUNT_OF(plens); i++)
		push_v6(&p, plens[i], &random);
	/* Under 128, 56, 44 and 29: 2^9 of the /20, 2^8 of the /36. */
	assert_int_equal(xbloom_prefixes_plan(&p, NULL, 0, 771, &plan, &err), 0);
	assert_int_equal(plan.keys6, 3 + 256 + 512);
	assert_int_equal(plan.n_plens6, 4);
	unit_error_poison(&err);
	assert_int_equal(xbloom_prefixes_plan(&p, NULL, 0, 770, &plan, &err), -E2BIG);
	unit_assert_says(&err, "771 keys, more than 770");
	unit_assert_says(&err, "/128, /56, /44, /29");
	unit_assert_says(&err, "512 of them come from prefixes of /20");
	unit_assert_says(&err, "--expand-max");
	/* A filter that has four lengths takes no other; by default 16 Mi keys are the most. */
	unit_error_poison(&err);
	assert_int_equal(xbloom_prefixes_plan(&p, full, COUNT_OF(full), 0, &plan, &err), -E2BIG);
	unit_assert_says(&err, "16777216");
	unit_assert_says(&err, "rebuild");
	/* ::/0 under 128 alone is 2^128 keys, which nothing here may overflow. */
	xbloom_prefixes_free(&p);
	push_v6(&p, 0, &random);
	assert_int_equal(xbloom_prefixes_plan(&p, full, COUNT_OF(full), UINT64_MAX, &plan, &err),
			 -E2BIG);
	assert_int_equal(xbloom_prefixes_plan(&p, NULL, 0, 0, &plan, &err), 0);
	assert_int_equal(plan.keys6, 1);
	assert_true(plan.all6);
	assert_false(plan.all4);
	xbloom_prefixes_free(&p);
	/* Lengths that no filter has. */
	assert_int_equal(xbloom_prefixes_plan(&p, (uint32_t[]){ 129 }, 1, 0, &plan, &err), -EINVAL);
	assert_int_equal(xbloom_prefixes_plan(&p, (uint32_t[]){ 1, 2, 3, 4 }, 4, 0, &plan, &err),
			 -EINVAL);
}

/* A list may say it in pieces, none of which is refused. */
static void every_address_is_called_so(void **state)
{
	struct xbloom_prefixes p = { 0 };
	struct xbloom_prefix_plan plan;
	struct xbloom_error err;

	(void)state;
	PUSH(&p, "128.0.0.0/2", "0.0.0.0/1", "192.0.0.0/2", "8000::/1");
	xbloom_prefixes_merge(&p);
	assert_int_equal(xbloom_prefixes_plan(&p, NULL, 0, 0, &plan, &err), 0);
	assert_true(plan.all4);
	assert_false(plan.all6);
	assert_int_equal(plan.nets4, 1u << 24);
	xbloom_prefixes_free(&p);
}

/* ---- expanding ---- */

struct expanded {
	const struct xbloom_prefixes *p;
	const struct xbloom_prefix_plan *plan;
	uint64_t v4, v6;
	struct xbloom_prefix last;
};

static int take_expanded(void *ctx, const struct xbloom_flow *flow)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX] = { 0 };
	struct expanded *e = ctx;
	struct xbloom_prefix one;
	unsigned int i;

	xbloom_key_words(flow, XBLOOM_DST, words);
	assert_true(xbloom_words_to_prefix(words, XBLOOM_DST, &one));
	assert_true(xbloom_prefixes_cover(e->p, &one));
	/* In order, so that no key comes twice. */
	assert_true(one.family != e->last.family || one.addr[0] > e->last.addr[0] ||
		    (one.addr[0] == e->last.addr[0] && one.addr[1] > e->last.addr[1]));
	e->last = one;
	if (one.family == XBLOOM_FAMILY_V4) {
		assert_int_equal(one.plen, 32);
		e->v4++;
		return 0;
	}
	for (i = 0; i < e->plan->n_plens6 && e->plan->plens6[i] != one.plen; i++)
		;
	assert_true(i < e->plan->n_plens6);
	e->v6++;
	return 0;
}

static int take_three(void *ctx, const struct xbloom_flow *flow)
{
	(void)flow;
	return ++*(unsigned int *)ctx == 3 ? -ECANCELED : 0;
}

static void what_is_expanded_is_what_was_counted(void **state)
{
	static struct xbloom_block nets4[XBLOOM_NETS4_BLOCKS];
	struct expanded e = { 0 };
	struct xbloom_prefixes p = { 0 };
	struct xbloom_prefix_plan plan;
	struct xbloom_error err;
	unsigned int taken = 0;
	uint64_t ones = 0;
	size_t i, w;

	(void)state;
	PUSH(&p, "198.18.0.0/15", "192.0.2.128/25", "203.0.113.6/31", "198.51.100.0/24",
	     "2001:db8:7fff:ffff:ffff:ffff:ffff:0/112", "2001:db8:1::/48", "2001:db8:2::/47",
	     "2001:db8:8000::/33", "2001:db8:0:0:ffff::/79");
	xbloom_prefixes_merge(&p);
	assert_int_equal(
		xbloom_prefixes_plan(&p, (uint32_t[]){ 128, 80, 48, 20 }, 4, 0, &plan, &err), 0);
	assert_int_equal(plan.nets4, 512 + 1);
	assert_int_equal(plan.hosts4, 128 + 2);
	assert_int_equal(plan.keys6, 65536 + 1 + 2 + 32768 + 2);
	e.p = &p;
	e.plan = &plan;
	assert_int_equal(xbloom_prefixes_expand(&p, &plan, XBLOOM_DST, take_expanded, &e), 0);
	assert_int_equal(e.v4, plan.hosts4);
	assert_int_equal(e.v6, plan.keys6);
	assert_int_equal(xbloom_prefixes_expand(&p, &plan, XBLOOM_DST, take_three, &taken),
			 -ECANCELED);
	assert_int_equal(taken, 3);

	assert_int_equal(xbloom_prefixes_nets4(&p, nets4), plan.nets4);
	assert_int_equal(xbloom_prefixes_nets4(&p, nets4), 0);
	for (i = 0; i < XBLOOM_NETS4_BLOCKS; i++)
		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++)
			ones += (unsigned int)__builtin_popcountll(nets4[i].w[w]);
	assert_int_equal(ones, plan.nets4);
	xbloom_prefixes_free(&p);
}

/* Each /24 has the bit that the program looks at, whatever the length of its prefix. */
static void bits_are_those_of_the_addresses(void **state)
{
	struct xbloom_block *nets4 = calloc(XBLOOM_NETS4_BLOCKS, sizeof(*nets4));
	struct unit_random random = { .seed = 0x62697473 };
	unsigned int plen;

	(void)state;
	assert_non_null(nets4);
	for (plen = 1; plen <= 24; plen++) {
		uint32_t first = (uint32_t)unit_random(&random) & ~0u << (32 - plen);
		uint64_t size = 1ULL << (32 - plen);
		struct xbloom_flow flow = { .family = 4, .plen = (uint8_t)plen };
		const uint64_t asked[] = { first, first + size / 2, first + size - 1, first + size,
					   first - 1ULL };
		struct xbloom_prefixes p = { 0 };
		struct xbloom_error err;
		unsigned int i;

		memset(nets4, 0, XBLOOM_NETS4_BLOCKS * sizeof(*nets4));
		flow.src.v4 = XBLOOM_BIG32(first);
		assert_int_equal(xbloom_prefixes_push(&p, &flow, XBLOOM_SRC, &err), 0);
		assert_int_equal(xbloom_prefixes_nets4(&p, nets4), size >> 8);
		for (i = 0; i < COUNT_OF(asked); i++) {
			uint32_t net = xbloom_net4(XBLOOM_BIG32((uint32_t)asked[i]));

			assert_int_equal(xbloom_net4_test(&nets4[net / XBLOOM_BLOCK_BITS], net),
					 i < 3);
		}
		xbloom_prefixes_free(&p);
	}
	free(nets4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(halves_become_one_again_and_again),
		cmocka_unit_test(what_is_covered_goes),
		cmocka_unit_test(merging_keeps_the_set_with_the_fewest),
		cmocka_unit_test(lengths_are_as_good_as_any),
		cmocka_unit_test(a_length_pays_for_itself),
		cmocka_unit_test(too_much_is_refused_with_what_to_do),
		cmocka_unit_test(every_address_is_called_so),
		cmocka_unit_test(what_is_expanded_is_what_was_counted),
		cmocka_unit_test(bits_are_those_of_the_addresses),
	};

	return cmocka_run_group_tests_name("prefixes", tests, NULL, NULL);
}
