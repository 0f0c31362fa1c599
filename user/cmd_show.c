// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom show: everything a filter says of itself. The secret is not part of it.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define HASH_NAME "siphash-1-3"

static const struct option options[] = { COMMON_OPTIONS };

/* ---- JSON ---- */

static struct json_object *unkeyed_json(uint32_t unkeyed_drop)
{
	struct json_object *o = json_object_new_object();
	uint32_t r;

	for (r = XBLOOM_UNKEYED_FIRST; r <= XBLOOM_UNKEYED_LAST; r++)
		json_add(o, xbloom_reason_name(r),
			 json_object_new_string(unkeyed_drop >> r & 1 ? "drop" : "pass"));
	return o;
}

static struct json_object *counters_json(const struct xbloom_stats *stats)
{
	struct xbloom_named_counter named[XBLOOM_NAMED_COUNTERS];
	struct json_object *o = json_object_new_object();
	size_t i;

	xbloom_stats_named(stats, named);
	for (i = 0; i < XBLOOM_NAMED_COUNTERS; i++) {
		struct json_object *c = json_object_new_object();

		json_add(c, "packets", json_u64(named[i].value.packets));
		json_add(c, "bytes", json_u64(named[i].value.bytes));
		json_add(o, named[i].name, c);
	}
	return o;
}

struct json_object *filter_json(struct xbloom *f, struct xbloom_error *err)
{
	const struct xbloom_geometry *g = xbloom_geometry(f);
	const struct xbloom_meta *m = xbloom_meta(f);
	struct xbloom_device *devices = NULL;
	char fields[XBLOOM_FIELDS_TEXT];
	struct xbloom_gauge gauge;
	struct xbloom_rules rules;
	struct xbloom_stats stats;
	struct json_object *o;
	size_t n;

	if (xbloom_stats(f, &stats, err) || xbloom_devices(f, &devices, &n, err))
		return NULL;
	xbloom_gauge(f, &gauge);
	xbloom_rules(f, &rules);
	o = json_object_new_object();
	json_add(o, "name", json_object_new_string(m->name));
	json_add(o, "layout", json_object_new_string(layout_name(g->layout)));
	json_add(o, "hash", json_object_new_string(HASH_NAME));
	json_add(o, "k", json_u64(g->k));
	json_add(o, "blocks", json_u64(g->blocks));
	json_add(o, "bits", json_u64(g->bits));
	json_add(o, "bytes", json_u64(g->blocks * XBLOOM_BLOCK_BYTES));
	json_add(o, "bits_per_key", json_number((double)g->bits / (double)m->capacity));
	json_add(o, "key", json_object_new_string(xbloom_fields_text(rules.fields, fields)));
	json_add(o, "policy", json_object_new_string(policy_name(rules.policy)));
	json_add(o, "confirm", json_object_new_boolean(false));
	json_add(o, "shadow", json_object_new_boolean(rules.shadow));
	json_add(o, "unkeyed", unkeyed_json(rules.unkeyed_drop));
	json_add(o, "generation", json_u64(m->generation));
	json_add(o, "created", json_u64(m->created));
	json_add(o, "capacity", json_u64(m->capacity));
	json_add(o, "inserted", json_u64(m->inserted));
	json_add(o, "estimated", json_number(round(gauge.estimated)));
	json_add(o, "load", json_number(gauge.load));
	json_add(o, "alarm", json_object_new_string(xbloom_alarm(f)));
	json_add(o, "fp_target", json_number((double)m->fp_target_femto / XBLOOM_FEMTO));
	json_add(o, "fp_predicted", json_number(gauge.fp_predicted));
	json_add(o, "devices", devices_json(devices, n));
	json_add(o, "counters", counters_json(&stats));
	free(devices);
	return o;
}

/* ---- text ---- */

static void print_devices(const struct xbloom_device *devices, size_t n)
{
	char trial[HUMAN_TEXT];
	size_t i;

	printf("  devices   ");
	if (!n)
		printf("none");
	for (i = 0; i < n; i++)
		printf("%s%s (%s%s)", i ? ", " : "", devices[i].name,
		       xbloom_mode_name(devices[i].mode), trial_text(&devices[i], trial));
	printf("\n");
}

/* The counters that are not zero, and always those that answer the main question. */
static void print_counters(const struct xbloom_stats *stats)
{
	struct xbloom_named_counter named[XBLOOM_NAMED_COUNTERS];
	char packets[HUMAN_TEXT], bytes[HUMAN_TEXT];
	size_t i;

	xbloom_stats_named(stats, named);
	printf("  %-10s %20s  %s\n", "packets", "", "bytes");
	for (i = 0; i < XBLOOM_NAMED_COUNTERS; i++) {
		bool always = i == XBLOOM_ABSENT || i == XBLOOM_MAYBE || i >= XBLOOM_REASONS;

		if (always || named[i].value.packets)
			printf("    %-10s %18s  %s\n", named[i].name,
			       human_count(named[i].value.packets, packets),
			       human_bytes(named[i].value.bytes, bytes));
	}
}

static int print_filter(struct xbloom *f, struct xbloom_error *err)
{
	char inserted[HUMAN_TEXT], capacity[HUMAN_TEXT], estimated[HUMAN_TEXT], bytes[HUMAN_TEXT];
	char rate[HUMAN_TEXT], target[HUMAN_TEXT], blocks[HUMAN_TEXT], fields[XBLOOM_FIELDS_TEXT];
	char unkeyed[UNKEYED_TEXT];
	const struct xbloom_geometry *g = xbloom_geometry(f);
	const struct xbloom_meta *m = xbloom_meta(f);
	struct xbloom_device *devices = NULL;
	struct xbloom_gauge gauge;
	struct xbloom_rules rules;
	struct xbloom_stats stats;
	size_t n;

	if (xbloom_stats(f, &stats, err) || xbloom_devices(f, &devices, &n, err))
		return -1;
	xbloom_gauge(f, &gauge);
	xbloom_rules(f, &rules);
	printf("%s: %s by %s%s\n", m->name, policy_name(rules.policy),
	       xbloom_fields_text(rules.fields, fields),
	       rules.shadow ? ", in shadow (drops nothing)" : "");
	printf("  filter    %s, %s in %s blocks, k %u, %s, generation %u\n", layout_name(g->layout),
	       human_bytes(g->blocks * XBLOOM_BLOCK_BYTES, bytes), human_count(g->blocks, blocks),
	       g->k, HASH_NAME, m->generation);
	printf("  load      %.1f %%, %s: %s adds changed a bit, sized for %s keys; by the bits "
	       "about %s\n",
	       gauge.load * 100, xbloom_alarm(f), human_count(m->inserted, inserted),
	       human_count(m->capacity, capacity),
	       isfinite(gauge.estimated) ? human_count((uint64_t)round(gauge.estimated), estimated)
					 : "more than can be told");
	printf("  rate      %s of absent keys are called maybe; target %s\n",
	       human_rate(gauge.fp_predicted, rate),
	       human_rate((double)m->fp_target_femto / XBLOOM_FEMTO, target));
	printf("  unkeyed   %s\n", unkeyed_text(rules.unkeyed_drop, unkeyed));
	print_devices(devices, n);
	print_counters(&stats);
	free(devices);
	return 0;
}

/* ---- one and all ---- */

static int show_one(const char *name, bool json)
{
	struct xbloom_error err = { "" };
	struct json_object *o = NULL;
	struct xbloom *f = NULL;
	int ret = xbloom_open(name, 0, cli_options(), &f, &err);

	if (ret)
		return fail_err(&err);
	if (json)
		o = filter_json(f, &err);
	else
		ret = print_filter(f, &err);
	xbloom_close(f);
	if (ret || (json && !o))
		return fail_err(&err);
	if (json)
		print_json(o);
	return EXIT_DONE;
}

/* False: the filter cannot be opened, and the object says why. */
static bool add_to_all(struct json_object *array, const char *name)
{
	struct xbloom_error err = { "" };
	struct json_object *o = NULL;
	struct xbloom *f = NULL;
	bool good;
	int ret = xbloom_open(name, 0, cli_options(), &f, &err);

	/* Destroyed since the names were read. */
	if (ret == -ENOENT)
		return true;
	if (!ret)
		o = filter_json(f, &err);
	xbloom_close(f);
	good = o;
	if (!o) {
		o = json_object_new_object();
		json_add(o, "name", json_object_new_string(name));
		json_add(o, "error", json_object_new_string(err.text));
	}
	json_object_array_add(array, o);
	return good;
}

static bool print_row(const char *name)
{
	char inserted[HUMAN_TEXT], bytes[HUMAN_TEXT], rate[HUMAN_TEXT], fields[XBLOOM_FIELDS_TEXT];
	struct xbloom_error err = { "" };
	struct xbloom_device *devices = NULL;
	struct xbloom_gauge gauge;
	struct xbloom_rules rules;
	struct xbloom *f = NULL;
	size_t i, n = 0;
	int ret;

	ret = xbloom_open(name, 0, cli_options(), &f, &err);
	if (ret == -ENOENT) /* destroyed since the names were read */
		return true;
	if (ret) {
		printf("%-16s %s\n", name, err.text);
		return false;
	}
	xbloom_gauge(f, &gauge);
	xbloom_rules(f, &rules);
	printf("%-16s %-6s %-10s %13s %11s %10s %-5s", name, policy_name(rules.policy),
	       xbloom_fields_text(rules.fields, fields),
	       human_count(xbloom_meta(f)->inserted, inserted),
	       human_bytes(xbloom_geometry(f)->blocks * XBLOOM_BLOCK_BYTES, bytes),
	       human_rate(gauge.fp_predicted, rate), xbloom_alarm(f));
	if (!xbloom_devices(f, &devices, &n, &err))
		for (i = 0; i < n; i++)
			printf(" %s%s", devices[i].name, devices[i].trial ? " (trial)" : "");
	printf("%s\n", rules.shadow ? " (shadow)" : "");
	free(devices);
	xbloom_close(f);
	return true;
}

static int show_all(bool json)
{
	struct json_object *o = json_object_new_object();
	struct json_object *array = json_object_new_array();
	struct xbloom_error err = { "" };
	char **names;
	size_t i, n, damaged = 0;

	json_add(o, "filters", array);
	if (xbloom_names(&names, &n, &err)) {
		json_object_put(o);
		return fail_err(&err);
	}
	if (!json && n)
		printf("%-16s %-6s %-10s %13s %11s %10s %-5s %s\n", "NAME", "POLICY", "KEY", "KEYS",
		       "MEMORY", "RATE", "LOAD", "DEVICES");
	else if (!json)
		printf("there are no filters (xdp-bloom create makes one)\n");
	for (i = 0; i < n; i++) {
		if (!(json ? add_to_all(array, names[i]) : print_row(names[i])))
			damaged++;
	}
	xbloom_names_free(names, n);
	if (json)
		print_json(o);
	else
		json_object_put(o);
	return damaged ? fail("%zu of %zu filters cannot be opened", damaged, n) : EXIT_DONE;
}

static int run(int argc, char **argv)
{
	bool json = false;
	int c;

	while ((c = next_option(&verb_show, argc, argv, options)) != -1) {
		if (c != OPT_JSON)
			return EXIT_FAILED;
		json = true;
	}
	if (argc - optind > 1)
		return fail("show takes the name of one filter, or none for all (xdp-bloom show "
			    "--help)");
	return optind < argc ? show_one(argv[optind], json) : show_all(json);
}

const struct verb verb_show = {
	.name = "show",
	.summary = "size, load, error rate, devices and counters of filters",
	.help = "usage: xdp-bloom show [NAME]\n"
		"\n"
		"Without a name, a line for each filter; --json then gives {\"filters\": [...]}.\n"
		"\n"
		"  --json  one JSON object\n",
	.run = run,
};
