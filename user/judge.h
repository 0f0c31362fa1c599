/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Whether false positives that were counted contradict the rate that was predicted. For who looks
 * again and again, as `watch` does: a judgement at 95 % would cry wolf every twentieth time.
 */
#ifndef XBLOOM_JUDGE_H
#define XBLOOM_JUDGE_H

#include <stdint.h>

/*
 * How often a right prediction may be called wrong: one line in 10,000, which is one a week at a
 * line a minute.
 */
#define XBLOOM_JUDGE_ERROR 1e-4

enum xbloom_judgement {
	XBLOOM_AGREE,
	XBLOOM_DISAGREE,
	/*
	 * Of so few trials not even none at all would contradict the prediction: a filter that is
	 * better than it says would not be noticed. One that is worse would be.
	 */
	XBLOOM_TOO_FEW,
	/* For who counts: what was counted are no trials of this rate. Never returned below. */
	XBLOOM_NOT_JUDGED,
};

/*
 * Judge `hits` false positives of n absent keys, each of which was asked for at a moment when the
 * predicted rate lay between `low` and `high`, 0..1.
 */
enum xbloom_judgement xbloom_judge(uint64_t hits, uint64_t n, double low, double high);

#endif /* XBLOOM_JUDGE_H */
