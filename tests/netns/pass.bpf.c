// SPDX-License-Identifier: GPL-2.0-only
/*
 * Somebody else's XDP program: it passes everything. The tests attach it by `ip link` and see that
 * xdp-bloom leaves it alone.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("xdp")
int foreign_pass(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_PASS;
}
