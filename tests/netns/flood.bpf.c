// SPDX-License-Identifier: GPL-2.0-only
/*
 * A flood, and who counts what comes of it (tests/tools/flood.c). The one program writes a source
 * address into each frame of a BPF_PROG_TEST_RUN with live frames and sends it out of a device of
 * the test's own; the other stands behind XDP on the device at the other end, counts what came
 * through by its source, and ends its way there.
 *
 * Sources are 198.18.0.0 + i for i below `listed`, and 198.19.0.0 + i for i below `unlisted`.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define LISTED_NET 0xc6120000u
#define UNLISTED_NET 0xc6130000u
#define NET_MASK 0xffff0000u

enum { FLOOD_LISTED, FLOOD_UNLISTED, FLOOD_OTHERS, FLOOD_KINDS };

const volatile __u32 out_ifindex;
const volatile __u32 listed = 1;
const volatile __u32 unlisted = 1;
/* One frame in so many is from an unlisted source. */
const volatile __u32 unlisted_every = 8;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FLOOD_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} flood_counts SEC(".maps");

static __always_inline void count(__u32 kind)
{
	__u64 *n = bpf_map_lookup_elem(&flood_counts, &kind);

	if (n)
		(*n)++;
}

/* A number below n, at random. */
static __always_inline __u32 below(__u32 n)
{
	return ((__u64)bpf_get_prandom_u32() * n) >> 32;
}

SEC("xdp")
int flood_send(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	__u32 kind = below(unlisted_every) ? FLOOD_LISTED : FLOOD_UNLISTED;

	if ((void *)(ip + 1) > end)
		return XDP_ABORTED;
	if (kind == FLOOD_LISTED)
		ip->saddr = bpf_htonl(LISTED_NET + below(listed));
	else
		ip->saddr = bpf_htonl(UNLISTED_NET + below(unlisted));
	count(kind);
	return bpf_redirect(out_ifindex, 0);
}

SEC("tc")
int flood_tally(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	__u32 net;

	if ((void *)(ip + 1) > end || skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	net = bpf_ntohl(ip->saddr) & NET_MASK;
	count(net == LISTED_NET ? FLOOD_LISTED : net == UNLISTED_NET ? FLOOD_UNLISTED : FLOOD_OTHERS);
	return TC_ACT_SHOT;
}
