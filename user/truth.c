// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The truth: what the filter's answers are verified against. The keys of a list are kept as sorted
 * hashes, eight bytes a key, under a secret of its own: two keys of n share one with a chance of
 * n / 2^64, and it outlives the filter's secret. Its prefixes are kept as they are, merged and sorted,
 * whatever the filter made of them. Without a list it is the filter's exact map, and beside it what
 * prefixes became: keys of the exact map under the filter's lengths, and bits of nets4.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "internal.h"

struct xbloom_truth {
	uint32_t fields;
	struct xbloom_hash_key key;
	struct xbloom_hashes hashes;
	struct xbloom_prefixes prefixes;
	int exact; /* an exact map, or -1 */
	int nets4; /* beside it, or -1; of so many arrays */
	uint32_t lives;
	struct xbloom_params params; /* its lengths */
};

struct reading {
	struct xbloom_truth *t;
	struct xbloom_error *err;
};

static int take_entry(void *ctx, unsigned int worker, const struct xbloom_flow *flow,
		      const char *text, size_t len)
{
	const struct reading *r = ctx;
	struct xbloom_truth *t = r->t;
	unsigned int host =
		flow->family == XBLOOM_FAMILY_V4 ? XBLOOM_PLEN4_HOST : XBLOOM_PLEN6_HOST;

	(void)worker;
	(void)text;
	(void)len;
	if (t->fields & XBLOOM_FIELDS_ADDR && flow->plen < host)
		return xbloom_prefixes_push(&t->prefixes, flow, t->fields, r->err);
	return xbloom_hashes_push_flow(&t->hashes, &t->key, flow, t->fields, r->err);
}

static int read_lists(struct xbloom_truth *t, const char *const *files, size_t n,
		      const struct xbloom_options *opts, struct xbloom_error *err)
{
	struct xbloom_list_options list = { .fields = t->fields, .threads = 1, .opts = opts };
	struct reading reading = { t, err };
	int ret = xbloom_hash_key_random(&t->key, err);
	size_t i;

	for (i = 0; i < n && !ret; i++)
		ret = xbloom_list_read(files[i], &list, take_entry, &reading, NULL, err);
	if (!ret && !t->hashes.n && !t->prefixes.n)
		ret = xbloom_fail(err, -ENODATA, "%s holds no key: is it the right file?",
				  files[0]);
	if (ret)
		return ret;
	xbloom_hashes_distinct(&t->hashes);
	xbloom_prefixes_merge(&t->prefixes);
	return 0;
}

static int use_exact(struct xbloom_truth *t, const struct xbloom *f, struct xbloom_error *err)
{
	int fd = f->fd[XBLOOM_PIN_CONFIRM];

	if (fd < 0)
		return xbloom_fail(
			err, -ENOENT,
			"filter %s has no exact map (create --confirm): give --from LIST", f->name);
	/* Some of our own: they are to outlive f. */
	t->params = *xbloom_params_in_force(f);
	t->lives = f->lives;
	t->exact = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (t->exact >= 0 && t->params.nets4)
		t->nets4 = fcntl(f->fd[XBLOOM_PIN_NETS4], F_DUPFD_CLOEXEC, 3);
	return t->exact < 0 || (t->params.nets4 && t->nets4 < 0)
		       ? xbloom_fail_errno(err, -errno, "cannot use the exact map of %s", f->name)
		       : 0;
}

int xbloom_truth_open(const struct xbloom *f, const char *const *files, size_t n,
		      const struct xbloom_options *opts, struct xbloom_truth **out,
		      struct xbloom_error *err)
{
	struct xbloom_truth *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	t->exact = t->nets4 = -1;
	t->fields = f->meta->params.fields;
	ret = n ? read_lists(t, files, n, opts, err) : use_exact(t, f, err);
	if (ret) {
		xbloom_truth_close(t);
		return ret;
	}
	*out = t;
	return 0;
}

void xbloom_truth_close(struct xbloom_truth *t)
{
	if (!t)
		return;
	xbloom_close_fd(&t->exact);
	xbloom_close_fd(&t->nets4);
	xbloom_hashes_free(&t->hashes);
	xbloom_prefixes_free(&t->prefixes);
	free(t);
}

/* The place of the first hash that is not below x. */
static size_t lower_bound(const struct xbloom_hashes *h, uint64_t x)
{
	size_t low = 0, high = h->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (h->v[middle] < x)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool in_list(const struct xbloom_truth *t, const __u64 *words, unsigned int n_words)
{
	struct xbloom_prefix address;
	uint64_t hash;
	size_t at;

	hash = xbloom_words_hash(&t->key, words, n_words);
	at = lower_bound(&t->hashes, hash);
	if (at < t->hashes.n && t->hashes.v[at] == hash)
		return true;
	return t->prefixes.n && xbloom_words_to_prefix(words, t->fields, &address) &&
	       xbloom_prefixes_cover(&t->prefixes, &address);
}

/* ---- what a filter keeps exactly ---- */

static bool has_words(const struct xbloom_truth *t, const __u64 *words)
{
	uint8_t value;

	return !bpf_map_lookup_elem(t->exact, words, &value);
}

static bool in_nets4(const struct xbloom_truth *t, const struct xbloom_flow *flow)
{
	uint32_t net = xbloom_net4(t->fields & XBLOOM_SRC ? flow->src.v4 : flow->dst.v4), life;

	for (life = 0; life < t->lives; life++) {
		uint32_t at = life * XBLOOM_NETS4_BLOCKS + net / XBLOOM_BLOCK_BITS;
		struct xbloom_block block;

		if (!bpf_map_lookup_elem(t->nets4, &at, &block) && xbloom_net4_test(&block, net))
			return true;
	}
	return false;
}

/* The key itself, or, of an address, one of the prefixes that the program would ask for. */
static bool in_exact(const struct xbloom_truth *t, const __u64 *words)
{
	struct xbloom_prefix address;
	struct xbloom_flow flow;
	uint32_t i;

	if (has_words(t, words))
		return true;
	if (!xbloom_words_to_prefix(words, t->fields, &address))
		return false;
	xbloom_prefix_flow(&address, t->fields, &flow);
	if (flow.family == XBLOOM_FAMILY_V4)
		return t->nets4 >= 0 && in_nets4(t, &flow);
	for (i = 1; i < t->params.n_plens6 && i < XBLOOM_PLENS6_MAX; i++) {
		__u64 shorter[XBLOOM_KEY_WORDS_MAX] = { 0 };

		xbloom_flow_to_prefix6(&flow, t->fields, &t->params.plens6[i]);
		xbloom_key_words(&flow, t->fields, shorter);
		if (has_words(t, shorter))
			return true;
	}
	return false;
}

bool xbloom_truth_has(const struct xbloom_truth *t, const __u64 *words, unsigned int n_words)
{
	__u64 wide[XBLOOM_KEY_WORDS_MAX] = { 0 };

	memcpy(wide, words, n_words * sizeof(*words));
	return t->exact >= 0 ? in_exact(t, wide) : in_list(t, wide, n_words);
}

uint64_t xbloom_truth_keys(const struct xbloom_truth *t)
{
	return t->hashes.n + t->prefixes.n;
}
