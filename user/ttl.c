// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A time to live, without deletion: a filter has several arrays of bits, and keys are put into one of
 * them for a period, then into the next. Each array is asked until its time is over, lives periods
 * after it began; the program in the kernel looks at the clock, so nobody has to be there for keys to
 * leave. With a period of ttl / (lives - 1), a key stays for longer than ttl and for at most
 * ttl * lives / (lives - 1).
 *
 * The turn to the next array is made by the first writer who comes when a period is over. By then the
 * time of that array is over: it began lives - 1 periods before the current one at the latest. So it
 * can be emptied with no packet looking, and comes into force by one update of the slot.
 *
 * Worked: ttl 60 min, 2 arrays: keys go into each for 60 min, it is asked for 120.
 */
#include <string.h>
#include <time.h>

#include "internal.h"

#define NS_PER_S 1000000000ULL

uint64_t xbloom_boot_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t xbloom_ttl_period(uint64_t ttl_ns, unsigned int lives)
{
	return lives > 1 ? ttl_ns / (lives - 1) : 0;
}

void xbloom_ttl_begin(struct xbloom_params *p, uint64_t ttl_ns, uint32_t array, uint64_t now)
{
	if (p->lives <= 1)
		return;
	p->current = array;
	p->expires_ns[array] = now + p->lives * xbloom_ttl_period(ttl_ns, p->lives);
}

/* When the period of the current array ends. */
static uint64_t turn_ns(const struct xbloom *f, const struct xbloom_params *p)
{
	return p->expires_ns[p->current % f->lives] -
	       (f->lives - 1) * xbloom_ttl_period(f->meta->ttl_ns, f->lives);
}

/* Bring to an end what a writer who died in a turn had begun: the constants in force tell how far. */
static void settle_turn(struct xbloom *f)
{
	struct xbloom_meta *m = f->meta;

	if (m->turning && m->params.current == m->turning - 1)
		m->inserted = 0;
	m->turning = 0;
}

int xbloom_turn(struct xbloom *f, struct xbloom_error *err)
{
	struct xbloom_meta *m = f->meta;
	struct xbloom_params next;
	uint32_t array;
	uint64_t now = xbloom_boot_ns();
	int ret;

	if (f->lives <= 1)
		return 0;
	settle_turn(f);
	if (now < turn_ns(f, &m->params))
		return 0;
	array = (m->params.current + 1) % f->lives;
	/* It cannot be live; but packets may look at it as long as it is. */
	if (now < m->params.expires_ns[array])
		return 0;
	memset(f->blocks + array * f->geometry.blocks, 0, f->geometry.blocks * XBLOOM_BLOCK_BYTES);
	if (f->nets4)
		memset(f->nets4 + array * XBLOOM_NETS4_BLOCKS, 0,
		       XBLOOM_NETS4_BLOCKS * XBLOOM_BLOCK_BYTES);
	m->inserted_before[m->params.current] = m->inserted;
	__atomic_store_n(&m->turning, array + 1, __ATOMIC_SEQ_CST);
	next = m->params;
	xbloom_ttl_begin(&next, m->ttl_ns, array, now);
	ret = xbloom_change_params(f, &next, err);
	settle_turn(f);
	return ret;
}

void xbloom_ttl(const struct xbloom *f, struct xbloom_ttl_state *state)
{
	const struct xbloom_params *p = xbloom_params_in_force(f);
	const struct xbloom_meta *m = f->meta;
	uint64_t now = xbloom_boot_ns();
	uint32_t i;

	*state = (struct xbloom_ttl_state){ 0 };
	if (f->lives <= 1)
		return;
	state->lives = f->lives;
	state->current = p->current % f->lives;
	state->ttl = (double)m->ttl_ns / NS_PER_S;
	state->longest = state->ttl * f->lives / (f->lives - 1);
	state->turn_in = turn_ns(f, p) > now ? (double)(turn_ns(f, p) - now) / NS_PER_S : 0;
	for (i = 0; i < f->lives; i++) {
		if (p->expires_ns[i] <= now)
			continue;
		state->array[i].expires_in = (double)(p->expires_ns[i] - now) / NS_PER_S;
		state->array[i].inserted =
			i == state->current ? xbloom_inserted(f) : m->inserted_before[i];
	}
}
