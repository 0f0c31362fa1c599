// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Keys that come late: added while the next generation of their filter is being filled from a list.
 * They go into the generation at work, as ever, and are written down for the other, which knows
 * neither its size nor, for the adder, its secret yet. Who fills it takes them in last, under the
 * filter's lock, so that no add is lost between the two.
 *
 * The writing-down is an append to maps pinned beside the pins of the next generation: "late-0",
 * "late-1", ..., arrays of words whose first one counts the words in use. All of it goes with that
 * directory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "internal.h"

/* Room of a map at least: so many single adds make no map of their own. 32 KiB. */
#define ROOM_MIN 4096
/* Maps: each is made for all keys of one add, or holds some 800 small ones. */
#define MAPS_MAX 100000

struct late {
	int fd;
	uint64_t *mem; /* [0]: words in use; the words */
	uint64_t room; /* words */
	size_t len;
};

static void late_close(struct late *l)
{
	if (l->mem)
		munmap(l->mem, l->len);
	xbloom_close_fd(&l->fd);
	l->mem = NULL;
}

static int late_map(struct late *l, struct xbloom_error *err)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);
	void *mem;

	if (bpf_obj_get_info_by_fd(l->fd, &info, &len) || info.type != BPF_MAP_TYPE_ARRAY ||
	    info.value_size != sizeof(*l->mem) || info.max_entries < 2)
		return xbloom_fail(err, -EUCLEAN, "what was noted for a rebuild is damaged");
	l->len = (info.max_entries * sizeof(*l->mem) + page - 1) / page * page;
	mem = mmap(NULL, l->len, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	if (mem == MAP_FAILED)
		return xbloom_fail_errno(err, -errno, "cannot map what was noted for a rebuild");
	l->mem = mem;
	l->room = info.max_entries - 1;
	return 0;
}

static int late_path(char path[XBLOOM_PATH_MAX], const char *name, unsigned int i,
		     struct xbloom_error *err)
{
	char entry[XBLOOM_NAME_MAX + 1], pin[32];

	xbloom_successor_entry(entry, name);
	snprintf(pin, sizeof(pin), "late-%u", i);
	return xbloom_entry_path(path, entry, pin, err);
}

/* 0; -ENOENT: there is no such map, and no message either. */
static int late_open(const char *name, unsigned int i, struct late *l, struct xbloom_error *err)
{
	char path[XBLOOM_PATH_MAX];
	int ret = late_path(path, name, i, err);

	*l = (struct late){ .fd = -1 };
	if (ret)
		return ret;
	l->fd = bpf_obj_get(path);
	if (l->fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (l->fd < 0)
		return xbloom_fail_errno(err, -errno, "cannot open %s", path);
	ret = late_map(l, err);
	if (ret)
		late_close(l);
	return ret;
}

static int late_make(const char *name, unsigned int i, uint64_t words, struct late *l,
		     struct xbloom_error *err)
{
	char path[XBLOOM_PATH_MAX];
	int ret = late_path(path, name, i, err);

	*l = (struct late){ .fd = -1 };
	if (ret)
		return ret;
	if (words < ROOM_MIN)
		words = ROOM_MIN;
	if (words >= UINT32_MAX)
		return xbloom_fail(err, -E2BIG, "too many keys to note for the rebuild at work");
	l->fd = xbloom_make_array(BPF_MAP_TYPE_ARRAY, "xbloom_late", sizeof(*l->mem), words + 1,
				  BPF_F_MMAPABLE, err);
	if (l->fd < 0)
		return l->fd;
	ret = late_map(l, err);
	if (!ret && bpf_obj_pin(l->fd, path))
		ret = xbloom_fail_errno(err, -errno, "cannot pin %s", path);
	if (ret)
		late_close(l);
	return ret;
}

/* The last map if it has room for so many words, or a new one. */
static int late_with_room(const char *name, uint64_t words, struct late *l,
			  struct xbloom_error *err)
{
	struct late last = { .fd = -1 };
	unsigned int i;
	int ret = 0;

	for (i = 0; i < MAPS_MAX; i++) {
		ret = late_open(name, i, l, err);
		if (ret)
			break;
		late_close(&last);
		last = *l;
	}
	if (ret == -ENOENT && i && last.mem[0] <= last.room && last.room - last.mem[0] >= words) {
		*l = last;
		return 0;
	}
	late_close(&last);
	return ret == -ENOENT ? late_make(name, i, words, l, err)
	       : ret	      ? ret
			      : xbloom_fail(err, -ENOSPC,
					    "too much was added while filter %s is rebuilt: wait "
						     "for that",
					    name);
}

int xbloom_late_add(const struct xbloom *f, const __u64 *words, size_t n, struct xbloom_error *err)
{
	uint64_t all = n * xbloom_key_width(f->meta->params.fields);
	struct late l;
	int ret = late_with_room(f->name, all, &l, err);

	if (ret)
		return ret;
	memcpy(l.mem + 1 + l.mem[0], words, all * sizeof(*words));
	/* A tool that is killed here has added nothing that anybody was told of. */
	__atomic_store_n(&l.mem[0], l.mem[0] + all, __ATOMIC_RELEASE);
	late_close(&l);
	return 0;
}

int xbloom_late_read(const char *name, unsigned int width, xbloom_late_fn fn, void *ctx,
		     struct xbloom_error *err)
{
	unsigned int i;
	struct late l;
	int ret = 0;

	for (i = 0; i < MAPS_MAX && !ret; i++) {
		uint64_t at, used;

		ret = late_open(name, i, &l, err);
		if (ret)
			break;
		used = __atomic_load_n(&l.mem[0], __ATOMIC_ACQUIRE);
		if (used > l.room)
			used = l.room;
		for (at = 0; at + width <= used && !ret; at += width)
			ret = fn(ctx, (const __u64 *)l.mem + 1 + at);
		late_close(&l);
	}
	return ret == -ENOENT ? 0 : ret;
}
