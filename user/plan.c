// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * From what a user can know (how many keys, what rate or what budget) to a geometry. The smallest
 * one that keeps the rate is found by bisection on the very formulas of rate.c, so that a plan
 * and a prediction can never disagree. And the exact map beside a filter: how many keys it gets
 * room for, and what that takes.
 */
#include <errno.h>
#include <math.h>

#include "internal.h"

/* Whether a geometry of `size` blocks (split) or bits (classic) keeps the rate. */
static bool keeps(struct xbloom_geometry g, uint64_t size, uint64_t items, double fp)
{
	if (g.layout == XBLOOM_LAYOUT_SPLIT)
		g.blocks = size;
	else
		g.bits = size;
	return xbloom_rate(&g, items) <= fp;
}

/* The smallest size in 1..max that keeps the rate, or 0. Rates fall as the size grows. */
static uint64_t smallest(const struct xbloom_geometry *g, uint64_t max, uint64_t items, double fp)
{
	uint64_t low = 1, high = max;

	if (!keeps(*g, max, items, fp))
		return 0;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (keeps(*g, middle, items, fp))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static unsigned int clamp_k(double k)
{
	if (k < 1)
		return 1;
	return k > XBLOOM_CLASSIC_K_MAX ? XBLOOM_CLASSIC_K_MAX : (unsigned int)k;
}

/* k = c ln 2 is best for c bits a key (Bloom 1970); of its two neighbours the better one. */
static unsigned int best_k(double bits_per_key)
{
	unsigned int low = clamp_k(floor(bits_per_key * M_LN2));
	unsigned int high = clamp_k(low + 1.0);

	return xbloom_rate_classic(bits_per_key, low) <= xbloom_rate_classic(bits_per_key, high)
		       ? low
		       : high;
}

static double wanted_fp(const struct xbloom_size_request *req)
{
	return req->fp != 0 ? req->fp : XBLOOM_FP_DEFAULT;
}

static unsigned int asks(const struct xbloom_size_request *req)
{
	return req->asks ? req->asks : 1;
}

double xbloom_rate_of_asks(double rate, unsigned int n)
{
	/* 1 - (1 - p)^n; 1 % and 3: 2.97 %. */
	return n > 1 && rate < 1 ? -expm1(n * log1p(-rate)) : rate;
}

double xbloom_rate_of_one(double rate, unsigned int n)
{
	return n > 1 && rate < 1 ? -expm1(log1p(-rate) / n) : rate;
}

/* The rate of one look that makes the wanted one of all. */
static double wanted_fp_of_one(const struct xbloom_size_request *req)
{
	return xbloom_rate_of_one(wanted_fp(req), asks(req));
}

static int too_big(const struct xbloom_size_request *req, struct xbloom_error *err)
{
	const char *cheaper = req->bits_per_key != 0 ? "fewer bits per key" : "a higher rate";

	if (req->layout == XBLOOM_LAYOUT_CLASSIC)
		return xbloom_fail(err, -E2BIG,
				   "%llu keys need more than the 2^32 bits (512 MiB) of layout "
				   "classic: take layout split, or %s",
				   (unsigned long long)req->items, cheaper);
	return xbloom_fail(err, -E2BIG,
			   "%llu keys need more than 2^32 - 1 blocks of 64 bytes: take %s, or "
			   "several filters",
			   (unsigned long long)req->items, cheaper);
}

static int check(const struct xbloom_size_request *req, struct xbloom_error *err)
{
	if (req->layout != XBLOOM_LAYOUT_SPLIT && req->layout != XBLOOM_LAYOUT_CLASSIC)
		return xbloom_fail(err, -EINVAL, "unknown layout number %u", req->layout);
	if (!req->items)
		return xbloom_fail(err, -EINVAL, "a filter for 0 keys: give at least 1");
	if (req->fp != 0 && !(req->fp >= XBLOOM_FP_MIN && req->fp <= XBLOOM_FP_MAX))
		return xbloom_fail(err, -EINVAL, "rate %g is not between 1e-9 and 0.5", req->fp);
	if (req->bits_per_key != 0 && !(req->bits_per_key > 0 && req->bits_per_key <= 1e6))
		return xbloom_fail(err, -EINVAL, "%g bits per key is not above 0 and up to 1000000",
				   req->bits_per_key);
	if (req->fp != 0 && req->bits_per_key != 0)
		return xbloom_fail(
			err, -EINVAL,
			"a rate and bits per key are two ways to say one thing: give one");
	if (req->hashes && req->layout == XBLOOM_LAYOUT_SPLIT && req->hashes != XBLOOM_SPLIT_K)
		return xbloom_fail(
			err, -EINVAL,
			"layout split always has 8 hashes, not %u: leave --hashes out, or "
			"take --layout classic",
			req->hashes);
	if (req->hashes > XBLOOM_CLASSIC_K_MAX)
		return xbloom_fail(err, -EINVAL, "%u hashes are not between 1 and %u", req->hashes,
				   XBLOOM_CLASSIC_K_MAX);
	return 0;
}

/* ceil(items * bits_per_key / unit), or 0 when that is past max. */
static uint64_t by_budget(const struct xbloom_size_request *req, unsigned int unit, uint64_t max)
{
	double size = ceil((double)req->items * req->bits_per_key / unit);

	if (size > (double)max)
		return 0;
	return size < 1 ? 1 : (uint64_t)size;
}

static int plan_split(const struct xbloom_size_request *req, struct xbloom_geometry *g,
		      struct xbloom_error *err)
{
	double fp = wanted_fp_of_one(req);

	g->k = XBLOOM_SPLIT_K;
	if (req->bits_per_key != 0)
		g->blocks = by_budget(req, XBLOOM_BLOCK_BITS, XBLOOM_BLOCKS_MAX);
	else
		g->blocks = smallest(g, XBLOOM_BLOCKS_MAX, req->items, fp);
	if (!g->blocks)
		return too_big(req, err);
	g->bits = g->blocks * XBLOOM_BLOCK_BITS;
	return 0;
}

/* With the rate given and k free: the k that needs the fewest bits. */
static void plan_classic_k(const struct xbloom_size_request *req, double fp,
			   struct xbloom_geometry *g)
{
	unsigned int k, guess = clamp_k(round(-log2(fp)));
	uint64_t best = 0;

	for (k = guess; k <= guess + 1 && k <= XBLOOM_CLASSIC_K_MAX; k++) {
		struct xbloom_geometry tried = { .layout = g->layout, .k = k };
		uint64_t bits = smallest(&tried, XBLOOM_CLASSIC_BITS_MAX, req->items, fp);

		if (bits && (!best || bits < best)) {
			best = bits;
			g->k = k;
		}
	}
	g->bits = best;
}

static int plan_classic(const struct xbloom_size_request *req, struct xbloom_geometry *g,
			struct xbloom_error *err)
{
	double fp = wanted_fp_of_one(req);

	g->k = req->hashes;
	if (req->bits_per_key != 0) {
		g->bits = by_budget(req, 1, XBLOOM_CLASSIC_BITS_MAX);
		if (!g->k)
			g->k = best_k((double)g->bits / (double)req->items);
	} else if (g->k) {
		g->bits = smallest(g, XBLOOM_CLASSIC_BITS_MAX, req->items, fp);
	} else {
		plan_classic_k(req, fp, g);
	}
	if (!g->bits)
		return too_big(req, err);
	g->blocks = (g->bits + XBLOOM_BLOCK_BITS - 1) / XBLOOM_BLOCK_BITS;
	return 0;
}

int xbloom_plan(const struct xbloom_size_request *req, struct xbloom_size *size,
		struct xbloom_error *err)
{
	struct xbloom_geometry g = { .layout = req->layout };
	int ret = check(req, err);

	if (ret)
		return ret;
	ret = req->layout == XBLOOM_LAYOUT_SPLIT ? plan_split(req, &g, err)
						 : plan_classic(req, &g, err);
	if (ret)
		return ret;

	*size = (struct xbloom_size){
		.geometry = g,
		.items = req->items,
		.bytes = g.blocks * XBLOOM_BLOCK_BYTES,
		.bits_per_key = (double)g.bits / (double)req->items,
		.fp = xbloom_rate_of_asks(xbloom_rate(&g, req->items), asks(req)),
	};
	if (size->fp > XBLOOM_FP_MAX)
		return xbloom_fail(
			err, -EINVAL,
			"%g bits per key call %.3g %% of absent keys maybe; a filter that is "
			"wrong more than half the time is none: more bits",
			size->bits_per_key, size->fp * 100);
	size->fp_target = req->bits_per_key != 0 ? size->fp : wanted_fp(req);
	return 0;
}

uint64_t xbloom_nets4_bytes(const struct xbloom_size *size)
{
	uint64_t lives = size->lives ? size->lives : 1;

	return size->nets4 ? lives * XBLOOM_NETS4_BLOCKS * XBLOOM_BLOCK_BYTES : 0;
}

/* ---- the exact map ---- */

/*
 * What the kernel takes for a hash map whose elements are made beforehand (htab_map_mem_usage() in
 * kernel/bpf/hashtab.c), with the sizes of 64-bit kernels. The spare elements are for updates, one
 * for each CPU. Worked: 1,000,000 keys of 8 bytes, 2 CPUs: 80,778,320 bytes.
 */
#define HTAB_BYTES 960	 /* struct bpf_htab of 6.18; it is less elsewhere */
#define ELEMENT_BYTES 48 /* struct htab_elem, before key and value */
#define VALUE_BYTES 8	 /* one, rounded up */
#define BUCKET_BYTES 16	 /* struct bucket */
#define POINTER_BYTES 8	 /* to a spare element */
/* More buckets than this, times 16, are past 2^32, and htab_map_alloc() refuses. */
#define EXACT_KEYS_MAX (1ULL << 27)

/* For keys that come later: a quarter of those planned for, and not less than this. */
#define EXACT_ROOM_DIVISOR 4
#define EXACT_ROOM_MIN 64

static uint64_t round_up_pow2(uint64_t n)
{
	uint64_t pow2 = 1;

	while (pow2 < n)
		pow2 *= 2;
	return pow2;
}

/* Of a map with room for n keys, 1..EXACT_KEYS_MAX. */
static uint64_t exact_bytes(uint64_t n, uint32_t fields, unsigned int cpus)
{
	uint64_t key_bytes = xbloom_key_width(fields) * sizeof(__u64);

	return HTAB_BYTES + POINTER_BYTES * cpus +
	       (ELEMENT_BYTES + key_bytes + VALUE_BYTES) * (n + cpus) +
	       BUCKET_BYTES * round_up_pow2(n);
}

/* The most keys, low (which fits) to high, that fit into max_bytes. */
static uint64_t most_that_fit(uint64_t low, uint64_t high, uint64_t max_bytes, uint32_t fields,
			      unsigned int cpus)
{
	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		if (exact_bytes(middle, fields, cpus) <= max_bytes)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

int xbloom_plan_exact(struct xbloom_size *size, uint32_t fields, uint64_t max_bytes,
		      struct xbloom_error *err)
{
	uint64_t room, least, items = size->items;
	unsigned int cpus;
	int ret = xbloom_count_cpus(&cpus, err);

	if (ret)
		return ret;
	if (items > EXACT_KEYS_MAX)
		return xbloom_fail(
			err, -E2BIG,
			"%llu keys are more than the 2^27 that an exact map holds: leave "
			"--confirm out, or take several filters",
			(unsigned long long)items);
	least = exact_bytes(items, fields, cpus);
	if (max_bytes && least > max_bytes)
		return xbloom_fail(err, -E2BIG,
				   "an exact map of %llu keys takes %llu bytes, and --confirm-max "
				   "allows %llu: allow more, or leave --confirm out",
				   (unsigned long long)items, (unsigned long long)least,
				   (unsigned long long)max_bytes);
	room = items / EXACT_ROOM_DIVISOR;
	if (room < EXACT_ROOM_MIN)
		room = EXACT_ROOM_MIN;
	room += items;
	if (room > EXACT_KEYS_MAX)
		room = EXACT_KEYS_MAX;
	if (max_bytes)
		room = most_that_fit(items, room, max_bytes, fields, cpus);
	size->exact_keys = room;
	size->exact_bytes = exact_bytes(room, fields, cpus);
	return 0;
}
