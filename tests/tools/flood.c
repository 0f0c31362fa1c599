// SPDX-License-Identifier: GPL-2.0-only
/*
 * flood: frames at full rate, and a count of those that came through.
 *
 *     flood send DEVICE MAC LISTED UNLISTED    frames to MAC out of DEVICE, until SIGTERM
 *     flood tally DEVICE                       count what passes XDP on DEVICE, until SIGTERM
 *
 * Both print "listed N unlisted N" at their end (see tests/netns/flood.bpf.c for who is what); tally
 * prints "ready" first. One frame in eight is from an unlisted source. DEVICE must be one that the
 * test made.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "netns/flood.skel.h"

#define EXIT_ERROR 2
#define FRAME_LEN 60
#define BATCH 64 /* frames that are sent together: far below the 256 that a veth ring holds */
#define REPEAT 65536
#define KINDS 3

static volatile sig_atomic_t ended;

static void on_signal(int signal)
{
	(void)signal;
	ended = 1;
}

static int quit(const char *what, int code)
{
	fprintf(stderr, "flood: %s: %s\n", what, strerror(code < 0 ? -code : code));
	return EXIT_ERROR;
}

static int print_counts(struct flood_bpf *skel)
{
	int cpus = libbpf_num_possible_cpus(), fd = bpf_map__fd(skel->maps.flood_counts), cpu;
	unsigned long long sum[KINDS] = { 0 };
	unsigned int kind;
	__u64 *each;

	if (cpus < 1)
		return quit("CPUs", cpus);
	each = calloc((size_t)cpus, sizeof(*each));
	if (!each)
		return quit("memory", ENOMEM);
	for (kind = 0; kind < KINDS; kind++) {
		if (bpf_map_lookup_elem(fd, &kind, each)) {
			free(each);
			return quit("counts", errno);
		}
		for (cpu = 0; cpu < cpus; cpu++)
			sum[kind] += each[cpu];
	}
	free(each);
	printf("listed %llu unlisted %llu\n", sum[0], sum[1]);
	return 0;
}

static void make_frame(unsigned char frame[FRAME_LEN], const unsigned char mac[ETH_ALEN])
{
	struct ethhdr eth = { .h_source = { 2, 0, 0, 0, 0, 9 }, .h_proto = htons(ETH_P_IP) };
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tot_len = htons(FRAME_LEN - ETH_HLEN),
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.daddr = inet_addr("192.0.2.2"),
	};

	memset(frame, 0, FRAME_LEN);
	memcpy(eth.h_dest, mac, ETH_ALEN);
	memcpy(frame, &eth, sizeof(eth));
	memcpy(frame + sizeof(eth), &ip, sizeof(ip));
}

static int send_frames(struct flood_bpf *skel, const unsigned char mac[ETH_ALEN])
{
	unsigned char frame[FRAME_LEN];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = FRAME_LEN,
		    .repeat = REPEAT, .batch_size = BATCH, .flags = BPF_F_TEST_XDP_LIVE_FRAMES);
	int ret;

	make_frame(frame, mac);
	while (!ended) {
		ret = bpf_prog_test_run_opts(bpf_program__fd(skel->progs.flood_send), &opts);
		if (ret && ret != -EINTR)
			return quit("sending", ret);
	}
	return print_counts(skel);
}

static int tally(struct flood_bpf *skel, int ifindex)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = bpf_program__fd(skel->progs.flood_tally),
		    .handle = 1, .priority = 1);
	int ret = bpf_tc_hook_create(&hook);

	if (!ret)
		ret = bpf_tc_attach(&hook, &opts);
	if (ret)
		return quit("attaching", ret);
	puts("ready");
	fflush(stdout);
	while (!ended)
		pause();
	ret = print_counts(skel);
	hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS;
	bpf_tc_hook_destroy(&hook);
	return ret;
}

static int run(int argc, char **argv, struct flood_bpf *skel, int ifindex)
{
	unsigned char mac[ETH_ALEN];
	int ret;

	if (argc == 6) {
		skel->rodata->out_ifindex = (__u32)ifindex;
		skel->rodata->listed = (__u32)strtoul(argv[4], NULL, 10);
		skel->rodata->unlisted = (__u32)strtoul(argv[5], NULL, 10);
		if (sscanf(argv[3], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2],
			   &mac[3], &mac[4], &mac[5]) != ETH_ALEN)
			return quit(argv[3], EINVAL);
	}
	ret = flood_bpf__load(skel);
	if (ret)
		return quit("loading", ret);
	return argc == 6 ? send_frames(skel, mac) : tally(skel, ifindex);
}

int main(int argc, char **argv)
{
	const struct sigaction end = { .sa_handler = on_signal };
	struct flood_bpf *skel;
	int ifindex, status;

	if (!(argc == 6 && !strcmp(argv[1], "send")) && !(argc == 3 && !strcmp(argv[1], "tally"))) {
		fprintf(stderr, "usage: flood send DEVICE MAC LISTED UNLISTED | flood tally "
				"DEVICE\n");
		return EXIT_ERROR;
	}
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGINT, &end, NULL);
	ifindex = (int)if_nametoindex(argv[2]);
	if (!ifindex)
		return quit(argv[2], errno);
	skel = flood_bpf__open();
	if (!skel)
		return quit("opening", errno);
	status = run(argc, argv, skel, ifindex);
	flood_bpf__destroy(skel);
	return status;
}
