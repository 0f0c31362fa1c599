/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Exemptions and the guard, as the verbs share them.
 */
#ifndef XBLOOM_EXEMPTIONS_H
#define XBLOOM_EXEMPTIONS_H

#include "cli.h"

/* One line for each: what is exempt, and why. */
int print_exemptions(const struct xbloom *f, struct xbloom_error *err);
/* [{"prefix": "192.0.2.1", "why": ["gateway"]}]; NULL: *err. */
struct json_object *exemptions_json(const struct xbloom *f, struct xbloom_error *err);
/* How many there are for the user's own sake, and how many for the guard's. */
int count_exemptions(const struct xbloom *f, size_t *user, size_t *guard, struct xbloom_error *err);

/*
 * Exempt what the machine lives by on the devices that f is attached to, and on these as well. One
 * that is not there is left to who attaches it.
 */
int guard_devices(struct xbloom *f, const char *const *devices, size_t n, struct xbloom_error *err);

/* A line on stderr for each special range that a list touches; or the same as an array. */
void warn_of_special(const struct xbloom_special *s);
struct json_object *special_json(const struct xbloom_special *s);

#endif /* XBLOOM_EXEMPTIONS_H */
