// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The truth: what the filter's answers are verified against. A list is kept as sorted hashes, eight
 * bytes a key, under a secret of its own: two keys of n share one with a chance of n / 2^64, and it
 * outlives the filter's secret.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "internal.h"

struct xbloom_truth {
	struct xbloom_hash_key key;
	struct xbloom_hashes hashes;
	int exact; /* an exact map, or -1 */
};

struct reading {
	struct xbloom_truth *t;
	uint32_t fields;
	struct xbloom_error *err;
};

static int take_key(void *ctx, unsigned int worker, const struct xbloom_flow *flow,
		    const char *text, size_t len)
{
	const struct reading *r = ctx;
	struct xbloom_hashes *hashes = &r->t->hashes;

	(void)worker;
	if (flow->family && flow->plen != (flow->family == XBLOOM_FAMILY_V4 ? 32 : 128))
		return xbloom_fail(r->err, -EINVAL,
				   "'%.*s' is a prefix, and this filter takes single addresses "
				   "only",
				   (int)len, text);
	return xbloom_hashes_push_flow(hashes, &r->t->key, flow, r->fields, r->err);
}

static int read_lists(struct xbloom_truth *t, uint32_t fields, const char *const *files, size_t n,
		      const struct xbloom_options *opts, struct xbloom_error *err)
{
	struct xbloom_list_options list = { .fields = fields, .threads = 1, .opts = opts };
	struct reading reading = { t, fields, err };
	int ret = xbloom_hash_key_random(&t->key, err);
	size_t i;

	for (i = 0; i < n && !ret; i++)
		ret = xbloom_list_read(files[i], &list, take_key, &reading, NULL, err);
	if (!ret && !t->hashes.n)
		ret = xbloom_fail(err, -ENODATA, "%s holds no key: is it the right file?",
				  files[0]);
	if (!ret)
		xbloom_hashes_distinct(&t->hashes);
	return ret;
}

static int use_exact(struct xbloom_truth *t, const struct xbloom *f, struct xbloom_error *err)
{
	int fd = f->fd[XBLOOM_PIN_CONFIRM];

	if (fd < 0)
		return xbloom_fail(
			err, -ENOENT,
			"filter %s has no exact map (create --confirm): give --from LIST", f->name);
	/* One of our own: it is to outlive f. */
	t->exact = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return t->exact < 0
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
	t->exact = -1;
	ret = n ? read_lists(t, f->meta->params.fields, files, n, opts, err) : use_exact(t, f, err);
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
	xbloom_hashes_free(&t->hashes);
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

bool xbloom_truth_has(const struct xbloom_truth *t, const __u64 *words, unsigned int n_words)
{
	__u64 wide[XBLOOM_KEY_WORDS_MAX] = { 0 };
	uint8_t value;
	uint64_t hash;
	size_t at;

	if (t->exact >= 0) {
		memcpy(wide, words, n_words * sizeof(*words));
		return !bpf_map_lookup_elem(t->exact, wide, &value);
	}
	hash = xbloom_words_hash(&t->key, words, n_words);
	at = lower_bound(&t->hashes, hash);
	return at < t->hashes.n && t->hashes.v[at] == hash;
}

uint64_t xbloom_truth_keys(const struct xbloom_truth *t)
{
	return t->hashes.n;
}
