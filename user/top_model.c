// SPDX-License-Identifier: GPL-2.0-only
/*
 * What `top` knows of the filters; see top_model.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "top_model.h"

/* ---- one filter ---- */

static void close_filter(struct top_filter *t)
{
	char name[XBLOOM_NAME_MAX];

	xbloom_close(t->f);
	memcpy(name, t->name, sizeof(name));
	memset(t, 0, sizeof(*t));
	memcpy(t->name, name, sizeof(name));
}

static void free_filter(struct top_filter *t)
{
	if (t)
		close_filter(t);
	free(t);
}

/* Its next generation; what was counted goes on, its load is another. */
static int reopen_filter(struct top_filter *t, struct xbloom_error *err)
{
	struct xbloom *next = NULL;
	int ret = xbloom_open(t->name, 0, NULL, &next, err);

	if (ret)
		return ret;
	xbloom_close(t->f);
	t->f = next;
	t->alarm = NULL;
	return 0;
}

static void look_at_load(struct top_filter *t)
{
	unsigned int alarm_percent = xbloom_meta(t->f)->alarm_percent;
	uint64_t inserted = xbloom_inserted(t->f);

	/* Both solve an equation: not without need. */
	if (t->alarm && inserted == t->inserted && alarm_percent == t->alarm_percent)
		return;
	t->inserted = inserted;
	t->alarm_percent = alarm_percent;
	t->load = xbloom_load(t->f);
	t->alarm = xbloom_alarm(t->f);
}

/* Of less time a rate is a matter of chance: then the last one holds. */
#define INTERVAL_SHORTEST 0.1

static int look_at_counters(struct top_filter *t, struct xbloom_error *err)
{
	struct reading reading;
	int ret;

	reading.at = monotonic_now();
	if (t->rated && reading.at - t->last.at < INTERVAL_SHORTEST)
		return 0;
	ret = xbloom_stats(t->f, &reading.stats, err);
	if (ret)
		return ret;
	t->rated = t->read && rates_between(&t->last, &reading, &t->rates);
	t->read = true;
	t->last = reading;
	return 0;
}

/*
 * 0, -ENOENT when there is no filter of this name any more; all else is said in t->broken, and
 * tried again the next time.
 */
static int look_at_filter(struct top_model *m, struct top_filter *t, struct xbloom_error *err)
{
	enum xbloom_presence presence = t->f ? xbloom_presence(t->f) : XBLOOM_GONE;
	int ret = 0;

	/* Destroyed; or destroyed and made anew, which is another filter. */
	if (t->f && presence == XBLOOM_GONE)
		close_filter(t);
	/* A later generation is the same filter, and goes on counting. */
	if (t->f && presence == XBLOOM_REBUILT)
		ret = reopen_filter(t, err);
	if (!t->f && !ret) {
		ret = xbloom_open(t->name, 0, NULL, &t->f, err);
		t->id = ++m->last_id;
	}
	if (!ret)
		ret = look_at_counters(t, err);
	if (ret) {
		close_filter(t);
		t->broken = *err;
		return ret == -ENOENT ? ret : 0;
	}
	t->broken.text[0] = '\0';
	xbloom_rules(t->f, &t->rules);
	look_at_load(t);
	return 0;
}

static void look_at_devices(struct top_filter *t)
{
	struct xbloom_device *devices = NULL;
	struct xbloom_error err = { "" };
	char trial[HUMAN_TEXT];
	size_t i, n, used = 0;

	if (!t->f)
		return;
	if (xbloom_devices(t->f, &devices, &n, &err)) {
		snprintf(t->devices, sizeof(t->devices), "unknown: %.*s", TOP_DEVICES_TEXT / 2,
			 err.text);
		return;
	}
	snprintf(t->devices, sizeof(t->devices), "none");
	/* What does not fit is cut. */
	for (i = 0; i < n && used < sizeof(t->devices); i++)
		used += (size_t)snprintf(t->devices + used, sizeof(t->devices) - used,
					 "%s%s (%s%s)", i ? ", " : "", devices[i].name,
					 xbloom_mode_name(devices[i].mode),
					 trial_text(&devices[i], trial));
	free(devices);
}

bool top_filter_wants_gauge(const struct top_filter *t)
{
	return t->f && (!t->gauged || t->inserted != t->gauged_inserted);
}

void top_filter_gauged(struct top_filter *t, const struct xbloom_gauge *gauge, uint64_t inserted,
		       double at)
{
	t->gauged = true;
	t->gauged_inserted = inserted;
	t->gauged_at = at;
	t->fp_predicted = gauge->fp_predicted;
}

bool top_filter_wants_measure(const struct top_filter *t)
{
	if (!t->f || t->measuring)
		return false;
	return !t->asked ||
	       (t->measured && t->measurement.empty && t->inserted != t->measured_inserted);
}

void top_filter_measured(struct top_filter *t, const struct xbloom_measurement *measurement,
			 uint64_t inserted, double at)
{
	t->measured = true;
	t->measurement = *measurement;
	t->measured_inserted = inserted;
	t->measured_at = at;
}

double top_filter_absent_share(const struct top_filter *t)
{
	return t->rated ? t->rates.live.absent_share : NAN;
}

double top_filter_fp_live(const struct top_filter *t)
{
	/* Without an exact map nobody knows which maybe was wrong. */
	return t->rated && t->rules.confirm ? t->rates.live.fp : NAN;
}

/* ---- all of them ---- */

static int names_wanted(const struct top_model *m, char ***names, size_t *n,
			struct xbloom_error *err)
{
	if (!m->only)
		return xbloom_names(names, n, err);
	*names = calloc(2, sizeof(**names));
	if (*names)
		(*names)[0] = strdup(m->only);
	if (!*names || !(*names)[0]) {
		free(*names);
		snprintf(err->text, sizeof(err->text), "out of memory");
		return -ENOMEM;
	}
	*n = 1;
	return 0;
}

/*
 * The filters of these names in place of those before; who stays, stays as it is. Both lists are
 * sorted.
 */
static int take_names(struct top_model *m, char *const *names, size_t n)
{
	struct top_filter **filters = calloc(n + 1, sizeof(struct top_filter *));
	size_t i, old = 0;

	if (!filters)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		while (old < m->n && strcmp(m->filters[old]->name, names[i]) < 0)
			free_filter(m->filters[old++]);
		if (old < m->n && !strcmp(m->filters[old]->name, names[i])) {
			filters[i] = m->filters[old++];
			continue;
		}
		filters[i] = calloc(1, sizeof(*filters[i]));
		if (!filters[i])
			break;
		snprintf(filters[i]->name, sizeof(filters[i]->name), "%s", names[i]);
	}
	while (old < m->n)
		free_filter(m->filters[old++]);
	free(m->filters);
	m->filters = filters;
	m->n = i;
	return i == n ? 0 : -ENOMEM;
}

int top_model_look(struct top_model *m, struct xbloom_error *err)
{
	size_t i, n, kept = 0;
	double started;
	char **names;
	int ret = names_wanted(m, &names, &n, err);

	if (ret)
		return ret;
	ret = take_names(m, names, n);
	xbloom_names_free(names, n);
	if (ret) {
		snprintf(err->text, sizeof(err->text), "out of memory");
		return ret;
	}
	for (i = 0; i < m->n; i++) {
		if (!look_at_filter(m, m->filters[i], err))
			m->filters[kept++] = m->filters[i];
		else
			free_filter(m->filters[i]);
	}
	m->n = kept;
	m->now = started = monotonic_now();
	if (m->with_devices && duty_allows(&m->devices_duty, started)) {
		for (i = 0; i < m->n; i++)
			look_at_devices(m->filters[i]);
		duty_spent(&m->devices_duty, started, monotonic_now());
	}
	return m->only && !m->n ? -ENOENT : 0;
}

int top_model_prune(struct top_model *m)
{
	size_t i, kept = 0;

	for (i = 0; i < m->n; i++) {
		if (!m->filters[i]->f || xbloom_presence(m->filters[i]->f) != XBLOOM_GONE)
			m->filters[kept++] = m->filters[i];
		else
			free_filter(m->filters[i]);
	}
	m->n = kept;
	return m->only && !kept ? -ENOENT : 0;
}

struct top_filter *top_model_find(const struct top_model *m, const char *name)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (!strcmp(m->filters[i]->name, name))
			return m->filters[i];
	return NULL;
}

struct top_filter *top_model_by_id(const struct top_model *m, uint64_t id)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (m->filters[i]->id == id)
			return m->filters[i];
	return NULL;
}

void top_model_init(struct top_model *m, const char *only, bool with_devices)
{
	*m = (struct top_model){
		.only = only,
		.with_devices = with_devices,
		.devices_duty = { .share = TOP_DEVICES_SHARE },
	};
}

void top_model_free(struct top_model *m)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		free_filter(m->filters[i]);
	free(m->filters);
	m->filters = NULL;
	m->n = 0;
}
