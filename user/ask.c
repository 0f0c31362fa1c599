// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The whole question, in user space: what the program would answer to a packet with this key, by the
 * same constants and the same bits. And what it would answer to every address of a prefix.
 */
#include <time.h>

#include "internal.h"

/* As many addresses, or prefixes of one length, are asked for one by one. */
#define ONE_BY_ONE_BITS 16
#define NS_PER_S 1000000000ULL

/* The arrays whose time is not over, a bit each. */
static uint32_t live_arrays(const struct xbloom *f, const struct xbloom_params *p)
{
	struct timespec t;
	uint32_t i, live = 0;
	uint64_t now;

	if (f->lives <= 1)
		return 1;
	clock_gettime(CLOCK_BOOTTIME, &t);
	now = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
	for (i = 0; i < f->lives; i++)
		if (now < p->expires_ns[i])
			live |= 1u << i;
	return live;
}

static bool ask_hash(const struct xbloom *f, uint32_t live, uint64_t hash)
{
	uint32_t i;

	for (i = 0; i < f->lives; i++)
		if (live >> i & 1 &&
		    xbloom_test_hash(&f->geometry, f->blocks + i * f->geometry.blocks, hash))
			return true;
	return false;
}

static bool ask_key(const struct xbloom *f, const struct xbloom_params *p, uint32_t live,
		    const struct xbloom_flow *flow)
{
	return ask_hash(f, live, xbloom_key_hash(&p->hash_key, flow, p->fields));
}

/* Whether all /24s from that of the flow's address on, so many, are in the exact map. */
static bool in_nets4(const struct xbloom *f, const struct xbloom_params *p, uint32_t live,
		     const struct xbloom_flow *flow, uint32_t n)
{
	uint32_t first = xbloom_net4(p->fields & XBLOOM_SRC ? flow->src.v4 : flow->dst.v4);
	uint32_t i, net;

	if (!p->nets4 || !f->nets4)
		return false;
	for (net = first; net < first + n; net++) {
		bool found = false;

		for (i = 0; i < f->lives && !found; i++)
			found = live >> i & 1 &&
				xbloom_net4_test(&f->nets4[i * XBLOOM_NETS4_BLOCKS +
							   net / XBLOOM_BLOCK_BITS],
						 net);
		if (!found)
			return false;
	}
	return true;
}

static bool ask_v4(const struct xbloom *f, const struct xbloom_params *p, uint32_t live,
		   const struct xbloom_flow *flow)
{
	struct xbloom_flow host = *flow;
	uint32_t i;

	if (flow->plen <= XBLOOM_NETS4_PLEN)
		return in_nets4(f, p, live, flow, 1u << (XBLOOM_NETS4_PLEN - flow->plen));
	if (in_nets4(f, p, live, flow, 1))
		return true;
	host.plen = XBLOOM_PLEN4_HOST;
	for (i = 0; i < 1u << (XBLOOM_PLEN4_HOST - flow->plen); i++) {
		__u32 *addr = p->fields & XBLOOM_SRC ? &host.src.v4 : &host.dst.v4;
		__u32 first = p->fields & XBLOOM_SRC ? flow->src.v4 : flow->dst.v4;

		*addr = XBLOOM_BIG32(XBLOOM_BIG32(first) + i);
		if (!ask_key(f, p, live, &host))
			return false;
	}
	return true;
}

/* By a key that covers it all: one of the filter's lengths, no longer than its own. */
static bool ask_v6_covering(const struct xbloom *f, const struct xbloom_params *p, uint32_t live,
			    const struct xbloom_flow *flow)
{
	uint32_t i;

	if (flow->plen == XBLOOM_PLEN6_HOST && ask_key(f, p, live, flow))
		return true;
	for (i = 0; i < p->n_plens6; i++) {
		struct xbloom_flow shorter = *flow;

		if (p->plens6[i].plen > flow->plen)
			continue;
		xbloom_flow_to_prefix6(&shorter, p->fields, &p->plens6[i]);
		if (ask_key(f, p, live, &shorter))
			return true;
	}
	return false;
}

struct expanding {
	const struct xbloom *f;
	const struct xbloom_params *p;
	uint32_t live;
};

/* 0, or 1 at the first that is absent. */
static int ask_expanded(void *ctx, const struct xbloom_flow *flow)
{
	const struct expanding *e = ctx;

	return !ask_v6_covering(e->f, e->p, e->live, flow);
}

/* Or by all keys that it would have become when it was put in. */
static bool ask_v6_parts(const struct xbloom *f, const struct xbloom_params *p, uint32_t live,
			 const struct xbloom_flow *flow)
{
	struct expanding e = { f, p, live };
	struct xbloom_prefix_plan plan = { 0 };
	struct xbloom_prefixes one = { 0 };
	uint32_t i, next = XBLOOM_PLEN6_HOST;
	int ret;

	for (i = 0; i < p->n_plens6; i++) {
		plan.plens6[plan.n_plens6++] = p->plens6[i].plen;
		if (p->plens6[i].plen >= flow->plen && p->plens6[i].plen < next)
			next = p->plens6[i].plen;
	}
	if (next == flow->plen || next - flow->plen > ONE_BY_ONE_BITS ||
	    xbloom_prefixes_push(&one, flow, p->fields, NULL))
		return false;
	ret = xbloom_prefixes_expand(&one, &plan, p->fields, ask_expanded, &e);
	xbloom_prefixes_free(&one);
	return !ret;
}

bool xbloom_test_flow(const struct xbloom *f, const struct xbloom_flow *flow)
{
	const struct xbloom_params *p = xbloom_params_in_force(f);
	uint32_t live = live_arrays(f, p);

	if (!(p->fields & XBLOOM_FIELDS_ADDR))
		return ask_key(f, p, live, flow);
	if (flow->family == XBLOOM_FAMILY_V4)
		return ask_v4(f, p, live, flow);
	return ask_v6_covering(f, p, live, flow) || ask_v6_parts(f, p, live, flow);
}
