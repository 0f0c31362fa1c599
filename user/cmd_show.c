// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom show: everything a filter says of itself. The secret is not part of it.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exemptions.h"
#include "rates.h"

/* So wide that a line of 80 columns has room for what stands beside the bar. */
#define LOAD_CELLS 40
#define HASH_NAME "siphash-1-3"

enum { OPT_EXEMPT = OPT_FIRST };

static const struct option options[] = {
	{ "exempt", no_argument, NULL, OPT_EXEMPT },
	COMMON_OPTIONS,
};

/* What there is to say of a filter beyond its record. */
struct picture {
	struct xbloom_gauge gauge;
	struct xbloom_rules rules;
	struct xbloom_stats stats;
	struct xbloom_live live;
	struct xbloom_prefix_state prefixes;
	uint64_t exact_keys, exact_bytes;
	struct xbloom_device *devices; /* free() */
	size_t n_devices;
};

static int look(const struct xbloom *f, struct picture *p, struct xbloom_error *err)
{
	int ret;

	*p = (struct picture){ 0 };
	ret = xbloom_stats(f, &p->stats, err);
	if (!ret)
		ret = xbloom_devices(f, &p->devices, &p->n_devices, err);
	if (ret)
		return ret;
	xbloom_gauge(f, &p->gauge);
	xbloom_rules(f, &p->rules);
	xbloom_live(&p->stats, &p->live);
	xbloom_prefix_state(f, &p->prefixes);
	p->exact_keys = xbloom_exact(f, &p->exact_bytes);
	return 0;
}

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

static struct json_object *prefixes_json(const struct xbloom_prefix_state *p)
{
	struct json_object *o = json_object_new_object();
	struct json_object *plens6 = json_object_new_array();
	unsigned int i;

	for (i = 0; i < p->n_plens6; i++)
		json_object_array_add(plens6, json_u64(p->plens6[i]));
	json_add(o, "nets4", json_u64(p->nets4));
	json_add(o, "nets4_bytes", json_u64(p->nets4_bytes));
	json_add(o, "plens6", plens6);
	return o;
}

static void add_ttl(struct json_object *o, const struct xbloom *f)
{
	struct json_object *arrays = json_object_new_array();
	struct xbloom_ttl_state t;
	unsigned int i;

	xbloom_ttl(f, &t);
	json_add(o, "ttl", json_number(t.ttl));
	json_add(o, "lives", json_u64(t.lives));
	for (i = 0; i < t.lives; i++) {
		struct json_object *one = json_object_new_object();

		json_add(one, "current", json_object_new_boolean(i == t.current));
		json_add(one, "inserted", json_u64(t.array[i].inserted));
		json_add(one, "expires_in", json_number(t.array[i].expires_in));
		json_object_array_add(arrays, one);
	}
	json_add(o, "arrays", arrays);
}

struct json_object *filter_json(struct xbloom *f, struct xbloom_error *err)
{
	const struct xbloom_geometry *g = xbloom_geometry(f);
	const struct xbloom_meta *m = xbloom_meta(f);
	char fields[XBLOOM_FIELDS_TEXT];
	struct json_object *o;
	struct picture p;

	if (look(f, &p, err))
		return NULL;
	o = json_object_new_object();
	json_add(o, "name", json_object_new_string(m->name));
	json_add(o, "layout", json_object_new_string(layout_name(g->layout)));
	json_add(o, "hash", json_object_new_string(HASH_NAME));
	json_add(o, "k", json_u64(g->k));
	json_add(o, "blocks", json_u64(g->blocks));
	json_add(o, "bits", json_u64(g->bits));
	json_add(o, "bytes", json_u64(g->blocks * XBLOOM_BLOCK_BYTES));
	json_add(o, "bits_per_key", json_number((double)g->bits / (double)m->capacity));
	json_add(o, "key", json_object_new_string(xbloom_fields_text(p.rules.fields, fields)));
	json_add(o, "policy", json_object_new_string(policy_name(p.rules.policy)));
	json_add(o, "confirm", json_object_new_boolean(p.rules.confirm));
	json_add(o, "exact_keys", json_u64(p.exact_keys));
	json_add(o, "exact_bytes", json_u64(p.exact_bytes));
	json_add(o, "shadow", json_object_new_boolean(p.rules.shadow));
	json_add(o, "unkeyed", unkeyed_json(p.rules.unkeyed_drop));
	add_ttl(o, f);
	json_add(o, "guard", json_object_new_boolean(m->guard));
	json_add(o, "generation", json_u64(m->generation));
	json_add(o, "created", json_u64(m->created));
	json_add(o, "capacity", json_u64(m->capacity));
	json_add(o, "inserted", json_u64(xbloom_inserted(f)));
	json_add(o, "estimated", json_number(round(p.gauge.estimated)));
	json_add(o, "load", json_number(p.gauge.load));
	json_add(o, "alarm", json_object_new_string(xbloom_alarm(f)));
	json_add(o, "alarm_percent", json_u64(m->alarm_percent));
	json_add(o, "fp_target", json_number((double)m->fp_target_femto / XBLOOM_FEMTO));
	json_add(o, "fp_predicted", json_number(p.gauge.fp_predicted));
	json_add(o, "fp_look", json_number(p.gauge.fp_look));
	json_add(o, "fp_ipv4", json_number(p.gauge.fp_v4));
	json_add(o, "fp_ipv6", json_number(p.gauge.fp_v6));
	json_add(o, "prefixes", prefixes_json(&p.prefixes));
	json_add(o, "fp_live", p.rules.confirm ? json_number(p.live.fp) : NULL);
	json_add(o, "absent_share", json_number(p.live.absent_share));
	json_add(o, "ceremony", json_object_new_boolean(p.live.ceremony));
	json_add(o, "sample", json_u64(p.rules.sample));
	json_add(o, "samples", json_u64(p.stats.samples));
	json_add(o, "samples_lost", json_u64(p.stats.samples_lost));
	json_add(o, "devices", devices_json(p.devices, p.n_devices));
	json_add(o, "counters", counters_json(&p.stats));
	free(p.devices);
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

/* How full it is: the bar, the keys by two accounts, and what that makes of the rate. */
static void print_gauge(const struct xbloom *f, const struct xbloom_gauge *gauge)
{
	char inserted[HUMAN_TEXT], capacity[HUMAN_TEXT], estimated[HUMAN_TEXT], rate[HUMAN_TEXT];
	char target[HUMAN_TEXT], bar[BAR_TEXT];
	const struct xbloom_meta *m = xbloom_meta(f);
	const char *alarm = xbloom_alarm(f), *on = alarm_colour(alarm), *off = colour_off();
	double percent = load_percent(gauge->load, alarm, m->alarm_percent, LOAD_TENTHS);

	printf("  load      %s%s%s %s%.1f %%, %s%s%s", on,
	       bar_text(percent / 100, m->alarm_percent, LOAD_CELLS, bar), off,
	       isfinite(gauge->estimated) ? "" : "more than ", percent, on, alarm, off);
	if (!strcmp(alarm, "ok"))
		printf(" below %u %%", m->alarm_percent);
	printf("\n  keys      %s adds changed a bit, sized for %s\n",
	       human_count(xbloom_inserted(f), inserted), human_count(m->capacity, capacity));
	if (isfinite(gauge->estimated))
		printf("            about %s distinct keys by the bits\n",
		       human_count((uint64_t)round(gauge->estimated), estimated));
	else
		printf("            all bits are set: how many distinct keys they hold cannot be "
		       "told\n");
	printf("  rate      %s of absent keys are called maybe; target %s\n",
	       human_rate(gauge->fp_predicted, rate),
	       human_rate((double)m->fp_target_femto / XBLOOM_FEMTO, target));
}

/* What prefixes became, and what that costs a packet; nothing of a filter without any. */
static void print_prefixes(const struct picture *p)
{
	const struct xbloom_prefix_state *s = &p->prefixes;
	char nets[HUMAN_TEXT], bytes[HUMAN_TEXT], rate4[HUMAN_TEXT], rate6[HUMAN_TEXT];
	unsigned int i;

	if (!s->nets4_bytes && s->n_plens6 <= 1)
		return;
	printf("  prefixes  ");
	if (s->nets4_bytes)
		printf("%s /24%s in an exact map of %s%s", human_count(s->nets4, nets),
		       s->nets4 == 1 ? "" : "s", human_bytes(s->nets4_bytes, bytes),
		       s->n_plens6 > 1 ? "\n            " : ": a look-up more for IPv4 packets\n");
	if (s->n_plens6 <= 1)
		return;
	printf("IPv6 asked for under");
	for (i = 0; i < s->n_plens6; i++)
		printf("%s /%u", i ? "," : "", s->plens6[i]);
	printf(": %u look-ups a packet\n", s->n_plens6);
	printf("            rate of IPv4 packets %s, of IPv6 packets %s\n",
	       human_rate(p->gauge.fp_v4, rate4), human_rate(p->gauge.fp_v6, rate6));
}

/* The rate once more, by packets whose answer was checked, and what checking costs. */
static void print_exact(const struct picture *p)
{
	char measured[HUMAN_TEXT], predicted[HUMAN_TEXT], worst[HUMAN_TEXT];
	char keys[HUMAN_TEXT], bytes[HUMAN_TEXT];

	if (!p->rules.confirm)
		return;
	if (isnan(p->live.fp))
		printf("  live rate no packet yet that is not listed\n");
	else
		printf("  live rate %s of the packets not listed were called maybe; predicted "
		       "%s%s%s\n",
		       human_rate(p->live.fp, measured), human_rate(p->gauge.fp_v4, predicted),
		       p->gauge.fp_v6 == p->gauge.fp_v4 ? "" : " to ",
		       p->gauge.fp_v6 == p->gauge.fp_v4 ? "" : human_rate(p->gauge.fp_v6, worst));
	printf("  exact map room for %s keys, %s\n", human_count(p->exact_keys, keys),
	       human_bytes(p->exact_bytes, bytes));
}

/* What the traffic asked, and whether asking was worth it. */
static void print_traffic(const struct picture *p)
{
	uint64_t would_drop = 0;
	char packets[HUMAN_TEXT];
	unsigned int r;

	if (!p->live.asked)
		printf("  traffic   no packet has asked yet\n");
	else
		printf("  traffic   absent share %.2f %% of %s packets asked\n",
		       p->live.absent_share * 100, human_count(p->live.asked, packets));
	if (p->live.ceremony)
		printf("            %sonly %.2f %% of the packets asked are absent: below %.0f %% "
		       "a Bloom\n"
		       "            filter gains little over an exact look-up of each%s\n",
		       loud(), p->live.absent_share * 100, XBLOOM_CEREMONY_SHARE * 100,
		       colour_off());
	for (r = 0; r < XBLOOM_REASONS; r++)
		would_drop += p->stats.c[r][XBLOOM_WOULD_DROP].packets;
	if (would_drop)
		printf("  shadow    %s%s packets passed that would have been dropped%s\n", loud(),
		       human_count(would_drop, packets), colour_off());
}

static void print_samples(const struct picture *p)
{
	char n[HUMAN_TEXT], samples[HUMAN_TEXT], lost[HUMAN_TEXT];
	const struct xbloom_stats *stats = &p->stats;

	if (!p->rules.sample && !stats->samples && !stats->samples_lost)
		return;
	if (p->rules.sample)
		printf("  sampling  1/%s of the packets asked: ", human_count(p->rules.sample, n));
	else
		printf("  sampling  off: ");
	printf("%s samples, %s%s lost%s\n", human_count(stats->samples, samples),
	       stats->samples_lost ? loud() : "", human_count(stats->samples_lost, lost),
	       stats->samples_lost ? colour_off() : "");
}

static void print_exempt(const struct xbloom *f)
{
	struct xbloom_error ignored;
	size_t user, guard;

	if (!count_exemptions(f, &user, &guard, &ignored) && (user || guard))
		printf("  exempt    %zu by --exempt, %zu by the guard (show %s --exempt)\n", user,
		       guard, xbloom_meta(f)->name);
}

static void print_ttl(const struct xbloom *f)
{
	char least[HUMAN_TEXT], most[HUMAN_TEXT], turn[HUMAN_TEXT], n[HUMAN_TEXT], left[HUMAN_TEXT];
	struct xbloom_ttl_state t;
	unsigned int i;

	xbloom_ttl(f, &t);
	if (!t.lives)
		return;
	printf("  ttl       keys leave after %s to %s; array %u of %u takes keys for another %s\n",
	       human_time(t.ttl, least), human_time(t.longest, most), t.current + 1, t.lives,
	       human_time(t.turn_in, turn));
	for (i = 0; i < t.lives; i++)
		if (t.array[i].expires_in > 0 && i != t.current)
			printf("            array %u: %s keys, which leave in %s\n", i + 1,
			       human_count(t.array[i].inserted, n),
			       human_time(t.array[i].expires_in, left));
}

static int print_filter(struct xbloom *f, struct xbloom_error *err)
{
	char bytes[HUMAN_TEXT], blocks[HUMAN_TEXT], fields[XBLOOM_FIELDS_TEXT];
	const struct xbloom_geometry *g = xbloom_geometry(f);
	const struct xbloom_meta *m = xbloom_meta(f);
	char unkeyed[UNKEYED_TEXT];
	struct picture p;

	if (look(f, &p, err))
		return -1;
	printf("%s: %s by %s%s", m->name, policy_name(p.rules.policy),
	       xbloom_fields_text(p.rules.fields, fields),
	       p.rules.confirm ? ", confirmed by an exact map" : "");
	if (p.rules.shadow)
		printf(", %sin shadow (drops nothing)%s", loud(), colour_off());
	printf("\n  filter    %s, %s in %s blocks, k %u, %s, generation %u\n",
	       layout_name(g->layout), human_bytes(g->blocks * XBLOOM_BLOCK_BYTES, bytes),
	       human_count(g->blocks, blocks), g->k, HASH_NAME, m->generation);
	print_gauge(f, &p.gauge);
	print_prefixes(&p);
	print_exact(&p);
	print_traffic(&p);
	print_samples(&p);
	print_ttl(f);
	print_exempt(f);
	printf("  unkeyed   %s\n", unkeyed_text(p.rules.unkeyed_drop, unkeyed));
	print_devices(p.devices, p.n_devices);
	print_counters(&p.stats);
	free(p.devices);
	return 0;
}

/* ---- one and all ---- */

/* show NAME --exempt */
static int show_exempt(const char *name, bool json)
{
	struct json_object *o = NULL, *list = NULL;
	struct xbloom_error err = { "" };
	struct xbloom *f = NULL;
	int ret = xbloom_open(name, 0, cli_options(), &f, &err);

	if (ret)
		return fail_err(&err);
	if (!json) {
		ret = print_exemptions(f, &err);
	} else {
		list = exemptions_json(f, &err);
		ret = list ? 0 : -1;
	}
	if (!ret && json) {
		o = json_object_new_object();
		json_add(o, "name", json_object_new_string(name));
		json_add(o, "guard", json_object_new_boolean(xbloom_meta(f)->guard));
		json_add(o, "exempt", list);
		print_json(o);
	}
	xbloom_close(f);
	return ret ? fail_err(&err) : EXIT_DONE;
}

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
	const char *alarm;
	size_t i, n = 0;
	int ret;

	ret = xbloom_open(name, 0, cli_options(), &f, &err);
	if (ret == -ENOENT) /* destroyed since the names were read */
		return true;
	if (ret) {
		printf("%-11s %s\n", name, err.text);
		return false;
	}
	xbloom_gauge(f, &gauge);
	xbloom_rules(f, &rules);
	alarm = xbloom_alarm(f);
	printf("%-11s %-6s %-9s %11s %10s %9s %3.0f %% %s%-4s%s", name, policy_name(rules.policy),
	       xbloom_fields_text(rules.fields, fields), human_count(xbloom_inserted(f), inserted),
	       human_bytes(xbloom_geometry(f)->blocks * XBLOOM_BLOCK_BYTES, bytes),
	       human_rate(gauge.fp_predicted, rate),
	       load_percent(gauge.load, alarm, xbloom_meta(f)->alarm_percent, LOAD_WHOLE),
	       alarm_colour(alarm), alarm, colour_off());
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
		printf("%-11s %-6s %-9s %11s %10s %9s %10s %s\n", "NAME", "POLICY", "KEY", "KEYS",
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
	bool json = false, exempt = false;
	int c;

	while ((c = next_option(&verb_show, argc, argv, options)) != -1) {
		if (c != OPT_JSON && c != OPT_EXEMPT)
			return EXIT_FAILED;
		json |= c == OPT_JSON;
		exempt |= c == OPT_EXEMPT;
	}
	if (argc - optind > 1)
		return fail("show takes the name of one filter, or none for all (xdp-bloom show "
			    "--help)");
	if (exempt && optind == argc)
		return fail("show --exempt needs the name of a filter (xdp-bloom show --help)");
	if (exempt)
		return show_exempt(argv[optind], json);
	return optind < argc ? show_one(argv[optind], json) : show_all(json);
}

const struct verb verb_show = {
	.name = "show",
	.summary = "size, load, error rate, devices and counters of filters",
	.help = "usage: xdp-bloom show [NAME]\n"
		"       xdp-bloom show NAME --exempt\n"
		"\n"
		"Without a name, a line for each filter; --json then gives {\"filters\": [...]}.\n"
		"The bar of load ends at what the filter was sized for; '|' marks where it is "
		"called "
		"high.\n"
		"On a terminal it has colours; NO_COLOR=1 or TERM=dumb in the environment: none.\n"
		"\n"
		"  --exempt  what this filter never drops, and why: exempt (set --exempt), own,\n"
		"            gateway, resolver (the guard of attach)\n"
		"  --json    one JSON object\n",
	.run = run,
};
