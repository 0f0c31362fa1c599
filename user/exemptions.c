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

int guard_devices(struct xbloom *f, const char *const *devices, size_t n, struct xbloom_error *err)
{
	struct xbloom_device *attached = NULL;
	unsigned int *ifindexes;
	size_t n_attached = 0, i, all = 0;
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
	ret = xbloom_guard(f, ifindexes, all, err);
	free(ifindexes);
	free(attached);
	return ret;
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
