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

/* Whether a filter under this policy is to exempt what the machine lives by where it is attached. */
bool wants_guard(const struct xbloom *f, uint32_t policy);
/*
 * Exempt what the machine lives by on the devices that f is attached to, as it is now, in the place
 * of what it was; or beside that, and on these devices as well. One that is not there is left to who
 * attaches it.
 */
int guard_anew(struct xbloom *f, struct xbloom_error *err);
int guard_devices(struct xbloom *f, const char *const *devices, size_t n, struct xbloom_error *err);
/* Say how much the guard exempts, if anything. */
int say_guard(const struct xbloom *f, struct xbloom_error *err);

/* Of a change that failed: all is exempt again that was. The first error is the one to tell. */
void take_back_exemptions(struct xbloom *f, const struct xbloom_exemption *old, size_t n);

/* All of IPv4 may be exempt, but not unnoticed. */
void warn_of_everything(const struct xbloom_exemption *v, size_t n);

/*
 * What devices leave behind in the guards of the filters on them: look before they are detached,
 * then forget after that, which cannot fail: what stays exempt is said.
 */
struct leaving;
int leaving_look(const char *const *devices, size_t n, struct leaving **out,
		 struct xbloom_error *err);
void leaving_forget(const struct leaving *l);
void leaving_free(struct leaving *l);

/* A line on stderr for each special range that a list touches; or the same as an array. */
void warn_of_special(const struct xbloom_special *s);
struct json_object *special_json(const struct xbloom_special *s);

#endif /* XBLOOM_EXEMPTIONS_H */
