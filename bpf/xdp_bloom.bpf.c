// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom's data path.
 *
 *   xdp_bloom       the entry program: attached to devices, never replaced; jumps into the slot
 *   xdp_bloom_try   the entry program of a trial: the same until its deadline, then nothing
 *   xdp_bloom_slot  the filter program: one per generation, specialised by its constants
 *   xdp_bloom_slot_all  the same for filters with prefixes or with several arrays of bits
 *
 * `ip link set dev D xdp obj xdp_bloom.bpf.o sec xdp` takes the first program of section "xdp",
 * so the entry program stands first. User space loads each with XDP frags (jumbo frames).
 */
#include "maps.h"
#include "parse.h"
#include "verdict.h"

char LICENSE[] SEC("license") = "GPL";

/* Only here when the slot is empty: fails open, since a half-made filter is no reason to drop. */
static __always_inline int xbloom_no_filter(struct xdp_md *ctx)
{
	xbloom_count(XBLOOM_NO_FILTER, XBLOOM_PASS, bpf_xdp_get_buff_len(ctx));
	return XDP_PASS;
}

SEC("xdp")
int xdp_bloom(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &xbloom_slots, XBLOOM_SLOT);
	return xbloom_no_filter(ctx);
}

SEC("xdp")
int xdp_bloom_try(struct xdp_md *ctx)
{
	/* The kernel itself ends a trial, whatever became of the process that was to end it. */
	if (bpf_ktime_get_boot_ns() >= try_deadline_ns)
		return XDP_PASS;
	bpf_tail_call(ctx, &xbloom_slots, XBLOOM_SLOT);
	return xbloom_no_filter(ctx);
}

static __always_inline struct xbloom_block *xbloom_block_of(__u64 index)
{
	__u32 key = (__u32)index;

	return bpf_map_lookup_elem(&xbloom_filter, &key);
}

/* One cache line and no branch on what it holds. `first` is the first block of the array asked. */
static __always_inline int xbloom_ask_split(__u64 h, __u64 first)
{
	const struct xbloom_block *block =
		xbloom_block_of(first + xbloom_split_block(h, params.blocks));

	if (!block)
		return XBLOOM_ERROR;
	return xbloom_split_test(block, h) ? XBLOOM_MAYBE : XBLOOM_ABSENT;
}

/* Up to k lines; the first clear bit ends it. */
static __always_inline int xbloom_ask_classic(__u64 h, __u64 first)
{
	struct xbloom_probe p = xbloom_classic_first(h);
	__u32 i;

	for (i = 0; i < XBLOOM_CLASSIC_K_MAX; i++, xbloom_classic_next(&p)) {
		const struct xbloom_block *block;
		__u64 bit;

		if (i >= params.k)
			break;
		bit = xbloom_classic_bit(p.at, params.bits);
		block = xbloom_block_of(first + bit / XBLOOM_BLOCK_BITS);
		if (!block)
			return XBLOOM_ERROR;
		if (!(block->w[bit / XBLOOM_WORD_BITS % XBLOOM_BLOCK_WORDS] >>
			      (bit % XBLOOM_WORD_BITS) &
		      1))
			return XBLOOM_ABSENT;
	}
	return XBLOOM_MAYBE;
}

/* A block that is not there (XBLOOM_ERROR) fails open under either policy, and is counted. */
static __always_inline int xbloom_ask(__u64 h, __u64 first)
{
	if (params.layout == XBLOOM_LAYOUT_SPLIT)
		return xbloom_ask_split(h, first);
	return xbloom_ask_classic(h, first);
}

/* ---- prefixes, and several arrays ---- */

/* The arrays whose time is not over, a bit each. */
static __always_inline __u32 xbloom_live(void)
{
	__u32 i, live = 0;
	__u64 now;

	if (params.lives <= 1)
		return 1;
	now = bpf_ktime_get_boot_ns();
#pragma unroll
	for (i = 0; i < XBLOOM_LIVES_MAX; i++)
		if (i < params.lives && now < params.expires_ns[i])
			live |= 1u << i;
	return live;
}

/* One hash, in each array that is live. Not inlined: several calls of it share what it keeps. */
static __noinline int xbloom_ask_live(__u64 h, __u32 live)
{
	int reason, found = XBLOOM_ABSENT;
	__u32 i;

#pragma unroll
	for (i = 0; i < XBLOOM_LIVES_MAX; i++) {
		if (i && i >= params.lives)
			break;
		if (!(live & 1u << i))
			continue;
		reason = xbloom_ask(h, i * params.blocks);
		if (reason != XBLOOM_ABSENT)
			found = reason;
	}
	return found;
}

/* Whether an IPv4 address is in a prefix of up to /24. 0 or 1; a block that is not there: 0. */
static __always_inline int xbloom_in_nets4(const struct xbloom_flow *flow, __u32 fields, __u32 live)
{
	__u32 n = xbloom_net4(fields & XBLOOM_SRC ? flow->src.v4 : flow->dst.v4);
	int found = 0;
	__u32 i;

#pragma unroll
	for (i = 0; i < XBLOOM_LIVES_MAX; i++) {
		__u32 key = i * XBLOOM_NETS4_BLOCKS + n / XBLOOM_BLOCK_BITS;
		const struct xbloom_block *block;

		if (i && i >= params.lives)
			break;
		if (!(live & 1u << i))
			continue;
		block = bpf_map_lookup_elem(&xbloom_nets4, &key);
		if (block)
			found |= xbloom_net4_test(block, n);
	}
	return found;
}

/* The flow as a key of number i of the filter's lengths. */
static __always_inline void xbloom_shorten(struct xbloom_flow *flow, __u32 fields, __u32 i)
{
	const struct xbloom_plen6 p = {
		.mask = { params.plens6[i].mask[0], params.plens6[i].mask[1] },
		.plen = params.plens6[i].plen,
	};

	xbloom_flow_to_prefix6(flow, fields, &p);
}

/*
 * The whole question, for filters with prefixes or with several arrays: one key, or for IPv6 one
 * under each length. What is in a prefix is maybe; the look into `nets4` does not wait for the one
 * into the filter.
 */
static __always_inline int xbloom_ask_all(const struct xbloom_hash_key *hash_key,
					  struct xbloom_flow *flow, __u32 fields)
{
	struct xbloom_addr6 whole;
	__u32 live = xbloom_live();
	int in_net = 0, reason, found;
	__u32 i;

	if (flow->family == XBLOOM_FAMILY_V4 && params.nets4)
		in_net = xbloom_in_nets4(flow, fields, live);
	found = xbloom_ask_live(xbloom_key_hash(hash_key, flow, fields), live);
	if (flow->family == XBLOOM_FAMILY_V6 && params.n_plens6 > 1) {
		/* The longest, a host's, was the question above; each mask is part of the one before. */
		whole = xbloom_flow_addr6(flow, fields);
#pragma clang loop unroll(disable)
		for (i = 1; i < XBLOOM_PLENS6_MAX; i++) {
			if (i >= params.n_plens6)
				break;
			xbloom_shorten(flow, fields, i);
			reason = xbloom_ask_live(xbloom_key_hash(hash_key, flow, fields), live);
			if (reason != XBLOOM_ABSENT)
				found = reason;
		}
		xbloom_flow_restore6(flow, fields, &whole);
	}
	return in_net ? XBLOOM_MAYBE : found;
}

/* ---- after the answer ---- */

/*
 * The second opinion on a maybe, for one key. A key goes into the exact map before its first bit is
 * set, so what the map does not hold was never put in.
 */
static __always_inline int xbloom_in_exact(const struct xbloom_flow *flow, __u64 *words)
{
	xbloom_key_words(flow, params.fields, words);
	return bpf_map_lookup_elem(&xbloom_confirm, words) ? 1 : 0;
}

/*
 * The same for all that the filter was asked: prefixes are exact, or keys of their own. The words of
 * the key are left in words[], which was zero.
 */
static __always_inline int xbloom_confirm_maybe(struct xbloom_flow *flow, __u64 *words)
{
	struct xbloom_addr6 whole;
	int found = xbloom_in_exact(flow, words);
	__u32 i;

	if (params.nets4 && flow->family == XBLOOM_FAMILY_V4)
		found |= xbloom_in_nets4(flow, params.fields, xbloom_live());
	if (params.n_plens6 > 1 && flow->family == XBLOOM_FAMILY_V6 && !found) {
		whole = xbloom_flow_addr6(flow, params.fields);
#pragma clang loop unroll(disable)
		for (i = 1; i < XBLOOM_PLENS6_MAX; i++) {
			if (i >= params.n_plens6)
				break;
			xbloom_shorten(flow, params.fields, i);
			found |= xbloom_in_exact(flow, words);
		}
		xbloom_flow_restore6(flow, params.fields, &whole);
		xbloom_key_words(flow, params.fields, words);
	}
	return found ? XBLOOM_CONFIRMED : XBLOOM_REFUTED;
}

/* Whether answers of this kind are sampled, and this one is: one in so many, at random. */
static __always_inline int xbloom_is_sampled(__u32 reason)
{
	__u32 kind = reason == XBLOOM_ABSENT ? XBLOOM_SAMPLE_ABSENT : XBLOOM_SAMPLE_MAYBE;

	return params.extras & kind &&
	       !(((__u64)bpf_get_prandom_u32() * params.sample_every) >> 32);
}

/*
 * Hand the key to who reads samples. A full buffer loses it and counts that: the packet's own way
 * goes on as ever.
 */
static __always_inline void xbloom_sample(const __u64 *words, __u32 n_words, __u32 reason)
{
	struct xbloom_stats *stats;
	struct xbloom_sample *s;
	__u32 zero = 0;
	int i;

	stats = bpf_map_lookup_elem(&xbloom_stats, &zero);
	if (!stats)
		return; /* as in xbloom_count() */
	s = bpf_ringbuf_reserve(&xbloom_samples, sizeof(*s), 0);
	if (!s) {
		stats->samples_lost++;
		return;
	}
#pragma unroll
	for (i = 0; i < (int)XBLOOM_KEY_WORDS_MAX; i++)
		s->words[i] = words[i];
	s->n_words = n_words;
	s->reason = reason;
	/* Readers look by the clock: to wake one up would cost more than the sample. */
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	stats->samples++;
}

/*
 * What some filters do after the answer, maybe or absent: look the key up, hand it on, or both.
 * Returns the reason that is to count. Not inlined, and the packet is parsed once more: what is kept
 * for this on the stack, all packets of all filters would pay for.
 */
static __noinline int xbloom_after(struct xdp_md *ctx, __u32 reason, int asked, int sampled)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX] = {};
	struct xbloom_flow flow = {};
	__u32 n_words;
	__u64 bytes;

	/* Cannot fail, as it did not before; if it did, the filter's own answer would stand. */
	if (xbloom_parse(ctx, params.fields, &flow, &bytes) != XBLOOM_KEYED)
		return reason;
	n_words = xbloom_key_words(&flow, params.fields, words);
	/* Constants again: the verifier follows neither into maps that the filter does not have. */
	if (params.extras & XBLOOM_CONFIRM && asked)
		reason = xbloom_confirm_maybe(&flow, words);
	if (params.extras & XBLOOM_SAMPLE && sampled)
		xbloom_sample(words, n_words, reason);
	return reason;
}

static __always_inline int xbloom_do_extras(struct xdp_md *ctx, __u32 reason)
{
	int asked = params.extras & XBLOOM_CONFIRM && reason == XBLOOM_MAYBE;
	int sampled = params.extras & XBLOOM_SAMPLE && xbloom_is_sampled(reason);

	return asked || sampled ? xbloom_after(ctx, reason, asked, sampled) : (int)reason;
}

/*
 * One packet, from its first byte to its verdict. `all` and `keep` are constants of the caller: ask
 * all that a filter with prefixes or several arrays asks, and keep the flow for the verdict.
 */
static __always_inline int xbloom_filter_packet(struct xdp_md *ctx, __u32 fields, int all, int keep)
{
	struct xbloom_hash_key hash_key = { params.hash_key.k0, params.hash_key.k1 };
	struct xbloom_flow flow = {};
	__u64 bytes;
	int reason;

	reason = xbloom_parse(ctx, fields, &flow, &bytes);
	if (reason != XBLOOM_KEYED)
		return xbloom_verdict(ctx, keep ? &flow : NULL, fields, reason, bytes);

	if (all)
		reason = xbloom_ask_all(&hash_key, &flow, fields);
	else
		reason = xbloom_ask(xbloom_key_hash(&hash_key, &flow, fields), 0);
	if (params.extras & (XBLOOM_CONFIRM | XBLOOM_SAMPLE) && reason != XBLOOM_ERROR)
		reason = xbloom_do_extras(ctx, reason);
	return xbloom_verdict(ctx, keep ? &flow : NULL, fields, reason, bytes);
}

/*
 * The default key is compiled for itself: where the fields are not known, the compiler keeps all
 * of them on the stack, a tenth of the filter's price. The verifier removes the other branch.
 */
SEC("xdp.frags")
int xdp_bloom_slot(struct xdp_md *ctx)
{
	if (params.fields == XBLOOM_SRC)
		return xbloom_filter_packet(ctx, XBLOOM_SRC, 0, 0);
	return xbloom_filter_packet(ctx, params.fields, 0, 0);
}

/*
 * The same for a filter with prefixes, with several arrays, or that drops what is absent and has
 * exemptions. A program of its own: what it keeps, the others would pay for.
 */
SEC("xdp.frags")
int xdp_bloom_slot_all(struct xdp_md *ctx)
{
	if (params.fields == XBLOOM_SRC)
		return xbloom_filter_packet(ctx, XBLOOM_SRC, 1, 1);
	return xbloom_filter_packet(ctx, params.fields, 1, 1);
}
