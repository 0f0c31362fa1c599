// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The counters of the data path: summed over the CPUs, named, and what they say of the traffic.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "internal.h"

int xbloom_count_cpus(unsigned int *cpus, struct xbloom_error *err)
{
	struct xbloom_libbpf_log log;
	int n;

	xbloom_libbpf_listen(&log);
	n = libbpf_num_possible_cpus();
	xbloom_libbpf_ignore(&log);
	if (n < 0)
		return xbloom_fail_errno(err, n, "cannot count the CPUs");
	*cpus = (unsigned int)n;
	return 0;
}

int xbloom_stats_sum(int fd, struct xbloom_stats *stats, struct xbloom_error *err)
{
	AUTO_FREE struct xbloom_stats *cpus = NULL;
	unsigned int cpu, n;
	uint32_t zero = 0;
	size_t i;
	int ret = xbloom_count_cpus(&n, err);

	memset(stats, 0, sizeof(*stats));
	if (ret)
		return ret;
	cpus = calloc(n, sizeof(*cpus));
	if (!cpus)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	if (bpf_map_lookup_elem(fd, &zero, cpus))
		return xbloom_fail_errno(err, -errno, "cannot read the counters");
	for (cpu = 0; cpu < n; cpu++) {
		const struct xbloom_counter *from = &cpus[cpu].c[0][0];
		struct xbloom_counter *to = &stats->c[0][0];

		for (i = 0; i < XBLOOM_REASONS * XBLOOM_ACTIONS; i++) {
			to[i].packets += from[i].packets;
			to[i].bytes += from[i].bytes;
		}
		stats->samples += cpus[cpu].samples;
		stats->samples_lost += cpus[cpu].samples_lost;
	}
	return 0;
}

int xbloom_stats(const struct xbloom *f, struct xbloom_stats *stats, struct xbloom_error *err)
{
	return xbloom_stats_sum(f->fd[XBLOOM_PIN_STATS], stats, err);
}

static const char *const reason_names[XBLOOM_REASONS] = {
	[XBLOOM_NOT_IP] = "not_ip",	  [XBLOOM_NDP] = "ndp",
	[XBLOOM_NO_FILTER] = "no_filter", [XBLOOM_ABSENT] = "absent",
	[XBLOOM_MAYBE] = "maybe",	  [XBLOOM_CONFIRMED] = "confirmed",
	[XBLOOM_REFUTED] = "refuted",	  [XBLOOM_EXEMPT] = "exempt",
	[XBLOOM_ERROR] = "error",	  [XBLOOM_MALFORMED] = "malformed",
	[XBLOOM_FRAGMENT] = "fragment",	  [XBLOOM_EXTHDR] = "exthdr",
	[XBLOOM_VLAN_TAGS] = "vlan_tags",
};

const char *xbloom_reason_name(uint32_t reason)
{
	return reason < XBLOOM_REASONS ? reason_names[reason] : "unknown";
}

static void add_counter(struct xbloom_counter *to, const struct xbloom_counter *from)
{
	to->packets += from->packets;
	to->bytes += from->bytes;
}

void xbloom_stats_named(const struct xbloom_stats *stats,
			struct xbloom_named_counter out[XBLOOM_NAMED_COUNTERS])
{
	struct xbloom_named_counter *passed = &out[XBLOOM_REASONS];
	struct xbloom_named_counter *dropped = &out[XBLOOM_REASONS + 1];
	struct xbloom_named_counter *would_drop = &out[XBLOOM_REASONS + 2];
	unsigned int r, a;

	memset(out, 0, XBLOOM_NAMED_COUNTERS * sizeof(*out));
	passed->name = "passed";
	dropped->name = "dropped";
	would_drop->name = "would_drop";
	for (r = 0; r < XBLOOM_REASONS; r++) {
		out[r].name = reason_names[r];
		for (a = 0; a < XBLOOM_ACTIONS; a++)
			add_counter(&out[r].value, &stats->c[r][a]);
		add_counter(&passed->value, &stats->c[r][XBLOOM_PASS]);
		add_counter(&dropped->value, &stats->c[r][XBLOOM_DROP]);
		/* In shadow a packet has passed, too. */
		add_counter(&passed->value, &stats->c[r][XBLOOM_WOULD_DROP]);
		add_counter(&would_drop->value, &stats->c[r][XBLOOM_WOULD_DROP]);
	}
}

static uint64_t packets_of(const struct xbloom_stats *stats, enum xbloom_reason reason)
{
	uint64_t packets = 0;
	unsigned int a;

	for (a = 0; a < XBLOOM_ACTIONS; a++)
		packets += stats->c[reason][a].packets;
	return packets;
}

void xbloom_live(const struct xbloom_stats *stats, struct xbloom_live *live)
{
	uint64_t absent = packets_of(stats, XBLOOM_ABSENT);
	uint64_t refuted = packets_of(stats, XBLOOM_REFUTED);
	uint64_t confirmed = packets_of(stats, XBLOOM_CONFIRMED);
	uint64_t judged = absent + refuted; /* packets of keys that are certainly not listed */

	live->asked = judged + confirmed + packets_of(stats, XBLOOM_MAYBE);
	live->absent_share = live->asked ? (double)absent / (double)live->asked : NAN;
	live->fp = judged ? (double)refuted / (double)judged : NAN;
	live->ceremony = live->asked >= XBLOOM_CEREMONY_PACKETS &&
			 live->absent_share < XBLOOM_CEREMONY_SHARE;
}
