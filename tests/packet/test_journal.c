// SPDX-License-Identifier: GPL-2.0-only
/*
 * Promise two, when a tool dies: an insert is killed at every single machine instruction of it, and
 * each time the next writer finds a filter in which the key is either in and counted, or was never
 * there. A child inserts one key and is stepped through it by ptrace; the twin is a copy of the bits
 * from before, and what the same insert makes of it.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "packet.h"

/* At every instruction; but a build with sanitizers has many more, and some of them must do. */
#if defined(__SANITIZE_ADDRESS__)
#define KILLS_MAX 100
#else
#define KILLS_MAX 1500
#endif
/* Should the child never end. */
#define STEPS_MAX 1000000

/* Few blocks, some keys in them: an insert finds bits that are set and bits that are not. */
#define ITEMS 200
#define FIRST_KEYS 100

struct moment {
	struct xbloom_block blocks[64];
	uint64_t inserted;
};

static struct xbloom *filter_open(unsigned int flags)
{
	struct xbloom_error error = { "" };
	struct xbloom *filter = NULL;

	if (xbloom_open(FILTER, flags, NULL, &filter, &error))
		fail_msg("open: %s", error.text);
	return filter;
}

static void look(const struct xbloom *filter, struct moment *m)
{
	uint64_t blocks = xbloom_geometry(filter)->blocks;

	assert_in_range(blocks, 1, sizeof(m->blocks) / sizeof(m->blocks[0]));
	memset(m, 0, sizeof(*m));
	memcpy(m->blocks, xbloom_blocks(filter), blocks * sizeof(m->blocks[0]));
	m->inserted = xbloom_inserted(filter);
}

static uint64_t hash_number(uint64_t n)
{
	const __u64 word = n;

	return xbloom_words_hash(&packet_hash_key, &word, 1);
}

/* In the child: does not return. Stops itself before the insert and ends after it. */
static void insert_traced(uint64_t hash)
{
	struct xbloom *filter = NULL;

	if (xbloom_open(FILTER, XBLOOM_OPEN_WRITE, NULL, &filter, NULL) ||
	    ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(1);
	raise(SIGSTOP);
	xbloom_add(filter, hash);
	raise(SIGSTOP);
	_exit(0);
}

/*
 * Let a child insert the hash and kill it after so many instructions. Returns how many it made: less
 * than asked for means that the insert had ended before.
 */
static unsigned int insert_killed_after(uint64_t hash, unsigned int steps)
{
	pid_t pid = fork();
	unsigned int n;
	int status;

	assert_true(pid >= 0);
	if (!pid)
		insert_traced(hash);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	for (n = 0; n < steps; n++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGSTOP)
			break;
		assert_int_equal(WSTOPSIG(status), SIGTRAP);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	return n;
}

/* A reader, who may not finish anything, counts the key from its last bit on. */
static void check_reader(uint64_t hash, uint64_t inserted_before)
{
	struct xbloom *filter = filter_open(0);

	assert_int_equal(xbloom_inserted(filter), inserted_before + xbloom_test(filter, hash));
	xbloom_close(filter);
}

static bool check_writer(uint64_t hash, const struct moment *before, const struct moment *wanted)
{
	struct xbloom *filter = filter_open(XBLOOM_OPEN_WRITE);
	bool in = xbloom_test(filter, hash);
	struct moment after;

	look(filter, &after);
	assert_memory_equal(&after, in ? wanted : before, sizeof(after));
	assert_int_equal(xbloom_meta(filter)->inserted, after.inserted);
	assert_int_equal(xbloom_meta(filter)->journal.open, 0);
	xbloom_close(filter);
	return in;
}

/* Put back what was before, as the filter of the next round. */
static void restore(const struct moment *m)
{
	struct xbloom *filter = filter_open(XBLOOM_OPEN_WRITE);
	struct xbloom_meta *meta = (struct xbloom_meta *)xbloom_meta(filter);

	memcpy((void *)xbloom_blocks(filter), m->blocks,
	       xbloom_geometry(filter)->blocks * sizeof(m->blocks[0]));
	meta->inserted = m->inserted;
	xbloom_close(filter);
}

static void killed_at_every_instruction(uint32_t layout)
{
	struct xbloom_rules rules = packet_rules(XBLOOM_SRC, XBLOOM_POLICY_BLOCK, false);
	struct xbloom *filter = filter_create(&rules, layout, ITEMS);
	unsigned int steps, total, stride, in = 0, out = 0;
	uint64_t n = FIRST_KEYS;
	struct moment before, wanted;
	struct xbloom *last;
	uint64_t i, hash;

	for (i = 0; i < FIRST_KEYS; i++)
		xbloom_add(filter, hash_number(i));
	while (xbloom_test(filter, hash_number(n)))
		n++;
	hash = hash_number(n);
	look(filter, &before);
	assert_true(xbloom_add(filter, hash));
	look(filter, &wanted);
	assert_int_equal(wanted.inserted, before.inserted + 1);
	xbloom_close(filter);
	restore(&before);

	total = insert_killed_after(hash, STEPS_MAX);
	assert_in_range(total, 20, STEPS_MAX - 1);
	assert_true(check_writer(hash, &before, &wanted));
	restore(&before);
	stride = 1 + total / KILLS_MAX;
	for (steps = 0; steps < total; steps += stride) {
		insert_killed_after(hash, steps);
		check_reader(hash, before.inserted);
		if (check_writer(hash, &before, &wanted))
			in++;
		else
			out++;
		restore(&before);
	}
	printf("# %u instructions, killed at each %s%u: %u times the key was in, %u times not\n",
	       total, stride > 1 ? "multiple of " : "", stride, in, out);
	fflush(stdout);
	assert_true(in && out);
	last = filter_open(XBLOOM_OPEN_WRITE);
	filter_destroy(last);
}

static void an_insert_into_split_killed_anywhere_is_whole_or_was_not(void **state)
{
	(void)state;
	killed_at_every_instruction(XBLOOM_LAYOUT_SPLIT);
}

static void an_insert_into_classic_killed_anywhere_is_whole_or_was_not(void **state)
{
	(void)state;
	killed_at_every_instruction(XBLOOM_LAYOUT_CLASSIC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_insert_into_split_killed_anywhere_is_whole_or_was_not),
		cmocka_unit_test(an_insert_into_classic_killed_anywhere_is_whole_or_was_not),
	};

	packet_isolate();
	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
