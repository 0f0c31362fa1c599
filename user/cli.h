/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the verbs share: options, numbers as people write them, messages, JSON, progress. A verb
 * is one file cmd_NAME.c that defines one struct verb; main.c holds the table.
 */
#ifndef XBLOOM_CLI_H
#define XBLOOM_CLI_H

#include <getopt.h>
#include <json-c/json.h>

#include "libxbloom.h"

/* Exit statuses. */
#define EXIT_DONE 0
#define EXIT_NO 1     /* the answer is no */
#define EXIT_FAILED 2 /* it could not be done, and stderr says why */

struct verb {
	const char *name;
	const char *summary;
	const char *help;
	int (*run)(int argc, char **argv);
};

extern const struct verb verb_plan, verb_create, verb_add, verb_test, verb_show, verb_set,
	verb_attach, verb_detach, verb_destroy, verb_measure, verb_watch, verb_top, verb_lab,
	verb_rebuild;

/* ---- options ---- */

/* Every verb's table of long options ends with these. */
#define OPT_HELP 1
#define OPT_JSON 2
#define COMMON_OPTIONS                                                                             \
	{ "help", no_argument, NULL, OPT_HELP }, { "json", no_argument, NULL, OPT_JSON },          \
	{                                                                                          \
		0                                                                                  \
	}
/* A verb's own options start here. */
#define OPT_FIRST 16
/* And those that several verbs share, here. */
#define OPT_SHARED 512

/*
 * The next option's value, or -1 after the last. --help is answered here and ends the process; a
 * bad option is reported, and '?' returned: the verb returns EXIT_FAILED.
 */
int next_option(const struct verb *v, int argc, char **argv, const struct option *options);

/* Print "xdp-bloom: message" to stderr; EXIT_FAILED. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for what the library said. */
int fail_err(const struct xbloom_error *err);
/* A message that is no failure. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* say() as the library calls it. */
void say_notice(void *ctx, const char *text);

/* Numbers; what is wrong with one is reported, and false returned. */
/* 1 to max: 1000, 10k, 1.5M, 2G. No count is above COUNT_MAX, 2^53, where doubles get coarse. */
#define COUNT_MAX 9007199254740992ULL
bool parse_count(const char *what, const char *text, uint64_t max, uint64_t *out);
bool parse_rate(const char *what, const char *text, double *out); /* 0.01, 1% */
bool parse_positive(const char *what, const char *text, double *out);

/* A time of 1 s to max: 90, 90s, 30m, 12h, 7d. */
bool parse_time(const char *what, const char *text, uint64_t max, uint64_t *seconds);

bool parse_hashes(const char *text, unsigned int *out);
bool parse_layout(const char *text, uint32_t *layout);
bool parse_policy(const char *text, uint32_t *policy);
/* "malformed=drop,fragment=pass" changes bits of *unkeyed_drop. */
bool parse_unkeyed(const char *text, uint32_t *unkeyed_drop);
bool parse_alarm(const char *text, unsigned int *percent); /* 1 to 100: 80, 80% */
#define SAMPLE_MAX 1000000000u
bool parse_sample(const char *text, uint32_t *sample); /* 1/1000, 1/1k; off: 0 */
const char *layout_name(uint32_t layout);
const char *policy_name(uint32_t policy);

/* ---- what several verbs do ---- */

/*
 * Hold back what would end the process (Ctrl-C, a closed terminal, kill) until release_signals():
 * while keys are put in, so that a list is in whole or not at all.
 */
void hold_signals(void);
void release_signals(void);

/* Options for the library: says who is waited for, and shows progress on a terminal. */
const struct xbloom_options *cli_options(void);
/* Clear a progress line that is on the terminal. */
void progress_done(void);

/* ---- output ---- */

/* Print the object on stdout and free it. */
void print_json(struct json_object *object);
void json_add(struct json_object *object, const char *name, struct json_object *value);
struct json_object *json_u64(uint64_t n);
/* A double with the digits that count; not finite: null. */
struct json_object *json_number(double x);

#define HUMAN_TEXT 32
/* Seconds as "12 min"; the two units that count: "1 h 30 min". */
const char *human_time(double seconds, char buf[HUMAN_TEXT]);
/* 1234567 as "1,234,567"; bytes as "1.2 MiB"; a rate as "0.42 %". */
const char *human_count(uint64_t n, char buf[HUMAN_TEXT]);
const char *human_bytes(uint64_t n, char buf[HUMAN_TEXT]);
const char *human_rate(double rate, char buf[HUMAN_TEXT]);

/*
 * Colour, only where somebody sees it: stdout is a terminal that can, and NO_COLOR is not set.
 * Elsewhere these are "". What a colour says must stand there in words as well.
 */
const char *alarm_colour(const char *alarm); /* green, yellow, red for ok, high, over */
const char *loud(void);			     /* for what must not be overlooked */
const char *colour_off(void);

/* "", or ", on trial, 12 s left". */
const char *trial_text(const struct xbloom_device *d, char buf[HUMAN_TEXT]);

/* Which unkeyed packets are dropped, in words. */
#define UNKEYED_TEXT 128
const char *unkeyed_text(uint32_t unkeyed_drop, char buf[UNKEYED_TEXT]);

/* Devices with their modes, for "devices". */
struct json_object *devices_json(const struct xbloom_device *devices, size_t n);

/* What was done to devices: a line each, or {"WHAT": [names]}. */
void print_devices_done(const char *what, char *const *devices, size_t n, bool json);

/* Everything about one filter: `show --json`, and what `create --json` answers. */
struct json_object *filter_json(struct xbloom *f, struct xbloom_error *err);

#endif /* XBLOOM_CLI_H */
