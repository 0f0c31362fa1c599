// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom measure: how often the filter's program is really wrong, beside how often its bits say
 * that it is. The live counters see nothing of it.
 */
#include <math.h>
#include <stdlib.h>

#include "cli.h"

enum { OPT_FROM = OPT_FIRST, OPT_PROBES, OPT_SECONDS };

static const struct option options[] = {
	{ "from", required_argument, NULL, OPT_FROM },
	{ "probes", required_argument, NULL, OPT_PROBES },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	COMMON_OPTIONS,
};

/* Digits of a rate that is hardly known, and the most, which are those of JSON. */
#define DIGITS 3
#define DIGITS_MAX 9

/* Longer is no measurement but a load. */
#define SECONDS_MAX 86400

/* Of fewer probes the time is that of getting ready, and says nothing of more. */
#define TIMED_MIN 100000

struct request {
	const char *name;
	const char **files;
	size_t n_files;
	uint64_t probes;
	double seconds;
	bool json;
};

static const char *verified_name(enum xbloom_verified verified)
{
	switch (verified) {
	case XBLOOM_BY_LIST:
		return "list";
	case XBLOOM_BY_EXACT:
		return "exact";
	default:
		return "space";
	}
}

static const char *family_name(uint32_t family)
{
	return family == XBLOOM_FAMILY_V4 ? "ipv4" : "ipv6";
}

/* Empty where the key has no address, or nothing was asked. */
static struct json_object *families_json(const struct xbloom_measurement *m)
{
	struct json_object *all = json_object_new_object();
	unsigned int i;

	for (i = 0; i < m->families; i++) {
		const struct xbloom_measured *f = &m->family[i];
		struct json_object *o = json_object_new_object();

		json_add(o, "probes", json_u64(f->probes));
		json_add(o, "listed", json_u64(f->listed));
		json_add(o, "false_positives", json_u64(f->false_positives));
		json_add(o, "fp_measured", json_number(f->fp_measured));
		json_add(o, "ci_low", json_number(f->ci_low));
		json_add(o, "ci_high", json_number(f->ci_high));
		json_add(o, "fp_predicted", json_number(f->fp_predicted));
		json_add(o, "agree", json_object_new_boolean(f->agree));
		json_add(all, family_name(f->family), o);
	}
	return all;
}

static void print_measured_json(const struct xbloom *f, const struct xbloom_measurement *m)
{
	struct json_object *o = json_object_new_object();

	json_add(o, "name", json_object_new_string(xbloom_meta(f)->name));
	json_add(o, "probes", json_u64(m->probes));
	json_add(o, "listed", json_u64(m->listed));
	json_add(o, "false_positives", json_u64(m->false_positives));
	json_add(o, "fp_measured", json_number(m->fp_measured));
	json_add(o, "ci_low", json_number(m->ci_low));
	json_add(o, "ci_high", json_number(m->ci_high));
	json_add(o, "fp_predicted", json_number(m->fp_predicted));
	json_add(o, "agree", json_object_new_boolean(m->agree));
	json_add(o, "verified", json_object_new_string(verified_name(m->verified)));
	json_add(o, "space_bits", json_u64(m->space_bits));
	json_add(o, "narrow", json_object_new_boolean(m->narrow));
	json_add(o, "seconds", json_number(m->seconds));
	json_add(o, "families", families_json(m));
	print_json(o);
}

static void print_verified(const struct xbloom_measurement *m)
{
	char listed[HUMAN_TEXT];

	switch (m->verified) {
	case XBLOOM_BY_LIST:
		printf("  verified   by the list; %s drawn keys are in it and were not counted\n",
		       human_count(m->listed, listed));
		break;
	case XBLOOM_BY_EXACT:
		printf("  verified   by the exact map; %s drawn keys are in it and were not "
		       "counted\n",
		       human_count(m->listed, listed));
		break;
	default:
		printf("  verified   drawn from 2^%u keys: that one is listed by chance is "
		       "negligible\n",
		       m->space_bits);
		break;
	}
}

/* As --probes takes it: "161k", "17M". */
static const char *probes_text(double n, char buf[HUMAN_TEXT])
{
	if (n < 1e6)
		snprintf(buf, HUMAN_TEXT, "%.0fk", ceil(n / 1e3));
	else
		snprintf(buf, HUMAN_TEXT, "%.0fM", ceil(n / 1e6));
	return buf;
}

/* Why the interval is wide, and what makes it narrower. */
static void print_wide(const struct xbloom_measurement *m)
{
	double seconds = m->probes ? m->needed / (double)m->probes * m->seconds : 0;
	char needed[HUMAN_TEXT];

	printf("  note       the interval is wider than a tenth of the rate: ");
	if (m->exhausted)
		printf("there are no more keys of this shape\n");
	else if (m->needed > (double)COUNT_MAX || (m->probes >= TIMED_MIN && seconds > SECONDS_MAX))
		printf("a day would not be enough for a rate so low\n");
	else if (m->probes < TIMED_MIN)
		printf("--probes %s would make it narrower\n", probes_text(m->needed, needed));
	else
		printf("--probes %s, some %.0f s, would make it narrower\n",
		       probes_text(m->needed, needed), ceil(seconds));
}

/* Keys called absent are not looked up, so that a list with too many keys hides false positives. */
static const char *reason(const struct xbloom_measurement *m)
{
	if (m->verified != XBLOOM_BY_LIST)
		return "one of the two rates is wrong: report it";
	return m->fp_measured > m->fp_predicted ? "the filter holds keys that are not in the list"
						: "the list has keys that are not in the filter";
}

static void print_disagreement(const struct xbloom_measurement *m)
{
	printf("  note       once in 20 that is chance, so measure again; if it stays so, %s\n",
	       reason(m));
}

/* Digits that tell a thirtieth of the interval, so that rounding moves next to nothing into it. */
static const char *measured_rate(double rate, const struct xbloom_measurement *m,
				 char buf[HUMAN_TEXT])
{
	double width = m->ci_high - m->ci_low;
	int digits = width > 0 ? (int)round(log10(m->ci_high / width)) + DIGITS : DIGITS_MAX;

	snprintf(buf, HUMAN_TEXT, "%.*g %%", digits < DIGITS_MAX ? digits : DIGITS_MAX, rate * 100);
	return buf;
}

/* Where IPv6 packets are asked for under several lengths, each family has a rate of its own. */
static void print_families(const struct xbloom_measurement *m)
{
	char rate[HUMAN_TEXT], predicted[HUMAN_TEXT], probes[HUMAN_TEXT];
	unsigned int i;

	for (i = 0; i < m->families && m->apart; i++) {
		const struct xbloom_measured *f = &m->family[i];
		const struct xbloom_measurement as = { .ci_low = f->ci_low, .ci_high = f->ci_high };

		printf("  %s       %s of %s, predicted %s: %s\n",
		       f->family == XBLOOM_FAMILY_V4 ? "IPv4" : "IPv6",
		       measured_rate(f->fp_measured, &as, rate), human_count(f->probes, probes),
		       measured_rate(f->fp_predicted, &as, predicted),
		       f->agree ? "agree" : "disagree");
	}
}

static void print_measured(const struct xbloom *f, const struct xbloom_measurement *m)
{
	char rate[HUMAN_TEXT], low[HUMAN_TEXT], high[HUMAN_TEXT], predicted[HUMAN_TEXT];
	char probes[HUMAN_TEXT], hits[HUMAN_TEXT];

	if (m->empty) {
		printf("filter %s %s: its rate is 0\n", xbloom_meta(f)->name,
		       xbloom_meta(f)->params.nets4 ? "has exact prefixes and no keys"
						    : "is empty");
		return;
	}
	printf("%s: %s\n", xbloom_meta(f)->name, m->agree ? "agree" : "disagree");
	printf("  measured   %s of absent keys are called maybe: %s of %s, in %.1f s\n",
	       measured_rate(m->fp_measured, m, rate), human_count(m->false_positives, hits),
	       human_count(m->probes, probes), m->seconds);
	printf("  interval   %s to %s: it holds the true rate in 95 of 100 measurements\n",
	       measured_rate(m->ci_low, m, low), measured_rate(m->ci_high, m, high));
	printf("  predicted  %s, from the bits as they are\n",
	       measured_rate(m->fp_predicted, m, predicted));
	print_families(m);
	print_verified(m);
	if (!m->narrow)
		print_wide(m);
	if (!m->agree)
		print_disagreement(m);
}

/* What the answers are verified by: the lists, else the exact map if there is one, else nothing. */
static int open_truth(const struct request *r, const struct xbloom *f,
		      struct xbloom_measure_options *o, struct xbloom_truth **truth,
		      struct xbloom_error *err)
{
	int ret;

	if (!r->n_files && !xbloom_exact(f, NULL))
		return 0;
	ret = xbloom_truth_open(f, r->files, r->n_files, cli_options(), truth, err);
	o->truth = *truth;
	o->verified = r->n_files ? XBLOOM_BY_LIST : XBLOOM_BY_EXACT;
	return ret;
}

static int measure(const struct request *r)
{
	struct xbloom_measure_options o = {
		.probes = r->probes,
		.seconds = r->seconds,
		.opts = cli_options(),
	};
	struct xbloom_error err = { "" };
	struct xbloom_truth *truth = NULL;
	struct xbloom_measurement m;
	struct xbloom *f = NULL;
	int ret;

	ret = xbloom_open(r->name, 0, cli_options(), &f, &err);
	if (!ret)
		ret = open_truth(r, f, &o, &truth, &err);
	if (!ret)
		ret = xbloom_measure(f, &o, &m, &err);
	progress_done();
	if (!ret && r->json)
		print_measured_json(f, &m);
	else if (!ret)
		print_measured(f, &m);
	xbloom_truth_close(truth);
	xbloom_close(f);
	if (ret)
		return fail_err(&err);
	return m.agree ? EXIT_DONE : EXIT_NO;
}

static bool parse_seconds(const char *text, double *out)
{
	if (!parse_positive("--seconds", text, out))
		return false;
	if (*out <= SECONDS_MAX)
		return true;
	fail("--seconds '%s' is more than a day", text);
	return false;
}

static int parse(int argc, char **argv, struct request *r)
{
	bool good = true;
	int c;

	while (good && (c = next_option(&verb_measure, argc, argv, options)) != -1) {
		switch (c) {
		case OPT_FROM:
			r->files[r->n_files++] = optarg;
			break;
		case OPT_PROBES:
			good = parse_count("--probes", optarg, COUNT_MAX, &r->probes);
			break;
		case OPT_SECONDS:
			good = parse_seconds(optarg, &r->seconds);
			break;
		case OPT_JSON:
			r->json = true;
			break;
		default:
			good = false;
		}
	}
	if (!good)
		return EXIT_FAILED;
	if (argc - optind != 1)
		return fail("measure needs the name of one filter (xdp-bloom measure --help)");
	r->name = argv[optind];
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct request r = { .files = calloc((size_t)argc, sizeof(*r.files)) };
	int status;

	if (!r.files)
		return fail("out of memory");
	status = parse(argc, argv, &r);
	if (status == EXIT_DONE)
		status = measure(&r);
	free(r.files);
	return status;
}

const struct verb verb_measure = {
	.name = "measure",
	.summary = "measure the error rate in the kernel and compare it with the predicted one",
	.help = "usage: xdp-bloom measure NAME [--from LIST]... [--probes N] [--seconds S]\n"
		"\n"
		"Asks the filter's program for keys that are absent, as many as make the 95 %\n"
		"interval narrower than a tenth of the rate. Exit status 1 when the predicted "
		"rate\n"
		"lies outside the interval, which chance alone brings about in 5 of 100 runs.\n"
		"Counters and traffic are not touched.\n"
		"\n"
		"  --from LIST  what is in the filter, to verify by; without it the exact map of\n"
		"               --confirm is asked, and without that the keys are drawn from so\n"
		"               many that none is listed\n"
		"  --probes N   ask for N absent keys; k, M and G are understood\n"
		"  --seconds S  take no longer (10 without --probes)\n"
		"  --json       one JSON object\n",
	.run = run,
};
