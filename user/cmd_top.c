// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom top: look at filters as they work, on a terminal or as JSON. This file is the clock,
 * the keys and the JSON; what is known is in top_model.c, what is drawn in top_view.c, and what
 * takes long is asked in another process, by top_job.c.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "top_job.h"
#include "top_model.h"
#include "top_view.h"

enum { OPT_INTERVAL = OPT_FIRST, OPT_COUNT };

static const struct option options[] = {
	{ "interval", required_argument, NULL, OPT_INTERVAL },
	{ "count", required_argument, NULL, OPT_COUNT },
	COMMON_OPTIONS,
};

struct request {
	const char *name; /* NULL: all */
	double interval;
	uint64_t count; /* 0: not given */
	bool json;
};

/* Faster than this nobody reads; slower, a terminal looks dead. */
#define INTERVAL_MIN 0.2
#define INTERVAL_MAX 10.0
#define INTERVAL_DEFAULT 1.0

#define NS_PER_S 1e9

static struct timespec to_timespec(double seconds)
{
	struct timespec t = { .tv_sec = (time_t)seconds };

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * NS_PER_S);
	return t;
}

/* Each filter is held by several files: allow as many as the system lets us have. */
static void allow_many_files(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int gone(const char *name)
{
	return fail("filter %s is gone: it was destroyed while top looked at it", name);
}

/* ---- JSON ---- */

static struct json_object *values_json(const double values[XBLOOM_NAMED_COUNTERS])
{
	const struct xbloom_stats none = { 0 };
	struct xbloom_named_counter named[XBLOOM_NAMED_COUNTERS];
	struct json_object *o = json_object_new_object();
	size_t i;

	xbloom_stats_named(&none, named);
	for (i = 0; i < XBLOOM_NAMED_COUNTERS; i++)
		json_add(o, named[i].name, json_number(values[i]));
	return o;
}

static struct json_object *one_json(const struct top_filter *t)
{
	struct json_object *o = json_object_new_object();

	json_add(o, "name", json_object_new_string(t->name));
	if (!t->f) {
		json_add(o, "error", json_object_new_string(t->broken.text));
		return o;
	}
	json_add(o, "interval", t->rated ? json_number(t->rates.interval) : NULL);
	json_add(o, "packets_per_second", t->rated ? values_json(t->rates.packets) : NULL);
	json_add(o, "bits_per_second", t->rated ? values_json(t->rates.bits) : NULL);
	json_add(o, "absent_share", json_number(top_filter_absent_share(t)));
	json_add(o, "load", json_number(t->load));
	json_add(o, "alarm", json_object_new_string(t->alarm));
	json_add(o, "fp_predicted", json_number(t->gauged ? t->fp_predicted : NAN));
	json_add(o, "fp_live", json_number(top_filter_fp_live(t)));
	return o;
}

/* False: it could not be written. */
static bool print_line(const struct top_model *m)
{
	struct json_object *o = json_object_new_object();
	struct json_object *array = json_object_new_array();
	size_t i;

	json_add(o, "filters", array);
	for (i = 0; i < m->n; i++)
		json_object_array_add(array, one_json(m->filters[i]));
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
						       JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
	/* Whoever reads it wants it now. */
	return !fflush(stdout);
}

/* The first time always, so that there is a number; later as far as the time allows. */
static void read_gauges(struct top_model *m, struct duty *duty)
{
	size_t i;

	for (i = 0; i < m->n; i++) {
		struct top_filter *t = m->filters[i];
		double started = monotonic_now();
		struct xbloom_gauge gauge;

		if (!top_filter_wants_gauge(t) || (t->gauged && !duty_allows(duty, started)))
			continue;
		xbloom_gauge(t->f, &gauge);
		top_filter_gauged(t, &gauge, t->inserted, started);
		duty_spent(duty, started, monotonic_now());
	}
}

static void sleep_until(double when)
{
	struct timespec t = to_timespec(when);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static int print_intervals(const struct request *r)
{
	struct duty duty = { .share = TOP_GAUGE_SHARE };
	struct xbloom_error err = { "" };
	struct top_model model;
	bool is_gone = false;
	double next;
	uint64_t i;
	int ret;

	top_model_init(&model, r->name, false);
	ret = top_model_look(&model, &err);
	if (ret)
		goto out;
	next = monotonic_now();
	for (i = 0; i < r->count; i++) {
		next = fmax(next + r->interval, monotonic_now());
		sleep_until(next);
		ret = top_model_look(&model, &err);
		if (ret)
			break;
		read_gauges(&model, &duty);
		/* What goes wrong here, main() says. */
		if (!print_line(&model))
			break;
	}
	is_gone = ret == -ENOENT && r->name;
out:
	top_model_free(&model);
	return is_gone ? gone(r->name) : ret ? fail_err(&err) : EXIT_DONE;
}

/* ---- the terminal ---- */

/* How long a measure may take that was asked for; and one of many that nobody asked for. */
#define MEASURE_SECONDS 0.5
#define MEASURE_UNASKED_SECONDS 0.1
/* Once a filter, so it may take more of the time than the gauge, which is read again and again. */
#define MEASURE_UNASKED_SHARE 0.2
/* The first rates soon, so that the screen is not empty for a whole interval. */
#define FIRST_INTERVAL 0.25

struct top {
	const char *named; /* the one filter that was asked for; NULL: any */
	struct top_model model;
	struct top_ui ui;
	struct top_job job;
	struct duty gauge_duty, measure_duty;
	double next_look;
	bool measure_now; /* the selected filter */
	bool ended;
};

/* The signal that asks us to end; 0: none yet. */
static volatile sig_atomic_t ending;

static void on_ending(int signal)
{
	ending = signal;
}

/* It is enough that the wait ends: who draws looks at the size. */
static void on_resize(int signal)
{
	(void)signal;
}

/* It came for a reason: let it have its usual effect (SA_RESETHAND), but on a usable terminal. */
static void on_crash(int signal)
{
	top_view_rescue();
	raise(signal);
}

static void catch_crashes(void)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	struct sigaction action = { .sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND };
	size_t i;

	for (i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &action, NULL);
}

static const int ending_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

/*
 * Signals are let in only while we wait, by *waiting, so that none comes between a look at `ending`
 * and the wait. What the caller had ignored stays ignored.
 */
static void catch_signals(sigset_t *waiting)
{
	struct sigaction action = { .sa_handler = on_ending }, old;
	struct sigaction resize = { .sa_handler = on_resize };
	sigset_t held;
	size_t i;

	sigaction(SIGWINCH, &resize, NULL);
	sigemptyset(&held);
	sigaddset(&held, SIGWINCH);
	for (i = 0; i < sizeof(ending_signals) / sizeof(ending_signals[0]); i++) {
		if (sigaction(ending_signals[i], NULL, &old) || old.sa_handler == SIG_IGN)
			continue;
		sigaction(ending_signals[i], &action, NULL);
		sigaddset(&held, ending_signals[i]);
	}
	sigprocmask(SIG_BLOCK, &held, waiting);
	for (i = 0; i < sizeof(ending_signals) / sizeof(ending_signals[0]); i++)
		sigdelset(waiting, ending_signals[i]);
	sigdelset(waiting, SIGWINCH);
}

/* ---- costly questions ---- */

static struct top_filter *selected(const struct top *top)
{
	return top_model_find(&top->model, top->ui.selected);
}

/* Of those on the screen the one whose rate is known least well. */
static struct top_filter *next_to_gauge(const struct top *top)
{
	struct top_filter *oldest = NULL;
	size_t i;

	for (i = 0; i < top->model.n; i++) {
		struct top_filter *t = top->model.filters[i];

		if (top->ui.detail && t != selected(top))
			continue;
		if (top_filter_wants_gauge(t) && (!oldest || t->gauged_at < oldest->gauged_at))
			oldest = t;
	}
	return oldest;
}

/* Everything is measured once when it is first shown: at once if it is alone on the screen. */
static struct top_filter *next_to_measure(const struct top *top, double now, double *seconds)
{
	struct top_filter *t = selected(top);
	size_t i;

	*seconds = MEASURE_SECONDS;
	if (t && t->f && (top->measure_now || (top->ui.detail && top_filter_wants_measure(t))))
		return t;
	*seconds = MEASURE_UNASKED_SECONDS;
	if (top->ui.detail || !duty_allows(&top->measure_duty, now))
		return NULL;
	for (i = 0; i < top->model.n; i++)
		if (top_filter_wants_measure(top->model.filters[i]))
			return top->model.filters[i];
	return NULL;
}

static void begin_job(struct top *top, enum top_question question, struct top_filter *t,
		      double seconds)
{
	int ret = top_job_start(&top->job, question, t->f, t->id, seconds);

	if (ret) {
		snprintf(top->ui.message, sizeof(top->ui.message), "cannot start a process: %s",
			 strerror(-ret));
		/* Not again at once; a measure, only by m. */
		duty_spent(&top->gauge_duty, monotonic_now(), monotonic_now() + top->ui.interval);
		t->asked = true;
		t->measured = false;
		snprintf(t->unmeasured.text, sizeof(t->unmeasured.text), "%s", top->ui.message);
		return;
	}
	if (question == TOP_MEASURE)
		t->asked = t->measuring = true;
}

/* Start what is due, if nothing is under way. */
static void schedule(struct top *top)
{
	double now = monotonic_now(), seconds;
	struct top_filter *t;

	if (top->job.pid)
		return;
	t = duty_allows(&top->gauge_duty, now) ? next_to_gauge(top) : NULL;
	if (t) {
		begin_job(top, TOP_GAUGE, t, 0);
		return;
	}
	t = next_to_measure(top, now, &seconds);
	top->measure_now = false;
	if (t)
		begin_job(top, TOP_MEASURE, t, seconds);
}

static void take_answer(struct top *top)
{
	const struct top_job job = top->job;
	struct top_filter *t = top_model_by_id(&top->model, job.id);
	struct top_answer answer;
	double now;

	top_job_finish(&top->job, &answer);
	now = monotonic_now();
	if (job.question == TOP_GAUGE)
		duty_spent(&top->gauge_duty, job.started, now);
	else
		duty_spent(&top->measure_duty, job.started, now);
	/* It may be gone, or another by now. */
	if (!t)
		return;
	if (job.question == TOP_GAUGE) {
		if (!answer.ret)
			top_filter_gauged(t, &answer.gauge, job.inserted, job.started);
		return;
	}
	t->measuring = false;
	t->unmeasured = answer.err;
	t->measured = false;
	if (!answer.ret)
		top_filter_measured(t, &answer.measurement, job.inserted, now);
}

/* ---- looking ---- */

/* Whoever is selected now, if the one that was is gone. */
static void keep_selection(struct top *top, size_t position)
{
	struct top_ui *ui = &top->ui;
	const struct top_model *m = &top->model;

	if (ui->selected[0] && !selected(top)) {
		snprintf(ui->message, sizeof(ui->message), "filter %s was destroyed", ui->selected);
		ui->selected[0] = '\0';
		ui->detail = false;
	}
	if (!ui->selected[0] && m->n)
		snprintf(ui->selected, sizeof(ui->selected), "%s",
			 m->filters[position < m->n ? position : m->n - 1]->name);
}

static size_t position(const struct top *top)
{
	size_t i;

	for (i = 0; i < top->model.n; i++)
		if (!strcmp(top->model.filters[i]->name, top->ui.selected))
			return i;
	return 0;
}

static int look(struct top *top, struct xbloom_error *err)
{
	size_t at = position(top);
	int ret = top->ui.paused ? top_model_prune(&top->model) : top_model_look(&top->model, err);

	if (ret)
		return ret;
	keep_selection(top, at);
	top->next_look = monotonic_now() + top->ui.interval;
	return 0;
}

/* ---- keys ---- */

/* The next interval of these, up or down; a user's own may lie between. */
static double step_interval(double interval, bool up)
{
	static const double steps[] = { INTERVAL_MIN, 0.5, 1, 2, 5, INTERVAL_MAX };
	const size_t n = sizeof(steps) / sizeof(steps[0]);
	size_t i;

	if (up) {
		for (i = 0; i < n - 1 && steps[i] <= interval; i++)
			;
	} else {
		for (i = n - 1; i && steps[i] >= interval; i--)
			;
	}
	return steps[i];
}

/* Who wants to see other filters as well is no longer bound to the one that was named. */
static void look_at_all(struct top *top)
{
	struct xbloom_error err = { "" };

	if (!top->named)
		return;
	top->named = top->model.only = NULL;
	/* What goes wrong here, the next look says. The rates of the new ones come with it, soon. */
	if (!top_model_look(&top->model, &err))
		keep_selection(top, 0);
	top->next_look = fmin(top->next_look, monotonic_now() + FIRST_INTERVAL);
}

static void move(struct top *top, bool forward)
{
	size_t at, n;

	look_at_all(top);
	n = top->model.n;
	if (!n)
		return;
	at = (position(top) + (forward ? 1 : n - 1)) % n;
	snprintf(top->ui.selected, sizeof(top->ui.selected), "%s", top->model.filters[at]->name);
}

static void set_paused(struct top *top, bool paused)
{
	top->ui.paused = paused;
	/* What went by meanwhile is part of the next rates, and the clock of their interval. */
	top->next_look = monotonic_now() + (paused ? top->ui.interval : 0);
}

static void set_interval(struct top *top, double interval)
{
	/* From the last look on, which may make the next one due at once. */
	top->next_look += interval - top->ui.interval;
	top->ui.interval = interval;
}

static void on_key(struct top *top, enum top_key key)
{
	struct top_ui *ui = &top->ui;

	ui->message[0] = '\0';
	switch (key) {
	case TOP_KEY_NEXT:
	case TOP_KEY_PREVIOUS:
		move(top, key == TOP_KEY_NEXT);
		break;
	case TOP_KEY_DETAIL:
		ui->detail = ui->selected[0];
		break;
	case TOP_KEY_OVERVIEW:
		ui->detail = false;
		look_at_all(top);
		break;
	case TOP_KEY_UNITS:
		ui->bits = !ui->bits;
		break;
	case TOP_KEY_MEASURE:
		top->measure_now = true;
		break;
	case TOP_KEY_PAUSE:
		set_paused(top, !ui->paused);
		break;
	case TOP_KEY_LONGER:
	case TOP_KEY_SHORTER:
		set_interval(top, step_interval(ui->interval, key == TOP_KEY_LONGER));
		break;
	case TOP_KEY_HELP:
		ui->help = !ui->help;
		break;
	case TOP_KEY_QUIT:
		top->ended = true;
		break;
	default:
		break;
	}
}

/* ---- the loop ---- */

/* When there is something to do next if nothing happens before. */
static double next_wake(const struct top *top)
{
	double wake = top->next_look, seconds;

	if (top->job.pid)
		return wake;
	if (next_to_gauge(top))
		wake = fmin(wake, top->gauge_duty.not_before);
	if (next_to_measure(top, top->measure_duty.not_before, &seconds))
		wake = fmin(wake, top->measure_duty.not_before);
	return wake;
}

/* Wait for a key, an answer, a signal or the time. */
static void wait_for_something(struct top *top, const sigset_t *waiting)
{
	struct timespec timeout = to_timespec(fmax(0, next_wake(top) - monotonic_now()));
	struct pollfd fds[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = top->job.pid ? top->job.fd : -1, .events = POLLIN },
	};
	enum top_key key;

	if (ppoll(fds, 2, &timeout, waiting) < 0)
		fds[0].revents = fds[1].revents = 0;
	if (fds[1].revents)
		take_answer(top);
	while (!top->ended && (key = top_view_key()) != TOP_KEY_NONE) {
		fds[0].revents = 0;
		on_key(top, key);
	}
	/* Readable, but nothing to read: the terminal is gone. */
	if (fds[0].revents & (POLLERR | POLLHUP | POLLNVAL))
		top->ended = true;
}

static int watch(struct top *top, const sigset_t *waiting, struct xbloom_error *err)
{
	int ret;

	while (!top->ended && !ending) {
		if (monotonic_now() >= top->next_look) {
			ret = look(top, err);
			if (ret)
				return ret;
		}
		schedule(top);
		/* Who waits in a write cannot be ended. What is left out is drawn the next time. */
		if (top_view_can_draw(0))
			top_view_draw(&top->model, &top->ui);
		wait_for_something(top, waiting);
	}
	return 0;
}

static int show_on_terminal(const struct request *r)
{
	struct top top = {
		.named = r->name,
		.ui = { .interval = r->interval, .detail = r->name },
		.gauge_duty = { .share = TOP_GAUGE_SHARE },
		.measure_duty = { .share = MEASURE_UNASKED_SHARE },
	};
	struct xbloom_error err = { "" };
	sigset_t waiting;
	bool is_gone;
	int ret;

	top_model_init(&top.model, r->name, true);
	ret = look(&top, &err);
	if (!ret) {
		catch_signals(&waiting);
		catch_crashes();
		ret = top_view_open(&err);
	}
	if (ret) {
		top_model_free(&top.model);
		return fail_err(&err);
	}
	top.next_look = monotonic_now() + fmin(FIRST_INTERVAL, r->interval);
	ret = watch(&top, &waiting, &err);
	top_view_close();
	top_job_stop(&top.job);
	top_model_free(&top.model);
	is_gone = ret == -ENOENT && top.named;
	return is_gone ? gone(r->name) : ret ? fail_err(&err) : EXIT_DONE;
}

static bool parse_interval(const char *text, double *out)
{
	if (!parse_positive("--interval", text, out))
		return false;
	if (*out < INTERVAL_MIN || *out > INTERVAL_MAX) {
		fail("--interval '%s' is not between %g and %g seconds", text, INTERVAL_MIN,
		     INTERVAL_MAX);
		return false;
	}
	return true;
}

static int run(int argc, char **argv)
{
	struct request r = { .interval = INTERVAL_DEFAULT };
	bool good = true;
	int c;

	while (good && (c = next_option(&verb_top, argc, argv, options)) != -1) {
		switch (c) {
		case OPT_INTERVAL:
			good = parse_interval(optarg, &r.interval);
			break;
		case OPT_COUNT:
			good = parse_count("--count", optarg, COUNT_MAX, &r.count);
			break;
		case OPT_JSON:
			r.json = true;
			break;
		default:
			return EXIT_FAILED;
		}
	}
	if (!good)
		return EXIT_FAILED;
	if (argc - optind > 1)
		return fail("top takes the name of one filter, or none for all (xdp-bloom top "
			    "--help)");
	if (r.count && !r.json)
		return fail("--count goes with --json (xdp-bloom top --help)");
	if (!r.json && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return fail("top needs a terminal: use show, or top --json");
	r.name = argv[optind];
	r.count = r.count ? r.count : 1;
	allow_many_files();
	return r.json ? print_intervals(&r) : show_on_terminal(&r);
}

const struct verb verb_top = {
	.name = "top",
	.summary = "watch filters at work: rates by verdict, load, error rates",
	.help = "usage: xdp-bloom top [NAME] [--interval SECONDS]\n"
		"       xdp-bloom top [NAME] --json [--count N] [--interval SECONDS]\n"
		"\n"
		"A line for each filter, or everything about NAME; Enter and Esc go from one to "
		"the\n"
		"other. h lists the keys, q quits.\n"
		"\n"
		"  --interval S  look every S seconds, 0.2 to 10; 1 unless given\n"
		"  --json        one JSON object an interval, on one line; needs no terminal\n"
		"  --count N     so many of them; 1 unless given\n",
	.run = run,
};
