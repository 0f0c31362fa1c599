// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A filter: made, opened, filled, asked, changed, destroyed. It is five pins in a directory (see
 * state.c), of which `meta` is the record that says what the others must look like, and `filter`
 * the bits, mapped into this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "internal.h"

/* How often progress is told and a cancelled create notices, in keys. */
#define PROGRESS_EVERY 65536
/* Left to the rest of the machine when a filter is sized against its memory. */
#define MEMORY_RESERVE (64ULL << 20)

struct xbloom {
	char name[XBLOOM_NAME_MAX];
	bool writable;
	int dir_fd; /* holds the lock when writable */
	int fd[XBLOOM_PINS];
	struct xbloom_geometry geometry; /* checked once; never read from shared memory again */
	struct xbloom_meta *meta;
	struct xbloom_block *blocks;
	size_t meta_len;
	size_t blocks_len;
};

/* ---- small parts ---- */

static size_t page_round(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (size_t)((bytes + page - 1) / page * page);
}

static struct xbloom *new_filter(const char *name, bool writable)
{
	struct xbloom *f = calloc(1, sizeof(*f));
	int i;

	if (!f)
		return NULL;
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->writable = writable;
	f->dir_fd = -1;
	for (i = 0; i < XBLOOM_PINS; i++)
		f->fd[i] = -1;
	return f;
}

void xbloom_close(struct xbloom *f)
{
	int i;

	if (!f)
		return;
	if (f->blocks)
		munmap(f->blocks, f->blocks_len);
	if (f->meta)
		munmap(f->meta, f->meta_len);
	for (i = 0; i < XBLOOM_PINS; i++)
		xbloom_close_fd(&f->fd[i]);
	/* Last, as it lets the next writer in. */
	xbloom_close_fd(&f->dir_fd);
	free(f);
}

static int map_memory(int fd, size_t len, bool writable, void **out)
{
	int prot = PROT_READ | (writable ? PROT_WRITE : 0);
	void *p = mmap(NULL, len, prot, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*out = p;
	return 0;
}

static int map_all(struct xbloom *f, struct xbloom_error *err)
{
	int ret = 0;

	if (!f->meta) {
		f->meta_len = page_round(sizeof(*f->meta));
		ret = map_memory(f->fd[XBLOOM_PIN_META], f->meta_len, f->writable,
				 (void **)&f->meta);
	}
	if (!ret && !f->blocks && f->geometry.blocks) {
		if (f->geometry.blocks > (SIZE_MAX >> 1) / XBLOOM_BLOCK_BYTES)
			return xbloom_fail(err, -EFBIG,
					   "filter %s is larger than this tool's address space",
					   f->name);
		f->blocks_len = page_round(f->geometry.blocks * XBLOOM_BLOCK_BYTES);
		ret = map_memory(f->fd[XBLOOM_PIN_FILTER], f->blocks_len, f->writable,
				 (void **)&f->blocks);
	}
	return ret ? xbloom_fail_errno(err, ret, "cannot map the memory of filter %s", f->name) : 0;
}

static bool exists(int rootfd, const char *entry)
{
	return !faccessat(rootfd, entry, F_OK, AT_SYMLINK_NOFOLLOW);
}

int xbloom_hash_key_random(struct xbloom_hash_key *key, struct xbloom_error *err)
{
	if (getrandom(key, sizeof(*key), 0) != (ssize_t)sizeof(*key))
		return xbloom_fail_errno(err, -errno, "the kernel gave no random numbers");
	return 0;
}

uint32_t xbloom_unkeyed_default(uint32_t policy)
{
	return policy == XBLOOM_POLICY_ALLOW ? XBLOOM_UNKEYED_ALL : 0;
}

/* ---- create ---- */

static uint64_t memory_available(void)
{
	unsigned long long kib = 0;
	char line[256];
	FILE *file = fopen("/proc/meminfo", "re");

	if (!file)
		return UINT64_MAX;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	fclose(file);
	return kib ? kib * 1024 : UINT64_MAX;
}

static int check_memory(const struct xbloom_size *size, struct xbloom_error *err)
{
	uint64_t available = memory_available();

	if (available != UINT64_MAX && size->bytes + MEMORY_RESERVE > available)
		return xbloom_fail(err, -ENOMEM,
				   "the filter needs %.1f MiB and this machine has %.1f MiB "
				   "available: fewer items, a higher --fp or fewer --bits-per-key",
				   (double)size->bytes / (1 << 20), (double)available / (1 << 20));
	return 0;
}

static int make_map(enum bpf_map_type type, const char *map_name, uint32_t value_size,
		    uint64_t entries, uint32_t flags, struct xbloom_error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);
	int fd = bpf_map_create(type, map_name, sizeof(uint32_t), value_size, (uint32_t)entries,
				&opts);

	if (fd < 0)
		return xbloom_fail_errno(err, -errno, "cannot make the map %s of %llu x %u bytes",
					 map_name, (unsigned long long)entries, value_size);
	return fd;
}

static int make_maps(struct xbloom *f, struct xbloom_error *err)
{
	int *fd = f->fd;

	fd[XBLOOM_PIN_META] = make_map(BPF_MAP_TYPE_ARRAY, "xbloom_meta",
				       sizeof(struct xbloom_meta), 1, BPF_F_MMAPABLE, err);
	if (fd[XBLOOM_PIN_META] < 0)
		return fd[XBLOOM_PIN_META];
	fd[XBLOOM_PIN_FILTER] = make_map(BPF_MAP_TYPE_ARRAY, "xbloom_filter", XBLOOM_BLOCK_BYTES,
					 f->geometry.blocks, BPF_F_MMAPABLE, err);
	if (fd[XBLOOM_PIN_FILTER] < 0)
		return fd[XBLOOM_PIN_FILTER];
	fd[XBLOOM_PIN_STATS] = make_map(BPF_MAP_TYPE_PERCPU_ARRAY, "xbloom_stats",
					sizeof(struct xbloom_stats), 1, 0, err);
	if (fd[XBLOOM_PIN_STATS] < 0)
		return fd[XBLOOM_PIN_STATS];
	fd[XBLOOM_PIN_SLOTS] =
		make_map(BPF_MAP_TYPE_PROG_ARRAY, "xbloom_slots", sizeof(uint32_t), 1, 0, err);
	return fd[XBLOOM_PIN_SLOTS] < 0 ? fd[XBLOOM_PIN_SLOTS] : 0;
}

static void write_meta(struct xbloom *f, const struct xbloom_size *size,
		       const struct xbloom_rules *rules, const struct xbloom_hash_key *key)
{
	const struct xbloom_geometry *g = &f->geometry;
	struct xbloom_meta *m = f->meta;

	m->version = XBLOOM_VERSION;
	m->size = sizeof(*m);
	m->params = (struct xbloom_params){
		.hash_key = *key,
		.blocks = g->blocks,
		.bits = g->bits,
		.layout = g->layout,
		.k = g->k,
		.fields = rules->fields,
		.policy = rules->policy,
		.shadow = rules->shadow,
		.unkeyed_drop = rules->unkeyed_drop,
	};
	m->generation = 1;
	m->created = (uint64_t)time(NULL);
	m->capacity = size->items;
	m->fp_target_femto = (uint64_t)llround(size->fp_target * XBLOOM_FEMTO);
	m->alarm_percent = XBLOOM_ALARM_PERCENT;
	memcpy(m->name, f->name, sizeof(m->name));
	m->magic = XBLOOM_MAGIC;
}

static int fill_slot(struct xbloom *f, int prog, struct xbloom_error *err)
{
	uint32_t slot = XBLOOM_SLOT;

	if (bpf_map_update_elem(f->fd[XBLOOM_PIN_SLOTS], &slot, &prog, BPF_ANY))
		return xbloom_fail_errno(err, -errno, "cannot put the program of %s in its slot",
					 f->name);
	return 0;
}

/* Load a filter program with these constants, but with the geometry that was checked. */
static int load_slot(struct xbloom *f, struct xbloom_params params, struct xbloom_error *err)
{
	params.blocks = f->geometry.blocks;
	params.bits = f->geometry.bits;
	params.layout = f->geometry.layout;
	params.k = f->geometry.k;
	return xbloom_load_slot(f->fd[XBLOOM_PIN_FILTER], f->fd[XBLOOM_PIN_SLOTS],
				f->fd[XBLOOM_PIN_STATS], &params, err);
}

static uint32_t prog_id(int prog)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);

	return bpf_obj_get_info_by_fd(prog, &info, &len) ? 0 : info.id;
}

/* The constants of the program that is in the slot now. */
static const struct xbloom_params *params_in_force(const struct xbloom *f)
{
	uint32_t pending = __atomic_load_n(&f->meta->pending, __ATOMIC_ACQUIRE);
	uint32_t slot = XBLOOM_SLOT, id = 0;

	/* To user space a slot reads as the id of its program. */
	if (pending && !bpf_map_lookup_elem(f->fd[XBLOOM_PIN_SLOTS], &slot, &id) && id == pending)
		return &f->meta->next;
	return &f->meta->params;
}

/* Make the record say what the slot does, and take the announcement back. */
static void settle(struct xbloom *f)
{
	const struct xbloom_params *now = params_in_force(f);

	if (now == &f->meta->next)
		f->meta->params = f->meta->next;
	__atomic_store_n(&f->meta->pending, 0, __ATOMIC_RELEASE);
}

static int pin_all(struct xbloom *f, struct xbloom_error *err)
{
	char path[XBLOOM_PATH_MAX];
	int i, ret;

	for (i = 0; i < XBLOOM_PINS; i++) {
		ret = xbloom_pin_path(path, f->name, true, (enum xbloom_pin)i, err);
		if (ret)
			return ret;
		if (bpf_obj_pin(f->fd[i], path))
			return xbloom_fail_errno(err, -errno, "cannot pin %s", path);
	}
	return 0;
}

static bool cancelled(const struct xbloom_options *opts)
{
	return opts && opts->cancelled && opts->cancelled(opts->ctx);
}

static int check_cancelled(const struct xbloom_options *opts, struct xbloom_error *err)
{
	if (cancelled(opts))
		return xbloom_fail(err, -ECANCELED, "interrupted: nothing was made");
	return 0;
}

static bool add_one(struct xbloom *f, uint64_t hash)
{
	if (!xbloom_set_hash(&f->geometry, f->blocks, hash))
		return false;
	__atomic_fetch_add(&f->meta->inserted, 1, __ATOMIC_RELAXED);
	return true;
}

/* Insert all of them, or as many as until it is cancelled; returns how many changed a bit. */
static uint64_t add_all(struct xbloom *f, const struct xbloom_hashes *hashes,
			const struct xbloom_options *opts, bool can_cancel)
{
	uint64_t changed = 0;
	size_t i;

	for (i = 0; i < hashes->n; i++) {
		if (i % PROGRESS_EVERY == 0) {
			if (can_cancel && cancelled(opts))
				break;
			if (opts && opts->progress)
				opts->progress(opts->ctx, "filling", i, hashes->n);
		}
		changed += add_one(f, hashes->v[i]);
	}
	/* The bits before whatever the caller does to announce them. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return changed;
}

static int build(struct xbloom *f, const struct xbloom_size *size, const struct xbloom_rules *rules,
		 const struct xbloom_hash_key *key, const struct xbloom_hashes *hashes,
		 const struct xbloom_options *opts, struct xbloom_error *err)
{
	AUTO_CLOSE int prog = -1;
	int ret;

	f->geometry = size->geometry;
	ret = make_maps(f, err);
	if (!ret)
		ret = map_all(f, err);
	if (ret)
		return ret;
	write_meta(f, size, rules, key);
	if (hashes)
		add_all(f, hashes, opts, true);
	ret = check_cancelled(opts, err);
	if (ret)
		return ret;
	prog = load_slot(f, f->meta->params, err);
	if (prog < 0)
		return prog;
	ret = fill_slot(f, prog, err);
	if (ret)
		return ret;
	f->fd[XBLOOM_PIN_PROG] =
		xbloom_load_entry(f->fd[XBLOOM_PIN_SLOTS], f->fd[XBLOOM_PIN_STATS], err);
	if (f->fd[XBLOOM_PIN_PROG] < 0)
		return f->fd[XBLOOM_PIN_PROG];
	return pin_all(f, err);
}

/*
 * Take over the directory "+NAME" and lock it: whoever holds that lock is the one who makes NAME.
 * Whoever waited here may find that the directory was renamed meanwhile, and looks again.
 */
static int claim_building(int rootfd, const char *name, const struct xbloom_options *opts,
			  int *dir_fd, struct xbloom_error *err)
{
	char entry[XBLOOM_NAME_MAX + 1];
	int ret;

	xbloom_building_entry(entry, name);
	for (;;) {
		AUTO_CLOSE int fd = -1;

		if (mkdirat(rootfd, entry, 0700) && errno != EEXIST)
			return xbloom_fail_errno(err, -errno, "cannot make a directory for %s",
						 name);
		fd = openat(rootfd, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0)
			return xbloom_fail_errno(err, -errno, "cannot open the directory of %s",
						 name);
		ret = xbloom_lock(fd, name, opts, err);
		if (ret)
			return ret;
		if (!xbloom_still_at(fd, rootfd, entry))
			continue;
		*dir_fd = fd;
		fd = -1;
		return 0;
	}
}

int xbloom_available(const char *name, struct xbloom_error *err)
{
	struct xbloom_error why = { "" };
	struct xbloom *f = NULL;
	int ret = xbloom_open(name, 0, NULL, &f, &why);

	xbloom_close(f);
	if (ret == -ENOENT || ret == -EUCLEAN)
		return 0;
	if (!ret || ret == -EPROTO)
		return xbloom_fail(err, -EEXIST,
				   "filter %s is there already: choose another name, or xdp-bloom "
				   "destroy %s first",
				   name, name);
	return xbloom_fail(err, ret, "%s", why.text);
}

/* 0 when NAME is free, after removing what is there when that is no whole filter. */
static int make_room(int rootfd, const char *name, const struct xbloom_options *opts,
		     struct xbloom_error *err)
{
	int ret = xbloom_available(name, err);

	if (ret || !exists(rootfd, name))
		return ret;
	ret = xbloom_destroy(name, opts, err);
	/* Somebody else removed it first: that is room, too. */
	return ret && ret != -ECANCELED && !exists(rootfd, name) ? 0 : ret;
}

int xbloom_create(const char *name, const struct xbloom_size *size,
		  const struct xbloom_rules *rules, const struct xbloom_hash_key *key,
		  const struct xbloom_hashes *hashes, const struct xbloom_options *opts,
		  struct xbloom **out, struct xbloom_error *err)
{
	char entry[XBLOOM_NAME_MAX + 1];
	AUTO_CLOSE int rootfd = -1;
	struct xbloom *f;
	int ret;

	ret = xbloom_name_check(name, err);
	if (!ret && (!rules->fields || rules->fields & ~XBLOOM_FIELDS_ALL))
		ret = xbloom_fail(err, -EINVAL, "a key needs at least one field");
	if (!ret)
		ret = check_memory(size, err);
	if (!ret)
		ret = xbloom_root_open(true, &rootfd, err);
	if (ret)
		return ret;
	xbloom_sweep(rootfd);
	f = new_filter(name, true);
	if (!f)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	ret = claim_building(rootfd, name, opts, &f->dir_fd, err);
	if (ret)
		goto out_close;
	xbloom_building_entry(entry, name);
	/* What a create that died left in it; the directory and its lock are ours. */
	ret = xbloom_empty_dir(f->dir_fd, entry, err);
	if (!ret)
		ret = xbloom_available(name, err);
	if (!ret)
		ret = build(f, size, rules, key, hashes, opts, err);
	if (!ret)
		ret = check_cancelled(opts, err);
	/* Only now: a damaged filter may still be at work on a device. */
	if (!ret)
		ret = make_room(rootfd, name, opts, err);
	if (ret)
		goto out_remove;
	if (renameat(rootfd, entry, rootfd, name)) {
		ret = xbloom_fail_errno(err, -errno, "cannot give the filter its name %s", name);
		goto out_remove;
	}
	*out = f;
	return 0;

out_remove:
	xbloom_remove_dir(rootfd, entry, NULL);
out_close:
	xbloom_close(f);
	return ret;
}

/* ---- open ---- */

static int damaged(const char *name, const char *what, struct xbloom_error *err)
{
	return xbloom_fail(
		err, -EUCLEAN,
		"filter %s is half-made or damaged (%s): xdp-bloom destroy %s removes it", name,
		what, name);
}

static int no_such(int rootfd, const char *name, struct xbloom_error *err)
{
	char entry[XBLOOM_NAME_MAX + 1];

	xbloom_trash_entry(entry, name);
	if (exists(rootfd, entry))
		return xbloom_fail(err, -ENOENT,
				   "the removal of filter %s was cut short, and it may still be "
				   "attached: xdp-bloom destroy %s ends it",
				   name, name);

	xbloom_building_entry(entry, name);
	if (exists(rootfd, entry))
		return xbloom_fail(
			err, -ENOENT,
			"filter %s is just being made, or its making was cut short: wait, "
			"or xdp-bloom create or destroy it",
			name);
	return xbloom_fail(err, -ENOENT, "there is no filter %s (xdp-bloom show lists them)", name);
}

static int open_pin(struct xbloom *f, enum xbloom_pin pin, struct xbloom_error *err)
{
	LIBBPF_OPTS(bpf_obj_get_opts, opts);
	char path[XBLOOM_PATH_MAX];
	int ret = xbloom_pin_path(path, f->name, false, pin, err);

	if (ret)
		return ret;
	/*
	 * A reader asks for no more than it needs. But programs know no read-only handle, and the
	 * kernel maps memory, even for reading, only through a writable one.
	 */
	if (!f->writable && (pin == XBLOOM_PIN_STATS || pin == XBLOOM_PIN_SLOTS))
		opts.file_flags = BPF_F_RDONLY;
	f->fd[pin] = bpf_obj_get_opts(path, &opts);
	if (f->fd[pin] >= 0)
		return 0;
	if (errno == ENOENT)
		return damaged(f->name, xbloom_pin_names[pin], err);
	return xbloom_fail_errno(err, -errno, "cannot open %s", path);
}

static bool map_is(int fd, enum bpf_map_type type, uint64_t value_size, uint64_t entries)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);

	return !bpf_obj_get_info_by_fd(fd, &info, &len) && info.type == type &&
	       info.value_size == value_size && info.max_entries == entries;
}

/*
 * The record of another version may be of another size, so its head is read by a system call and
 * judged before anything else is believed.
 */
static int check_version(struct xbloom *f, struct xbloom_error *err)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info), zero = 0;
	AUTO_FREE struct xbloom_meta *head = NULL;
	int fd = f->fd[XBLOOM_PIN_META];

	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.type != BPF_MAP_TYPE_ARRAY ||
	    info.value_size < offsetof(struct xbloom_meta, params))
		return damaged(f->name, "its meta is no record", err);
	head = malloc(info.value_size);
	if (!head)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	if (bpf_map_lookup_elem(fd, &zero, head) || head->magic != XBLOOM_MAGIC)
		return damaged(f->name, "its meta is no record", err);
	if (head->version != XBLOOM_VERSION || head->size != sizeof(*head) ||
	    info.value_size != sizeof(*head))
		return xbloom_fail(
			err, -EPROTO,
			"filter %s was made by another version of xdp-bloom (format %u, this "
			"one has %u): use that version, or destroy and create it",
			f->name, head->version, XBLOOM_VERSION);
	return 0;
}

static bool geometry_is_sane(const struct xbloom_geometry *g)
{
	if (g->blocks < 1 || g->blocks > XBLOOM_BLOCKS_MAX)
		return false;
	if (g->layout == XBLOOM_LAYOUT_SPLIT)
		return g->k == XBLOOM_SPLIT_K && g->bits == g->blocks * XBLOOM_BLOCK_BITS;
	return g->layout == XBLOOM_LAYOUT_CLASSIC && g->k >= 1 && g->k <= XBLOOM_CLASSIC_K_MAX &&
	       g->bits >= 1 && g->bits <= XBLOOM_CLASSIC_BITS_MAX &&
	       g->bits <= g->blocks * XBLOOM_BLOCK_BITS;
}

static int check_geometry(struct xbloom *f, struct xbloom_error *err)
{
	const struct xbloom_params *p = &f->meta->params;

	f->geometry = (struct xbloom_geometry){
		.blocks = p->blocks,
		.bits = p->bits,
		.layout = p->layout,
		.k = p->k,
	};
	if (!geometry_is_sane(&f->geometry) || !p->fields || p->fields & ~XBLOOM_FIELDS_ALL ||
	    p->policy > XBLOOM_POLICY_ALLOW || !f->meta->capacity ||
	    !memchr(f->meta->name, '\0', sizeof(f->meta->name)))
		return damaged(f->name, "its record contradicts itself", err);
	if (!map_is(f->fd[XBLOOM_PIN_FILTER], BPF_MAP_TYPE_ARRAY, XBLOOM_BLOCK_BYTES,
		    f->geometry.blocks))
		return damaged(f->name, "its bits are not of the size in its record", err);
	if (!map_is(f->fd[XBLOOM_PIN_STATS], BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(struct xbloom_stats),
		    1))
		return damaged(f->name, "stats", err);
	if (!map_is(f->fd[XBLOOM_PIN_SLOTS], BPF_MAP_TYPE_PROG_ARRAY, sizeof(uint32_t), 1))
		return damaged(f->name, "slots", err);
	return 0;
}

static int open_all(struct xbloom *f, struct xbloom_error *err)
{
	int i, ret;

	ret = open_pin(f, XBLOOM_PIN_META, err);
	if (!ret)
		ret = check_version(f, err);
	for (i = 0; !ret && i < XBLOOM_PINS; i++)
		if (i != XBLOOM_PIN_META)
			ret = open_pin(f, (enum xbloom_pin)i, err);
	if (!ret)
		ret = map_all(f, err); /* meta; the geometry is not known yet */
	if (!ret)
		ret = check_geometry(f, err);
	if (!ret)
		ret = map_all(f, err);
	return ret;
}

/* One attempt; *moved: the directory was not NAME's any more at the end of it. */
static int try_open(const char *name, bool writable, int rootfd, const struct xbloom_options *opts,
		    struct xbloom **out, bool *moved, struct xbloom_error *err)
{
	struct xbloom *f = new_filter(name, writable);
	int ret = 0;

	if (!f)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	f->dir_fd = openat(rootfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (f->dir_fd < 0) {
		ret = errno == ENOENT ? no_such(rootfd, name, err)
		      : errno == ENOTDIR
			      ? damaged(name, "not a directory", err)
			      : xbloom_fail_errno(err, -errno, "cannot open filter %s", name);
		goto out_close;
	}
	if (writable) {
		ret = xbloom_lock(f->dir_fd, name, opts, err);
		if (!ret && !xbloom_still_at(f->dir_fd, rootfd, name))
			ret = xbloom_fail(err, -ENOENT, "filter %s was destroyed meanwhile", name);
		if (ret)
			goto out_close;
	}
	ret = open_all(f, err);
	*moved = !xbloom_still_at(f->dir_fd, rootfd, name);
	/* Somebody died in a change: it was made or it was not, and the record must say which. */
	if (!ret && writable && f->meta->pending)
		settle(f);
	if (ret)
		goto out_close;
	*out = f;
	return 0;

out_close:
	xbloom_close(f);
	return ret;
}

/* Each attempt meets another destroy and create of the name; nobody does that so often. */
#define OPEN_ATTEMPTS 100

int xbloom_open(const char *name, unsigned int flags, const struct xbloom_options *opts,
		struct xbloom **out, struct xbloom_error *err)
{
	AUTO_CLOSE int rootfd = -1;
	bool moved = true;
	int i, ret;

	ret = xbloom_name_check(name, err);
	if (!ret)
		ret = xbloom_root_open(false, &rootfd, err);
	if (ret == -ENOENT)
		return xbloom_fail(err, ret, "there is no filter %s, nor any other", name);
	/*
	 * A reader holds no lock, and pins are opened by path: when the filter was replaced between
	 * two of them, they are of two filters, and their answers would be nobody's.
	 */
	for (i = 0; i < OPEN_ATTEMPTS && moved && !ret; i++) {
		struct xbloom *f = NULL;

		moved = false;
		ret = try_open(name, flags & XBLOOM_OPEN_WRITE, rootfd, opts, &f, &moved, err);
		if (!moved) {
			*out = f;
			return ret;
		}
		xbloom_close(f);
		ret = 0;
	}
	return ret ? ret
		   : xbloom_fail(err, -EAGAIN, "filter %s is being replaced again and again", name);
}

/* ---- what an open filter says ---- */

const struct xbloom_meta *xbloom_meta(const struct xbloom *f)
{
	return f->meta;
}

const struct xbloom_geometry *xbloom_geometry(const struct xbloom *f)
{
	return &f->geometry;
}

const struct xbloom_block *xbloom_blocks(const struct xbloom *f)
{
	return f->blocks;
}

int xbloom_prog_fd(const struct xbloom *f)
{
	return f->fd[XBLOOM_PIN_PROG];
}

int xbloom_slots_fd(const struct xbloom *f)
{
	return f->fd[XBLOOM_PIN_SLOTS];
}

int xbloom_stats_fd(const struct xbloom *f)
{
	return f->fd[XBLOOM_PIN_STATS];
}

uint64_t xbloom_hash(const struct xbloom *f, const struct xbloom_flow *flow)
{
	return xbloom_key_hash(&f->meta->params.hash_key, flow, f->meta->params.fields);
}

bool xbloom_test(const struct xbloom *f, uint64_t hash)
{
	return xbloom_test_hash(&f->geometry, f->blocks, hash);
}

/* ---- writing ---- */

bool xbloom_add(struct xbloom *f, uint64_t hash)
{
	bool changed = add_one(f, hash);

	/* The bits before whatever the caller does to announce them. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return changed;
}

uint64_t xbloom_add_all(struct xbloom *f, const struct xbloom_hashes *hashes,
			const struct xbloom_options *opts)
{
	return add_all(f, hashes, opts, false);
}

void xbloom_rules(const struct xbloom *f, struct xbloom_rules *rules)
{
	const struct xbloom_params *p = params_in_force(f);

	*rules = (struct xbloom_rules){
		.fields = p->fields,
		.policy = p->policy,
		.shadow = p->shadow,
		.unkeyed_drop = p->unkeyed_drop,
	};
}

int xbloom_set_rules(struct xbloom *f, const struct xbloom_rules *rules, struct xbloom_error *err)
{
	struct xbloom_meta *m = f->meta;
	AUTO_CLOSE int prog = -1;
	uint32_t id;
	int ret;

	if (rules->fields != m->params.fields)
		return xbloom_fail(err, -EINVAL,
				   "the key of a filter cannot change: create another filter");
	m->next = m->params;
	m->next.policy = rules->policy;
	m->next.shadow = rules->shadow;
	m->next.unkeyed_drop = rules->unkeyed_drop;
	prog = load_slot(f, m->next, err);
	if (prog < 0)
		return prog;
	id = prog_id(prog);
	if (!id)
		return xbloom_fail(err, -EIO, "the new program of %s has no id", f->name);
	__atomic_store_n(&m->pending, id, __ATOMIC_RELEASE);
	ret = fill_slot(f, prog, err);
	settle(f);
	return ret;
}

/* ---- the gauge ---- */

/*
 * The chance that an absent key finds its eight bits set: the mean over blocks of the product of
 * its words' fills, which is exact for the bits as they are. (The eighth power of the whole
 * array's fill would miss that some blocks are fuller than others.)
 */
static double split_rate_now(const struct xbloom *f, uint64_t *ones)
{
	uint64_t i;
	double sum = 0;
	unsigned int w;

	for (i = 0; i < f->geometry.blocks; i++) {
		double product = 1;

		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++) {
			unsigned int n = (unsigned int)__builtin_popcountll(f->blocks[i].w[w]);

			*ones += n;
			product *= n;
		}
		sum += product;
	}
	/* 64^8 = 2^48: all eight divisions at once. */
	return ldexp(sum, -48) / (double)f->geometry.blocks;
}

static double classic_rate_now(const struct xbloom *f, uint64_t *ones)
{
	uint64_t i;
	unsigned int w;

	for (i = 0; i < f->geometry.blocks; i++)
		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++)
			*ones += (unsigned int)__builtin_popcountll(f->blocks[i].w[w]);
	return pow((double)*ones / (double)f->geometry.bits, f->geometry.k);
}

double xbloom_load(const struct xbloom *f)
{
	return xbloom_distinct(&f->geometry, f->meta->inserted) / (double)f->meta->capacity;
}

const char *xbloom_alarm(const struct xbloom *f)
{
	double inserted = (double)f->meta->inserted;
	double capacity = (double)f->meta->capacity;
	double keys = xbloom_distinct(&f->geometry, f->meta->inserted);
	double doubt = 3 * sqrt(fmax(0, keys - inserted));

	if (keys - doubt > capacity)
		return "over";
	return (keys + doubt) * 100 >= capacity * f->meta->alarm_percent ? "high" : "ok";
}

void xbloom_gauge(const struct xbloom *f, struct xbloom_gauge *gauge)
{
	const struct xbloom_geometry *g = &f->geometry;
	double m = (double)g->bits;
	uint64_t ones = 0;

	gauge->fp_predicted = g->layout == XBLOOM_LAYOUT_SPLIT ? split_rate_now(f, &ones)
							       : classic_rate_now(f, &ones);
	gauge->ones = ones;
	/* A key takes each bit of m with probability k/m: ones = m (1 - e^(-kn/m)), solved for n. */
	gauge->estimated = ones ? -m / g->k * log1p(-(double)ones / m) : 0;
	if (g->layout == XBLOOM_LAYOUT_SPLIT && gauge->fp_predicted < 1)
		gauge->fp_predicted += (1 - gauge->fp_predicted) *
				       xbloom_split_floor(gauge->estimated / (double)g->blocks);
	gauge->load = xbloom_load(f);
}

int xbloom_stats(const struct xbloom *f, struct xbloom_stats *stats, struct xbloom_error *err)
{
	AUTO_FREE struct xbloom_stats *cpus = NULL;
	int cpu, n = libbpf_num_possible_cpus();
	uint32_t zero = 0;
	size_t i;

	memset(stats, 0, sizeof(*stats));
	if (n < 0)
		return xbloom_fail_errno(err, n, "cannot count the CPUs");
	cpus = calloc((size_t)n, sizeof(*cpus));
	if (!cpus)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	if (bpf_map_lookup_elem(f->fd[XBLOOM_PIN_STATS], &zero, cpus))
		return xbloom_fail_errno(err, -errno, "cannot read the counters of %s", f->name);
	for (cpu = 0; cpu < n; cpu++) {
		const struct xbloom_counter *from = &cpus[cpu].c[0][0];
		struct xbloom_counter *to = &stats->c[0][0];

		for (i = 0; i < XBLOOM_REASONS * XBLOOM_ACTIONS; i++) {
			to[i].packets += from[i].packets;
			to[i].bytes += from[i].bytes;
		}
	}
	return 0;
}

static const char *const reason_names[XBLOOM_REASONS] = {
	[XBLOOM_NOT_IP] = "not_ip",	  [XBLOOM_NDP] = "ndp",
	[XBLOOM_NO_FILTER] = "no_filter", [XBLOOM_ABSENT] = "absent",
	[XBLOOM_MAYBE] = "maybe",	  [XBLOOM_ERROR] = "error",
	[XBLOOM_MALFORMED] = "malformed", [XBLOOM_FRAGMENT] = "fragment",
	[XBLOOM_EXTHDR] = "exthdr",	  [XBLOOM_VLAN_TAGS] = "vlan_tags",
};

const char *xbloom_reason_name(uint32_t reason)
{
	return reason < XBLOOM_REASONS ? reason_names[reason] : "unknown";
}

static void add_counter(struct xbloom_counter *to, const struct xbloom_counter *from)
{
	to->packets += from->packets;
	to->bytes += from->bytes;
}

void xbloom_stats_named(const struct xbloom_stats *stats,
			struct xbloom_named_counter out[XBLOOM_NAMED_COUNTERS])
{
	struct xbloom_named_counter *passed = &out[XBLOOM_REASONS];
	struct xbloom_named_counter *dropped = &out[XBLOOM_REASONS + 1];
	struct xbloom_named_counter *would_drop = &out[XBLOOM_REASONS + 2];
	unsigned int r, a;

	memset(out, 0, XBLOOM_NAMED_COUNTERS * sizeof(*out));
	passed->name = "passed";
	dropped->name = "dropped";
	would_drop->name = "would_drop";
	for (r = 0; r < XBLOOM_REASONS; r++) {
		out[r].name = reason_names[r];
		for (a = 0; a < XBLOOM_ACTIONS; a++)
			add_counter(&out[r].value, &stats->c[r][a]);
		add_counter(&passed->value, &stats->c[r][XBLOOM_PASS]);
		add_counter(&dropped->value, &stats->c[r][XBLOOM_DROP]);
		/* In shadow a packet has passed, too. */
		add_counter(&passed->value, &stats->c[r][XBLOOM_WOULD_DROP]);
		add_counter(&would_drop->value, &stats->c[r][XBLOOM_WOULD_DROP]);
	}
}

/* ---- destroy ---- */

uint32_t xbloom_map_id(int fd)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.id;
}

/*
 * Detach it everywhere here, as far as a possibly damaged directory still tells who it is: by the
 * slots map, or by the entry program that jumps through it. With both gone its program is on its
 * own: it lets everything pass, and can be adopted or detached.
 */
int xbloom_detach_entry(const char *entry, struct xbloom_error *err)
{
	char path[XBLOOM_PATH_MAX];
	AUTO_CLOSE int slots = -1;
	AUTO_CLOSE int prog = -1;
	uint32_t slots_id = 0;
	int ret = xbloom_pin_path(path, entry, false, XBLOOM_PIN_SLOTS, err);

	if (ret)
		return ret;
	slots = bpf_obj_get(path);
	if (slots >= 0) {
		slots_id = xbloom_map_id(slots);
	} else if (!xbloom_pin_path(path, entry, false, XBLOOM_PIN_PROG, NULL)) {
		prog = bpf_obj_get(path);
		if (prog >= 0)
			slots_id = xbloom_slots_of_prog(prog);
	}
	return slots_id ? xbloom_detach_all(slots_id, err) : 0;
}

/* There is no NAME: remove what a create or destroy of it that died left behind. */
static int destroy_leftover(int rootfd, const char *name, struct xbloom_error *err)
{
	char building[XBLOOM_NAME_MAX + 1], trash[XBLOOM_NAME_MAX + 1];
	bool left;

	xbloom_building_entry(building, name);
	xbloom_trash_entry(trash, name);
	left = exists(rootfd, building) || exists(rootfd, trash);
	xbloom_sweep(rootfd);
	if (exists(rootfd, building))
		return xbloom_fail(err, -EBUSY, "filter %s is just being made: wait for that",
				   name);
	if (exists(rootfd, trash))
		return xbloom_sweep_one(rootfd, trash, err);
	if (!left)
		return xbloom_fail(err, -ENOENT,
				   "there is no filter %s (xdp-bloom show lists them)", name);
	return 0;
}

int xbloom_destroy(const char *name, const struct xbloom_options *opts, struct xbloom_error *err)
{
	char trash[XBLOOM_NAME_MAX + 1];
	AUTO_CLOSE int rootfd = -1;
	AUTO_CLOSE int dirfd = -1;
	int ret;

	ret = xbloom_name_check(name, err);
	if (!ret)
		ret = xbloom_root_open(false, &rootfd, err);
	if (ret == -ENOENT)
		return xbloom_fail(err, ret, "there is no filter %s, nor any other", name);
	if (ret)
		return ret;

	dirfd = openat(rootfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dirfd < 0 && errno == ENOENT)
		return destroy_leftover(rootfd, name, err);
	if (dirfd < 0 && errno == ENOTDIR) /* some pin of that name: no filter, but in its place */
		return xbloom_remove_dir(rootfd, name, err);
	if (dirfd < 0)
		return xbloom_fail_errno(err, -errno, "cannot open filter %s", name);
	xbloom_sweep(rootfd);
	ret = xbloom_lock(dirfd, name, opts, err);
	if (ret)
		return ret;
	if (!xbloom_still_at(dirfd, rootfd, name))
		return xbloom_fail(err, -ENOENT, "filter %s was destroyed meanwhile", name);
	/* The name goes first: if it will not, nothing has changed. */
	xbloom_trash_entry(trash, name);
	if (renameat(rootfd, name, rootfd, trash))
		return xbloom_fail_errno(err, -errno, "cannot remove filter %s", name);
	ret = xbloom_detach_entry(trash, err);
	if (ret) {
		if (renameat(rootfd, trash, rootfd, name))
			return xbloom_fail_errno(err, -errno, "cannot give %s its name back",
						 trash);
		return ret;
	}
	return xbloom_remove_dir(rootfd, trash, err);
}
