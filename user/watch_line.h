/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `watch` says at the end of an interval, and how it is printed: one line for people, or one
 * JSON object a line.
 */
#ifndef XBLOOM_WATCH_LINE_H
#define XBLOOM_WATCH_LINE_H

#include <time.h>

#include "judge.h"
#include "libxbloom.h"

/* False positives of distinct absent keys, and whether they contradict the prediction. */
struct watch_rate {
	uint64_t keys;
	uint64_t keys6; /* of them, IPv6 ones */
	uint64_t false_positives;
	enum xbloom_judgement judgement;
};

struct watch_line {
	time_t time;
	const char *name;
	uint32_t generation;
	struct xbloom_live live; /* of all packets of the interval */
	uint32_t sample;	 /* one packet in so many; 0: none */
	uint64_t samples, lost;
	uint64_t missing; /* sampled packets that were called absent though listed */
	struct watch_rate keys;
	double fp_predicted;
	double fp_packets;	 /* the rate by packets; NAN: nothing is known of it */
	struct watch_rate total; /* since the bits, or the truth, last changed: */
	time_t since;
	bool stale;  /* a list is not what was read: nothing was judged */
	bool biased; /* the answers had a say in what was sampled: nothing was judged */
};

void watch_line_json(const struct watch_line *line);
void watch_line_text(const struct watch_line *line);

#endif /* XBLOOM_WATCH_LINE_H */
