// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel agrees with the golden vectors: golden.bpf.c, compiled from the same headers as the
 * data path, is loaded and asked every vector. With the unit test of the same name this makes
 * user space and BPF agree bit for bit. Needs root; touches no interface.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "golden/golden.h"
#include "golden/probe.bpf.h"
#include "packet/golden.skel.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define FRAME_BYTES 64 /* the shortest Ethernet frame; its content does not matter */

static struct golden_bpf *skel;

static int load(void **state)
{
	(void)state;
	skel = golden_bpf__open_and_load();
	return skel ? 0 : -1;
}

static int unload(void **state)
{
	(void)state;
	golden_bpf__destroy(skel);
	return 0;
}

/* Run one program over a question; what it does not answer stays all ones. */
static const struct golden_answer *ask(struct bpf_program *prog, const struct golden_question *q)
{
	unsigned char frame[FRAME_BYTES] = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = sizeof(frame),
		    .repeat = 1);

	memcpy(&skel->bss->question, q, sizeof(*q));
	memset(&skel->bss->answer, 0xff, sizeof(skel->bss->answer));
	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(prog), &opts), 0);
	assert_int_equal(opts.retval, XDP_PASS);
	return &skel->bss->answer;
}

static void kernel_hash_is_the_published_one(void **state)
{
	size_t i;
	unsigned int w;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_hash); i++) {
		const struct golden_hash *v = &golden_hash[i];
		struct golden_question q = { .hash_key = { v->key[0], v->key[1] }, .n = v->n };
		const struct golden_answer *a;

		for (w = 0; w < XBLOOM_KEY_WORDS_MAX; w++)
			q.words[w] = w < v->n ? v->words[w] : 0xdeadbeefdeadbeefULL;
		a = ask(skel->progs.golden_hash, &q);
		assert_int_equal(a->hash, v->sip13);
		assert_int_equal(a->sip24, v->sip24);
	}
}

static void kernel_gives_the_golden_words(void **state)
{
	size_t i;
	unsigned int w;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_key); i++) {
		const struct golden_key *v = &golden_key[i];
		const uint8_t ports[4] = { v->sport >> 8, v->sport & 0xff, v->dport >> 8,
					   v->dport & 0xff };
		struct golden_question q = {
			.hash_key = { golden_secret[0], golden_secret[1] },
			.fields = v->fields,
			.flow = { .vlan = v->vlan,
				  .proto = v->proto,
				  .plen = v->plen,
				  .family = v->family },
		};
		const struct golden_answer *a;

		memcpy(&q.flow.src, v->src, sizeof(v->src));
		memcpy(&q.flow.dst, v->dst, sizeof(v->dst));
		memcpy(q.flow.ports, ports, sizeof(ports));
		a = ask(skel->progs.golden_key, &q);
		assert_int_equal(a->n, v->n);
		for (w = 0; w < v->n; w++)
			if (a->words[w] != v->words[w])
				fail_msg("%s: word %u is %016" PRIx64 ", expected %016" PRIx64,
					 v->text, w, (uint64_t)a->words[w], v->words[w]);
		assert_int_equal(a->hash, v->hash);
	}
}

static void kernel_split_positions_are_the_golden_ones(void **state)
{
	size_t i;
	unsigned int w;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_split); i++) {
		const struct golden_split *v = &golden_split[i];
		const struct golden_question q = { .hash = v->hash, .blocks = v->blocks };
		const struct golden_answer *a = ask(skel->progs.golden_split, &q);

		assert_int_equal(a->split_block, v->block);
		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++)
			assert_int_equal(a->split_bit[w], v->bit[w]);
	}
}

static void kernel_classic_positions_are_the_golden_ones(void **state)
{
	size_t i;
	unsigned int j;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_classic); i++) {
		const struct golden_classic *v = &golden_classic[i];
		const struct golden_question q = { .hash = v->hash, .bits = v->bits };
		const struct golden_answer *a = ask(skel->progs.golden_classic, &q);

		for (j = 0; j < v->k; j++)
			assert_int_equal(a->classic_bit[j], v->bit[j]);
	}
}

/* Given a block with just the eight bits of a key, when any one of them is gone, it is absent. */
static void kernel_says_maybe_only_if_all_eight_bits_are_set(void **state)
{
	size_t i;
	unsigned int w;

	(void)state;
	for (i = 0; i < COUNT_OF(golden_split); i++) {
		const struct golden_split *v = &golden_split[i];
		struct golden_question q = { .hash = v->hash };

		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++)
			q.block.w[w] = 1ULL << v->bit[w];
		assert_int_equal(ask(skel->progs.golden_test, &q)->maybe, 1);

		for (w = 0; w < XBLOOM_BLOCK_WORDS; w++) {
			q.block.w[w] = ~q.block.w[w];
			assert_int_equal(ask(skel->progs.golden_test, &q)->maybe, 0);
			q.block.w[w] = ~q.block.w[w];
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_hash_is_the_published_one),
		cmocka_unit_test(kernel_gives_the_golden_words),
		cmocka_unit_test(kernel_split_positions_are_the_golden_ones),
		cmocka_unit_test(kernel_classic_positions_are_the_golden_ones),
		cmocka_unit_test(kernel_says_maybe_only_if_all_eight_bits_are_set),
	};

	return cmocka_run_group_tests_name("golden vectors in the kernel", tests, load, unload);
}
