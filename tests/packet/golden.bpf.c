// SPDX-License-Identifier: GPL-2.0-only
/*
 * include/xbloom as the kernel runs it: each program puts one question to it and writes down the
 * answer. The packet is not looked at; test_golden.c runs the programs with BPF_PROG_TEST_RUN and
 * compares the answers with the golden vectors.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "golden/probe.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct golden_question question;
struct golden_answer answer;

SEC("xdp")
int golden_hash(struct xdp_md *ctx)
{
	(void)ctx;
	answer.hash = xbloom_siphash_cd(&question.hash_key, question.words, question.n,
					XBLOOM_KEY_WORDS_MAX, XBLOOM_SIP_C, XBLOOM_SIP_D);
	answer.sip24 = xbloom_siphash_cd(&question.hash_key, question.words, question.n,
					 XBLOOM_KEY_WORDS_MAX, 2, 4);
	return XDP_PASS;
}

SEC("xdp")
int golden_key(struct xdp_md *ctx)
{
	(void)ctx;
	answer.n = xbloom_key_words(&question.flow, question.fields, answer.words);
	answer.hash = xbloom_key_hash(&question.hash_key, &question.flow, question.fields);
	return XDP_PASS;
}

SEC("xdp")
int golden_split(struct xdp_md *ctx)
{
	unsigned int i;

	(void)ctx;
	answer.split_block = xbloom_split_block(question.hash, question.blocks);
#pragma clang loop unroll(full)
	for (i = 0; i < XBLOOM_BLOCK_WORDS; i++)
		answer.split_bit[i] = xbloom_split_bit(question.hash, i);
	return XDP_PASS;
}

SEC("xdp")
int golden_classic(struct xdp_md *ctx)
{
	struct xbloom_probe p = xbloom_classic_first(question.hash);
	unsigned int i;

	(void)ctx;
	for (i = 0; i < XBLOOM_CLASSIC_K_MAX; i++, xbloom_classic_next(&p))
		answer.classic_bit[i] = xbloom_classic_bit(p.at, question.bits);
	return XDP_PASS;
}

SEC("xdp")
int golden_test(struct xdp_md *ctx)
{
	(void)ctx;
	answer.maybe = xbloom_split_test(&question.block, question.hash);
	return XDP_PASS;
}
