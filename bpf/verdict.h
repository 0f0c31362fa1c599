/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From an answer to a verdict: what each reason does under the filter's policy, shadow, and the
 * one counter that each packet adds to.
 */
#ifndef XBLOOM_BPF_VERDICT_H
#define XBLOOM_BPF_VERDICT_H

#include "maps.h"

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

/* Count the packet and return its XDP verdict. */
static __always_inline int xbloom_verdict(__u32 reason, __u64 bytes)
{
	__u32 action = XBLOOM_PASS;

	if (xbloom_drops(reason))
		action = params.shadow ? XBLOOM_WOULD_DROP : XBLOOM_DROP;
	xbloom_count(reason, action, bytes);
	return action == XBLOOM_DROP ? XDP_DROP : XDP_PASS;
}

#endif /* XBLOOM_BPF_VERDICT_H */
