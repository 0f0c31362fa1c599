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
 * much as there was for one look (or takes more bits for each key, to make up for it). Keys cost
 * memory: at 1 % a MiB holds 800,000. So each length must pay for itself: it is taken where it halves
 * the keys, and of so many lengths the best ones are those with the fewest keys. A thousand keys are
 * nothing to be saved; more would be, in a filter that was sized for a few thousand.
 */
#define KEYS_FREE 1024

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

bool xbloom_prefixes_cover(const struct xbloom_prefixes *p, const struct xbloom_prefix *one)
{
	size_t low = 0, high = p->n;

	/* No two of them overlap, so that only the last one that does not stand behind it can. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare(&p->v[middle], one) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && covers(&p->v[low - 1], one);
}

/* ---- what becomes of them ---- */

/* Lengths of IPv6 prefixes; sums are of type double, as 2^128 is among them. */
struct lengths {
	double count[V6_BITS + 1];	  /* prefixes of each length */
	bool may_be_chosen[V6_BITS + 1];  /* the list or the filter has it */
	bool must_be_chosen[V6_BITS + 1]; /* the filter has it, and 128 always */
};

/* The best choice of so many lengths, the longest of which is `longest`: see choose(). */
struct choice {
	double keys; /* what all prefixes of up to `longest` come to */
	int before;  /* the one before `longest`; NONE: it is the only one */
};
#define NONE (-1)

struct choices {
	struct choice of[XBLOOM_PLENS6_MAX + 1][V6_BITS + 1]; /* [how many][longest] */
};

/* Keys of the prefixes longer than `above` and up to `to`, expanded to that. */
static double keys_between(const struct lengths *l, int above, int to)
{
	double keys = 0;
	int plen;

	for (plen = above + 1; plen <= to; plen++)
		keys += ldexp(l->count[plen], to - plen);
	return keys;
}

static bool skips_one(const struct lengths *l, int above, int to)
{
	int plen;

	for (plen = above + 1; plen < to; plen++)
		if (l->must_be_chosen[plen])
			return true;
	return false;
}

/*
 * Dynamic programming: the best choice of n lengths that ends with `to` is, for some `before`, the
 * best one of n - 1 that ends with that, and then `to`. A length that no prefix has is never better
 * than the next shorter one that some have.
 */
static struct choice choose(const struct lengths *l, const struct choices *c, unsigned int n,
			    int to)
{
	struct choice best = { INFINITY, NONE };
	int before;

	if (n == 1 && !skips_one(l, NONE, to))
		best.keys = keys_between(l, NONE, to);
	for (before = 0; n > 1 && before < to; before++) {
		double keys = c->of[n - 1][before].keys;

		if (!isfinite(keys) || skips_one(l, before, to))
			continue;
		keys += keys_between(l, before, to);
		if (keys < best.keys)
			best = (struct choice){ keys, before };
	}
	return best;
}

static void choose_all(const struct lengths *l, struct choices *c)
{
	unsigned int n;
	int to;

	for (n = 1; n <= XBLOOM_PLENS6_MAX; n++)
		for (to = 0; to <= V6_BITS; to++)
			c->of[n][to] = l->may_be_chosen[to] ? choose(l, c, n, to)
							    : (struct choice){ INFINITY, NONE };
}

/* How many lengths: see KEYS_FREE. Where no number of them keeps max_keys, that of fewest keys. */
static unsigned int how_many(const struct choices *c, double max_keys)
{
	double best_cost = INFINITY, fewest = INFINITY;
	unsigned int n, best = 0, least = 0;

	for (n = 1; n <= XBLOOM_PLENS6_MAX; n++) {
		double keys = c->of[n][V6_BITS].keys;
		double cost = ldexp(keys + KEYS_FREE, (int)n);

		if (keys < fewest) {
			fewest = keys;
			least = n;
		}
		if (keys <= max_keys && cost < best_cost) {
			best_cost = cost;
			best = n;
		}
	}
	return best ? best : least;
}

static int count_lengths(const struct xbloom_prefixes *p, const uint32_t *given,
			 unsigned int n_given, struct lengths *l, struct xbloom_error *err)
{
	unsigned int i, others = 0;
	size_t at;

	*l = (struct lengths){ 0 };
	l->must_be_chosen[XBLOOM_PLEN6_HOST] = true;
	for (i = 0; i < n_given; i++) {
		if (given[i] > V6_BITS)
			return xbloom_fail(err, -EINVAL, "/%u is no length of an IPv6 prefix",
					   given[i]);
		others += !l->must_be_chosen[given[i]];
		l->must_be_chosen[given[i]] = true;
	}
	if (others >= XBLOOM_PLENS6_MAX)
		return xbloom_fail(err, -EINVAL, "%u IPv6 lengths are more than %u", others + 1,
				   XBLOOM_PLENS6_MAX);
	for (at = 0; at < p->n; at++)
		if (p->v[at].family == XBLOOM_FAMILY_V6)
			l->count[p->v[at].plen]++;
	for (i = 0; i <= V6_BITS; i++)
		l->may_be_chosen[i] = l->must_be_chosen[i] || l->count[i] > 0;
	return 0;
}

/* "/128, /48, /32" */
#define LENGTHS_TEXT 32
static const char *lengths_text(const struct xbloom_prefix_plan *plan, char buf[LENGTHS_TEXT])
{
	unsigned int i;
	size_t at = 0;

	buf[0] = '\0';
	for (i = 0; i < plan->n_plens6; i++)
		at += (size_t)snprintf(buf + at, LENGTHS_TEXT - at, "%s/%u", i ? ", " : "",
				       plan->plens6[i]);
	return buf;
}

/* The length whose prefixes come to most keys. */
static unsigned int costliest(const struct lengths *l, const struct xbloom_prefix_plan *plan,
			      double *most)
{
	unsigned int plen, i, worst = 0;

	*most = 0;
	for (plen = 0; plen <= V6_BITS; plen++) {
		unsigned int to = V6_BITS;
		double keys;

		for (i = 0; i < plan->n_plens6; i++)
			if (plan->plens6[i] >= plen)
				to = plan->plens6[i];
		keys = ldexp(l->count[plen], (int)(to - plen));
		if (keys > *most) {
			*most = keys;
			worst = plen;
		}
	}
	return worst;
}

static int too_many_keys(const struct lengths *l, double keys, uint64_t max_keys,
			 unsigned int n_given, const struct xbloom_prefix_plan *plan,
			 struct xbloom_error *err)
{
	char text[LENGTHS_TEXT];
	double most;
	unsigned int worst = costliest(l, plan, &most);

	return xbloom_fail(
		err, -E2BIG,
		"the IPv6 prefixes come to %.4g keys, more than %llu, when they are asked for "
		"under "
		"%s, the best lengths%s; %.4g of them come from prefixes of /%u: allow more with "
		"--expand-max, %sor take those out",
		keys, (unsigned long long)max_keys, lengths_text(plan, text),
		n_given > 1 ? " beside those that the filter has" : "", most, worst,
		n_given > 1 ? "rebuild the filter from all of its lists, " : "");
}

static int plan_v6(const struct xbloom_prefixes *p, const uint32_t *given, unsigned int n_given,
		   uint64_t max_keys, struct xbloom_prefix_plan *plan, struct xbloom_error *err)
{
	struct choices choices;
	struct lengths l;
	unsigned int n;
	double keys;
	int plen, ret = count_lengths(p, given, n_given, &l, err);

	if (ret)
		return ret;
	choose_all(&l, &choices);
	n = how_many(&choices, (double)max_keys);
	keys = choices.of[n][V6_BITS].keys;
	for (plen = V6_BITS; plen != NONE; plen = choices.of[n--][plen].before)
		plan->plens6[plan->n_plens6++] = (uint32_t)plen;
	if (keys > (double)max_keys)
		return too_many_keys(&l, keys, max_keys, n_given, plan, err);
	plan->keys6 = (uint64_t)keys;
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

		if (!plen && p->v[i].family == XBLOOM_FAMILY_V4)
			plan->all4 = true;
		else if (!plen)
			plan->all6 = true;
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

bool xbloom_words_to_prefix(const __u64 *words, uint32_t fields, struct xbloom_prefix *p)
{
	if (!(fields & XBLOOM_FIELDS_ADDR) || (fields & XBLOOM_FIELDS_ADDR) == XBLOOM_FIELDS_ADDR ||
	    fields & ~XBLOOM_FIELDS_ADDR)
		return false;
	*p = (struct xbloom_prefix){ .family = words[0] >> 40 & 0xf,
				     .plen = words[0] >> 32 & 0xff };
	if (p->family == XBLOOM_FAMILY_V4) {
		p->addr[0] = (uint64_t)XBLOOM_BIG32(XBLOOM_RAW32((__u32)words[0])) << 32;
		return true;
	}
	p->addr[0] = XBLOOM_BIG64(XBLOOM_RAW64(words[1]));
	p->addr[1] = XBLOOM_BIG64(XBLOOM_RAW64(words[2]));
	return true;
}

bool xbloom_words_prefix(const __u64 *words, uint32_t fields, struct xbloom_flow *flow)
{
	struct xbloom_prefix p;

	if (!xbloom_words_to_prefix(words, fields, &p) || p.plen >= host_plen(p.family))
		return false;
	xbloom_prefix_flow(&p, fields, flow);
	return true;
}
