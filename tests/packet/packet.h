/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the packet tests share: a private place for filters, filters under given rules, and one
 * frame through the real entry program, which jumps to the real filter program, in the running
 * kernel (BPF_PROG_TEST_RUN). No device is touched. The tests see each frame's verdict and every
 * counter, by name; expect() compares all of them at once.
 */
#ifndef XBLOOM_TESTS_PACKET_H
#define XBLOOM_TESTS_PACKET_H

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "frames.h"
#include "libxbloom.h"

/* The one filter that most tests need at a time. */
#define FILTER "packet"
#define FILTER_DIR XBLOOM_BPFFS "/" XBLOOM_DIR "/" FILTER

/*
 * So sparse that false positives do not happen: with a handful of keys in it, a test would meet
 * one in far over 10^12 questions. And with a hash key that is always the same, not even then.
 */
#define SPARSE_ITEMS 10000u
static const struct xbloom_hash_key packet_hash_key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };

/* ---- the place ---- */

/*
 * Call first in main(): gives this process and its children a bpffs of their own on /sys/fs/bpf.
 * Does not return where the tests cannot run.
 */
static inline void packet_isolate(void)
{
	if (geteuid() != 0) {
		puts("1..0 # SKIP loading BPF programs takes root");
		exit(0);
	}
	unsetenv("XDP_BLOOM_BPFFS");
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("bpffs", XBLOOM_BPFFS, "bpf", 0, "mode=0700")) {
		printf("Bail out! no private bpffs on %s: %s\n", XBLOOM_BPFFS, strerror(errno));
		exit(1);
	}
}

/* ---- filters ---- */

static inline struct xbloom_rules packet_rules(uint32_t fields, uint32_t policy, bool shadow)
{
	struct xbloom_rules rules = {
		.fields = fields,
		.policy = policy,
		.shadow = shadow,
		.unkeyed_drop = xbloom_unkeyed_default(policy),
	};

	return rules;
}

/* An empty filter, open for writing. End it with filter_destroy(). */
static inline struct xbloom *filter_create_named(const char *name, const struct xbloom_rules *rules,
						 uint32_t layout, uint64_t items)
{
	struct xbloom_size_request req = { .layout = layout, .items = items };
	struct xbloom_error error = { "" };
	struct xbloom_size size;
	struct xbloom *filter = NULL;

	if (xbloom_plan(&req, &size, &error) < 0)
		fail_msg("plan: %s", error.text);
	if (xbloom_create(name, &size, rules, &packet_hash_key, NULL, NULL, &filter, &error) < 0)
		fail_msg("create: %s", error.text);
	return filter;
}

static inline struct xbloom *filter_create(const struct xbloom_rules *rules, uint32_t layout,
					   uint64_t items)
{
	return filter_create_named(FILTER, rules, layout, items);
}

static inline void filter_destroy(struct xbloom *filter)
{
	struct xbloom_error error = { "" };
	char name[XBLOOM_NAME_MAX];

	memcpy(name, xbloom_meta(filter)->name, sizeof(name));
	xbloom_close(filter);
	if (xbloom_destroy(name, NULL, &error) < 0)
		fail_msg("destroy: %s", error.text);
}

/*
 * Make an open filter empty again, which is quicker than another one: the verifier is slow. The
 * library has no such thing; here nobody else writes, and blocks of an open filter are writable.
 */
static inline void filter_clear(struct xbloom *filter)
{
	memset((void *)xbloom_blocks(filter), 0,
	       xbloom_geometry(filter)->blocks * sizeof(struct xbloom_block));
}

/* Put a key in as its text: "192.0.2.7,443". */
static inline void filter_add(struct xbloom *filter, const char *key)
{
	struct xbloom_error error = { "" };
	struct xbloom_rules rules;
	struct xbloom_flow flow;

	xbloom_rules(filter, &rules);
	if (xbloom_key_parse(key, strlen(key), rules.fields, &flow, &error) < 0)
		fail_msg("key %s: %s", key, error.text);
	xbloom_add(filter, xbloom_hash(filter, &flow));
}

static inline const char *policy_text(uint32_t policy)
{
	return policy == XBLOOM_POLICY_BLOCK ? "block" : "allow";
}

/* ---- frames ---- */

/* The program's return value for one frame. */
static inline uint32_t run_frame(const struct xbloom *filter, const uint8_t *frame, size_t len)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = (__u32)len,
		    .repeat = 1);
	int err = bpf_prog_test_run_opts(xbloom_prog_fd(filter), &opts);

	if (err)
		fail_msg("test run of %zu bytes: %s", len, strerror(-err));
	return opts.retval;
}

static inline struct xbloom_stats stats_now(const struct xbloom *filter)
{
	struct xbloom_error error = { "" };
	struct xbloom_stats stats;

	if (xbloom_stats(filter, &stats, &error) < 0)
		fail_msg("stats: %s", error.text);
	return stats;
}

/* What a frame did, or should do, as text: "XDP_DROP: malformed +1/60, dropped +1/60". */
#define OUTCOME_TEXT 512
struct outcome {
	char text[OUTCOME_TEXT];
};

static inline const char *verdict_text(uint32_t verdict)
{
	switch (verdict) {
	case XDP_ABORTED:
		return "XDP_ABORTED";
	case XDP_DROP:
		return "XDP_DROP";
	case XDP_PASS:
		return "XDP_PASS";
	default:
		return "XDP_?";
	}
}

/* The counters that grew, in the order of their table, as packets/bytes. */
static inline struct outcome outcome_seen(uint32_t verdict, const struct xbloom_stats *before,
					  const struct xbloom_stats *after)
{
	struct xbloom_named_counter b[XBLOOM_NAMED_COUNTERS], a[XBLOOM_NAMED_COUNTERS];
	struct outcome seen;
	size_t n, i;

	xbloom_stats_named(before, b);
	xbloom_stats_named(after, a);
	n = (size_t)snprintf(seen.text, sizeof(seen.text), "%s:", verdict_text(verdict));
	for (i = 0; i < XBLOOM_NAMED_COUNTERS && n < sizeof(seen.text); i++) {
		uint64_t packets = a[i].value.packets - b[i].value.packets;
		uint64_t bytes = a[i].value.bytes - b[i].value.bytes;

		assert_string_equal(a[i].name, b[i].name);
		if (packets || bytes)
			n += (size_t)snprintf(
				seen.text + n, sizeof(seen.text) - n, " %s +%llu/%llu", a[i].name,
				(unsigned long long)packets, (unsigned long long)bytes);
	}
	return seen;
}

enum fate { PASSES, DROPS, WOULD_DROP };

/*
 * What `packets` frames of `bytes` bytes altogether should do. A packet that only would have been
 * dropped passes, and is counted so.
 */
static inline struct outcome outcome_expected(const char *reason, enum fate fate, uint64_t packets,
					      uint64_t bytes)
{
	unsigned long long p = packets, b = bytes;
	struct outcome e;

	switch (fate) {
	case PASSES:
		snprintf(e.text, sizeof(e.text), "XDP_PASS: %s +%llu/%llu passed +%llu/%llu",
			 reason, p, b, p, b);
		break;
	case DROPS:
		snprintf(e.text, sizeof(e.text), "XDP_DROP: %s +%llu/%llu dropped +%llu/%llu",
			 reason, p, b, p, b);
		break;
	case WOULD_DROP:
		snprintf(e.text, sizeof(e.text),
			 "XDP_PASS: %s +%llu/%llu passed +%llu/%llu would_drop +%llu/%llu", reason,
			 p, b, p, b, p, b);
		break;
	}
	return e;
}

/* The design's table: what each reason does to a packet, with the default rules of each policy. */
static inline enum fate fate_of(const char *reason, uint32_t policy, bool shadow)
{
	static const struct {
		const char *reason;
		bool block, allow; /* drops under it */
	} table[] = {
		{ "not_ip", false, false },    { "ndp", false, false },
		{ "no_filter", false, false }, { "error", false, false },
		{ "absent", false, true },     { "maybe", true, false },
		{ "malformed", false, true },  { "fragment", false, true },
		{ "exthdr", false, true },     { "vlan_tags", false, true },
	};
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(table[i].reason, reason))
			continue;
		if (policy == XBLOOM_POLICY_BLOCK ? !table[i].block : !table[i].allow)
			return PASSES;
		return shadow ? WOULD_DROP : DROPS;
	}
	fail_msg("no such reason: %s", reason);
	return PASSES;
}

/* One frame: exactly this reason, this fate, one packet, all its bytes, and nothing else. */
static inline void expect_fate(const struct xbloom *filter, const struct frame *frame,
			       const char *reason, enum fate fate)
{
	struct outcome expected = outcome_expected(reason, fate, 1, frame->len);
	struct xbloom_stats before = stats_now(filter), after;
	struct outcome seen;
	uint32_t verdict;

	verdict = run_frame(filter, frame->b, frame->len);
	after = stats_now(filter);
	seen = outcome_seen(verdict, &before, &after);
	assert_string_equal(seen.text, expected.text);
}

/* The same with the fate that the filter's policy gives the reason. */
static inline void expect(const struct xbloom *filter, const struct frame *frame,
			  const char *reason)
{
	struct xbloom_rules rules;

	xbloom_rules(filter, &rules);
	expect_fate(filter, frame, reason, fate_of(reason, rules.policy, rules.shadow));
}

#endif /* XBLOOM_TESTS_PACKET_H */
