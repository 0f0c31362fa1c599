/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The picture of `plan --plot`: what bits buy, and what overload costs.
 */
#ifndef XBLOOM_PLAN_PICTURE_H
#define XBLOOM_PLAN_PICTURE_H

#include "libxbloom.h"

/* XBLOOM_LAYOUT_SPLIT and XBLOOM_LAYOUT_CLASSIC. */
#define PLAN_LAYOUTS 2

/* The same request in each layout; one that cannot hold it has no size. */
struct plan_layouts {
	bool fits[PLAN_LAYOUTS];
	struct xbloom_size size[PLAN_LAYOUTS];
};

/*
 * Draw it into an SVG file: `asked` is marked in both panels, and where its rate is doubled, at
 * `twice` keys; 0: nowhere. EXIT_DONE, or EXIT_FAILED, and it was said why.
 */
int draw_plan(const char *path, const struct xbloom_size *asked, const struct plan_layouts *layouts,
	      uint64_t twice);

#endif /* XBLOOM_PLAN_PICTURE_H */
