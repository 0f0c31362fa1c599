// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random frames, through the data path and through the model (model.h): both give each frame the
 * same reason, and the filter in the kernel gives each keyed frame the same answer as the library
 * gives the model's flow. Frames are stacks of random layers with lies in them, mutated by random
 * bytes and cut; half of the flows are put into the filter first. The seed is printed;
 * XBLOOM_SEED=N runs another one.
 */
#include "model.h"
#include "packet.h"

#define FRAMES 20000u
#define SEED_DEFAULT 20240229u

/* Key fields, one filter each. Every field, every shortcut of the parser, and mixtures. */
static const uint32_t field_sets[] = {
	XBLOOM_SRC,   XBLOOM_DST | XBLOOM_VLAN,	   XBLOOM_PROTO,	 XBLOOM_SRC | XBLOOM_PROTO,
	XBLOOM_SPORT, XBLOOM_DPORT | XBLOOM_PROTO, XBLOOM_FIELDS_5TUPLE, XBLOOM_FIELDS_ALL,
};

#define FIELD_SETS (sizeof(field_sets) / sizeof(field_sets[0]))

/* What both saw, so that a generator that has gone dull is noticed. */
#define SEEN_AT_LEAST 100u

static uint64_t seed = SEED_DEFAULT;

/* ---- random numbers ---- */

struct random {
	uint64_t state;
};

/* Marsaglia's xorshift64*: small, and the same everywhere. */
static uint64_t random_next(struct random *r)
{
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return r->state * 0x2545f4914f6cdd1dULL;
}

/* 0 .. n - 1 */
static uint32_t random_below(struct random *r, uint32_t n)
{
	return (uint32_t)((random_next(r) >> 32) * n >> 32);
}

static bool random_chance(struct random *r, uint32_t percent)
{
	return random_below(r, 100) < percent;
}

/* ---- random frames ---- */

/* A fragment offset: often 0, often a single bit, so that each of its 13 is missed by itself. */
static uint32_t random_offset(struct random *r)
{
	if (random_chance(r, 60))
		return 0;
	return random_chance(r, 50) ? 1u << random_below(r, 13) : random_below(r, 0x2000);
}

static void random_tags(struct random *r, struct frame *f)
{
	uint32_t n = random_chance(r, 50) ? 0 : random_below(r, 7);

	while (n--)
		frame_tag(f, random_chance(r, 50) ? 0x8100 : 0x88a8, random_below(r, 0x10000));
}

static void random_chain(struct random *r, struct frame *f)
{
	static const uint8_t kinds[] = { 0, 43, 51, 60, 135 };
	uint32_t n = random_chance(r, 30) ? 0 : random_below(r, 11);

	while (n--) {
		uint32_t kind = kinds[random_below(r, sizeof(kinds))];
		uint32_t says = random_below(r, 4), unit = kind == 51 ? 4 : 8;

		if (random_chance(r, 15)) {
			frame_fragment(f, random_offset(r), random_below(r, 8));
			continue;
		}
		frame_ext(f, kind, says, kind == 51 ? (says + 2) * unit : (says + 1) * unit);
		if (random_chance(r, 4)) /* a lie */
			f->b[f->next + 1] = (uint8_t)random_next(r);
	}
}

static void random_upper(struct random *r, struct frame *f, bool ip6)
{
	static const uint8_t protocols[] = { 6,	 6,  17, 17, 33, 132, 136, 1,
					     58, 58, 58, 47, 50, 59,  253 };
	uint32_t protocol = protocols[random_below(r, sizeof(protocols))];

	if (random_chance(r, 3)) /* an extension header of which there is nothing */
		protocol = 60;
	frame_upper(f, protocol, random_chance(r, 70) ? 20 : random_below(r, 8));
	if (f->len > f->l4 + 4)
		frame_ports(f, random_below(r, 0x10000), random_below(r, 0x10000));
	if (protocol == 58 && f->len > f->l4) {
		f->b[f->l4] = (uint8_t)(130 + random_below(r, 10));
		if (ip6 && random_chance(r, 50))
			f->b[f->l3 + 7] = 255;
	}
	frame_append(f, random_below(r, 32), (uint8_t)random_next(r));
}

static void random_ip(struct random *r, struct frame *f)
{
	bool ip6 = random_chance(r, 60);

	if (ip6)
		frame_ip6(f, random_chance(r, 50) ? 64 : 255);
	else
		frame_ip4(f, random_chance(r, 70) ? 0 : random_below(r, 11),
			  random_offset(r) | random_below(r, 8) << 13);
	f->b[f->l3 + (ip6 ? 23 : 15)] = (uint8_t)random_next(r);
	f->b[f->l3 + (ip6 ? 39 : 19)] = (uint8_t)random_next(r);
	if (ip6)
		random_chain(r, f);
	random_upper(r, f, ip6);
	frame_end_ip(f);
	if (random_chance(r, 5))
		frame_put16(frame_length_field(f), 0);
}

/* Where a changed byte can matter: any header, now and then anywhere. */
static void random_mutate(struct random *r, struct frame *f)
{
	uint32_t n = random_chance(r, 60) ? 0 : 1 + random_below(r, 3);

	while (n--) {
		size_t at = 12 + random_below(r, (uint32_t)f->len - 12);

		if (f->l3 && random_chance(r, 50))
			at = f->l3 + random_below(r, 10);
		if (at >= f->len)
			continue;
		if (random_chance(r, 50))
			f->b[at] ^= (uint8_t)(1u << random_below(r, 8));
		else
			f->b[at] = (uint8_t)random_next(r);
	}
	if (random_chance(r, 15))
		frame_append(f, random_below(r, 40), FRAME_FILL_PADDING);
	if (random_chance(r, 15))
		f->len = FRAME_ETH_LEN + random_below(r, (uint32_t)f->len - FRAME_ETH_LEN + 1);
}

static void random_frame(struct random *r, struct frame *f)
{
	memset(f, 0, offsetof(struct frame, b));
	frame_eth(f);
	random_tags(r, f);
	if (random_chance(r, 95)) {
		random_ip(r, f);
	} else {
		frame_next_is(f, random_below(r, 0x10000));
		frame_append(f, random_below(r, 64), (uint8_t)random_next(r));
	}
	random_mutate(r, f);
}

/* ---- both ---- */

static void fail_with_frame(const struct frame *f, uint32_t fields, const char *model,
			    const char *kernel)
{
	char text[XBLOOM_FIELDS_TEXT];
	size_t i;

	printf("# XBLOOM_SEED=%llu, key %s, %zu bytes:", (unsigned long long)seed,
	       xbloom_fields_text(fields, text), f->len);
	for (i = 0; i < f->len; i++)
		printf("%s%02x", i % 32 ? " " : "\n#   ", f->b[i]);
	printf("\n");
	fflush(stdout);
	fail_msg("the model says %s, the kernel says %s", model, kernel);
}

/* The reason whose counter a frame raised; *stats are the counters before and then after it. */
static uint32_t kernel_reason(const struct xbloom *filter, const struct frame *f,
			      struct xbloom_stats *stats)
{
	uint32_t reason, action, verdict, counted = XBLOOM_REASONS;
	struct xbloom_stats before = *stats;

	verdict = run_frame(filter, f->b, f->len);
	*stats = stats_now(filter);
	for (reason = 0; reason < XBLOOM_REASONS; reason++) {
		for (action = 0; action < XBLOOM_ACTIONS; action++) {
			struct xbloom_counter b = before.c[reason][action];
			struct xbloom_counter a = stats->c[reason][action];

			if (a.packets == b.packets && a.bytes == b.bytes)
				continue;
			assert_int_equal(a.packets, b.packets + 1);
			assert_int_equal(a.bytes, b.bytes + f->len);
			assert_int_equal(counted, XBLOOM_REASONS);
			assert_int_equal(verdict, action == XBLOOM_DROP ? XDP_DROP : XDP_PASS);
			counted = reason;
		}
	}
	assert_int_not_equal(counted, XBLOOM_REASONS);
	return counted;
}

/* The exact map's twin: what was put in, in the order in which it was. */
static struct {
	struct xbloom_hashes key[FRAMES];
	size_t n;
} put;

static void put_clear(void)
{
	while (put.n)
		xbloom_hashes_free(&put.key[--put.n]);
}

static struct xbloom_hashes key_of(const struct xbloom_flow *flow, uint32_t fields)
{
	struct xbloom_hashes key = { .width = xbloom_key_width(fields) };

	assert_int_equal(xbloom_hashes_push_flow(&key, &packet_hash_key, flow, fields, NULL), 0);
	return key;
}

static bool was_put(const struct xbloom_hashes *key)
{
	size_t i;

	for (i = 0; i < put.n; i++)
		if (!memcmp(put.key[i].words, key->words, key->width * sizeof(*key->words)))
			return true;
	return false;
}

/* A maybe of a filter with an exact map; the flow is put in first, or not. */
static uint32_t exact_reason(struct xbloom *filter, const struct xbloom_flow *flow, uint32_t fields,
			     bool put_in)
{
	struct xbloom_hashes key = key_of(flow, fields);
	uint64_t hash = key.v[0], changed;
	uint32_t reason = XBLOOM_ABSENT;

	if (put_in) {
		assert_int_equal(xbloom_add_all(filter, &key, NULL, &changed, NULL), 0);
		if (!was_put(&key)) {
			put.key[put.n++] = key;
			key = key_of(flow, fields);
		}
	}
	if (xbloom_test(filter, hash))
		reason = was_put(&key) ? XBLOOM_CONFIRMED : XBLOOM_REFUTED;
	xbloom_hashes_free(&key);
	return reason;
}

/* Put the frame's flow in or not, then ask the model and the kernel; the reason both give. */
static uint32_t agreed_reason(struct xbloom *filter, uint32_t fields, const struct frame *f,
			      bool put_in, struct xbloom_stats *stats)
{
	bool exact = xbloom_exact(filter, NULL) > 0;
	uint32_t expected, reason;
	struct xbloom_flow flow;

	expected = model_reason(f->b, f->len, fields, &flow);
	if (expected == MODEL_KEYED) {
		uint64_t hash = xbloom_key_hash(&packet_hash_key, &flow, fields);

		assert_true(hash == xbloom_hash(filter, &flow));
		if (put_in && !exact)
			xbloom_add(filter, hash);
		if (exact)
			expected = exact_reason(filter, &flow, fields, put_in);
		else
			expected = xbloom_test(filter, hash) ? XBLOOM_MAYBE : XBLOOM_ABSENT;
	}
	reason = kernel_reason(filter, f, stats);
	if (reason != expected)
		fail_with_frame(f, fields, xbloom_reason_name(expected),
				xbloom_reason_name(reason));
	return reason;
}

/* With an exact map the filter is so small that false positives are common. */
#define EXACT_BITS_PER_KEY 4
#define EXACT_CAPACITY (FRAMES / 8)

static struct xbloom *filter_create_exact(const struct xbloom_rules *rules, uint32_t layout)
{
	struct xbloom_size_request req = {
		.layout = layout,
		.items = EXACT_CAPACITY,
		.bits_per_key = EXACT_BITS_PER_KEY,
	};
	struct xbloom_error error = { "" };
	struct xbloom *filter = NULL;
	struct xbloom_size size;

	if (xbloom_plan(&req, &size, &error))
		fail_msg("%s", error.text);
	size.exact_keys = FRAMES;
	if (xbloom_create(FILTER, &size, rules, &packet_hash_key, NULL, NULL, &filter, &error))
		fail_msg("%s", error.text);
	return filter;
}

static void agree_on_random_frames(uint32_t policy, uint32_t layout, bool confirm)
{
	uint64_t seen[XBLOOM_REASONS] = { 0 };
	struct frame frame;
	size_t i, n;

	for (i = 0; i < FIELD_SETS; i++) {
		struct xbloom_rules rules = packet_rules(field_sets[i], policy, false);
		struct xbloom *filter = (rules.confirm = confirm)
						? filter_create_exact(&rules, layout)
						: filter_create(&rules, layout, FRAMES);
		struct random frames = { .state = seed * 2 + 1 };
		struct random additions = { .state = (seed + i) * 2 + 1 };
		struct xbloom_stats stats = stats_now(filter);

		for (n = 0; n < FRAMES; n++) {
			random_frame(&frames, &frame);
			seen[agreed_reason(filter, rules.fields, &frame,
					   random_chance(&additions, 50), &stats)]++;
		}
		filter_destroy(filter);
		put_clear();
	}

	printf("# seed %llu, %u frames under %zu keys:", (unsigned long long)seed, FRAMES,
	       FIELD_SETS);
	for (i = 0; i < XBLOOM_REASONS; i++)
		printf(" %s %llu", xbloom_reason_name((uint32_t)i), (unsigned long long)seen[i]);
	printf("\n");
	fflush(stdout);
	for (i = 0; i < XBLOOM_REASONS; i++) {
		bool never = i == XBLOOM_NO_FILTER || i == XBLOOM_ERROR || i == XBLOOM_EXEMPT ||
			     (confirm ? i == XBLOOM_MAYBE
				      : i == XBLOOM_CONFIRMED || i == XBLOOM_REFUTED);

		if (never)
			assert_int_equal(seen[i], 0);
		else
			assert_in_range(seen[i], SEEN_AT_LEAST, FRAMES * FIELD_SETS);
	}
}

static void the_model_and_the_kernel_agree_under_block(void **state)
{
	(void)state;
	agree_on_random_frames(XBLOOM_POLICY_BLOCK, XBLOOM_LAYOUT_SPLIT, false);
}

static void the_model_and_the_kernel_agree_under_allow(void **state)
{
	(void)state;
	agree_on_random_frames(XBLOOM_POLICY_ALLOW, XBLOOM_LAYOUT_CLASSIC, false);
}

static void the_model_and_the_kernel_agree_with_an_exact_map(void **state)
{
	(void)state;
	agree_on_random_frames(XBLOOM_POLICY_BLOCK, XBLOOM_LAYOUT_SPLIT, true);
	agree_on_random_frames(XBLOOM_POLICY_BLOCK, XBLOOM_LAYOUT_CLASSIC, true);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_model_and_the_kernel_agree_under_block),
		cmocka_unit_test(the_model_and_the_kernel_agree_under_allow),
		cmocka_unit_test(the_model_and_the_kernel_agree_with_an_exact_map),
	};
	const char *given = getenv("XBLOOM_SEED");

	packet_isolate();
	if (given)
		seed = strtoull(given, NULL, 0);
	return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
