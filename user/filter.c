// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The life of a filter: made, opened, asked, destroyed. It is five to seven pins in a directory (see
 * state.c), of which `meta` is the record that says what the others must look like, and `filter`
 * the bits, mapped into this process. How keys go in is in insert.c, how it treats packets in
 * rules.c, and what it says of itself in gauge.c and stats.c.
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

/* Left to the rest of the machine when a filter is sized against its memory. */
#define MEMORY_RESERVE (64ULL << 20)

/* ---- small parts ---- */

static size_t page_round(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (size_t)((bytes + page - 1) / page * page);
}

struct xbloom *xbloom_new(const char *name, bool writable)
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
	if (f->nets4)
		munmap(f->nets4, f->nets4_len);
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

int xbloom_map_all(struct xbloom *f, struct xbloom_error *err)
{
	int ret = 0;

	if (!f->meta) {
		f->meta_len = page_round(sizeof(*f->meta));
		ret = map_memory(f->fd[XBLOOM_PIN_META], f->meta_len, f->writable,
				 (void **)&f->meta);
	}
	if (!ret && !f->blocks && f->geometry.blocks) {
		if (f->geometry.blocks > (SIZE_MAX >> 1) / XBLOOM_BLOCK_BYTES / f->lives)
			return xbloom_fail(err, -EFBIG,
					   "filter %s is larger than this tool's address space",
					   f->name);
		f->blocks_len = page_round(f->geometry.blocks * f->lives * XBLOOM_BLOCK_BYTES);
		ret = map_memory(f->fd[XBLOOM_PIN_FILTER], f->blocks_len, f->writable,
				 (void **)&f->blocks);
	}
	if (!ret && !f->nets4 && f->fd[XBLOOM_PIN_NETS4] >= 0 && f->lives) {
		f->nets4_len =
			page_round((uint64_t)XBLOOM_NETS4_BLOCKS * f->lives * XBLOOM_BLOCK_BYTES);
		ret = map_memory(f->fd[XBLOOM_PIN_NETS4], f->nets4_len, f->writable,
				 (void **)&f->nets4);
	}
	return ret ? xbloom_fail_errno(err, ret, "cannot map the memory of filter %s", f->name) : 0;
}

int xbloom_hash_key_random(struct xbloom_hash_key *key, struct xbloom_error *err)
{
	if (getrandom(key, sizeof(*key), 0) != (ssize_t)sizeof(*key))
		return xbloom_fail_errno(err, -errno, "the kernel gave no random numbers");
	return 0;
}

/* ---- create ---- */

uint64_t xbloom_memory_available(void)
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

int xbloom_check_memory(const struct xbloom_size *size, struct xbloom_error *err)
{
	uint64_t available = xbloom_memory_available();

	uint64_t lives = size->lives ? size->lives : 1;
	uint64_t needed = size->bytes * lives + size->exact_bytes + xbloom_nets4_bytes(size);

	if (available != UINT64_MAX && needed + MEMORY_RESERVE > available)
		return xbloom_fail(err, -ENOMEM,
				   "the filter needs %.1f MiB%s and this machine has %.1f MiB "
				   "available: fewer items, a higher --fp or fewer --bits-per-key",
				   (double)needed / (1 << 20),
				   size->exact_bytes ? ", most of it for --confirm," : "",
				   (double)available / (1 << 20));
	return 0;
}

static int make_map(enum bpf_map_type type, const char *map_name, uint32_t key_size,
		    uint32_t value_size, uint64_t entries, uint32_t flags, struct xbloom_error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);
	int fd = bpf_map_create(type, map_name, key_size, value_size, (uint32_t)entries, &opts);

	if (fd < 0)
		return xbloom_fail_errno(err, -errno, "cannot make the map %s of %llu x %u bytes",
					 map_name, (unsigned long long)entries, value_size);
	return fd;
}

int xbloom_make_array(enum bpf_map_type type, const char *map_name, uint32_t value_size,
		      uint64_t entries, uint32_t flags, struct xbloom_error *err)
{
	return make_map(type, map_name, sizeof(uint32_t), value_size, entries, flags, err);
}

int xbloom_make_nets4(uint32_t lives, struct xbloom_error *err)
{
	return xbloom_make_array(BPF_MAP_TYPE_ARRAY, "xbloom_nets4", XBLOOM_BLOCK_BYTES,
				 (uint64_t)XBLOOM_NETS4_BLOCKS * lives, BPF_F_MMAPABLE, err);
}

/* Two of them are all that a scratch filter has. */
static int make_memory(struct xbloom *f, bool nets4, struct xbloom_error *err)
{
	int *fd = f->fd;

	fd[XBLOOM_PIN_META] = xbloom_make_array(BPF_MAP_TYPE_ARRAY, "xbloom_meta",
						sizeof(struct xbloom_meta), 1, BPF_F_MMAPABLE, err);
	if (fd[XBLOOM_PIN_META] < 0)
		return fd[XBLOOM_PIN_META];
	fd[XBLOOM_PIN_FILTER] =
		xbloom_make_array(BPF_MAP_TYPE_ARRAY, "xbloom_filter", XBLOOM_BLOCK_BYTES,
				  f->geometry.blocks * f->lives, BPF_F_MMAPABLE, err);
	if (fd[XBLOOM_PIN_FILTER] < 0)
		return fd[XBLOOM_PIN_FILTER];
	if (nets4)
		fd[XBLOOM_PIN_NETS4] = xbloom_make_nets4(f->lives, err);
	if (nets4 && fd[XBLOOM_PIN_NETS4] < 0)
		return fd[XBLOOM_PIN_NETS4];
	return xbloom_map_all(f, err);
}

static int make_maps(struct xbloom *f, const struct xbloom_rules *rules,
		     const struct xbloom_size *size, struct xbloom_error *err)
{
	int ret, *fd = f->fd;

	ret = make_memory(f, size->nets4, err);
	if (ret)
		return ret;
	if (!rules->confirm)
		return 0;
	fd[XBLOOM_PIN_CONFIRM] =
		make_map(BPF_MAP_TYPE_HASH, "xbloom_confirm",
			 xbloom_key_width(rules->fields) * (uint32_t)sizeof(uint64_t), 1,
			 size->exact_keys, 0, err);
	return fd[XBLOOM_PIN_CONFIRM] < 0 ? fd[XBLOOM_PIN_CONFIRM] : 0;
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
		.lives = f->lives,
		.nets4 = size->nets4,
	};
	xbloom_set_plens6(&m->params, size->plens6, size->n_plens6);
	xbloom_rules_to_params(rules, &m->params);
	m->generation = 1;
	m->created = (uint64_t)time(NULL);
	m->capacity = size->items;
	m->fp_target_femto = (uint64_t)llround(size->fp_target * XBLOOM_FEMTO);
	m->alarm_percent = size->alarm_percent ? size->alarm_percent : XBLOOM_ALARM_PERCENT;
	m->ttl_ns = size->ttl_ns;
	memcpy(m->name, f->name, sizeof(m->name));
	m->magic = XBLOOM_MAGIC;
}

int xbloom_pin_all(struct xbloom *f, const char *entry, struct xbloom_error *err)
{
	char path[XBLOOM_PATH_MAX];
	int i, ret;

	for (i = 0; i < XBLOOM_PINS; i++) {
		if (f->fd[i] < 0)
			continue;
		ret = xbloom_pin_path(path, entry, (enum xbloom_pin)i, err);
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

int xbloom_hold_prefixes(struct xbloom *f, const struct xbloom_prefix_plan *plan,
			 struct xbloom_error *err)
{
	struct xbloom_params *p = &f->meta->params;

	if (plan->nets4 && !f->nets4) {
		f->fd[XBLOOM_PIN_NETS4] = xbloom_make_nets4(f->lives, err);
		if (f->fd[XBLOOM_PIN_NETS4] < 0)
			return f->fd[XBLOOM_PIN_NETS4];
		p->nets4 = 1;
	}
	xbloom_set_plens6(p, plan->plens6, plan->n_plens6);
	return xbloom_map_all(f, err);
}

/* The bits and what says how to read them, filled; nothing that a packet could meet. */
int xbloom_build_generation(struct xbloom *f, const struct xbloom_size *size,
			    const struct xbloom_rules *rules, const struct xbloom_hash_key *key,
			    const struct xbloom_filling *filling, const struct xbloom_options *opts,
			    struct xbloom_error *err)
{
	int ret;

	f->geometry = size->geometry;
	f->lives = size->lives ? size->lives : 1;
	ret = make_maps(f, rules, size, err);
	if (ret)
		return ret;
	write_meta(f, size, rules, key);
	if (filling)
		ret = filling->fill(filling->ctx, f, err);
	if (!ret)
		ret = check_cancelled(opts, err);
	/* Only now: to be filled may have taken long. */
	if (!ret)
		xbloom_ttl_begin(&f->meta->params, f->meta->ttl_ns, 0, xbloom_boot_ns());
	return ret;
}

static int build(struct xbloom *f, const struct xbloom_size *size, const struct xbloom_rules *rules,
		 const struct xbloom_hash_key *key, const struct xbloom_filling *filling,
		 const struct xbloom_options *opts, struct xbloom_error *err)
{
	char entry[XBLOOM_NAME_MAX + 1];
	AUTO_CLOSE int prog = -1;
	int ret, *fd = f->fd;

	ret = xbloom_build_generation(f, size, rules, key, filling, opts, err);
	if (!ret)
		ret = xbloom_exempt_at_birth(f, rules->exempt, rules->n_exempt, err);
	if (ret)
		return ret;
	f->meta->guard = rules->guard;
	fd[XBLOOM_PIN_STATS] = xbloom_make_array(BPF_MAP_TYPE_PERCPU_ARRAY, "xbloom_stats",
						 sizeof(struct xbloom_stats), 1, 0, err);
	if (fd[XBLOOM_PIN_STATS] < 0)
		return fd[XBLOOM_PIN_STATS];
	fd[XBLOOM_PIN_SLOTS] = xbloom_make_array(BPF_MAP_TYPE_PROG_ARRAY, "xbloom_slots",
						 sizeof(uint32_t), 1, 0, err);
	if (fd[XBLOOM_PIN_SLOTS] < 0)
		return fd[XBLOOM_PIN_SLOTS];
	prog = xbloom_load_rules(f, f->meta->params, err);
	if (prog < 0)
		return prog;
	ret = xbloom_fill_slot(f, prog, err);
	if (ret)
		return ret;
	fd[XBLOOM_PIN_PROG] = xbloom_load_entry(fd[XBLOOM_PIN_SLOTS], fd[XBLOOM_PIN_STATS], err);
	if (fd[XBLOOM_PIN_PROG] < 0)
		return fd[XBLOOM_PIN_PROG];
	xbloom_building_entry(entry, f->name);
	return xbloom_pin_all(f, entry, err);
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

	if (ret || !xbloom_exists(rootfd, name))
		return ret;
	ret = xbloom_destroy(name, opts, err);
	/* Somebody else removed it first: that is room, too. */
	return ret && ret != -ECANCELED && !xbloom_exists(rootfd, name) ? 0 : ret;
}

int xbloom_create_filled(const char *name, const struct xbloom_size *size,
			 const struct xbloom_rules *rules, const struct xbloom_hash_key *key,
			 const struct xbloom_filling *filling, const struct xbloom_options *opts,
			 struct xbloom **out, struct xbloom_error *err)
{
	char entry[XBLOOM_NAME_MAX + 1];
	AUTO_CLOSE int rootfd = -1;
	struct xbloom *f;
	int ret;

	ret = xbloom_name_check(name, err);
	if (!ret)
		ret = xbloom_check_rules(rules, err);
	if (!ret && rules->sample)
		ret = xbloom_fail(err, -EINVAL, "a filter is sampled when it is there, not before");
	if (!ret)
		ret = xbloom_check_memory(size, err);
	if (!ret)
		ret = xbloom_root_open(true, &rootfd, err);
	if (ret)
		return ret;
	xbloom_sweep(rootfd);
	f = xbloom_new(name, true);
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
		ret = build(f, size, rules, key, filling, opts, err);
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

struct hashes_filling {
	const struct xbloom_hashes *hashes;
	const struct xbloom_options *opts;
};

static int fill_hashes(void *ctx, struct xbloom *f, struct xbloom_error *err)
{
	const struct hashes_filling *h = ctx;

	return xbloom_fill(f, h->hashes, h->opts, err);
}

int xbloom_create(const char *name, const struct xbloom_size *size,
		  const struct xbloom_rules *rules, const struct xbloom_hash_key *key,
		  const struct xbloom_hashes *hashes, const struct xbloom_options *opts,
		  struct xbloom **out, struct xbloom_error *err)
{
	struct hashes_filling ctx = { hashes, opts };
	const struct xbloom_filling filling = { fill_hashes, &ctx };

	return xbloom_create_filled(name, size, rules, key, hashes ? &filling : NULL, opts, out,
				    err);
}

/* ---- scratch ---- */

int xbloom_scratch(const struct xbloom_geometry *g, uint64_t capacity, uint32_t fields,
		   const struct xbloom_hash_key *key, struct xbloom **out, struct xbloom_error *err)
{
	const struct xbloom_rules rules = { .fields = fields };
	const struct xbloom_size size = {
		.items = capacity,
		.fp_target = xbloom_rate(g, capacity),
	};
	struct xbloom *f = xbloom_new("scratch", true);
	int ret;

	if (!f)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	f->geometry = *g;
	f->lives = 1;
	ret = xbloom_check_rules(&rules, err);
	if (!ret)
		ret = make_memory(f, false, err);
	if (ret) {
		xbloom_close(f);
		return ret;
	}
	write_meta(f, &size, &rules, key);
	*out = f;
	return 0;
}

void xbloom_clear(struct xbloom *f)
{
	if (f->dir_fd >= 0)
		return;
	memset(f->blocks, 0, f->geometry.blocks * XBLOOM_BLOCK_BYTES);
	f->meta->inserted = 0;
	f->meta->journal.open = 0;
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
	if (xbloom_exists(rootfd, entry))
		return xbloom_fail(err, -ENOENT,
				   "the removal of filter %s was cut short, and it may still be "
				   "attached: xdp-bloom destroy %s ends it",
				   name, name);

	xbloom_building_entry(entry, name);
	if (xbloom_exists(rootfd, entry))
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
	int ret = xbloom_pin_path(path, f->name, pin, err);

	if (ret)
		return ret;
	/*
	 * A reader asks for no more than it needs. But programs know no read-only handle, and the
	 * kernel maps memory, even for reading, only through a writable one.
	 */
	if (!f->writable &&
	    (pin == XBLOOM_PIN_STATS || pin == XBLOOM_PIN_SLOTS || pin == XBLOOM_PIN_CONFIRM))
		opts.file_flags = BPF_F_RDONLY;
	f->fd[pin] = bpf_obj_get_opts(path, &opts);
	if (f->fd[pin] >= 0)
		return 0;
	if (errno == ENOENT && pin >= XBLOOM_PINS_ALWAYS)
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

static bool is_exact_map(int fd, unsigned int width)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);

	return !bpf_obj_get_info_by_fd(fd, &info, &len) && info.type == BPF_MAP_TYPE_HASH &&
	       info.key_size == width * sizeof(uint64_t) && info.value_size == 1;
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

/* Prefixes go with one address alone. (Which ones there are, a writer may be changing just now.) */
static bool prefixes_are_sane(const struct xbloom_params *p)
{
	bool one = p->fields == XBLOOM_SRC || p->fields == XBLOOM_DST;
	uint32_t i;

	if (p->n_plens6 > XBLOOM_PLENS6_MAX || ((p->nets4 || p->n_plens6 > 1) && !one))
		return false;
	for (i = 0; i < p->n_plens6; i++)
		if (p->plens6[i].plen > XBLOOM_PLEN6_HOST)
			return false;
	return true;
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
	f->lives = p->lives ? p->lives : 1;
	if (!geometry_is_sane(&f->geometry) || !p->fields || p->fields & ~XBLOOM_FIELDS_ALL ||
	    p->policy > XBLOOM_POLICY_ALLOW || !f->meta->capacity || f->meta->alarm_percent < 1 ||
	    f->meta->alarm_percent > 100 || f->lives > XBLOOM_LIVES_MAX || p->current >= f->lives ||
	    (f->lives > 1 && !f->meta->ttl_ns) || !prefixes_are_sane(p) ||
	    p->n_exempt > XBLOOM_EXEMPT_CONSTANTS ||
	    !memchr(f->meta->name, '\0', sizeof(f->meta->name)))
		return damaged(f->name, "its record contradicts itself", err);
	if (!map_is(f->fd[XBLOOM_PIN_FILTER], BPF_MAP_TYPE_ARRAY, XBLOOM_BLOCK_BYTES,
		    f->geometry.blocks * f->lives))
		return damaged(f->name, "its bits are not of the size in its record", err);
	if (!map_is(f->fd[XBLOOM_PIN_STATS], BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(struct xbloom_stats),
		    1))
		return damaged(f->name, "stats", err);
	if (!map_is(f->fd[XBLOOM_PIN_SLOTS], BPF_MAP_TYPE_PROG_ARRAY, sizeof(uint32_t), 1))
		return damaged(f->name, "slots", err);
	if (p->extras & XBLOOM_CONFIRM &&
	    !is_exact_map(f->fd[XBLOOM_PIN_CONFIRM], xbloom_key_width(p->fields)))
		return damaged(f->name, "confirm", err);
	if (f->fd[XBLOOM_PIN_SAMPLES] >= 0 &&
	    !map_is(f->fd[XBLOOM_PIN_SAMPLES], BPF_MAP_TYPE_RINGBUF, 0, XBLOOM_SAMPLES_BYTES))
		return damaged(f->name, "samples", err);
	if ((p->nets4 || f->fd[XBLOOM_PIN_NETS4] >= 0) &&
	    !map_is(f->fd[XBLOOM_PIN_NETS4], BPF_MAP_TYPE_ARRAY, XBLOOM_BLOCK_BYTES,
		    (uint64_t)XBLOOM_NETS4_BLOCKS * f->lives))
		return damaged(f->name, "nets4", err);
	if (xbloom_check_exempt(f))
		return damaged(f->name, "exempt", err);
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
		ret = xbloom_map_all(f, err); /* meta; the geometry is not known yet */
	/* It is pinned before the record says so, which may have been while we opened the pins. */
	if (!ret && f->meta->params.nets4 && f->fd[XBLOOM_PIN_NETS4] < 0)
		ret = open_pin(f, XBLOOM_PIN_NETS4, err);
	if (!ret)
		ret = check_geometry(f, err);
	if (!ret)
		ret = xbloom_map_all(f, err);
	return ret;
}

/* One attempt; *moved: the directory was not NAME's any more at the end of it. */
static int try_open(const char *name, bool writable, int rootfd, const struct xbloom_options *opts,
		    struct xbloom **out, bool *moved, struct xbloom_error *err)
{
	struct xbloom *f = xbloom_new(name, writable);
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
		/* Another generation has its name now, or nobody has: look again. */
		if (!ret)
			*moved = !xbloom_still_at(f->dir_fd, rootfd, name);
		if (ret || *moved)
			goto out_close;
	}
	if (xbloom_settle_successor(rootfd, f)) {
		*moved = true;
		goto out_close;
	}
	ret = open_all(f, err);
	*moved = !xbloom_still_at(f->dir_fd, rootfd, name);
	/* Somebody died in a change: it was made or it was not, and the record must say which. */
	if (!ret && writable && f->meta->pending)
		xbloom_settle_rules(f);
	if (!ret && writable)
		xbloom_settle_exempt(f);
	if (!ret && writable)
		xbloom_settle_journal(f);
	if (!ret && writable)
		ret = xbloom_turn(f, err);
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
		if (err)
			err->text[0] = '\0';
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

/* What the kernel charges for a map, by its own account; 0: it does not say. */
static uint64_t map_memory_used(int fd)
{
	unsigned long long bytes = 0;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "memlock: %llu", &bytes) == 1)
			break;
	fclose(file);
	return bytes;
}

uint64_t xbloom_exact(const struct xbloom *f, uint64_t *bytes)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = f->fd[XBLOOM_PIN_CONFIRM];

	if (bytes)
		*bytes = fd < 0 ? 0 : map_memory_used(fd);
	return fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.max_entries;
}

/* The map of slots is what stays of a filter through its generations. */
static bool has_slots_of(const struct xbloom *f, const char *name)
{
	char path[XBLOOM_PATH_MAX];
	AUTO_CLOSE int fd = -1;

	if (xbloom_pin_path(path, name, XBLOOM_PIN_SLOTS, NULL))
		return false;
	fd = bpf_obj_get(path);
	return fd >= 0 && xbloom_map_id(fd) == xbloom_map_id(f->fd[XBLOOM_PIN_SLOTS]);
}

enum xbloom_presence xbloom_presence(const struct xbloom *f)
{
	AUTO_CLOSE int rootfd = -1;

	if (xbloom_root_open(false, &rootfd, NULL))
		return XBLOOM_GONE;
	if (xbloom_still_at(f->dir_fd, rootfd, f->name))
		return XBLOOM_HERE;
	return has_slots_of(f, f->name) ? XBLOOM_REBUILT : XBLOOM_GONE;
}

bool xbloom_is_there(const struct xbloom *f)
{
	return xbloom_presence(f) == XBLOOM_HERE;
}

uint64_t xbloom_hash(const struct xbloom *f, const struct xbloom_flow *flow)
{
	return xbloom_key_hash(&f->meta->params.hash_key, flow, f->meta->params.fields);
}

bool xbloom_test(const struct xbloom *f, uint64_t hash)
{
	uint32_t i, live = xbloom_live_arrays(f, xbloom_params_in_force(f));

	for (i = 0; i < f->lives; i++)
		if (live >> i & 1 &&
		    xbloom_test_hash(&f->geometry, f->blocks + i * f->geometry.blocks, hash))
			return true;
	return false;
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
	int ret = xbloom_pin_path(path, entry, XBLOOM_PIN_SLOTS, err);

	if (ret)
		return ret;
	slots = bpf_obj_get(path);
	if (slots >= 0) {
		slots_id = xbloom_map_id(slots);
	} else if (!xbloom_pin_path(path, entry, XBLOOM_PIN_PROG, NULL)) {
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
	left = xbloom_exists(rootfd, building) || xbloom_exists(rootfd, trash);
	xbloom_sweep(rootfd);
	if (xbloom_exists(rootfd, building))
		return xbloom_fail(err, -EBUSY, "filter %s is just being made: wait for that",
				   name);
	if (xbloom_exists(rootfd, trash))
		return xbloom_sweep_one(rootfd, trash, err);
	if (!left)
		return xbloom_fail(err, -ENOENT,
				   "there is no filter %s (xdp-bloom show lists them)", name);
	return 0;
}

int xbloom_destroy(const char *name, const struct xbloom_options *opts, struct xbloom_error *err)
{
	char trash[XBLOOM_NAME_MAX + 1], successor[XBLOOM_NAME_MAX + 1];
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
	xbloom_successor_entry(successor, name);
	if (renameat(rootfd, name, rootfd, trash))
		return xbloom_fail_errno(err, -errno, "cannot remove filter %s", name);
	ret = xbloom_detach_entry(trash, err);
	if (ret) {
		if (renameat(rootfd, trash, rootfd, name))
			return xbloom_fail_errno(err, -errno, "cannot give %s its name back",
						 trash);
		return ret;
	}
	/* What a rebuild that died left; one that lives finds out by itself. */
	xbloom_sweep_successor(rootfd, successor);
	return xbloom_remove_dir(rootfd, trash, err);
}
