// SPDX-License-Identifier: GPL-2.0-only
/*
 * killfill: kill the tool that is just filling a filter.
 *
 *     killfill DIRECTORY COUNT
 *
 * Watches the record of the filter pinned in DIRECTORY until COUNT keys have been inserted, and
 * then ends by SIGKILL whoever holds the filter's lock: a moment that lies between two bits, not
 * between two system calls (for those there is killat). Prints the process's id. Exit status: 0
 * killed, 1 the count was not reached in time or nobody held the lock then, 2 an error.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "xbloom/maps.h"

#define EXIT_NOBODY 1
#define EXIT_ERROR 2
#define US_PER_S 1000000u
#define NS_PER_US 1000u
#define PATIENCE_US (20 * US_PER_S)
#define HOLDER_US 500 /* for so long we believe that it is still the same one */
#define PATH_SIZE 4096
#define LINE_SIZE 256

static int error(const char *what)
{
	fprintf(stderr, "killfill: %s: %s\n", what, strerror(errno));
	return EXIT_ERROR;
}

static const struct xbloom_meta *map_meta(const char *directory)
{
	char path[PATH_SIZE];
	void *p;
	int fd;

	snprintf(path, sizeof(path), "%s/meta", directory);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return NULL;
	p = mmap(NULL, sizeof(struct xbloom_meta), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/* As in "3: FLOCK  ADVISORY  WRITE 4711 00:2d:1234 0 EOF"; one that waits has an arrow. 0: nobody. */
static int lock_holder(const struct stat *directory)
{
	char line[LINE_SIZE];
	FILE *locks = fopen("/proc/locks", "re");
	int holder = 0;

	if (!locks)
		return 0;
	while (!holder && fgets(line, sizeof(line), locks)) {
		unsigned int device_major, device_minor;
		unsigned long inode;
		int pid;

		if (sscanf(line, "%*d: FLOCK ADVISORY %*s %d %x:%x:%lu", &pid, &device_major,
			   &device_minor, &inode) == 4 &&
		    inode == directory->st_ino && device_major == major(directory->st_dev) &&
		    device_minor == minor(directory->st_dev))
			holder = pid;
	}
	fclose(locks);
	return holder;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_nsec / NS_PER_US;
}

/* To look up who holds the lock takes as long as a thousand inserts, so that is done before. */
static int holder_at(const struct xbloom_meta *meta, uint64_t count, const struct stat *directory)
{
	uint64_t end = now_us() + PATIENCE_US;

	while (now_us() < end) {
		int holder = lock_holder(directory);
		uint64_t look_again = now_us() + HOLDER_US;

		do {
			if (__atomic_load_n(&meta->inserted, __ATOMIC_RELAXED) >= count)
				return holder;
		} while (now_us() < look_again);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct xbloom_meta *meta;
	struct stat directory;
	int pid;

	if (argc != 3) {
		fprintf(stderr, "usage: killfill DIRECTORY COUNT\n");
		return EXIT_ERROR;
	}
	if (stat(argv[1], &directory))
		return error(argv[1]);
	meta = map_meta(argv[1]);
	if (!meta)
		return error("cannot map the record");
	pid = holder_at(meta, strtoull(argv[2], NULL, 10), &directory);
	if (pid <= 0 || kill(pid, SIGKILL))
		return EXIT_NOBODY;
	printf("%d\n", pid);
	return 0;
}
