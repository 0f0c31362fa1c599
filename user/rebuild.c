// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Replacing what a filter holds, under traffic: the next generation, with maps and a secret of its
 * own, is made and filled in "=NAME" while the one at work goes on and takes adds. Then, under the
 * filter's lock and in this order,
 *
 *   1. what was added meanwhile (late.c) goes in, and the rules that are in force now are taken over;
 *   2. its program is loaded, its id written into its record as `successor`, everything is pinned;
 *   3. the slot is updated: from one packet to the next the new generation answers;
 *   4. "=NAME" and NAME exchange their names;
 *   5. a grace period passes, in which packets that are still in the old program leave it;
 *   6. what is "=NAME" now, the old generation, is removed.
 *
 * A rebuild that dies before 3 has changed nothing, and one that dies after it is brought to its end
 * by whoever opens the filter next: the id in the slot tells. The lock is held from 1 to 6, so that
 * an add has either been noted for 1, or comes after 5 and finds the new generation alone.
 *
 * Whoever fills "=NAME" holds a lock on that directory, which is how others know that it lives.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "internal.h"

struct xbloom_rebuild {
	char name[XBLOOM_NAME_MAX];
	int rootfd;
	int dirfd;		 /* of "=NAME", locked */
	ino_t old;		 /* the directory that is to be replaced */
	struct xbloom_meta meta; /* of the generation at work, when we began */
	bool built;		 /* "=NAME" is no more ours to remove */
};

/* ---- what a dead one left ---- */

/* The id of the program in the slot of an open filter; 0: none. */
static uint32_t slot_id(int slots)
{
	uint32_t slot = XBLOOM_SLOT, id = 0;

	return bpf_map_lookup_elem(slots, &slot, &id) ? 0 : id;
}

static int open_pin(const char *entry, enum xbloom_pin pin)
{
	char path[XBLOOM_PATH_MAX];

	return xbloom_pin_path(path, entry, pin, NULL) ? -1 : bpf_obj_get(path);
}

/* Whether the generation in this entry came into force: the slot holds its program. */
static bool came_into_force(const char *entry)
{
	AUTO_CLOSE int meta_fd = open_pin(entry, XBLOOM_PIN_META);
	AUTO_CLOSE int slots = open_pin(entry, XBLOOM_PIN_SLOTS);
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info), zero = 0;
	struct xbloom_meta meta;

	return meta_fd >= 0 && slots >= 0 && !bpf_obj_get_info_by_fd(meta_fd, &info, &len) &&
	       info.value_size == sizeof(meta) && !bpf_map_lookup_elem(meta_fd, &zero, &meta) &&
	       meta.magic == XBLOOM_MAGIC && meta.version == XBLOOM_VERSION && meta.successor &&
	       meta.successor == slot_id(slots);
}

static int exchange(int rootfd, const char *a, const char *b)
{
	return renameat2(rootfd, a, rootfd, b, RENAME_EXCHANGE) ? -errno : 0;
}

/*
 * Who watches a filter holds a lock on this directory in its own, and goes on holding it: it moves to
 * the generation that has the name now.
 */
static void move_watching(int rootfd, const char *from, const char *to)
{
	char old[XBLOOM_PATH_MAX], new[XBLOOM_PATH_MAX];

	snprintf(old, sizeof(old), "%s/" XBLOOM_WATCHING, from);
	snprintf(new, sizeof(new), "%s/" XBLOOM_WATCHING, to);
	renameat(rootfd, old, rootfd, new);
}

static bool settle_locked(int rootfd, const char *name, const char *entry)
{
	bool moved = came_into_force(entry) && !exchange(rootfd, entry, name);

	if (moved)
		move_watching(rootfd, entry, name);
	/* Either way what has this name now is nobody's. Its devices are those of the filter. */
	xbloom_remove_dir(rootfd, entry, NULL);
	return moved;
}

bool xbloom_settle_successor(int rootfd, struct xbloom *f)
{
	char entry[XBLOOM_NAME_MAX + 1];
	AUTO_CLOSE int fd = -1;
	bool moved;

	xbloom_successor_entry(entry, f->name);
	if (!xbloom_exists(rootfd, entry))
		return false;
	fd = openat(rootfd, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		f->rebuilding = true;
		return false;
	}
	/* A reader helps where it need not wait. */
	if (!f->writable && flock(f->dir_fd, LOCK_EX | LOCK_NB))
		return false;
	moved = !xbloom_still_at(f->dir_fd, rootfd, f->name) ||
		!xbloom_still_at(fd, rootfd, entry) || settle_locked(rootfd, f->name, entry);
	if (!f->writable)
		flock(f->dir_fd, LOCK_UN);
	return moved;
}

/* ---- begin ---- */

static int claim(struct xbloom_rebuild *r, struct xbloom_error *err)
{
	char entry[XBLOOM_NAME_MAX + 1];

	xbloom_successor_entry(entry, r->name);
	if (mkdirat(r->rootfd, entry, 0700))
		return errno == EEXIST
			       ? xbloom_fail(err, -EBUSY,
					     "filter %s is being rebuilt already: wait for that",
					     r->name)
			       : xbloom_fail_errno(err, -errno,
						   "cannot make a directory for the next "
						   "generation of %s",
						   r->name);
	r->dirfd = openat(r->rootfd, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r->dirfd < 0 || flock(r->dirfd, LOCK_EX | LOCK_NB))
		return xbloom_fail_errno(err, -errno, "cannot lock the next generation of %s",
					 r->name);
	return 0;
}

int xbloom_rebuild_begin(const char *name, const struct xbloom_options *opts,
			 struct xbloom_rebuild **out, struct xbloom_error *err)
{
	struct xbloom_rebuild *r = calloc(1, sizeof(*r));
	struct xbloom *f = NULL;
	struct stat st;
	int ret;

	if (!r)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	r->rootfd = r->dirfd = -1;
	/* Under its lock, so that nobody takes the new directory for a dead rebuild's. */
	ret = xbloom_open(name, XBLOOM_OPEN_WRITE, opts, &f, err);
	if (!ret)
		ret = xbloom_root_open(false, &r->rootfd, err);
	if (!ret) {
		memcpy(r->name, f->name, sizeof(r->name));
		r->meta = *f->meta;
		ret = fstat(f->dir_fd, &st) ? xbloom_fail_errno(err, -errno, "cannot stat %s", name)
					    : claim(r, err);
		r->old = st.st_ino;
	}
	xbloom_close(f);
	if (ret) {
		xbloom_rebuild_end(r);
		return ret;
	}
	*out = r;
	return 0;
}

const struct xbloom_meta *xbloom_rebuild_meta(const struct xbloom_rebuild *r)
{
	return &r->meta;
}

void xbloom_rebuild_end(struct xbloom_rebuild *r)
{
	char entry[XBLOOM_NAME_MAX + 1];

	if (!r)
		return;
	xbloom_successor_entry(entry, r->name);
	if (r->dirfd >= 0 && !r->built && xbloom_still_at(r->dirfd, r->rootfd, entry))
		xbloom_remove_dir(r->rootfd, entry, NULL);
	xbloom_close_fd(&r->dirfd);
	xbloom_close_fd(&r->rootfd);
	free(r);
}

/* ---- finish ---- */

static int open_old(const struct xbloom_rebuild *r, const struct xbloom_options *opts,
		    struct xbloom **old, struct xbloom_error *err)
{
	int ret = xbloom_open(r->name, XBLOOM_OPEN_WRITE, opts, old, err);
	struct stat st;

	if (ret)
		return ret;
	if (!fstat((*old)->dir_fd, &st) && st.st_ino == r->old)
		return 0;
	xbloom_close(*old);
	*old = NULL;
	return xbloom_fail(
		err, -ENOENT,
		"filter %s was destroyed and made anew while it was rebuilt: nothing was "
		"changed",
		r->name);
}

struct taking {
	struct xbloom *f;
	struct xbloom_prefixes prefixes;
	struct xbloom_hashes hashes;
	struct xbloom_error *err;
};

static int take_late(void *ctx, const __u64 *words)
{
	struct taking *t = ctx;
	const struct xbloom_params *p = &t->f->meta->params;
	unsigned int n = xbloom_words_used(words, p->fields);
	struct xbloom_flow flow;
	int ret;

	if (xbloom_words_prefix(words, p->fields, &flow))
		return xbloom_prefixes_push(&t->prefixes, &flow, p->fields, t->err);
	ret = xbloom_hashes_push(&t->hashes, xbloom_words_hash(&p->hash_key, words, n), t->err);
	return ret || !t->hashes.width ? ret : xbloom_hashes_push_words(&t->hashes, words, t->err);
}

static int push_expanded(void *ctx, const struct xbloom_flow *flow)
{
	struct taking *t = ctx;
	const struct xbloom_params *p = &t->f->meta->params;

	return xbloom_hashes_push_flow(&t->hashes, &p->hash_key, flow, p->fields, t->err);
}

/* Prefixes that came late, into a generation that has its lengths. */
static int take_late_prefixes(struct taking *t, struct xbloom_error *err)
{
	const struct xbloom_params *p = &t->f->meta->params;
	uint32_t given[XBLOOM_PLENS6_MAX], n, i;
	struct xbloom_prefix_plan plan;
	int ret;

	if (!t->prefixes.n)
		return 0;
	n = p->n_plens6;
	for (i = 0; i < n; i++)
		given[i] = p->plens6[i].plen;
	xbloom_prefixes_merge(&t->prefixes);
	ret = xbloom_prefixes_plan(&t->prefixes, given, n, XBLOOM_EXPAND_MAX, &plan, err);
	if (!ret)
		ret = xbloom_hold_prefixes(t->f, &plan, err);
	if (!ret)
		ret = xbloom_prefixes_expand(&t->prefixes, &plan, p->fields, push_expanded, t);
	if (!ret && t->f->nets4)
		xbloom_prefixes_nets4(&t->prefixes, t->f->nets4 + p->current * XBLOOM_NETS4_BLOCKS);
	return ret;
}

/* What was added while the next generation was being filled. */
static int take_all_late(struct xbloom *next, struct xbloom_error *err)
{
	struct taking t = { .f = next, .err = err };
	struct xbloom_filler *filler = NULL;
	unsigned int width = xbloom_key_width(next->meta->params.fields);
	int ret;

	if (next->fd[XBLOOM_PIN_CONFIRM] >= 0)
		t.hashes.width = width;
	ret = xbloom_late_read(next->name, width, take_late, &t, err);
	if (!ret)
		ret = take_late_prefixes(&t, err);
	if (!ret)
		ret = xbloom_filler_open(next, &filler, err);
	if (!ret && t.hashes.words_n)
		ret = xbloom_filler_put_words(filler, t.hashes.words, t.hashes.words_n, err);
	if (!ret) {
		xbloom_hashes_distinct(&t.hashes);
		xbloom_filler_put(filler, t.hashes.v, t.hashes.n);
	}
	next->meta->inserted += xbloom_filler_close(filler);
	xbloom_hashes_free(&t.hashes);
	xbloom_prefixes_free(&t.prefixes);
	return ret;
}

/* What belongs to the filter and not to a generation. */
static int take_over(struct xbloom *next, const struct xbloom *old, struct xbloom_error *err)
{
	static const enum xbloom_pin shared[] = { XBLOOM_PIN_STATS, XBLOOM_PIN_SLOTS,
						  XBLOOM_PIN_PROG, XBLOOM_PIN_SAMPLES,
						  XBLOOM_PIN_EXEMPT };
	const struct xbloom_params *from = xbloom_params_in_force(old);
	struct xbloom_params *to = &next->meta->params;
	size_t i;

	for (i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
		int fd = old->fd[shared[i]];

		if (fd < 0)
			continue;
		next->fd[shared[i]] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (next->fd[shared[i]] < 0)
			return xbloom_fail_errno(err, -errno, "cannot take over %s of filter %s",
						 xbloom_pin_names[shared[i]], old->name);
	}
	to->policy = from->policy;
	to->shadow = from->shadow;
	to->unkeyed_drop = from->unkeyed_drop;
	to->extras = from->extras;
	to->sample_every = from->sample_every;
	to->exempt_id = from->exempt_id;
	to->exempt_trie = from->exempt_trie;
	to->n_exempt = from->n_exempt;
	memcpy(to->exempt, from->exempt, sizeof(to->exempt));
	next->meta->generation = old->meta->generation + 1;
	next->meta->created = old->meta->created;
	next->meta->alarm_percent = old->meta->alarm_percent;
	next->meta->guard = old->meta->guard;
	return 0;
}

int xbloom_grace_period(struct xbloom_error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts);
	AUTO_CLOSE int inner = -1;
	AUTO_CLOSE int outer = -1;
	uint32_t zero = 0;

	/* The kernel waits for all running programs when it replaces a map within a map. */
	inner = xbloom_make_array(BPF_MAP_TYPE_ARRAY, "xbloom_grace", sizeof(uint32_t), 1, 0, err);
	if (inner < 0)
		return inner;
	opts.inner_map_fd = (uint32_t)inner;
	outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "xbloom_grace", sizeof(uint32_t),
			       sizeof(uint32_t), 1, &opts);
	if (outer < 0 || bpf_map_update_elem(outer, &zero, &inner, BPF_ANY))
		return xbloom_fail_errno(err, -errno,
					 "cannot wait for the packets in the old program");
	return 0;
}

/* The slot is the new program's, but the names would not change: give the old one its slot back. */
static int take_back(struct xbloom *old, int ret, struct xbloom_error *err)
{
	AUTO_CLOSE int prog = xbloom_load_rules(old, *xbloom_params_in_force(old), NULL);

	if (prog >= 0)
		xbloom_fill_slot(old, prog, NULL);
	return xbloom_fail_errno(err, ret, "cannot rename the next generation of filter %s",
				 old->name);
}

static int replace(struct xbloom_rebuild *r, struct xbloom *old, struct xbloom *next,
		   struct xbloom_error *err)
{
	char entry[XBLOOM_NAME_MAX + 1];
	AUTO_CLOSE int prog = -1;
	int ret;

	xbloom_successor_entry(entry, r->name);
	prog = xbloom_load_rules(next, next->meta->params, err);
	if (prog < 0)
		return prog;
	next->meta->successor = xbloom_prog_id(prog);
	if (!next->meta->successor)
		return xbloom_fail(err, -EIO, "the new program of %s has no id", r->name);
	ret = xbloom_pin_all(next, entry, err);
	if (!ret)
		ret = xbloom_fill_slot(next, prog, err);
	if (ret)
		return ret;
	ret = exchange(r->rootfd, entry, r->name);
	if (ret)
		return take_back(old, ret, err);
	r->built = true;
	move_watching(r->rootfd, entry, r->name);
	/* Even if it cannot be waited for, what is done is done: the few packets are long gone. */
	xbloom_grace_period(NULL);
	xbloom_remove_dir(r->rootfd, entry, NULL);
	return 0;
}

int xbloom_rebuild_finish(struct xbloom_rebuild *r, const struct xbloom_size *size,
			  const struct xbloom_hash_key *key, const struct xbloom_filling *filling,
			  const struct xbloom_options *opts, struct xbloom **out,
			  struct xbloom_error *err)
{
	const struct xbloom_rules rules = {
		.fields = r->meta.params.fields,
		.policy = XBLOOM_POLICY_BLOCK,
		.confirm = r->meta.params.extras & XBLOOM_CONFIRM,
	};
	struct xbloom *old = NULL, *next = xbloom_new(r->name, true);
	int ret;

	if (!next)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	ret = xbloom_check_memory(size, err);
	if (!ret)
		ret = xbloom_build_generation(next, size, &rules, key, filling, opts, err);
	if (!ret)
		ret = open_old(r, opts, &old, err);
	if (!ret)
		ret = take_all_late(next, err);
	if (!ret)
		ret = take_over(next, old, err);
	if (!ret && opts && opts->cancelled && opts->cancelled(opts->ctx))
		ret = xbloom_fail(err, -ECANCELED, "interrupted: filter %s is as it was", r->name);
	if (!ret)
		ret = replace(r, old, next, err);
	if (!ret) {
		next->dir_fd = r->dirfd;
		r->dirfd = -1;
		*out = next;
	} else {
		xbloom_close(next);
	}
	/* Last, as it lets the next writer in. */
	xbloom_close(old);
	return ret;
}
