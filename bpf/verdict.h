/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From an answer to a verdict: what each reason does under the filter's policy, what is exempt from
 * it, shadow, and the one counter that each packet adds to.
 */
#ifndef XBLOOM_BPF_VERDICT_H
#define XBLOOM_BPF_VERDICT_H

#include "maps.h"
#include "parse.h"

static __always_inline void xbloom_count(__u32 reason, __u32 action, __u64 bytes)
{
	__u32 zero = 0;
	struct xbloom_stats *stats = bpf_map_lookup_elem(&xbloom_stats, &zero);

	/* Fails open: the only element of an array is always there, and a count is no verdict. */
	if (!stats || reason >= XBLOOM_REASONS || action >= XBLOOM_ACTIONS)
		return;
	stats->c[reason][action].packets++;
	stats->c[reason][action].bytes += bytes;
}

/* Whether a packet with this reason is to be dropped. */
static __always_inline int xbloom_drops(__u32 reason)
{
	switch (reason) {
	case XBLOOM_ABSENT:
		return params.policy == XBLOOM_POLICY_ALLOW;
	case XBLOOM_MAYBE:
		return params.policy == XBLOOM_POLICY_BLOCK;
	case XBLOOM_CONFIRMED:
		return 1;
	case XBLOOM_MALFORMED:
	case XBLOOM_FRAGMENT:
	case XBLOOM_EXTHDR:
	case XBLOOM_VLAN_TAGS:
		return params.unkeyed_drop >> reason & 1;
	default:
		/* Not IP, neighbour discovery, an empty slot, an error: a network needs them. */
		/* And refuted: the exact map knows better than the filter's maybe. */
		return 0;
	}
}

/*
 * Whether the keyed address (of two the source) is one that is never dropped. The constants are
 * compared with no branch on what they are: it is a flood that asks.
 */
static __always_inline int xbloom_is_exempt(const struct xbloom_flow *flow, __u32 fields)
{
	struct xbloom_exempt_key key = { .plen = XBLOOM_PLEN6_HOST };
	struct xbloom_exempt e;
	__u64 addr[2];
	__u32 found = 0;
	__u32 i;

	xbloom_exempt_addr(flow, fields, addr);
	if (params.exempt_trie) {
		__builtin_memcpy(key.addr, addr, sizeof(key.addr));
		return bpf_map_lookup_elem(&xbloom_exempt, &key) ? 1 : 0;
	}
#pragma unroll
	for (i = 0; i < XBLOOM_EXEMPT_CONSTANTS; i++) {
		if (i >= params.n_exempt)
			break;
		e.addr[0] = params.exempt[i].addr[0];
		e.addr[1] = params.exempt[i].addr[1];
		e.mask[0] = params.exempt[i].mask[0];
		e.mask[1] = params.exempt[i].mask[1];
		found |= xbloom_exempt_match(&e, addr);
	}
	return found;
}

/*
 * The same for who has not kept the flow: the packet is parsed once more. A packet without an
 * address, being no whole IP header, is not exempt.
 */
static __noinline int xbloom_is_exempt_packet(struct xdp_md *ctx)
{
	struct xbloom_flow flow = {};
	__u64 bytes;

	xbloom_parse(ctx, params.fields, &flow, &bytes);
	return flow.family && xbloom_is_exempt(&flow, params.fields);
}

/*
 * Count the packet and return its XDP verdict. `flow`, where it is given, spares a packet that is to
 * be dropped the second parsing.
 */
static __always_inline int xbloom_verdict(struct xdp_md *ctx, const struct xbloom_flow *flow,
					  __u32 fields, __u32 reason, __u64 bytes)
{
	__u32 action = XBLOOM_PASS;

	if (xbloom_drops(reason)) {
		action = params.shadow ? XBLOOM_WOULD_DROP : XBLOOM_DROP;
		if (params.extras & XBLOOM_EXEMPTS &&
		    (flow ? flow->family && xbloom_is_exempt(flow, fields)
			  : xbloom_is_exempt_packet(ctx))) {
			reason = XBLOOM_EXEMPT;
			action = XBLOOM_PASS;
		}
	}
	xbloom_count(reason, action, bytes);
	return action == XBLOOM_DROP ? XDP_DROP : XDP_PASS;
}

#endif /* XBLOOM_BPF_VERDICT_H */
