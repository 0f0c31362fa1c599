/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tests/packet/test_golden.c asks of the kernel and hears back, through the global variables
 * of golden.bpf.c: one golden vector at a time.
 */
#ifndef GOLDEN_PROBE_BPF_H
#define GOLDEN_PROBE_BPF_H

#include "xbloom/maps.h"

struct golden_question {
	struct xbloom_hash_key hash_key;
	__u64 words[XBLOOM_KEY_WORDS_MAX]; /* hash */
	struct xbloom_flow flow;	   /* key */
	__u64 hash;			   /* split, classic, test */
	__u64 blocks;			   /* split */
	__u64 bits;			   /* classic */
	struct xbloom_block block;	   /* test */
	__u32 n;			   /* hash: how many words */
	__u32 fields;			   /* key */
};

struct golden_answer {
	__u64 words[XBLOOM_KEY_WORDS_MAX];	 /* key */
	__u64 hash;				 /* hash: SipHash-1-3; key */
	__u64 sip24;				 /* hash */
	__u64 split_block;			 /* split */
	__u64 classic_bit[XBLOOM_CLASSIC_K_MAX]; /* classic */
	__u32 split_bit[XBLOOM_BLOCK_WORDS];	 /* split */
	__u32 n;				 /* key: how many words */
	__u32 maybe;				 /* test */
};

#endif /* GOLDEN_PROBE_BPF_H */
