/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the unit tests share: cmocka, repeatable random numbers, and what is asked of every error
 * message. Each test_*.c is one executable and includes this first.
 */
#ifndef XBLOOM_TEST_UNIT_H
#define XBLOOM_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libxbloom.h"

#define UNIT_INLINE static inline __attribute__((unused))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/*
 * The n-th random number of a run: its seed is written in the test, so that every failure comes
 * again.
 */
struct unit_random {
	uint64_t seed;
	uint64_t n;
};

UNIT_INLINE uint64_t unit_random(struct unit_random *r)
{
	const struct xbloom_hash_key key = { r->seed, ~r->seed };
	const __u64 word = r->n++;

	return xbloom_siphash_cd(&key, &word, 1, 1, 2, 4);
}

/* 0 .. below - 1. The remainder's bias is of no matter for the small numbers asked for here. */
UNIT_INLINE uint64_t unit_random_below(struct unit_random *r, uint64_t below)
{
	return unit_random(r) % below;
}

/* Filled with this before a call, so that a message that was not written is noticed. */
UNIT_INLINE void unit_error_poison(struct xbloom_error *err)
{
	memset(err->text, '\n', sizeof(err->text));
}

/* Every failure explains itself in one line that a terminal can show. */
UNIT_INLINE void unit_assert_one_line(const struct xbloom_error *err)
{
	size_t len = strnlen(err->text, sizeof(err->text));
	size_t i;

	assert_in_range(len, 1, sizeof(err->text) - 1);
	for (i = 0; i < len; i++)
		if ((unsigned char)err->text[i] < ' ' || err->text[i] == 0x7f)
			fail_msg("control character %d in \"%s\"", err->text[i], err->text);
}

UNIT_INLINE void unit_assert_says(const struct xbloom_error *err, const char *what)
{
	unit_assert_one_line(err);
	if (!strstr(err->text, what))
		fail_msg("\"%s\" does not say \"%s\"", err->text, what);
}

#endif /* XBLOOM_TEST_UNIT_H */
