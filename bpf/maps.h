/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The maps of the data path, and the constants of a filter program. User space creates each map
 * at its real size and hands it to the programs when they are loaded; the sizes here are what an
 * object loaded by itself (ip link ... obj) gets: an entry program whose slot is empty.
 */
#ifndef XBLOOM_BPF_MAPS_H
#define XBLOOM_BPF_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../include/xbloom/maps.h"

/* Slot 0 holds the filter program. One update of it replaces a filter for the next packet. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} xbloom_slots SEC(".maps");

/*
 * The bits: one element per block. Mmapable makes the values start on a page, so that a block is
 * a cache line. (Not BPF_F_RDONLY_PROG: the kernel then refuses user space a writable mapping.)
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xbloom_block);
} xbloom_filter SEC(".maps");

/* What happened to the packets: written by this CPU alone, so no atomics. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xbloom_stats);
} xbloom_stats SEC(".maps");

/*
 * The exact map: the words of every key that was put in, those of an IPv4 key padded with zeroes.
 * User space makes it as wide as the fields need. Looked up only after a maybe.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, XBLOOM_KEY_WORDS_MAX * sizeof(__u64));
	__uint(value_size, 1);
} xbloom_confirm SEC(".maps");

/*
 * IPv4 prefixes of up to /24, one bit for each /24, exact. Behind each other as many as the filter has
 * arrays of bits.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xbloom_block);
} xbloom_nets4 SEC(".maps");

/* What is never dropped. The record of all of it, though up to eight are constants of the program. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct xbloom_exempt_key);
	__type(value, __u32);
} xbloom_exempt SEC(".maps");

/* Keys of sampled packets, for who verifies the filter's answers on live traffic. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, XBLOOM_SAMPLES_BYTES);
} xbloom_samples SEC(".maps");

/*
 * Set before loading and frozen: the verifier takes them for constants and removes what a filter
 * does not use.
 */
const volatile struct xbloom_params params = {
	.blocks = 1,
	.bits = XBLOOM_BLOCK_BITS,
	.layout = XBLOOM_LAYOUT_SPLIT,
	.k = XBLOOM_SPLIT_K,
	.fields = XBLOOM_SRC,
};

/* The trial program lets everything pass from this time on; CLOCK_BOOTTIME, nanoseconds. */
const volatile __u64 try_deadline_ns = 0;

#endif /* XBLOOM_BPF_MAPS_H */
