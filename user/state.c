// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Filters as directories: /sys/fs/bpf/xdp-bloom/NAME and the pins in it. A filter is built in
 * "+NAME" (no filter can have that name) and renamed when it is whole; it is taken down by renaming
 * it to "-NAME" first. Its next generation is built in "=NAME", and takes its place by one rename
 * that exchanges the two. So a NAME that is there is complete, and what dies on the way leaves only
 * what the next command sweeps up.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define LOCK_POLL_MS 20
#define LOCK_SILENT_MS 1000

const char *const xbloom_pin_names[XBLOOM_PINS] = {
	[XBLOOM_PIN_META] = "meta",	  [XBLOOM_PIN_FILTER] = "filter",
	[XBLOOM_PIN_STATS] = "stats",	  [XBLOOM_PIN_SLOTS] = "slots",
	[XBLOOM_PIN_PROG] = "prog",	  [XBLOOM_PIN_CONFIRM] = "confirm",
	[XBLOOM_PIN_SAMPLES] = "samples", [XBLOOM_PIN_NETS4] = "nets4",
	[XBLOOM_PIN_EXEMPT] = "exempt",
};

static const char *bpffs(void)
{
	const char *set = getenv("XDP_BLOOM_BPFFS");

	return set && *set ? set : XBLOOM_BPFFS;
}

int xbloom_name_check(const char *name, struct xbloom_error *err)
{
	size_t i, len = strlen(name);

	if (!len)
		return xbloom_fail(err, -EINVAL, "an empty name: use letters, digits, '-' and '_'");
	if (len >= XBLOOM_NAME_MAX)
		return xbloom_fail(err, -EINVAL, "name '%.20s...' is too long: at most %u bytes",
				   name, XBLOOM_NAME_MAX - 1);
	for (i = 0; i < len; i++) {
		char c = name[i];
		bool plain =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (!plain && (!i || (c != '-' && c != '_')))
			return xbloom_fail(err, -EINVAL,
					   "bad name '%s': use letters, digits, '-' and '_', a "
					   "letter or digit first",
					   name);
	}
	return 0;
}

void xbloom_building_entry(char entry[XBLOOM_NAME_MAX + 1], const char *name)
{
	snprintf(entry, XBLOOM_NAME_MAX + 1, "+%s", name);
}

void xbloom_trash_entry(char entry[XBLOOM_NAME_MAX + 1], const char *name)
{
	snprintf(entry, XBLOOM_NAME_MAX + 1, "-%s", name);
}

void xbloom_successor_entry(char entry[XBLOOM_NAME_MAX + 1], const char *name)
{
	snprintf(entry, XBLOOM_NAME_MAX + 1, "=%s", name);
}

int xbloom_entry_path(char path[XBLOOM_PATH_MAX], const char *entry, const char *pin,
		      struct xbloom_error *err)
{
	int n = snprintf(path, XBLOOM_PATH_MAX, "%s/%s/%s/%s", bpffs(), XBLOOM_DIR, entry, pin);

	if (n >= XBLOOM_PATH_MAX)
		return xbloom_fail(err, -ENAMETOOLONG, "XDP_BLOOM_BPFFS is too long a path");
	return 0;
}

int xbloom_pin_path(char path[XBLOOM_PATH_MAX], const char *entry, enum xbloom_pin pin,
		    struct xbloom_error *err)
{
	return xbloom_entry_path(path, entry, xbloom_pin_names[pin], err);
}

static bool is_bpffs(const char *where)
{
	struct statfs fs;

	return !statfs(where, &fs) && (unsigned long)fs.f_type == BPF_FS_MAGIC;
}

/*
 * Whether this process sees mounts of its own, as under `ip netns exec`, which gives a command a
 * fresh /sys without the bpf file system on it. False where that cannot be told.
 */
static bool mounts_are_private(void)
{
	struct stat own, other;
	char parent[64];

	/* PID 1 cannot always be asked; whoever called us mostly can. */
	snprintf(parent, sizeof(parent), "/proc/%d/ns/mnt", (int)getppid());
	if (stat("/proc/self/ns/mnt", &own))
		return false;
	return (!stat("/proc/1/ns/mnt", &other) && own.st_ino != other.st_ino) ||
	       (!stat(parent, &other) && own.st_ino != other.st_ino);
}

static int no_bpffs_here(const char *where, struct xbloom_error *err)
{
	return xbloom_fail(
		err, -ENODEV,
		"no bpf file system on %s in this mount namespace, so no filter can be seen: "
		"mount -t bpf bpf %s, or instead of `ip netns exec NS` use `nsenter "
		"--net=/run/netns/NS`",
		where, where);
}

static int mount_bpffs(const char *where, struct xbloom_error *err)
{
	if (is_bpffs(where))
		return 0;
	/* A directory that somebody chose may hold things, which a mount would hide. */
	if (strcmp(where, XBLOOM_BPFFS))
		return xbloom_fail(
			err, -ENODEV,
			"XDP_BLOOM_BPFFS: %s is no bpf file system (mount -t bpf bpf %s)", where,
			where);
	/* A mount that vanishes with this command would take the filter along. */
	if (mounts_are_private())
		return no_bpffs_here(where, err);
	if (mount("bpf", where, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700"))
		return xbloom_fail_errno(
			err, -errno,
			"no bpf file system on %s, and mounting one failed (mount -t bpf bpf %s)",
			where, where);
	return 0;
}

int xbloom_root_open(bool make, int *out, struct xbloom_error *err)
{
	const char *base = bpffs();
	char path[XBLOOM_PATH_MAX];
	int fd, ret;

	if (snprintf(path, sizeof(path), "%s/%s", base, XBLOOM_DIR) >= (int)sizeof(path))
		return xbloom_fail(err, -ENAMETOOLONG, "XDP_BLOOM_BPFFS is too long a path");
	if (make) {
		ret = mount_bpffs(base, err);
		if (ret)
			return ret;
		if (mkdir(path, 0700) && errno != EEXIST)
			return xbloom_fail_errno(err, -errno, "cannot make %s", path);
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		ret = -errno;
		if (ret != -ENOENT)
			return xbloom_fail_errno(err, ret, "cannot open %s", path);
		if (!is_bpffs(base) && mounts_are_private())
			return no_bpffs_here(base, err);
		return xbloom_fail(err, ret, "there are no filters (%s is not there)", path);
	}
	if (!is_bpffs(path)) {
		close(fd);
		return xbloom_fail(err, -ENODEV,
				   "%s is not on a bpf file system (mount -t bpf bpf %s)", path,
				   base);
	}
	*out = fd;
	return 0;
}

int xbloom_lock(int dirfd, const char *name, const struct xbloom_options *opts,
		struct xbloom_error *err)
{
	const struct timespec poll = { .tv_nsec = LOCK_POLL_MS * 1000000L };
	int waited;

	for (waited = 0; flock(dirfd, LOCK_EX | LOCK_NB); waited += LOCK_POLL_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return xbloom_fail_errno(err, -errno, "cannot lock filter %s", name);
		if (opts && opts->cancelled && opts->cancelled(opts->ctx))
			return xbloom_fail(err, -ECANCELED,
					   "interrupted while waiting for filter %s", name);
		if (waited == LOCK_SILENT_MS && opts && opts->waiting)
			opts->waiting(opts->ctx, name);
		nanosleep(&poll, NULL);
	}
	return 0;
}

bool xbloom_exists(int rootfd, const char *entry)
{
	return !faccessat(rootfd, entry, F_OK, AT_SYMLINK_NOFOLLOW);
}

bool xbloom_still_at(int dirfd, int rootfd, const char *entry)
{
	struct stat held, there;

	return !fstat(dirfd, &held) && !fstatat(rootfd, entry, &there, AT_SYMLINK_NOFOLLOW) &&
	       held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

int xbloom_empty_dir(int dirfd, const char *entry, struct xbloom_error *err)
{
	int ret = 0, fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		ret = xbloom_fail_errno(err, -errno, "cannot read %s to remove it", entry);
		xbloom_close_fd(&fd);
		return ret;
	}
	while (!ret && (e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		/* A directory inside is none of ours, but in the way. */
		if (unlinkat(fd, e->d_name, 0) && errno != ENOENT)
			ret = xbloom_remove_dir(fd, e->d_name, err);
	}
	closedir(dir);
	return ret;
}

int xbloom_remove_dir(int rootfd, const char *entry, struct xbloom_error *err)
{
	AUTO_CLOSE int fd = openat(rootfd, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int ret;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && errno == ENOTDIR && !unlinkat(rootfd, entry, 0))
		return 0;
	if (fd < 0)
		return xbloom_fail_errno(err, -errno, "cannot open %s to remove it", entry);
	ret = xbloom_empty_dir(fd, entry, err);
	if (!ret && unlinkat(rootfd, entry, AT_REMOVEDIR) && errno != ENOENT)
		ret = xbloom_fail_errno(err, -errno, "cannot remove %s", entry);
	return ret;
}

/* Remove a leftover unless its maker or remover is still at it, which its lock tells. */
int xbloom_sweep_one(int rootfd, const char *entry, struct xbloom_error *err)
{
	AUTO_CLOSE int fd = openat(rootfd, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int ret;

	/* Gone, or no directory and then none of ours. Never by path: its maker may be back. */
	if (fd < 0 && (errno == ENOENT || (errno == ENOTDIR && !unlinkat(rootfd, entry, 0))))
		return 0;
	if (fd < 0)
		return xbloom_fail_errno(err, -errno, "cannot open %s to remove it", entry);
	if (flock(fd, LOCK_EX | LOCK_NB))
		return xbloom_fail(err, -EBUSY, "%s is just being made or removed: wait for that",
				   entry + 1);
	if (!xbloom_still_at(fd, rootfd, entry))
		return 0;
	ret = xbloom_detach_entry(entry, err);
	return ret ? ret : xbloom_remove_dir(rootfd, entry, err);
}

void xbloom_sweep_successor(int rootfd, const char *entry)
{
	AUTO_CLOSE int fd = openat(rootfd, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) || !xbloom_still_at(fd, rootfd, entry))
		return;
	xbloom_remove_dir(rootfd, entry, NULL);
}

void xbloom_sweep(int rootfd)
{
	int fd = openat(rootfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		xbloom_close_fd(&fd);
		return;
	}
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '+' || e->d_name[0] == '-')
			xbloom_sweep_one(rootfd, e->d_name, NULL);
		/* Its maps are those of a filter at work, which opens and settles it. */
		else if (e->d_name[0] == '=' && !xbloom_exists(rootfd, e->d_name + 1))
			xbloom_sweep_successor(rootfd, e->d_name);
	}
	closedir(dir);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int xbloom_names(char ***names, size_t *n, struct xbloom_error *err)
{
	char **list = NULL;
	size_t count = 0;
	struct dirent *e;
	DIR *dir;
	int fd, ret;

	*names = NULL;
	*n = 0;
	ret = xbloom_root_open(false, &fd, err);
	if (ret == -ENOENT)
		return 0;
	if (ret)
		return ret;
	dir = fdopendir(fd);
	if (!dir) {
		ret = xbloom_fail_errno(err, -errno, "cannot list the filters");
		close(fd);
		return ret;
	}
	while ((e = readdir(dir))) {
		char **more;

		if (xbloom_name_check(e->d_name, NULL))
			continue;
		more = reallocarray(list, count + 1, sizeof(*list));
		if (more) {
			list = more;
			list[count] = strdup(e->d_name);
		}
		if (!more || !list[count]) {
			xbloom_names_free(list, count);
			closedir(dir);
			return xbloom_fail(err, -ENOMEM, "out of memory to list the filters");
		}
		count++;
	}
	closedir(dir);
	if (count)
		qsort(list, count, sizeof(*list), compare_names);
	*names = list;
	*n = count;
	return 0;
}

void xbloom_names_free(char **names, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		free(names[i]);
	free(names);
}
