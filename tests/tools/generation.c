// SPDX-License-Identifier: GPL-2.0-only
/*
 * generation: count up the generation in the record of a filter, as one that was filled anew has
 * it. Who watches the filter has to notice.
 *
 *     generation /sys/fs/bpf/xdp-bloom/NAME/meta
 */
#include <stdio.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "xbloom/maps.h"

int main(int argc, char **argv)
{
	struct xbloom_meta *m;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: generation PIN\n");
		return 2;
	}
	fd = bpf_obj_get(argv[1]);
	m = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED) {
		perror(argv[1]);
		return 2;
	}
	__atomic_fetch_add(&m->generation, 1, __ATOMIC_RELEASE);
	return 0;
}
