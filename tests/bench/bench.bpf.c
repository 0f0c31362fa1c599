// SPDX-License-Identifier: GPL-2.0-only
/*
 * The programs that the filter is measured against. Every packet runs bench_generate, which writes
 * a new source address into the frame and jumps to the program under test: one of these, or the
 * filter's own entry or filter program from xdp_bloom.bpf.c. They parse with the filter's parser
 * and end in the filter's verdict and counter, so what differs is the lookup alone.
 *
 * User space makes xbloom_stats and xbloom_filter the very maps of the filter under test.
 */
#include "maps.h"
#include "parse.h"
#include "verdict.h"
#include "bench/bench.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* The program under test, in slot 0: a constant index, which the JIT turns into a plain jump. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} bench_target SEC(".maps");

/* The kernel's own filter, twice: user space sets size and number of hashes. */
struct {
	__uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
	__uint(max_entries, 1);
	__type(value, __u32);
} bench_kbloom SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
	__uint(max_entries, 1);
	__type(value, __u32);
} bench_kbloom_doc SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} bench_hash SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct bench_lpm_key);
	__type(value, __u32);
} bench_lpm SEC(".maps");

struct bench_generator generator;

/* XDP_ABORTED, and no count, when there is nothing to measure: user space then gives up. */
SEC("xdp.frags")
int bench_generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	__u64 index;

	if ((void *)(ip + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	generator.state = bench_next(generator.state);
	index = ((generator.state >> 32) * generator.range) >> 32;
	ip->saddr = bpf_htonl(bench_address((__u32)index, generator.mode));
	bpf_tail_call(ctx, &bench_target, 0);
	return XDP_ABORTED;
}

/* The base line: generate, parse, count, return. */
SEC("xdp.frags")
int bench_parse_only(struct xdp_md *ctx)
{
	struct xbloom_flow flow = {};
	__u64 bytes;
	int reason = xbloom_parse(ctx, XBLOOM_SRC, &flow, &bytes);

	if (reason != XBLOOM_KEYED)
		return xbloom_verdict(ctx, NULL, XBLOOM_SRC, reason, bytes);
	return xbloom_verdict(ctx, NULL, XBLOOM_SRC, XBLOOM_ABSENT, bytes);
}

/*
 * The limit: one random line of the filter's array, one multiplication to find it, one branch on
 * what it holds. The branch is never taken: no word of a filter at its load is all ones.
 */
SEC("xdp.frags")
int bench_one_line(struct xdp_md *ctx)
{
	const struct xbloom_block *block;
	struct xbloom_flow flow = {};
	__u64 bytes;
	__u32 key;
	int reason = xbloom_parse(ctx, XBLOOM_SRC, &flow, &bytes);

	if (reason != XBLOOM_KEYED)
		return xbloom_verdict(ctx, NULL, XBLOOM_SRC, reason, bytes);
	key = ((__u64)(flow.src.v4 * 0x9e3779b9u) * params.blocks) >> 32;
	block = bpf_map_lookup_elem(&xbloom_filter, &key);
	if (!block)
		return xbloom_verdict(ctx, NULL, XBLOOM_SRC, XBLOOM_ERROR, bytes);
	reason = *(const volatile __u64 *)&block->w[0] == ~0ULL ? XBLOOM_MAYBE : XBLOOM_ABSENT;
	return xbloom_verdict(ctx, NULL, XBLOOM_SRC, reason, bytes);
}

static __always_inline int ask_kbloom(struct xdp_md *ctx, void *map)
{
	struct xbloom_flow flow = {};
	__u64 bytes;
	__u32 key;
	int reason = xbloom_parse(ctx, XBLOOM_SRC, &flow, &bytes);

	if (reason != XBLOOM_KEYED)
		return xbloom_verdict(ctx, NULL, XBLOOM_SRC, reason, bytes);
	key = flow.src.v4;
	reason = bpf_map_peek_elem(map, &key) ? XBLOOM_ABSENT : XBLOOM_MAYBE;
	return xbloom_verdict(ctx, NULL, XBLOOM_SRC, reason, bytes);
}

SEC("xdp.frags")
int bench_ask_kbloom(struct xdp_md *ctx)
{
	return ask_kbloom(ctx, &bench_kbloom);
}

SEC("xdp.frags")
int bench_ask_kbloom_doc(struct xdp_md *ctx)
{
	return ask_kbloom(ctx, &bench_kbloom_doc);
}

SEC("xdp.frags")
int bench_ask_hash(struct xdp_md *ctx)
{
	struct xbloom_flow flow = {};
	__u64 bytes;
	__u32 key;
	int reason = xbloom_parse(ctx, XBLOOM_SRC, &flow, &bytes);

	if (reason != XBLOOM_KEYED)
		return xbloom_verdict(ctx, NULL, XBLOOM_SRC, reason, bytes);
	key = flow.src.v4;
	reason = bpf_map_lookup_elem(&bench_hash, &key) ? XBLOOM_MAYBE : XBLOOM_ABSENT;
	return xbloom_verdict(ctx, NULL, XBLOOM_SRC, reason, bytes);
}

SEC("xdp.frags")
int bench_ask_lpm(struct xdp_md *ctx)
{
	struct bench_lpm_key key = { .prefix_len = 32 };
	struct xbloom_flow flow = {};
	__u64 bytes;
	int reason = xbloom_parse(ctx, XBLOOM_SRC, &flow, &bytes);

	if (reason != XBLOOM_KEYED)
		return xbloom_verdict(ctx, NULL, XBLOOM_SRC, reason, bytes);
	key.addr = flow.src.v4;
	reason = bpf_map_lookup_elem(&bench_lpm, &key) ? XBLOOM_MAYBE : XBLOOM_ABSENT;
	return xbloom_verdict(ctx, NULL, XBLOOM_SRC, reason, bytes);
}
