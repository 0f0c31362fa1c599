// SPDX-License-Identifier: GPL-2.0-only
/*
 * The exact map: a maybe is dropped only when the map holds the key, whatever the filter's bits say;
 * a key is in the map before it is in the filter; and when the map has no room for all of a list,
 * none of it goes in. And shadow, with it: what is confirmed would have been dropped.
 */
#include "packet.h"

#define EXACT_KEYS 1000

static struct xbloom_hashes key_words(uint32_t fields, const char *const *keys, size_t n)
{
	struct xbloom_hashes h = { .width = xbloom_key_width(fields) };
	struct xbloom_error error = { "" };
	struct xbloom_flow flow;
	size_t i;

	for (i = 0; i < n; i++)
		if (xbloom_key_parse(keys[i], strlen(keys[i]), fields, &flow, &error) ||
		    xbloom_hashes_push_flow(&h, &packet_hash_key, &flow, fields, &error))
			fail_msg("%s: %s", keys[i], error.text);
	return h;
}

static struct xbloom *exact_create(uint32_t fields, bool shadow, uint64_t exact_keys,
				   const struct xbloom_hashes *hashes)
{
	struct xbloom_rules rules = packet_rules(fields, XBLOOM_POLICY_BLOCK, shadow);
	struct xbloom_size_request req = { .layout = XBLOOM_LAYOUT_SPLIT, .items = SPARSE_ITEMS };
	struct xbloom_error error = { "" };
	struct xbloom *filter = NULL;
	struct xbloom_size size;

	rules.confirm = true;
	if (xbloom_plan(&req, &size, &error))
		fail_msg("%s", error.text);
	size.exact_keys = exact_keys;
	if (xbloom_create(FILTER, &size, &rules, &packet_hash_key, hashes, NULL, &filter, &error))
		fail_msg("%s", error.text);
	return filter;
}

/* The bits of a key, without the key: what a false positive looks like. */
static void add_bits_only(struct xbloom *filter, const char *key)
{
	struct xbloom_error error = { "" };
	struct xbloom_rules rules;
	struct xbloom_flow flow;

	xbloom_rules(filter, &rules);
	if (xbloom_key_parse(key, strlen(key), rules.fields, &flow, &error))
		fail_msg("%s", error.text);
	xbloom_set_hash(xbloom_geometry(filter), (struct xbloom_block *)xbloom_blocks(filter),
			xbloom_hash(filter, &flow));
}

static void add(struct xbloom *filter, const char *key)
{
	struct xbloom_error error = { "" };
	struct xbloom_hashes h;
	struct xbloom_rules rules;
	uint64_t changed;

	xbloom_rules(filter, &rules);
	h = key_words(rules.fields, &key, 1);
	if (xbloom_add_all(filter, &h, NULL, &changed, &error))
		fail_msg("%s", error.text);
	xbloom_hashes_free(&h);
}

static void only_what_the_map_holds_is_dropped(void **state)
{
	static const struct {
		const char *fields;
		const char *v4, *v6;
	} shapes[] = {
		{ "src", "192.0.2.7", "2001:db8::7" },
		{ "dst", "198.51.100.1", "2001:db8:1::1" },
		{ "dport", "53", "53" },
	};
	struct frame v4, v6;
	size_t i;

	(void)state;
	FRAME(&v4, ETH, IP4, UDP);
	FRAME(&v6, ETH, IP6, UDP);
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct xbloom_error error = { "" };
		struct xbloom *filter;
		uint32_t fields;
		bool both;

		assert_int_equal(xbloom_fields_parse(shapes[i].fields, &fields, &error), 0);
		both = fields != XBLOOM_DPORT; /* else they are one key */
		filter = exact_create(fields, false, EXACT_KEYS, NULL);
		expect_fate(filter, &v4, "absent", PASSES);
		expect_fate(filter, &v6, "absent", PASSES);
		add_bits_only(filter, shapes[i].v4);
		expect_fate(filter, &v4, "refuted", PASSES);
		add(filter, shapes[i].v4);
		expect_fate(filter, &v4, "confirmed", DROPS);
		if (both) {
			expect_fate(filter, &v6, "absent", PASSES);
			add_bits_only(filter, shapes[i].v6);
			expect_fate(filter, &v6, "refuted", PASSES);
			add(filter, shapes[i].v6);
		}
		expect_fate(filter, &v6, "confirmed", DROPS);
		filter_destroy(filter);
	}
}

static void in_shadow_the_confirmed_would_be_dropped(void **state)
{
	static const char *const keys[] = { "192.0.2.7" };
	struct xbloom_hashes h = key_words(XBLOOM_SRC, keys, 1);
	struct xbloom *filter = exact_create(XBLOOM_SRC, true, EXACT_KEYS, &h);
	struct frame v4, v6;

	(void)state;
	FRAME(&v4, ETH, IP4, UDP);
	FRAME(&v6, ETH, IP6, UDP);
	add_bits_only(filter, "2001:db8::7");
	expect_fate(filter, &v4, "confirmed", WOULD_DROP);
	expect_fate(filter, &v6, "refuted", PASSES);
	xbloom_hashes_free(&h);
	filter_destroy(filter);
}

#define ROOM 4

static void a_list_that_does_not_fit_leaves_nothing(void **state)
{
	static const char *const first[] = { "192.0.2.1", "192.0.2.2" };
	static const char *const more[] = { "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5",
					    "192.0.2.6" };
	struct xbloom_hashes h = key_words(XBLOOM_SRC, first, 2);
	struct xbloom_hashes too_many = key_words(XBLOOM_SRC, more, 5);
	struct xbloom_hashes fits = key_words(XBLOOM_SRC, more, 3);
	struct xbloom *filter = exact_create(XBLOOM_SRC, false, ROOM, &h);
	struct xbloom_error error = { "" };
	uint64_t changed = 1, inserted = xbloom_inserted(filter), bytes;
	struct frame third;
	size_t i;

	(void)state;
	assert_int_equal(inserted, 2);
	assert_int_equal(xbloom_exact(filter, &bytes), ROOM);
	assert_true(bytes > 0);
	assert_int_equal(xbloom_add_all(filter, &too_many, NULL, &changed, &error), -ENOSPC);
	assert_non_null(strstr(error.text, "room for 4 keys"));
	assert_int_equal(changed, 0);
	assert_int_equal(xbloom_inserted(filter), inserted);
	/* Neither their bits nor their places: the third address is unknown, and there is room. */
	for (i = 1; i < 5; i++)
		assert_false(xbloom_test(filter, too_many.v[i]));
	add_bits_only(filter, "192.0.2.3");
	FRAME(&third, ETH, IP4, UDP);
	third.b[third.l3 + 15] = 3;
	expect_fate(filter, &third, "refuted", PASSES);
	assert_int_equal(xbloom_add_all(filter, &fits, NULL, &changed, &error), 0);
	expect_fate(filter, &third, "confirmed", DROPS);
	xbloom_hashes_free(&h);
	xbloom_hashes_free(&too_many);
	xbloom_hashes_free(&fits);
	filter_destroy(filter);
}

static void a_long_list_with_duplicates_is_all_there(void **state)
{
	struct xbloom_hashes h = { .width = xbloom_key_width(XBLOOM_SRC) };
	struct xbloom_error error = { "" };
	struct xbloom *filter;
	uint32_t i, distinct = 100000;
	struct frame frame;

	(void)state;
	for (i = 0; i < distinct + 1000; i++) {
		struct xbloom_flow flow = { .family = XBLOOM_FAMILY_V4, .plen = 32 };

		flow.src.v4 = i % distinct * 0x9e3779b1u;
		if (xbloom_hashes_push_flow(&h, &packet_hash_key, &flow, XBLOOM_SRC, &error))
			fail_msg("%s", error.text);
	}
	assert_int_equal(xbloom_hashes_distinct(&h), 1000);
	assert_int_equal(h.words_n, distinct + 1000);
	filter = exact_create(XBLOOM_SRC, false, distinct, &h);
	FRAME(&frame, ETH, IP4, UDP);
	for (i = 0; i < distinct; i += 97) {
		uint32_t addr = i * 0x9e3779b1u;

		memcpy(frame.b + frame.l3 + 12, &addr, 4);
		expect_fate(filter, &frame, "confirmed", DROPS);
	}
	xbloom_hashes_free(&h);
	filter_destroy(filter);
}

static void what_cannot_be_is_refused(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_ALLOW, false);
	struct xbloom_hashes without_words = { 0 };
	struct xbloom_size_request req = { .layout = XBLOOM_LAYOUT_SPLIT, .items = SPARSE_ITEMS };
	struct xbloom *filter = NULL;
	struct xbloom_error error = { "" };
	struct xbloom_size size;
	uint64_t changed;

	(void)state;
	rules.confirm = true;
	assert_int_equal(xbloom_plan(&req, &size, &error), 0);
	size.exact_keys = EXACT_KEYS;
	assert_int_equal(
		xbloom_create(FILTER, &size, &rules, &packet_hash_key, NULL, NULL, &filter, &error),
		-EINVAL);
	assert_non_null(strstr(error.text, "allow"));
	filter = exact_create(XBLOOM_SRC, false, EXACT_KEYS, NULL);
	xbloom_rules(filter, &rules);
	assert_true(rules.confirm);
	rules.policy = XBLOOM_POLICY_ALLOW;
	assert_int_equal(xbloom_set_rules(filter, &rules, &error), -EINVAL);
	rules.policy = XBLOOM_POLICY_BLOCK;
	rules.confirm = false;
	assert_int_equal(xbloom_set_rules(filter, &rules, &error), -EINVAL);
	assert_int_equal(xbloom_hashes_push(&without_words, 1, &error), 0);
	assert_int_equal(xbloom_add_all(filter, &without_words, NULL, &changed, &error), -EINVAL);
	assert_false(xbloom_test(filter, 1));
	xbloom_hashes_free(&without_words);
	filter_destroy(filter);
}

static void the_map_of_another_shape_is_damage(void **state)
{
	struct xbloom *filter = exact_create(XBLOOM_SRC, false, EXACT_KEYS, NULL), *again = NULL;
	struct xbloom_error error = { "" };

	(void)state;
	xbloom_close(filter);
	assert_int_equal(unlink(FILTER_DIR "/confirm"), 0);
	assert_int_equal(xbloom_open(FILTER, 0, NULL, &again, &error), -EUCLEAN);
	assert_non_null(strstr(error.text, "confirm"));
	assert_int_equal(xbloom_destroy(FILTER, NULL, &error), 0);
}

/* What takes a key without its words cannot tell the exact map of it. */
static void a_bare_hash_is_refused(void **state)
{
	struct xbloom *filter = exact_create(XBLOOM_SRC, false, EXACT_KEYS, NULL);

	(void)state;
	assert_int_equal(xbloom_add(filter, 1), -EINVAL);
	assert_false(xbloom_test(filter, 1));
	assert_int_equal(xbloom_inserted(filter), 0);
	filter_destroy(filter);
}

/* A mapping for reading would end the process that writes to it. */
static void what_was_opened_for_reading_is_not_written(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS);
	struct xbloom_hashes hashes = { 0 };
	struct xbloom_error error = { "" };
	struct xbloom *reader = NULL;
	uint64_t changed;

	(void)state;
	assert_int_equal(xbloom_open(FILTER, 0, NULL, &reader, &error), 0);
	assert_int_equal(xbloom_hashes_push(&hashes, 1, &error), 0);
	assert_int_equal(xbloom_add(reader, 1), -EBADF);
	assert_int_equal(xbloom_add_all(reader, &hashes, NULL, &changed, &error), -EBADF);
	assert_int_equal(xbloom_set_rules(reader, &rules, &error), -EBADF);
	assert_int_equal(xbloom_set_alarm(reader, 50, &error), -EBADF);
	assert_non_null(strstr(error.text, "for reading"));
	xbloom_add(filter, 2);
	/* Not a scratch filter. */
	xbloom_clear(filter);
	assert_true(xbloom_test(filter, 2));
	xbloom_hashes_free(&hashes);
	xbloom_close(reader);
	filter_destroy(filter);
}

static void samples_that_are_no_ring_buffer_are_damage(void **state)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, XBLOOM_LAYOUT_SPLIT, SPARSE_ITEMS), *again;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "array", 4, 4, 1, NULL);
	struct xbloom_error error = { "" };

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(bpf_obj_pin(fd, FILTER_DIR "/samples"), 0);
	close(fd);
	assert_int_equal(xbloom_open(FILTER, 0, NULL, &again, &error), -EUCLEAN);
	assert_non_null(strstr(error.text, "samples"));
	filter_destroy(filter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_the_map_holds_is_dropped),
		cmocka_unit_test(in_shadow_the_confirmed_would_be_dropped),
		cmocka_unit_test(a_list_that_does_not_fit_leaves_nothing),
		cmocka_unit_test(a_long_list_with_duplicates_is_all_there),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(the_map_of_another_shape_is_damage),
		cmocka_unit_test(a_bare_hash_is_refused),
		cmocka_unit_test(what_was_opened_for_reading_is_not_written),
		cmocka_unit_test(samples_that_are_no_ring_buffer_are_damage),
	};

	packet_isolate();
	return cmocka_run_group_tests_name("exact", tests, NULL, NULL);
}
