// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Loading programs: the embedded object is opened afresh for each, told its constants, given the
 * maps that already exist, and loaded with the one program that is wanted.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "internal.h"
#include "xdp_bloom.skel.h"

static int duplicate(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return copy < 0 ? -errno : copy;
}

/* Leave out every program but `wanted`, and let frames of several buffers through to it. */
static void choose(struct xdp_bloom_bpf *skel, const struct bpf_program *wanted)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, skel->obj) {
		bpf_program__set_autoload(prog, prog == wanted);
		bpf_program__set_flags(prog, BPF_F_XDP_HAS_FRAGS);
	}
}

/* fd < 0: the program does not use the map, so none is made. */
static int use_map(struct bpf_map *map, int fd)
{
	return fd < 0 ? bpf_map__set_autocreate(map, false) : bpf_map__reuse_fd(map, fd);
}

static int use_maps(struct xdp_bloom_bpf *skel, const struct xbloom_prog_maps *maps)
{
	int ret = use_map(skel->maps.xbloom_filter, maps->filter);

	if (!ret)
		ret = use_map(skel->maps.xbloom_slots, maps->slots);
	if (!ret)
		ret = use_map(skel->maps.xbloom_stats, maps->stats);
	if (!ret)
		ret = use_map(skel->maps.xbloom_confirm, maps->confirm);
	if (!ret)
		ret = use_map(skel->maps.xbloom_samples, maps->samples);
	if (!ret)
		ret = use_map(skel->maps.xbloom_nets4, maps->nets4);
	if (!ret)
		ret = use_map(skel->maps.xbloom_exempt, maps->exempt);
	return ret;
}

/* Returns the program's fd, which outlives the skeleton. */
static int load(struct xdp_bloom_bpf *skel, struct bpf_program *wanted,
		const struct xbloom_prog_maps *maps, struct xbloom_error *err)
{
	struct xbloom_libbpf_log log;
	int ret;

	choose(skel, wanted);
	xbloom_libbpf_listen(&log);
	ret = use_maps(skel, maps);
	if (!ret)
		ret = xdp_bloom_bpf__load(skel);
	xbloom_libbpf_ignore(&log);
	if (!ret) {
		ret = duplicate(bpf_program__fd(wanted));
		if (ret >= 0)
			return ret;
	}
	return xbloom_fail_errno(err, ret, "cannot load the program %s%s%s",
				 bpf_program__name(wanted), log.text[0] ? ": " : "", log.text);
}

static struct xdp_bloom_bpf *open_object(struct xbloom_error *err)
{
	struct xbloom_libbpf_log log;
	struct xdp_bloom_bpf *skel;
	int code;

	xbloom_libbpf_listen(&log);
	skel = xdp_bloom_bpf__open();
	code = errno;
	xbloom_libbpf_ignore(&log);
	if (!skel) {
		errno = code;
		xbloom_fail_errno(err, -code, "cannot open the embedded BPF object%s%s",
				  log.text[0] ? ": " : "", log.text);
	}
	return skel;
}

/* An entry program knows no filter: it jumps, or counts that there was none. */
static struct xbloom_prog_maps entry_maps(int slots_fd, int stats_fd)
{
	return (struct xbloom_prog_maps){
		.filter = -1,
		.slots = slots_fd,
		.stats = stats_fd,
		.confirm = -1,
		.samples = -1,
		.nets4 = -1,
		.exempt = -1,
	};
}

int xbloom_load_entry(int slots_fd, int stats_fd, struct xbloom_error *err)
{
	const struct xbloom_prog_maps maps = entry_maps(slots_fd, stats_fd);
	struct xdp_bloom_bpf *skel = open_object(err);
	int fd;

	if (!skel)
		return -errno;
	fd = load(skel, skel->progs.xdp_bloom, &maps, err);
	xdp_bloom_bpf__destroy(skel);
	return fd;
}

int xbloom_load_try(int slots_fd, int stats_fd, uint64_t deadline_ns, struct xbloom_error *err)
{
	const struct xbloom_prog_maps maps = entry_maps(slots_fd, stats_fd);
	struct xdp_bloom_bpf *skel = open_object(err);
	int fd;

	if (!skel)
		return -errno;
	skel->rodata->try_deadline_ns = deadline_ns;
	fd = load(skel, skel->progs.xdp_bloom_try, &maps, err);
	xdp_bloom_bpf__destroy(skel);
	return fd;
}

uint64_t xbloom_try_deadline(int rodata_fd)
{
	/* What the skeleton names comes first; tables of the programs follow. */
	AUTO_FREE struct xdp_bloom_bpf__rodata *rodata = NULL;
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info), zero = 0;

	if (bpf_obj_get_info_by_fd(rodata_fd, &info, &len) || info.value_size < sizeof(*rodata))
		return 0;
	rodata = malloc(info.value_size);
	if (!rodata || bpf_map_lookup_elem(rodata_fd, &zero, rodata))
		return 0;
	return rodata->try_deadline_ns;
}

/* Whether the filter needs the program that asks more than one question, or keeps more to answer it. */
static bool asks_all(const struct xbloom_params *p)
{
	return p->nets4 || p->n_plens6 > 1 || p->lives > 1 ||
	       (p->policy == XBLOOM_POLICY_ALLOW && p->extras & XBLOOM_EXEMPTS);
}

int xbloom_load_slot(const struct xbloom_prog_maps *maps, const struct xbloom_params *params,
		     struct xbloom_error *err)
{
	struct xdp_bloom_bpf *skel = open_object(err);
	int fd;

	if (!skel)
		return -errno;
	memcpy((void *)&skel->rodata->params, params, sizeof(*params));
	fd = load(skel,
		  asks_all(params) ? skel->progs.xdp_bloom_slot_all : skel->progs.xdp_bloom_slot,
		  maps, err);
	xdp_bloom_bpf__destroy(skel);
	return fd;
}
