// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the verbs share; see cli.h. All that is printed to stderr goes through here, and so does
 * the state of the progress line.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* ---- messages and progress ---- */

static struct {
	double started; /* 0: nothing is going on */
	double shown;
	bool on_screen;
} progress;

/* What takes less is not worth a line. */
#define PROGRESS_AFTER 1.0
#define PROGRESS_EVERY 0.1

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void progress_done(void)
{
	if (progress.on_screen) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
	progress.on_screen = false;
	progress.started = 0;
}

/* The first `share` of n cells are full, or all of them. */
static void fill_bar(char *cells, unsigned int n, double share)
{
	memset(cells, '.', n);
	memset(cells, '#', (size_t)(share < 1 ? share * n : n));
}

#define BAR_WIDTH 30

static void draw_progress(const char *what, uint64_t done, uint64_t total)
{
	char bar[BAR_WIDTH + 1] = "", count[HUMAN_TEXT];

	human_count(done, count);
	if (!total) {
		fprintf(stderr, "\r\033[K%s  %s keys", what, count);
	} else {
		fill_bar(bar, BAR_WIDTH, (double)done / (double)total);
		fprintf(stderr, "\r\033[K%s  [%s] %3d %%  %s keys", what, bar,
			(int)((double)done / (double)total * 100), count);
	}
	fflush(stderr);
	progress.on_screen = true;
}

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
	double t = now();

	(void)ctx;
	if (!isatty(STDERR_FILENO))
		return;
	if (progress.started == 0)
		progress.started = t;
	if (t - progress.started < PROGRESS_AFTER || t - progress.shown < PROGRESS_EVERY)
		return;
	progress.shown = t;
	draw_progress(what, done, total);
}

__attribute__((format(printf, 1, 0))) static void message(const char *format, va_list args)
{
	bool on_screen = progress.on_screen;

	if (on_screen)
		fputs("\r\033[K", stderr);
	fputs("xdp-bloom: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

int fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message(format, args);
	va_end(args);
	return EXIT_FAILED;
}

int fail_err(const struct xbloom_error *err)
{
	return fail("%s", err->text);
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message(format, args);
	va_end(args);
}

static void on_waiting(void *ctx, const char *name)
{
	(void)ctx;
	say("another xdp-bloom is at work on filter %s; waiting for it", name);
}

void say_notice(void *ctx, const char *text)
{
	(void)ctx;
	say("%s", text);
}

/* Those that would end this process: not what its caller had it ignore, as nohup does. */
static void ending_signals(sigset_t *set)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action;
	size_t i;

	sigemptyset(set);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!sigaction(signals[i], NULL, &action) && action.sa_handler != SIG_IGN)
			sigaddset(set, signals[i]);
}

void hold_signals(void)
{
	sigset_t set;

	ending_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void release_signals(void)
{
	sigset_t set;

	ending_signals(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Whether one of the signals that are held back has come. */
static bool on_cancelled(void *ctx)
{
	sigset_t waiting, ending;
	int signal;

	(void)ctx;
	ending_signals(&ending);
	if (sigpending(&waiting))
		return false;
	for (signal = 1; signal < NSIG; signal++)
		if (sigismember(&waiting, signal) == 1 && sigismember(&ending, signal) == 1)
			return true;
	return false;
}

const struct xbloom_options *cli_options(void)
{
	static const struct xbloom_options options = {
		.cancelled = on_cancelled,
		.waiting = on_waiting,
		.progress = on_progress,
	};

	return &options;
}

/* ---- options ---- */

int next_option(const struct verb *v, int argc, char **argv, const struct option *options)
{
	int at = optind ? optind : 1;
	int c;

	opterr = 0;
	c = getopt_long(argc, argv, ":h", options, NULL);
	if (c == OPT_HELP || c == 'h') {
		printf("%s\n\n%s", v->summary, v->help);
		exit(EXIT_DONE);
	}
	if (c == ':')
		fail("option %s needs a value (xdp-bloom %s --help)", argv[optind - 1], v->name);
	if (c == '?') {
		const char *bad = optind > at ? argv[optind - 1] : argv[at];

		fail("option %s is unknown, ambiguous, or takes no value (xdp-bloom %s --help)",
		     bad ? bad : "?", v->name);
	}
	return c == ':' ? '?' : c;
}

static bool suffix_factor(const char *suffix, double *factor)
{
	static const struct {
		const char *suffix;
		double factor;
	} known[] = { { "", 1 }, { "k", 1e3 }, { "K", 1e3 }, { "M", 1e6 }, { "G", 1e9 } };
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!strcmp(suffix, known[i].suffix)) {
			*factor = known[i].factor;
			return true;
		}
	}
	return false;
}

/* A plain decimal number, no sign, no hex, no "inf"; *end is what follows it. */
static bool plain_number(const char *text, double *out, char **end)
{
	if (strspn(text, "0123456789.") == 0)
		return false;
	errno = 0;
	*out = strtod(text, end);
	/* strtod() also knows hexadecimal; a number here is digits, a point, an exponent. */
	return !errno && *end != text && !memchr(text, 'x', (size_t)(*end - text)) &&
	       !memchr(text, 'X', (size_t)(*end - text));
}

/* Decimal fractions of a thousand are not binary ones: 1.001k is 1000.9999... */
#define ROUNDING 1e-9

static bool whole_number(const char *text, double *out)
{
	double n, factor;
	char *end;

	if (!plain_number(text, &n, &end) || !suffix_factor(end, &factor))
		return false;
	*out = round(n * factor);
	return !(fabs(n * factor - *out) > (factor > 1 ? n * ROUNDING : 0));
}

bool parse_count(const char *what, const char *text, uint64_t max, uint64_t *out)
{
	double n;

	if (!whole_number(text, &n)) {
		fail("%s '%s' is not a whole number (with k, M or G if you like)", what, text);
		return false;
	}
	if (n < 1 || n > (double)max) {
		fail("%s '%s' is not between 1 and %llu", what, text, (unsigned long long)max);
		return false;
	}
	*out = (uint64_t)n;
	return true;
}

bool parse_rate(const char *what, const char *text, double *out)
{
	double rate;
	char *end;

	if (!plain_number(text, &rate, &end) || (strcmp(end, "") && strcmp(end, "%"))) {
		fail("%s '%s' is not a rate: write 0.01 or 1%%", what, text);
		return false;
	}
	if (*end == '%')
		rate /= 100;
	if (!(rate >= XBLOOM_FP_MIN && rate <= XBLOOM_FP_MAX)) {
		fail("%s '%s' is not between 1e-9 and 0.5", what, text);
		return false;
	}
	*out = rate;
	return true;
}

bool parse_positive(const char *what, const char *text, double *out)
{
	double x;
	char *end;

	if (!plain_number(text, &x, &end) || *end || !(x > 0)) {
		fail("%s '%s' is not a number above 0", what, text);
		return false;
	}
	*out = x;
	return true;
}

bool parse_time(const char *what, const char *text, uint64_t max, uint64_t *seconds)
{
	static const struct {
		const char *name;
		uint64_t seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
	uint64_t unit = 0;
	double n;
	char *end;
	size_t i;

	if (plain_number(text, &n, &end))
		for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
			if (!strcmp(end, units[i].name))
				unit = units[i].seconds;
	if (!unit || n != round(n) || n < 1 || n * (double)unit > (double)max) {
		fail("%s '%s' is not a time between 1 s and %llu days: write 90s, 30m, 12h or 7d",
		     what, text, (unsigned long long)max / 86400);
		return false;
	}
	*seconds = (uint64_t)n * unit;
	return true;
}

bool parse_hashes(const char *text, unsigned int *out)
{
	uint64_t n;

	if (!parse_count("--hashes", text, XBLOOM_CLASSIC_K_MAX, &n))
		return false;
	*out = (unsigned int)n;
	return true;
}

bool parse_layout(const char *text, uint32_t *layout)
{
	if (!strcmp(text, "split")) {
		*layout = XBLOOM_LAYOUT_SPLIT;
	} else if (!strcmp(text, "classic")) {
		*layout = XBLOOM_LAYOUT_CLASSIC;
	} else {
		fail("unknown layout '%s': choose split or classic", text);
		return false;
	}
	return true;
}

bool parse_policy(const char *text, uint32_t *policy)
{
	if (!strcmp(text, "block")) {
		*policy = XBLOOM_POLICY_BLOCK;
	} else if (!strcmp(text, "allow")) {
		*policy = XBLOOM_POLICY_ALLOW;
	} else {
		fail("unknown policy '%s': choose block or allow", text);
		return false;
	}
	return true;
}

static bool parse_one_unkeyed(const char *item, uint32_t *unkeyed_drop)
{
	const char *equals = strchr(item, '=');
	uint32_t r;

	for (r = XBLOOM_UNKEYED_FIRST; equals && r <= XBLOOM_UNKEYED_LAST; r++) {
		const char *name = xbloom_reason_name(r);

		if (strlen(name) != (size_t)(equals - item) || strncmp(item, name, strlen(name)))
			continue;
		if (!strcmp(equals + 1, "drop")) {
			*unkeyed_drop |= 1u << r;
			return true;
		}
		if (!strcmp(equals + 1, "pass")) {
			*unkeyed_drop &= ~(1u << r);
			return true;
		}
	}
	fail("'%s' says nothing about unkeyed packets: write malformed, fragment, exthdr or "
	     "vlan_tags, then =pass or =drop",
	     item);
	return false;
}

bool parse_unkeyed(const char *text, uint32_t *unkeyed_drop)
{
	char *copy = strdup(text), *rest = copy, *item;
	bool good = true;

	if (!copy) {
		fail("out of memory");
		return false;
	}
	while (good && (item = strsep(&rest, ",")))
		good = parse_one_unkeyed(item, unkeyed_drop);
	free(copy);
	return good;
}

bool parse_alarm(const char *text, unsigned int *percent)
{
	double x;
	char *end;

	if (!plain_number(text, &x, &end) || (strcmp(end, "") && strcmp(end, "%")) ||
	    x != round(x) || x < 1 || x > 100) {
		fail("--alarm '%s' is not a whole percentage of the capacity from 1 to 100", text);
		return false;
	}
	*percent = (unsigned int)x;
	return true;
}

bool parse_sample(const char *text, uint32_t *sample)
{
	double n;

	*sample = 0;
	if (!strcmp(text, "off"))
		return true;
	if (!strncmp(text, "1/", 2) && whole_number(text + 2, &n) && n >= 1 && n <= SAMPLE_MAX) {
		*sample = (uint32_t)n;
		return true;
	}
	fail("--sample '%s' is neither off nor 1/N: write 1/1000 for one packet in a thousand, N "
	     "from 1 to %u",
	     text, SAMPLE_MAX);
	return false;
}

const char *layout_name(uint32_t layout)
{
	return layout == XBLOOM_LAYOUT_SPLIT ? "split" : "classic";
}

const char *policy_name(uint32_t policy)
{
	return policy == XBLOOM_POLICY_ALLOW ? "allow" : "block";
}

/* ---- output ---- */

void print_json(struct json_object *object)
{
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
							    JSON_C_TO_STRING_SPACED |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}

void json_add(struct json_object *object, const char *name, struct json_object *value)
{
	json_object_object_add(object, name, value);
}

struct json_object *json_u64(uint64_t n)
{
	return json_object_new_uint64(n);
}

struct json_object *json_number(double x)
{
	char text[HUMAN_TEXT];

	if (!isfinite(x))
		return NULL;
	snprintf(text, sizeof(text), "%.9g", x);
	return json_object_new_double_s(x, text);
}

const char *unkeyed_text(uint32_t unkeyed_drop, char buf[UNKEYED_TEXT])
{
	size_t used = 0;
	uint32_t r;

	if (unkeyed_drop == XBLOOM_UNKEYED_ALL || !unkeyed_drop)
		return unkeyed_drop ? "all dropped" : "all passed";
	for (r = XBLOOM_UNKEYED_FIRST; r <= XBLOOM_UNKEYED_LAST; r++)
		if (unkeyed_drop >> r & 1)
			used += (size_t)snprintf(buf + used, UNKEYED_TEXT - used, "%s%s",
						 used ? ", " : "", xbloom_reason_name(r));
	snprintf(buf + used, UNKEYED_TEXT - used, " dropped, the others passed");
	return buf;
}

void print_devices_done(const char *what, char *const *devices, size_t n, bool json)
{
	struct json_object *o = json_object_new_object();
	struct json_object *names = json_object_new_array();
	size_t i;

	json_add(o, what, names);
	for (i = 0; i < n; i++) {
		json_object_array_add(names, json_object_new_string(devices[i]));
		if (!json)
			printf("%s: %s\n", devices[i], what);
	}
	if (json)
		print_json(o);
	else
		json_object_put(o);
}

const char *human_count(uint64_t n, char buf[HUMAN_TEXT])
{
	char digits[HUMAN_TEXT];
	size_t len, i, out = 0;

	len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n);
	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[out++] = ',';
		buf[out++] = digits[i];
	}
	buf[out] = '\0';
	return buf;
}

const char *human_time(double seconds, char buf[HUMAN_TEXT])
{
	unsigned long long s = (unsigned long long)ceil(seconds);

	if (s < 120)
		snprintf(buf, HUMAN_TEXT, "%llu s", s);
	else if (s < 7200)
		snprintf(buf, HUMAN_TEXT, "%llu min", (s + 59) / 60);
	else if (s < 172800)
		snprintf(buf, HUMAN_TEXT, "%llu h %llu min", s / 3600, s % 3600 / 60);
	else
		snprintf(buf, HUMAN_TEXT, "%llu d %llu h", s / 86400, s % 86400 / 3600);
	return buf;
}

const char *human_bytes(uint64_t n, char buf[HUMAN_TEXT])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB" };
	double x = (double)n;
	size_t unit = 0;

	while (x >= 1024 && unit < sizeof(units) / sizeof(units[0]) - 1) {
		x /= 1024;
		unit++;
	}
	snprintf(buf, HUMAN_TEXT, unit ? "%.1f %s" : "%.0f %s", x, units[unit]);
	return buf;
}

const char *human_rate(double rate, char buf[HUMAN_TEXT])
{
	snprintf(buf, HUMAN_TEXT, "%.3g %%", rate * 100);
	return buf;
}

/* ---- the gauge ---- */

/* ECMA-48, "select graphic rendition". */
#define SGR_GREEN "\033[32m"
#define SGR_YELLOW "\033[33m"
#define SGR_RED "\033[31m"
#define SGR_BOLD "\033[1m"
#define SGR_OFF "\033[0m"

/* https://no-color.org: set to anything but nothing, it means no. */
static bool use_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && (!no || !*no) && term && *term && strcmp(term, "dumb");
}

static const char *colour(const char *sequence)
{
	return use_colour() ? sequence : "";
}

const char *alarm_colour(const char *alarm)
{
	return colour(!strcmp(alarm, "ok")     ? SGR_GREEN
		      : !strcmp(alarm, "high") ? SGR_YELLOW
					       : SGR_RED);
}

const char *loud(void)
{
	return colour(SGR_BOLD);
}

const char *colour_off(void)
{
	return colour(SGR_OFF);
}
