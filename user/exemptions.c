// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is never dropped, and what a list had better not hold, in words.
 */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "exemptions.h"

static const struct {
	uint32_t bit;
	const char *name;
} reasons[] = {
	{ XBLOOM_EXEMPT_USER, "exempt" },
	{ XBLOOM_EXEMPT_OWN, "own" },
	{ XBLOOM_EXEMPT_GATEWAY, "gateway" },
	{ XBLOOM_EXEMPT_RESOLVER, "resolver" },
};
#define REASONS (sizeof(reasons) / sizeof(reasons[0]))

int print_exemptions(const struct xbloom *f, struct xbloom_error *err)
{
	struct xbloom_exemption *v;
	char text[XBLOOM_EXEMPTION_TEXT];
	size_t n, i, r;
	int ret = xbloom_exempt_list(f, &v, &n, err);

	if (ret)
		return ret;
	for (i = 0; i < n; i++) {
		printf("%s", xbloom_exemption_text(&v[i], text));
		for (r = 0; r < REASONS; r++)
			if (v[i].why & reasons[r].bit)
				printf(" %s", reasons[r].name);
		printf("\n");
	}
	free(v);
	return 0;
}

struct json_object *exemptions_json(const struct xbloom *f, struct xbloom_error *err)
{
	struct json_object *array;
	struct xbloom_exemption *v;
	char text[XBLOOM_EXEMPTION_TEXT];
	size_t n, i, r;

	if (xbloom_exempt_list(f, &v, &n, err))
		return NULL;
	array = json_object_new_array();
	for (i = 0; i < n; i++) {
		struct json_object *o = json_object_new_object();
		struct json_object *why = json_object_new_array();

		json_add(o, "prefix", json_object_new_string(xbloom_exemption_text(&v[i], text)));
		for (r = 0; r < REASONS; r++)
			if (v[i].why & reasons[r].bit)
				json_object_array_add(why, json_object_new_string(reasons[r].name));
		json_add(o, "why", why);
		json_object_array_add(array, o);
	}
	free(v);
	return array;
}

int count_exemptions(const struct xbloom *f, size_t *user, size_t *guard, struct xbloom_error *err)
{
	struct xbloom_exemption *v;
	size_t n, i;
	int ret = xbloom_exempt_list(f, &v, &n, err);

	*user = *guard = 0;
	if (ret)
		return ret;
	for (i = 0; i < n; i++) {
		*user += !!(v[i].why & XBLOOM_EXEMPT_USER);
		*guard += !!(v[i].why & XBLOOM_EXEMPT_GUARD);
	}
	free(v);
	return 0;
}

/* ---- the guard ---- */

bool wants_guard(const struct xbloom *f, uint32_t policy)
{
	struct xbloom_rules rules;

	xbloom_rules(f, &rules);
	return xbloom_meta(f)->guard && policy == XBLOOM_POLICY_BLOCK &&
	       rules.fields & XBLOOM_FIELDS_ADDR;
}

/* The devices that f is attached to, and these. Free *out with free(). */
static int all_devices(const struct xbloom *f, const char *const *devices, size_t n,
		       unsigned int **out, size_t *n_out, struct xbloom_error *err)
{
	struct xbloom_device *attached = NULL;
	size_t n_attached = 0, i, all = 0;
	unsigned int *ifindexes;
	int ret = xbloom_devices(f, &attached, &n_attached, err);

	if (ret)
		return ret;
	ifindexes = calloc(n + n_attached + 1, sizeof(*ifindexes));
	if (!ifindexes) {
		free(attached);
		snprintf(err->text, sizeof(err->text), "out of memory");
		return -1;
	}
	for (i = 0; i < n; i++) {
		ifindexes[all] = if_nametoindex(devices[i]);
		all += ifindexes[all] != 0;
	}
	for (i = 0; i < n_attached; i++)
		ifindexes[all++] = attached[i].ifindex;
	free(attached);
	*out = ifindexes;
	*n_out = all;
	return 0;
}

int guard_anew(struct xbloom *f, struct xbloom_error *err)
{
	unsigned int *ifindexes = NULL;
	size_t n;
	int ret = all_devices(f, NULL, 0, &ifindexes, &n, err);

	if (!ret)
		ret = xbloom_guard(f, ifindexes, n, err);
	free(ifindexes);
	return ret;
}

int guard_devices(struct xbloom *f, const char *const *devices, size_t n, struct xbloom_error *err)
{
	unsigned int *ifindexes = NULL;
	size_t n_all;
	int ret = all_devices(f, devices, n, &ifindexes, &n_all, err);

	if (!ret && n_all)
		ret = xbloom_guard_more(f, ifindexes, n_all, err);
	free(ifindexes);
	return ret;
}

int say_guard(const struct xbloom *f, struct xbloom_error *err)
{
	size_t user, guard;
	int ret = count_exemptions(f, &user, &guard, err);

	if (!ret && guard)
		say("%zu address%s that this machine lives by %s exempt (show %s --exempt)", guard,
		    guard == 1 ? "" : "es", guard == 1 ? "is" : "are", xbloom_meta(f)->name);
	return ret;
}

void take_back_exemptions(struct xbloom *f, const struct xbloom_exemption *old, size_t n)
{
	struct xbloom_error ignored;

	xbloom_exempt_replace(f, XBLOOM_EXEMPT_USER | XBLOOM_EXEMPT_GUARD, old, n, &ignored);
}

void warn_of_everything(const struct xbloom_exemption *v, size_t n)
{
	char text[XBLOOM_EXEMPTION_TEXT];
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(xbloom_exemption_text(&v[i], text), "0.0.0.0/0"))
			break;
	if (i < n)
		say("warning: 0.0.0.0/0 is exempt: no IPv4 packet will be dropped");
}

/* ---- devices that leave ---- */

struct leaving {
	unsigned int *gone;
	size_t n_gone;
	char **filters; /* all there are */
	bool *left;	/* which of them one of the devices leaves, and has a guard */
	size_t n_filters;
};

/* A filter that cannot be opened has no say in whether its devices can be detached. */
static bool has_something_of(const char *name, const struct leaving *l)
{
	struct xbloom_device *devices = NULL;
	struct xbloom_error ignored;
	struct xbloom *f = NULL;
	size_t n = 0, i, g, user, guard = 0;
	bool found = false;

	if (!xbloom_open(name, 0, cli_options(), &f, &ignored) &&
	    !count_exemptions(f, &user, &guard, &ignored) && guard &&
	    !xbloom_devices(f, &devices, &n, &ignored))
		for (i = 0; i < n; i++)
			for (g = 0; g < l->n_gone; g++)
				found |= devices[i].ifindex == l->gone[g];
	free(devices);
	xbloom_close(f);
	return found;
}

int leaving_look(const char *const *devices, size_t n, struct leaving **out,
		 struct xbloom_error *err)
{
	struct leaving *l = calloc(1, sizeof(*l));
	size_t i;

	if (l)
		l->gone = calloc(n + 1, sizeof(*l->gone));
	if (!l || !l->gone)
		goto out_of_memory;
	for (i = 0; i < n; i++) {
		l->gone[l->n_gone] = if_nametoindex(devices[i]);
		l->n_gone += l->gone[l->n_gone] != 0;
	}
	if (xbloom_names(&l->filters, &l->n_filters, err))
		l->n_filters = 0;
	l->left = calloc(l->n_filters + 1, sizeof(*l->left));
	if (!l->left)
		goto out_of_memory;
	for (i = 0; i < l->n_filters; i++)
		l->left[i] = has_something_of(l->filters[i], l);
	*out = l;
	return 0;

out_of_memory:
	leaving_free(l);
	snprintf(err->text, sizeof(err->text), "out of memory");
	return -1;
}

static void forget(const char *name, const struct leaving *l)
{
	struct xbloom_error err = { "" };
	unsigned int *stay = NULL;
	struct xbloom *f = NULL;
	size_t n = 0;
	int ret = xbloom_open(name, XBLOOM_OPEN_WRITE, cli_options(), &f, &err);

	if (!ret)
		ret = all_devices(f, NULL, 0, &stay, &n, &err);
	if (!ret)
		ret = xbloom_guard_less(f, l->gone, l->n_gone, stay, n, &err);
	if (ret)
		say("what the guard of %s exempts stays as it was: %s", name, err.text);
	free(stay);
	xbloom_close(f);
}

void leaving_forget(const struct leaving *l)
{
	size_t i;

	for (i = 0; i < l->n_filters; i++)
		if (l->left[i])
			forget(l->filters[i], l);
}

void leaving_free(struct leaving *l)
{
	if (!l)
		return;
	if (l->filters)
		xbloom_names_free(l->filters, l->n_filters);
	free(l->left);
	free(l->gone);
	free(l);
}

/* ---- special ranges ---- */

void warn_of_special(const struct xbloom_special *s)
{
	struct xbloom_special_range r;
	char n[HUMAN_TEXT];
	size_t i;

	for (i = 0; s && xbloom_special_range(s, i, &r); i++)
		if (r.entries)
			say("warning: the list covers %s (%s): %s entr%s", r.range, r.name,
			    human_count(r.entries, n), r.entries == 1 ? "y" : "ies");
}

struct json_object *special_json(const struct xbloom_special *s)
{
	struct json_object *array = json_object_new_array();
	struct xbloom_special_range r;
	size_t i;

	for (i = 0; s && xbloom_special_range(s, i, &r); i++) {
		struct json_object *o;

		if (!r.entries)
			continue;
		o = json_object_new_object();
		json_add(o, "range", json_object_new_string(r.range));
		json_add(o, "name", json_object_new_string(r.name));
		json_add(o, "entries", json_u64(r.entries));
		json_object_array_add(array, o);
	}
	return array;
}
