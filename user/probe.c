// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The prober: asks a filter's program, in the kernel, for keys that are drawn there as well. One
 * system call asks for thousands of them (BPF_PROG_TEST_RUN, repeated over one frame, into which
 * bpf/prober.bpf.c writes each key), so that a rate of one in a million can be measured in seconds.
 *
 * What is run is the very program of the filter, loaded once more over the same bits and prefixes,
 * with counters and a ring buffer of its own.
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "../bpf/prober.h"
#include "internal.h"
#include "prober.skel.h"

/* A frame of Ethernet, one tag, IPv6 and TCP. */
#define FRAME_MAX 78
#define TAG_LEN 4
#define L3_AND_TCP 60 /* IPv4 leaves 20 bytes of it as padding */
/*
 * Keys asked for by one call, which before and after its work waits for the kernel to patch its XDP
 * dispatcher: some 15 ms, so it had better be many. Where each answer may be told, as many as the
 * ring buffer holds (a record is 8 bytes longer than its sample).
 */
#define BATCH 524288
#define BATCH_TOLD 262144
#define RING_BYTES (16u << 20)

_Static_assert(BATCH_TOLD *(sizeof(struct xbloom_sample) + 8) < RING_BYTES,
	       "a batch that is told fits the ring buffer");

struct xbloom_prober {
	struct prober_bpf *skel;
	int stats;
	int samples; /* -1: nothing is told */
	struct ring_buffer *ring;
	unsigned int bits;
	uint8_t frame[FRAME_MAX];
	uint32_t frame_len;
	/* Of the asking that goes on; without fn, answers are thrown away. */
	xbloom_sample_fn fn;
	void *ctx;
};

/* ---- the shape of keys ---- */

/*
 * The bits of a key that are drawn. Only TCP and UDP are, for a protocol without ports would be
 * another shape. No field straddles bit 64 of those before it: 32 + 32, 32 + 16 + 16, 16 + 16 + 12
 * and 64 each are its multiples or stay below it.
 */
static unsigned int key_bits(uint32_t fields, uint32_t family)
{
	unsigned int addr = family == XBLOOM_FAMILY_V4 ? 32 : 128, bits = 0;

	bits += fields & XBLOOM_SRC ? addr : 0;
	bits += fields & XBLOOM_DST ? addr : 0;
	bits += fields & XBLOOM_SPORT ? 16 : 0;
	bits += fields & XBLOOM_DPORT ? 16 : 0;
	bits += fields & XBLOOM_VLAN ? 12 : 0;
	bits += fields & XBLOOM_PROTO ? 1 : 0;
	return bits;
}

static void make_frame(struct xbloom_prober *p, uint32_t family, bool tagged)
{
	static const uint8_t ip4[] = { 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6 };
	static const uint8_t ip6[] = { 0x60, 0, 0, 0, 0, 20, 6, 64 };
	uint16_t proto = family == XBLOOM_FAMILY_V4 ? ETH_P_IP : ETH_P_IPV6;
	uint8_t *at = p->frame + 2 * ETH_ALEN;

	if (tagged) {
		*at++ = ETH_P_8021Q >> 8;
		*at++ = ETH_P_8021Q & 0xff;
		at += 2; /* the tag itself */
	}
	*at++ = (uint8_t)(proto >> 8);
	*at++ = (uint8_t)proto;
	if (family == XBLOOM_FAMILY_V4)
		memcpy(at, ip4, sizeof(ip4));
	else
		memcpy(at, ip6, sizeof(ip6));
	p->frame_len = ETH_HLEN + (tagged ? TAG_LEN : 0) + L3_AND_TCP;
}

static void set_draw(struct xbloom_draw *d, uint32_t fields, uint32_t family, uint64_t seed,
		     unsigned int bits)
{
	unsigned int used = bits < XBLOOM_DRAW_BITS_MAX ? bits : XBLOOM_DRAW_BITS_MAX, r;

	*d = (struct xbloom_draw){
		.salt = xbloom_draw_more(seed, XBLOOM_DRAW_ROUNDS),
		.mask = ~0ULL >> (XBLOOM_DRAW_BITS_MAX - used),
		.shift = used > 2 ? used / 2 : 1,
		.fields = fields,
		.family = family,
		.tagged = fields & XBLOOM_VLAN ? 1 : 0,
	};
	for (r = 0; r < XBLOOM_DRAW_ROUNDS; r++)
		d->multiplier[r] = xbloom_draw_more(seed, r) | 1;
}

/* ---- opening ---- */

static int load_target(struct xbloom_prober *p, const struct xbloom *f,
		       const struct xbloom_prober_options *o, struct xbloom_error *err)
{
	struct xbloom_params params = *xbloom_params_in_force(f);
	const struct xbloom_prog_maps maps = {
		.filter = f->fd[XBLOOM_PIN_FILTER],
		.slots = -1,
		.stats = p->stats,
		.confirm = -1,
		.samples = p->samples,
		.nets4 = params.nets4 ? f->fd[XBLOOM_PIN_NETS4] : -1,
		.exempt = -1,
	};
	AUTO_CLOSE int prog = -1;
	uint32_t slot = 0;

	if (params.nets4 && maps.nets4 < 0)
		return xbloom_fail(err, -EAGAIN,
				   "filter %s has got its first IPv4 prefix just now: try again",
				   f->name);
	params.blocks = f->geometry.blocks;
	params.bits = f->geometry.bits;
	params.layout = f->geometry.layout;
	params.k = f->geometry.k;
	params.policy = XBLOOM_POLICY_BLOCK;
	params.shadow = 0;
	params.unkeyed_drop = 0;
	params.extras = (o->tell_maybe ? XBLOOM_SAMPLE_MAYBE : 0) |
			(o->tell_absent ? XBLOOM_SAMPLE_ABSENT : 0);
	params.exempt_trie = params.n_exempt = 0;
	params.sample_every = 1;
	prog = xbloom_load_slot(&maps, &params, err);
	if (prog < 0)
		return prog;
	if (bpf_map_update_elem(bpf_map__fd(p->skel->maps.prober_target), &slot, &prog, BPF_ANY))
		return xbloom_fail_errno(err, -errno, "cannot put a program into the prober");
	return 0;
}

static int load_prober(struct xbloom_prober *p, struct xbloom_error *err)
{
	struct xbloom_libbpf_log log;
	int ret = 0;

	xbloom_libbpf_listen(&log);
	p->skel = prober_bpf__open();
	if (!p->skel) {
		ret = -errno;
	} else {
		/* A program jumps only to its like. */
		bpf_program__set_flags(p->skel->progs.prober, BPF_F_XDP_HAS_FRAGS);
		ret = prober_bpf__load(p->skel);
	}
	xbloom_libbpf_ignore(&log);
	return ret ? xbloom_fail_errno(err, ret, "cannot load the prober%s%s",
				       log.text[0] ? ": " : "", log.text)
		   : 0;
}

/* ring_buffer__consume() calls this. */
static int on_sample(void *ctx, void *data, size_t size)
{
	struct xbloom_prober *p = ctx;

	if (!p->fn)
		return 0;
	return size == sizeof(struct xbloom_sample) ? p->fn(p->ctx, data) : -EIO;
}

static int map_ring(struct xbloom_prober *p, struct xbloom_error *err)
{
	struct xbloom_libbpf_log log;
	int ret = 0;

	xbloom_libbpf_listen(&log);
	p->ring = ring_buffer__new(p->samples, on_sample, p, NULL);
	if (!p->ring)
		ret = -errno;
	xbloom_libbpf_ignore(&log);
	return ret ? xbloom_fail(err, ret, "cannot map a ring buffer of %u MiB to measure with: %s",
				 RING_BYTES >> 20, strerror(-ret))
		   : 0;
}

static int make_own_maps(struct xbloom_prober *p, bool told, struct xbloom_error *err)
{
	p->stats = xbloom_make_array(BPF_MAP_TYPE_PERCPU_ARRAY, "xbloom_stats",
				     sizeof(struct xbloom_stats), 1, 0, err);
	if (p->stats < 0)
		return p->stats;
	if (!told)
		return 0;
	p->samples = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "xbloom_samples", 0, 0, RING_BYTES, NULL);
	if (p->samples < 0)
		return xbloom_fail(err, -errno,
				   "cannot make a ring buffer of %u MiB to measure "
				   "with: %s",
				   RING_BYTES >> 20, strerror(errno));
	return map_ring(p, err);
}

int xbloom_prober_open(const struct xbloom *f, const struct xbloom_prober_options *options,
		       struct xbloom_prober **out, struct xbloom_error *err)
{
	struct xbloom_prober *p = calloc(1, sizeof(*p));
	uint32_t fields = f->meta->params.fields;
	int ret;

	if (!p)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	p->stats = -1;
	p->samples = -1;
	p->bits = key_bits(fields, options->family);
	make_frame(p, options->family, fields & XBLOOM_VLAN);
	ret = make_own_maps(p, options->tell_maybe || options->tell_absent, err);
	if (!ret)
		ret = load_prober(p, err);
	if (!ret)
		ret = load_target(p, f, options, err);
	if (ret) {
		xbloom_prober_close(p);
		return ret;
	}
	set_draw(&p->skel->bss->draw, fields, options->family, options->seed, p->bits);
	*out = p;
	return 0;
}

void xbloom_prober_close(struct xbloom_prober *p)
{
	if (!p)
		return;
	ring_buffer__free(p->ring);
	prober_bpf__destroy(p->skel);
	xbloom_close_fd(&p->samples);
	xbloom_close_fd(&p->stats);
	free(p);
}

unsigned int xbloom_prober_bits(const struct xbloom_prober *p)
{
	return p->bits;
}

/* ---- asking ---- */

/* Run up to n packets; a signal may end it earlier. How many there were, the draw itself says. */
static int run(struct xbloom_prober *p, uint64_t n, struct xbloom_error *err)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = p->frame, .data_size_in = p->frame_len,
		    .repeat = (int)n);
	int ret = bpf_prog_test_run_opts(bpf_program__fd(p->skel->progs.prober), &opts);

	if (ret && ret != -EINTR)
		return xbloom_fail_errno(err, ret, "cannot run the program of the filter");
	if (!ret && opts.retval != XDP_DROP && opts.retval != XDP_PASS)
		return xbloom_fail(err, -EIO, "the program of the filter cannot be run");
	return 0;
}

/* Hand on what was told. Who has heard enough leaves nothing for the next asking. */
static int tell(struct xbloom_prober *p, struct xbloom_error *err)
{
	int ret = ring_buffer__consume(p->ring);

	if (ret >= 0)
		return 0;
	p->fn = NULL;
	ring_buffer__consume(p->ring);
	return xbloom_fail_errno(err, ret, "asking was given up");
}

int xbloom_prober_ask(struct xbloom_prober *p, uint64_t first, uint64_t n, uint64_t *maybe,
		      xbloom_sample_fn fn, void *ctx, struct xbloom_error *err)
{
	uint64_t batch = p->ring ? BATCH_TOLD : BATCH, end = first + n;
	__u64 *next = &p->skel->bss->draw.next;
	struct xbloom_stats before, after;
	uint64_t absent;
	int ret;

	p->fn = fn;
	p->ctx = ctx;
	ret = xbloom_stats_sum(p->stats, &before, err);
	*next = first;
	while (!ret && *next < end) {
		uint64_t left = end - *next;

		ret = run(p, left < batch ? left : batch, err);
		if (!ret && p->ring)
			ret = tell(p, err);
	}
	if (!ret)
		ret = xbloom_stats_sum(p->stats, &after, err);
	if (ret)
		return ret;
	*maybe = after.c[XBLOOM_MAYBE][XBLOOM_DROP].packets -
		 before.c[XBLOOM_MAYBE][XBLOOM_DROP].packets;
	absent = after.c[XBLOOM_ABSENT][XBLOOM_PASS].packets -
		 before.c[XBLOOM_ABSENT][XBLOOM_PASS].packets;
	if (*maybe + absent != n || after.samples_lost)
		return xbloom_fail(err, -EIO,
				   "of %llu keys the program called %llu maybe and %llu absent: "
				   "this cannot be",
				   (unsigned long long)n, (unsigned long long)*maybe,
				   (unsigned long long)absent);
	return 0;
}
