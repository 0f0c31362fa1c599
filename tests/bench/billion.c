// SPDX-License-Identifier: GPL-2.0-only
/*
 * billion: how a filter that was filled from `addresses N raw4` answers.
 *
 *     billion NAME N CHECKED
 *
 * Asks the program that is at work, through its entry program, for random keys by BPF_PROG_TEST_RUN:
 * nanoseconds a packet above parsing and counting it, for absent and present keys, the runs of the two
 * programs interleaved; no present key may be called absent. Then looks CHECKED of the keys up in user
 * space. Prints a JSON object. Exit status 1: there was a false negative.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bench/bench.bpf.h"
#include "internal.h"

/* It needs what is above. */
#include "bench/bench.skel.h"

#define FRAME_LEN 60
#define PACKETS 2000000 /* a run */
#define ROUNDS 11
#define EXIT_ERROR 2

enum { PARSE_ONLY, FILTER, PROGRAMS };

struct asking {
	struct bench_bpf *bpf;
	struct xbloom *f;
	int prog[PROGRAMS];
	uint32_t keys;
	unsigned char frame[FRAME_LEN];
	double ns[PROGRAMS][BENCH_MODES][ROUNDS];
	uint64_t absent_present; /* present keys that the kernel called absent */
};

static int quit(const char *what, int code)
{
	fprintf(stderr, "billion: %s: %s\n", what, strerror(code < 0 ? -code : code));
	return EXIT_ERROR;
}

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void make_frame(unsigned char frame[FRAME_LEN])
{
	struct ethhdr *eth = (struct ethhdr *)frame;
	struct iphdr *ip = (struct iphdr *)(eth + 1);

	eth->h_proto = htons(ETH_P_IP);
	ip->version = 4;
	ip->ihl = sizeof(*ip) / 4;
	ip->tot_len = htons(FRAME_LEN - sizeof(*eth));
	ip->ttl = 64;
	ip->protocol = IPPROTO_UDP;
	ip->daddr = htonl(0xc0000201); /* 192.0.2.1 */
}

static int load(struct asking *a)
{
	struct bench_bpf *skel = bench_bpf__open();
	struct bpf_program *prog;
	struct bpf_map *map;
	int ret;

	if (!skel)
		return -errno;
	a->bpf = skel;
	bpf_object__for_each_program(prog, skel->obj)
		bpf_program__set_autoload(prog, prog == skel->progs.bench_generate ||
							prog == skel->progs.bench_parse_only);
	bpf_object__for_each_map(map, skel->obj)
		if (!bpf_map__is_internal(map) && map != skel->maps.bench_target &&
		    map != skel->maps.xbloom_stats)
			bpf_map__set_autocreate(map, false);
	ret = bpf_map__reuse_fd(skel->maps.xbloom_stats, a->f->fd[XBLOOM_PIN_STATS]);
	if (!ret)
		ret = bench_bpf__load(skel);
	a->prog[PARSE_ONLY] = bpf_program__fd(skel->progs.bench_parse_only);
	a->prog[FILTER] = a->f->fd[XBLOOM_PIN_PROG];
	return ret;
}

/* How many packets the filter has called absent so far. */
static uint64_t called_absent(const struct asking *a)
{
	struct xbloom_stats stats;

	if (xbloom_stats(a->f, &stats, NULL))
		return 0;
	return stats.c[XBLOOM_ABSENT][XBLOOM_PASS].packets;
}

static int run(struct asking *a, int who, unsigned int mode, double *ns)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = a->frame, .data_size_in = FRAME_LEN,
		    .repeat = PACKETS);
	struct bench_generator *g = &a->bpf->bss->generator;
	uint64_t before = called_absent(a);
	uint32_t zero = 0;
	double start;
	int ret;

	ret = bpf_map_update_elem(bpf_map__fd(a->bpf->maps.bench_target), &zero, &a->prog[who],
				  BPF_ANY);
	g->range = mode == BENCH_PRESENT ? a->keys : BENCH_INDEXES;
	g->mode = mode;
	start = cpu_ns();
	if (!ret)
		ret = bpf_prog_test_run_opts(bpf_program__fd(a->bpf->progs.bench_generate), &opts);
	*ns = (cpu_ns() - start) / PACKETS;
	if (who == FILTER && mode == BENCH_PRESENT)
		a->absent_present += called_absent(a) - before;
	return ret;
}

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

/* The median of what the filter takes above parsing. */
static double price(const struct asking *a, unsigned int mode)
{
	double v[ROUNDS];
	int i;

	for (i = 0; i < ROUNDS; i++)
		v[i] = a->ns[FILTER][mode][i] - a->ns[PARSE_ONLY][mode][i];
	qsort(v, ROUNDS, sizeof(*v), by_value);
	return v[ROUNDS / 2];
}

/* Keys of the list, at random places, in user space. */
static uint64_t false_negatives(const struct asking *a, uint64_t n)
{
	struct xbloom_flow flow = { .family = XBLOOM_FAMILY_V4, .plen = XBLOOM_PLEN4_HOST };
	uint64_t state = 1, absent = 0, i;

	for (i = 0; i < n; i++) {
		uint32_t index;

		state = bench_next(state);
		index = (uint32_t)(((state >> 32) * a->keys) >> 32);
		flow.src.v4 = htonl(bench_address(index, BENCH_PRESENT));
		absent += !xbloom_test(a->f, xbloom_hash(a->f, &flow));
	}
	return absent;
}

static int ask(struct asking *a, uint64_t checked)
{
	unsigned int mode;
	int round, who, ret;
	uint64_t absent;
	double unused;

	for (round = 0; round < ROUNDS; round++)
		for (mode = 0; mode < BENCH_MODES; mode++)
			for (who = 0; who < PROGRAMS; who++) {
				/* Once to warm up. */
				ret = round ? 0 : run(a, who, mode, &unused);
				if (!ret)
					ret = run(a, who, mode, &a->ns[who][mode][round]);
				if (ret)
					return quit("BPF_PROG_TEST_RUN", ret);
			}
	absent = false_negatives(a, checked);
	printf("{\"absent_ns\": %.1f, \"present_ns\": %.1f, \"asked_present\": %llu, "
	       "\"absent_in_kernel\": %llu, \"checked\": %llu, \"false_negatives\": %llu}\n",
	       price(a, BENCH_ABSENT), price(a, BENCH_PRESENT),
	       (unsigned long long)PACKETS * (ROUNDS + 1), (unsigned long long)a->absent_present,
	       (unsigned long long)checked, (unsigned long long)absent);
	return absent || a->absent_present;
}

int main(int argc, char **argv)
{
	struct xbloom_error err = { "" };
	static struct asking a;
	int ret;

	a.keys = argc == 4 ? (uint32_t)strtoull(argv[2], NULL, 10) : 0;
	if (!a.keys || a.keys > BENCH_INDEXES) {
		fprintf(stderr, "usage: billion NAME N CHECKED\n");
		return EXIT_ERROR;
	}
	if (xbloom_open(argv[1], 0, NULL, &a.f, &err)) {
		fprintf(stderr, "billion: %s\n", err.text);
		return EXIT_ERROR;
	}
	make_frame(a.frame);
	ret = load(&a);
	ret = ret ? quit("loading", ret) : ask(&a, strtoull(argv[3], NULL, 10));
	bench_bpf__destroy(a.bpf);
	xbloom_close(a.f);
	return ret;
}
