// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The whole question, in user space: what the program would answer to a packet with this key, by the
 * same constants and the same bits. And what it would answer to every address of a prefix.
 */
#include <string.h>

#include "internal.h"

/* An IPv6 prefix is looked through when its parts, of the next length, are no more than 2^16. */
#define ONE_BY_ONE_BITS 16
#define HOSTS_OF_NET4 (1u << (XBLOOM_PLEN4_HOST - XBLOOM_NETS4_PLEN))

/* The arrays whose time is not over, a bit each. */
uint32_t xbloom_live_arrays(const struct xbloom *f, const struct xbloom_params *p)
{
	uint32_t i, live = 0;
	uint64_t now;

	if (f->lives <= 1)
		return 1;
	now = xbloom_boot_ns();
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

/* Whether a /24, by its number, is in the exact map. */
static bool in_nets4(const struct xbloom *f, const struct xbloom_params *p, uint32_t live,
		     uint32_t net)
{
	uint32_t i;

	if (!p->nets4)
		return false;
	/* It came to the filter after f was opened. What cannot be asked is not certainly absent. */
	if (!f->nets4)
		return true;
	for (i = 0; i < f->lives; i++)
		if (live >> i & 1 &&
		    xbloom_net4_test(&f->nets4[i * XBLOOM_NETS4_BLOCKS + net / XBLOOM_BLOCK_BITS],
				     net))
			return true;
	return false;
}

/* Whether n addresses, from this one on (a number), are maybe as keys of their own. */
static bool ask_hosts4(const struct xbloom *f, const struct xbloom_params *p, uint32_t live,
		       const struct xbloom_flow *flow, uint32_t first, uint32_t n)
{
	struct xbloom_flow host = *flow;
	uint32_t i;

	host.plen = XBLOOM_PLEN4_HOST;
	for (i = 0; i < n; i++) {
		*(p->fields & XBLOOM_SRC ? &host.src.v4 : &host.dst.v4) = XBLOOM_BIG32(first + i);
		if (!ask_key(f, p, live, &host))
			return false;
	}
	return true;
}

/* Each /24 by its bit, or address by address, as a list may have had it in pieces. */
static bool ask_v4(const struct xbloom *f, const struct xbloom_params *p, uint32_t live,
		   const struct xbloom_flow *flow)
{
	uint32_t first = XBLOOM_BIG32(p->fields & XBLOOM_SRC ? flow->src.v4 : flow->dst.v4);
	uint32_t net = first / HOSTS_OF_NET4, end;

	if (flow->plen > XBLOOM_NETS4_PLEN)
		return in_nets4(f, p, live, net) ||
		       ask_hosts4(f, p, live, flow, first, 1u << (XBLOOM_PLEN4_HOST - flow->plen));
	for (end = net + (1u << (XBLOOM_NETS4_PLEN - flow->plen)); net < end; net++)
		if (!in_nets4(f, p, live, net) &&
		    !ask_hosts4(f, p, live, flow, net * HOSTS_OF_NET4, HOSTS_OF_NET4))
			return false;
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

struct asking {
	const struct xbloom *f;
	const struct xbloom_params *p;
	uint32_t live;
};

static bool ask_v6(const struct asking *a, const struct xbloom_flow *flow);

/* 0, or 1 at the first that is absent. */
static int ask_part(void *ctx, const struct xbloom_flow *flow)
{
	return !ask_v6(ctx, flow);
}

/* Or by all of its parts, of the next length that the filter has. */
static bool ask_v6_parts(const struct asking *a, const struct xbloom_flow *flow)
{
	struct xbloom_prefix_plan plan = { .n_plens6 = 1, .plens6 = { XBLOOM_PLEN6_HOST } };
	struct xbloom_prefixes one = { 0 };
	uint32_t i, next = XBLOOM_PLEN6_HOST;
	int ret;

	for (i = 0; i < a->p->n_plens6; i++)
		if (a->p->plens6[i].plen > flow->plen && a->p->plens6[i].plen < next)
			next = a->p->plens6[i].plen;
	if (next <= flow->plen || next - flow->plen > ONE_BY_ONE_BITS)
		return false;
	if (xbloom_prefixes_push(&one, flow, a->p->fields, NULL))
		return true; /* no memory to look: as above, not certainly absent */
	plan.plens6[plan.n_plens6 - 1] = next;
	ret = xbloom_prefixes_expand(&one, &plan, a->p->fields, ask_part, (void *)a);
	xbloom_prefixes_free(&one);
	return !ret;
}

static bool ask_v6(const struct asking *a, const struct xbloom_flow *flow)
{
	return ask_v6_covering(a->f, a->p, a->live, flow) || ask_v6_parts(a, flow);
}

bool xbloom_test_flow(const struct xbloom *f, const struct xbloom_flow *flow)
{
	const struct xbloom_params *p = xbloom_params_in_force(f);
	uint32_t live = xbloom_live_arrays(f, p);

	if (!(p->fields & XBLOOM_FIELDS_ADDR))
		return ask_key(f, p, live, flow);
	if (flow->family == XBLOOM_FAMILY_V4)
		return ask_v4(f, p, live, flow);
	return ask_v6(&(struct asking){ f, p, live }, flow);
}

bool xbloom_test_words(const struct xbloom *f, const __u64 *words, unsigned int n_words)
{
	const struct xbloom_params *p = xbloom_params_in_force(f);
	__u64 wide[XBLOOM_KEY_WORDS_MAX] = { 0 };
	struct xbloom_prefix address;
	struct xbloom_flow flow;

	memcpy(wide, words, n_words * sizeof(*words));
	/* Only of a lone address are there prefixes. */
	if (!xbloom_words_to_prefix(wide, p->fields, &address))
		return ask_hash(f, xbloom_live_arrays(f, p),
				xbloom_words_hash(&p->hash_key, words, n_words));
	xbloom_prefix_flow(&address, p->fields, &flow);
	return xbloom_test_flow(f, &flow);
}
