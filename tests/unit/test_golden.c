// SPDX-License-Identifier: GPL-2.0-only
/*
 * User space agrees with the golden vectors: hashes, key words from flows and from text, and
 * positions of both layouts. The vectors were computed by an independent program
 * (tests/golden/golden.py); tests/packet/test_golden.c holds the kernel to the same ones.
 */
#include "unit.h"
#include "golden/golden.h"

static const struct xbloom_hash_key *secret(void)
{
	static struct xbloom_hash_key key;

	key.k0 = golden_secret[0];
	key.k1 = golden_secret[1];
	return &key;
}

static void to_words(__u64 out[XBLOOM_KEY_WORDS_MAX], const uint64_t in[5])
{
	unsigned int i;

	for (i = 0; i < XBLOOM_KEY_WORDS_MAX; i++)
		out[i] = in[i];
}

static void siphash_is_the_published_one(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_hash); i++) {
		const struct golden_hash *v = &golden_hash[i];
		const struct xbloom_hash_key key = { v->key[0], v->key[1] };
		__u64 words[XBLOOM_KEY_WORDS_MAX];

		to_words(words, v->words);
		assert_int_equal(xbloom_siphash_cd(&key, words, v->n, XBLOOM_KEY_WORDS_MAX, 1, 3),
				 v->sip13);
		assert_int_equal(xbloom_siphash_cd(&key, words, v->n, XBLOOM_KEY_WORDS_MAX, 2, 4),
				 v->sip24);
	}
}

/* Words behind the n-th are not hashed, whatever is in them. */
static void hash_ignores_words_beyond_the_key(void **state)
{
	size_t i;
	unsigned int w;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_hash); i++) {
		const struct golden_hash *v = &golden_hash[i];
		const struct xbloom_hash_key key = { v->key[0], v->key[1] };
		__u64 words[XBLOOM_KEY_WORDS_MAX];

		to_words(words, v->words);
		for (w = v->n; w < XBLOOM_KEY_WORDS_MAX; w++)
			words[w] = 0xdeadbeefdeadbeefULL;
		assert_int_equal(xbloom_siphash_cd(&key, words, v->n, XBLOOM_KEY_WORDS_MAX, 1, 3),
				 v->sip13);
	}
}

/* The whole flow that a key is from; `filler` stands wherever family 4 leaves bytes alone. */
static struct xbloom_flow flow_of(const struct golden_key *v, int filler)
{
	size_t address = v->family == XBLOOM_FAMILY_V4 ? 4 : 16;
	const uint8_t ports[4] = { v->sport >> 8, v->sport & 0xff, v->dport >> 8, v->dport & 0xff };
	struct xbloom_flow f;

	memset(&f, filler, sizeof(f));
	memcpy(&f.src, v->src, address);
	memcpy(&f.dst, v->dst, address);
	memcpy(f.ports, ports, sizeof(ports));
	f.vlan = v->vlan;
	f.proto = v->proto;
	f.plen = v->plen;
	f.family = v->family;
	return f;
}

static void assert_key(const struct golden_key *v, const struct xbloom_flow *f)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX] = { 0 };
	unsigned int i, n = xbloom_key_words(f, v->fields, words);

	if (n != v->n)
		fail_msg("%s: %u words, expected %u", v->text, n, v->n);
	for (i = 0; i < n; i++)
		if (words[i] != v->words[i])
			fail_msg("%s: word %u is %016" PRIx64 ", expected %016" PRIx64, v->text, i,
				 (uint64_t)words[i], v->words[i]);
	assert_int_equal(xbloom_key_hash(secret(), f, v->fields), v->hash);
}

/* Given a whole flow, only the keyed fields matter. */
static void flow_gives_the_golden_words(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_key); i++) {
		struct xbloom_flow zeros = flow_of(&golden_key[i], 0);
		struct xbloom_flow ones = flow_of(&golden_key[i], 0xff);

		assert_key(&golden_key[i], &zeros);
		assert_key(&golden_key[i], &ones);
	}
}

static void text_gives_the_golden_words(void **state)
{
	struct xbloom_error err;
	struct xbloom_flow flow;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_key); i++) {
		const struct golden_key *v = &golden_key[i];

		if (xbloom_key_parse(v->text, strlen(v->text), v->fields, &flow, &err))
			fail_msg("%s", err.text);
		assert_key(v, &flow);
	}
}

/* Changing any keyed field of a flow changes its words. */
static void every_keyed_field_is_in_the_words(void **state)
{
	size_t i;
	unsigned int field;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_key); i++) {
		const struct golden_key *v = &golden_key[i];

		for (field = 0; field < 6; field++) {
			struct xbloom_flow f = flow_of(v, 0);
			uint64_t hash;

			switch (1u << field) {
			case XBLOOM_SRC:
				((uint8_t *)&f.src)[v->family == XBLOOM_FAMILY_V4 ? 3 : 15] ^= 1;
				break;
			case XBLOOM_DST:
				((uint8_t *)&f.dst)[0] ^= 0x80;
				break;
			case XBLOOM_SPORT:
				f.ports[0] ^= 1;
				break;
			case XBLOOM_DPORT:
				f.ports[1] ^= 0x8000;
				break;
			case XBLOOM_PROTO:
				f.proto ^= 0x80;
				break;
			default:
				f.vlan ^= 0x800;
			}
			hash = xbloom_key_hash(secret(), &f, v->fields);
			if (v->fields >> field & 1)
				assert_int_not_equal(hash, v->hash);
			else
				assert_int_equal(hash, v->hash);
		}
	}
}

/* A VLAN tag's priority bits, should they come along, are no part of the id. */
static void vlan_is_twelve_bits(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_key); i++) {
		struct xbloom_flow f = flow_of(&golden_key[i], 0);

		f.vlan |= 0xf000;
		assert_key(&golden_key[i], &f);
	}
}

/* A network and its first address never meet, nor do the families. */
static void prefix_length_and_family_are_in_the_words(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_key); i++) {
		const struct golden_key *v = &golden_key[i];
		struct xbloom_flow f = flow_of(v, 0);

		if (!(v->fields & XBLOOM_FIELDS_ADDR))
			continue;
		f.plen = 8;
		assert_int_not_equal(xbloom_key_hash(secret(), &f, v->fields), v->hash);
		f.plen = v->plen;
		f.family = v->family == XBLOOM_FAMILY_V4 ? XBLOOM_FAMILY_V6 : XBLOOM_FAMILY_V4;
		assert_int_not_equal(xbloom_key_hash(secret(), &f, v->fields), v->hash);
	}
}

static void split_positions_are_the_golden_ones(void **state)
{
	size_t i;
	unsigned int w;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_split); i++) {
		const struct golden_split *v = &golden_split[i];

		assert_int_equal(xbloom_split_block(v->hash, v->blocks), v->block);
		assert_true(v->block < v->blocks);
		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++)
			assert_int_equal(xbloom_split_bit(v->hash, w), v->bit[w]);
	}
}

static void classic_positions_are_the_golden_ones(void **state)
{
	size_t i;
	unsigned int j;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_classic); i++) {
		const struct golden_classic *v = &golden_classic[i];
		struct xbloom_probe p = xbloom_classic_first(v->hash);

		for (j = 0; j < v->k; j++, xbloom_classic_next(&p)) {
			assert_int_equal(xbloom_classic_bit(p.at, v->bits), v->bit[j]);
			assert_true(v->bit[j] < v->bits);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siphash_is_the_published_one),
		cmocka_unit_test(hash_ignores_words_beyond_the_key),
		cmocka_unit_test(flow_gives_the_golden_words),
		cmocka_unit_test(text_gives_the_golden_words),
		cmocka_unit_test(every_keyed_field_is_in_the_words),
		cmocka_unit_test(vlan_is_twelve_bits),
		cmocka_unit_test(prefix_length_and_family_are_in_the_words),
		cmocka_unit_test(split_positions_are_the_golden_ones),
		cmocka_unit_test(classic_positions_are_the_golden_ones),
	};

	return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
