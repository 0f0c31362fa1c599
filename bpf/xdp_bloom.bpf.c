// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom's data path.
 *
 *   xdp_bloom       the entry program: attached to devices, never replaced; jumps into the slot
 *   xdp_bloom_try   the entry program of a trial: the same until its deadline, then nothing
 *   xdp_bloom_slot  the filter program: one per generation, specialised by its constants
 *
 * `ip link set dev D xdp obj xdp_bloom.bpf.o sec xdp` takes the first program of section "xdp",
 * so the entry program stands first. User space loads all three with XDP frags (jumbo frames).
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

/* One cache line and no branch on what it holds. */
static __always_inline int xbloom_ask_split(__u64 h)
{
	const struct xbloom_block *block = xbloom_block_of(xbloom_split_block(h, params.blocks));

	if (!block)
		return XBLOOM_ERROR;
	return xbloom_split_test(block, h) ? XBLOOM_MAYBE : XBLOOM_ABSENT;
}

/* Up to k lines; the first clear bit ends it. */
static __always_inline int xbloom_ask_classic(__u64 h)
{
	struct xbloom_probe p = xbloom_classic_first(h);
	__u32 i;

	for (i = 0; i < XBLOOM_CLASSIC_K_MAX; i++, xbloom_classic_next(&p)) {
		const struct xbloom_block *block;
		__u64 bit;

		if (i >= params.k)
			break;
		bit = xbloom_classic_bit(p.at, params.bits);
		block = xbloom_block_of(bit / XBLOOM_BLOCK_BITS);
		if (!block)
			return XBLOOM_ERROR;
		if (!(block->w[bit / XBLOOM_WORD_BITS % XBLOOM_BLOCK_WORDS] >>
			      (bit % XBLOOM_WORD_BITS) &
		      1))
			return XBLOOM_ABSENT;
	}
	return XBLOOM_MAYBE;
}

/*
 * The second opinion on a maybe. A key goes into the exact map before its first bit is set, so what
 * the map does not hold was never put in.
 */
static __always_inline int xbloom_confirm_maybe(const __u64 *words)
{
	return bpf_map_lookup_elem(&xbloom_confirm, words) ? XBLOOM_CONFIRMED : XBLOOM_REFUTED;
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
		reason = xbloom_confirm_maybe(words);
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

static __always_inline int xbloom_filter_packet(struct xdp_md *ctx, __u32 fields)
{
	struct xbloom_hash_key hash_key = { params.hash_key.k0, params.hash_key.k1 };
	struct xbloom_flow flow = {};
	__u64 bytes, h;
	int reason;

	reason = xbloom_parse(ctx, fields, &flow, &bytes);
	if (reason != XBLOOM_KEYED)
		return xbloom_verdict(reason, bytes);

	h = xbloom_key_hash(&hash_key, &flow, fields);
	/* A block that is not there (XBLOOM_ERROR) fails open under either policy, and is counted. */
	if (params.layout == XBLOOM_LAYOUT_SPLIT)
		reason = xbloom_ask_split(h);
	else
		reason = xbloom_ask_classic(h);
	if (params.extras && reason != XBLOOM_ERROR)
		reason = xbloom_do_extras(ctx, reason);
	return xbloom_verdict(reason, bytes);
}

/*
 * The default key is compiled for itself: where the fields are not known, the compiler keeps all
 * of them on the stack, a tenth of the filter's price. The verifier removes the other branch.
 */
SEC("xdp.frags")
int xdp_bloom_slot(struct xdp_md *ctx)
{
	if (params.fields == XBLOOM_SRC)
		return xbloom_filter_packet(ctx, XBLOOM_SRC);
	return xbloom_filter_packet(ctx, params.fields);
}
