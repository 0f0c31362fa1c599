// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Prefixes of a list, on their way into the forms that a filter has for them (include/xbloom/prefix.h):
 * merged first, so that no address is covered twice, then IPv4 ones of up to /24 become bits, longer
 * ones hosts, and IPv6 ones keys of a few lengths, which are chosen here.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define FIRST_ROOM 64
#define V6_BITS 128

/*
 * A length more costs every IPv6 packet a hash and a cache line, and raises its error rate by as
 * much as there was for one look; a key more costs ten bits. So lengths are added only while the list
 * comes to more keys than these: a few for each of its prefixes, or 64 Ki (80 KiB at 1 %).
 */
#define KEYS_PER_PREFIX 4
#define KEYS_FREE 65536

/* ---- one prefix ---- */

static unsigned int host_plen(uint8_t family)
{
	return family == XBLOOM_FAMILY_V4 ? XBLOOM_PLEN4_HOST : XBLOOM_PLEN6_HOST;
}

/* The first n bits of 128; those of an IPv4 address are the highest 32. */
static void mask_of(unsigned int n, uint64_t mask[2])
{
	mask[0] = n >= 64 ? ~0ULL : n ? ~0ULL << (64 - n) : 0;
	mask[1] = n > 64 ? ~0ULL << (V6_BITS - n) : 0;
}

static bool covers(const struct xbloom_prefix *a, const struct xbloom_prefix *b)
{
	uint64_t mask[2];

	if (a->family != b->family || a->plen > b->plen)
		return false;
	mask_of(a->plen, mask);
	return !(((a->addr[0] ^ b->addr[0]) & mask[0]) | ((a->addr[1] ^ b->addr[1]) & mask[1]));
}

/* Two halves of one prefix. */
static bool are_siblings(const struct xbloom_prefix *a, const struct xbloom_prefix *b)
{
	struct xbloom_prefix parent = *a;

	if (a->family != b->family || a->plen != b->plen || !a->plen)
		return false;
	parent.plen--;
	return covers(&parent, b) && !covers(a, b);
}

static int compare(const void *x, const void *y)
{
	const struct xbloom_prefix *a = x, *b = y;

	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	if (a->addr[0] != b->addr[0])
		return a->addr[0] < b->addr[0] ? -1 : 1;
	if (a->addr[1] != b->addr[1])
		return a->addr[1] < b->addr[1] ? -1 : 1;
	return (int)a->plen - (int)b->plen;
}

void xbloom_prefix_flow(const struct xbloom_prefix *p, uint32_t fields, struct xbloom_flow *flow)
{
	__u64 v6[2] = { XBLOOM_BIG64(p->addr[0]), XBLOOM_BIG64(p->addr[1]) };
	__u32 v4 = XBLOOM_BIG32((uint32_t)(p->addr[0] >> 32));
	void *to = fields & XBLOOM_SRC ? (void *)&flow->src : (void *)&flow->dst;

	memset(flow, 0, sizeof(*flow));
	flow->family = p->family;
	flow->plen = p->plen;
	if (p->family == XBLOOM_FAMILY_V4)
		memcpy(to, &v4, sizeof(v4));
	else
		memcpy(to, v6, sizeof(v6));
}

/* ---- a list of them ---- */

static int make_room(struct xbloom_prefixes *p, size_t n, struct xbloom_error *err)
{
	size_t room = p->room ? p->room : FIRST_ROOM;
	struct xbloom_prefix *v;

	while (room < n)
		room += room / 2;
	if (room == p->room)
		return 0;
	v = reallocarray(p->v, room, sizeof(*v));
	if (!v)
		return xbloom_fail(err, -ENOMEM, "out of memory after %zu prefixes", p->n);
	p->v = v;
	p->room = room;
	return 0;
}

int xbloom_prefixes_push(struct xbloom_prefixes *p, const struct xbloom_flow *flow, uint32_t fields,
			 struct xbloom_error *err)
{
	struct xbloom_prefix *one;
	uint64_t mask[2];
	int ret = make_room(p, p->n + 1, err);

	if (ret)
		return ret;
	one = &p->v[p->n++];
	*one = (struct xbloom_prefix){ .family = flow->family, .plen = flow->plen };
	if (flow->family == XBLOOM_FAMILY_V4) {
		__u32 v4 = fields & XBLOOM_SRC ? flow->src.v4 : flow->dst.v4;

		one->addr[0] = (uint64_t)XBLOOM_BIG32(v4) << 32;
	} else {
		const __u64 *v6 = fields & XBLOOM_SRC ? flow->src.v6 : flow->dst.v6;

		one->addr[0] = XBLOOM_BIG64(v6[0]);
		one->addr[1] = XBLOOM_BIG64(v6[1]);
	}
	mask_of(one->plen, mask);
	one->addr[0] &= mask[0];
	one->addr[1] &= mask[1];
	return 0;
}

int xbloom_prefixes_append(struct xbloom_prefixes *to, const struct xbloom_prefixes *from,
			   struct xbloom_error *err)
{
	int ret = from->n ? make_room(to, to->n + from->n, err) : 0;

	if (ret || !from->n)
		return ret;
	memcpy(to->v + to->n, from->v, from->n * sizeof(*from->v));
	to->n += from->n;
	return 0;
}

void xbloom_prefixes_free(struct xbloom_prefixes *p)
{
	free(p->v);
	*p = (struct xbloom_prefixes){ 0 };
}

uint64_t xbloom_prefixes_merge(struct xbloom_prefixes *p)
{
	size_t i, kept = 0, before = p->n;

	if (!p->n)
		return 0;
	qsort(p->v, p->n, sizeof(*p->v), compare);
	/* A shorter one stands before all that it covers, and a half before the other half. */
	for (i = 0; i < p->n; i++) {
		if (kept && covers(&p->v[kept - 1], &p->v[i]))
			continue;
		p->v[kept++] = p->v[i];
		while (kept > 1 && are_siblings(&p->v[kept - 2], &p->v[kept - 1])) {
			kept--;
			p->v[kept - 1].plen--;
		}
	}
	p->n = kept;
	return before - kept;
}

/* ---- what becomes of them ---- */

struct lengths {
	double count[V6_BITS + 1]; /* prefixes of each length */
	bool has[V6_BITS + 1];	   /* chosen */
	unsigned int chosen;
};

/* Keys that the prefixes come to, each expanded to the next length that is there. */
static double keys_of(const struct lengths *l)
{
	unsigned int plen, next = V6_BITS;
	double keys = 0;

	for (plen = V6_BITS + 1; plen-- > 0;) {
		if (l->has[plen])
			next = plen;
		if (l->count[plen] > 0)
			keys += ldexp(l->count[plen], (int)(next - plen));
	}
	return keys;
}

/* The best `more` lengths besides those that are chosen: all choices of them are tried. */
static double choose(struct lengths *l, unsigned int more, unsigned int from, struct lengths *best,
		     double best_keys)
{
	unsigned int plen;
	double keys;

	if (!more) {
		keys = keys_of(l);
		if (keys < best_keys) {
			*best = *l;
			best_keys = keys;
		}
		return best_keys;
	}
	for (plen = from; plen < V6_BITS; plen++) {
		if (l->has[plen] || !(l->count[plen] > 0))
			continue;
		l->has[plen] = true;
		l->chosen++;
		best_keys = choose(l, more - 1, plen + 1, best, best_keys);
		l->has[plen] = false;
		l->chosen--;
	}
	return best_keys;
}

static int plan_v6(const struct xbloom_prefixes *p, const uint32_t *given, unsigned int n_given,
		   uint64_t max_keys, struct xbloom_prefix_plan *plan, struct xbloom_error *err)
{
	struct lengths l = { 0 }, best;
	unsigned int more, i, plen;
	double keys, enough, n = 0;

	l.has[XBLOOM_PLEN6_HOST] = true;
	l.chosen = 1;
	for (i = 0; i < n_given; i++) {
		if (!l.has[given[i]])
			l.chosen++;
		l.has[given[i]] = true;
	}
	for (i = 0; i < p->n; i++)
		if (p->v[i].family == XBLOOM_FAMILY_V6) {
			l.count[p->v[i].plen]++;
			n++;
		}
	enough = KEYS_PER_PREFIX * n + KEYS_FREE;
	if (enough > (double)max_keys)
		enough = (double)max_keys;
	best = l;
	keys = keys_of(&l);
	for (more = 1; keys > enough && l.chosen + more <= XBLOOM_PLENS6_MAX; more++)
		keys = choose(&l, more, 0, &best, keys);
	if (keys > (double)max_keys)
		return xbloom_fail(err, -E2BIG,
				   "the IPv6 prefixes have so many lengths that under the best %u "
				   "of them they are %.3g keys, more than %llu: take short or odd "
				   "ones out, or allow more with --expand-max",
				   XBLOOM_PLENS6_MAX, keys, (unsigned long long)max_keys);
	plan->keys6 = (uint64_t)keys;
	for (plen = V6_BITS + 1; plen-- > 0;)
		if (best.has[plen])
			plan->plens6[plan->n_plens6++] = plen;
	return 0;
}

int xbloom_prefixes_plan(const struct xbloom_prefixes *p, const uint32_t *given,
			 unsigned int n_given, uint64_t max_keys, struct xbloom_prefix_plan *plan,
			 struct xbloom_error *err)
{
	size_t i;

	*plan = (struct xbloom_prefix_plan){ 0 };
	for (i = 0; i < p->n; i++) {
		unsigned int plen = p->v[i].plen;

		if (p->v[i].family != XBLOOM_FAMILY_V4)
			continue;
		if (plen <= XBLOOM_NETS4_PLEN)
			plan->nets4 += 1ULL << (XBLOOM_NETS4_PLEN - plen);
		else
			plan->hosts4 += 1ULL << (XBLOOM_PLEN4_HOST - plen);
	}
	return plan_v6(p, given, n_given, max_keys ? max_keys : XBLOOM_EXPAND_MAX, plan, err);
}

/* The length that a prefix is expanded to. */
static unsigned int target(const struct xbloom_prefix *p, const struct xbloom_prefix_plan *plan)
{
	unsigned int i, best = host_plen(p->family);

	for (i = 0; p->family == XBLOOM_FAMILY_V6 && i < plan->n_plens6; i++)
		if (plan->plens6[i] >= p->plen && plan->plens6[i] < best)
			best = plan->plens6[i];
	return best;
}

/* a += 1 at bit `plen` of 128, counted from the highest. */
static void step(uint64_t addr[2], unsigned int plen)
{
	if (plen <= 64) {
		addr[0] += 1ULL << (64 - plen);
		return;
	}
	addr[1] += 1ULL << (V6_BITS - plen);
	addr[0] += !(addr[1] >> (V6_BITS - plen));
}

static int expand_one(const struct xbloom_prefix *p, unsigned int plen, uint32_t fields,
		      xbloom_expanded_fn fn, void *ctx)
{
	/* No more than what the plan allowed, which is far below 2^63. */
	uint64_t n = 1ULL << (plen - p->plen), i;
	struct xbloom_prefix one = *p;
	struct xbloom_flow flow;
	int ret = 0;

	one.plen = (uint8_t)plen;
	for (i = 0; i < n && !ret; i++) {
		xbloom_prefix_flow(&one, fields, &flow);
		ret = fn(ctx, &flow);
		step(one.addr, plen);
	}
	return ret;
}

int xbloom_prefixes_expand(const struct xbloom_prefixes *p, const struct xbloom_prefix_plan *plan,
			   uint32_t fields, xbloom_expanded_fn fn, void *ctx)
{
	int ret = 0;
	size_t i;

	for (i = 0; i < p->n && !ret; i++)
		if (p->v[i].family != XBLOOM_FAMILY_V4 || p->v[i].plen > XBLOOM_NETS4_PLEN)
			ret = expand_one(&p->v[i], target(&p->v[i], plan), fields, fn, ctx);
	return ret;
}

/* Bits first .. last of one word. Returns how many changed. */
static uint64_t set_bits(uint64_t *word, unsigned int first, unsigned int last)
{
	uint64_t mask = ~0ULL << first & ~0ULL >> (XBLOOM_WORD_BITS - 1 - last);

	return (uint64_t)__builtin_popcountll(mask &
					      ~__atomic_fetch_or(word, mask, __ATOMIC_RELAXED));
}

uint64_t xbloom_prefixes_nets4(const struct xbloom_prefixes *p, struct xbloom_block *nets4)
{
	uint64_t changed = 0;
	size_t i;

	for (i = 0; i < p->n; i++) {
		uint64_t first, last, at;

		if (p->v[i].family != XBLOOM_FAMILY_V4 || p->v[i].plen > XBLOOM_NETS4_PLEN)
			continue;
		first = p->v[i].addr[0] >> (64 - XBLOOM_NETS4_PLEN);
		last = first + (1ULL << (XBLOOM_NETS4_PLEN - p->v[i].plen)) - 1;
		for (at = first; at <= last; at = (at | (XBLOOM_WORD_BITS - 1)) + 1) {
			uint64_t end = at | (XBLOOM_WORD_BITS - 1);
			uint64_t *word = (uint64_t *)&nets4[at / XBLOOM_BLOCK_BITS]
						 .w[at / XBLOOM_WORD_BITS % XBLOOM_BLOCK_WORDS];

			changed += set_bits(word, at % XBLOOM_WORD_BITS,
					    (end < last ? end : last) % XBLOOM_WORD_BITS);
		}
	}
	return changed;
}

/* ---- keys that were written down as words ---- */

unsigned int xbloom_words_used(const __u64 *words, uint32_t fields)
{
	if (!(fields & XBLOOM_FIELDS_ADDR))
		return 1;
	if ((words[0] >> 40 & 0xf) != XBLOOM_FAMILY_V4)
		return xbloom_key_width(fields);
	return (fields & XBLOOM_FIELDS_ADDR) != XBLOOM_FIELDS_ADDR &&
			       !(fields & XBLOOM_FIELDS_PORTS)
		       ? 1
		       : 2;
}

bool xbloom_words_prefix(const __u64 *words, uint32_t fields, struct xbloom_flow *flow)
{
	uint8_t family = words[0] >> 40 & 0xf, plen = words[0] >> 32 & 0xff;
	__u64 v6[2] = { XBLOOM_RAW64(words[1]), XBLOOM_RAW64(words[2]) };
	__u32 v4 = XBLOOM_RAW32((__u32)words[0]);
	void *to;

	if (!(fields & XBLOOM_FIELDS_ADDR) || plen >= host_plen(family))
		return false;
	memset(flow, 0, sizeof(*flow));
	to = fields & XBLOOM_SRC ? (void *)&flow->src : (void *)&flow->dst;
	flow->family = family;
	flow->plen = plen;
	if (family == XBLOOM_FAMILY_V4)
		memcpy(to, &v4, sizeof(v4));
	else
		memcpy(to, v6, sizeof(v6));
	return true;
}
