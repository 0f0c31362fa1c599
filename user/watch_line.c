// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lines that `watch` prints; see watch_line.h.
 */
#include <math.h>

#include "cli.h"
#include "watch_line.h"

#define TIME_TEXT sizeof("2026-12-01T12:00:00Z")

static const char *time_text(time_t t, char buf[TIME_TEXT])
{
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(buf, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm))
		buf[0] = '\0';
	return buf;
}

/* ---- as JSON ---- */

static void add_measured(struct json_object *o, const struct watch_rate *m)
{
	double low, high;

	xbloom_wilson(m->false_positives, m->keys, &low, &high);
	json_add(o, "keys", json_u64(m->keys));
	json_add(o, "false_positives", json_u64(m->false_positives));
	json_add(o, "fp_measured",
		 json_number(m->keys ? (double)m->false_positives / (double)m->keys : NAN));
	json_add(o, "ci_low", json_number(low));
	json_add(o, "ci_high", json_number(high));
}

static struct json_object *judgement_json(enum xbloom_judgement judgement)
{
	if (judgement == XBLOOM_TOO_FEW || judgement == XBLOOM_NOT_JUDGED)
		return NULL;
	return json_object_new_boolean(judgement == XBLOOM_AGREE);
}

void watch_line_json(const struct watch_line *line)
{
	struct json_object *o = json_object_new_object();
	struct json_object *total = json_object_new_object();
	char text[TIME_TEXT];

	json_add(o, "time", json_object_new_string(time_text(line->time, text)));
	json_add(o, "name", json_object_new_string(line->name));
	json_add(o, "generation", json_u64(line->generation));
	json_add(o, "packets", json_u64(line->live.asked));
	json_add(o, "absent_share", json_number(line->live.absent_share));
	json_add(o, "sample", json_u64(line->sample));
	json_add(o, "samples", json_u64(line->samples));
	json_add(o, "lost", json_u64(line->lost));
	json_add(o, "missing", json_u64(line->missing));
	json_add(o, "biased", json_object_new_boolean(line->biased));
	add_measured(o, &line->keys);
	json_add(o, "fp_predicted", json_number(line->fp_predicted));
	json_add(o, "agree", judgement_json(line->keys.judgement));
	json_add(o, "fp_packets", json_number(line->fp_packets));
	add_measured(total, &line->total);
	json_add(total, "agree", judgement_json(line->total.judgement));
	json_add(total, "since", json_object_new_string(time_text(line->since, text)));
	json_add(o, "total", total);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
						       JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

/* ---- as text ---- */

static const char *judgement_text(enum xbloom_judgement judgement)
{
	static const char *const texts[] = {
		[XBLOOM_AGREE] = "agree",
		[XBLOOM_DISAGREE] = "DISAGREE",
		[XBLOOM_TOO_FEW] = "too few",
		[XBLOOM_NOT_JUDGED] = "not judged",
	};

	return texts[judgement];
}

/* "201 false of 20,123 absent keys: 0.999 % (0.871 % .. 1.15 %)" */
static void print_measured(const struct watch_rate *m)
{
	char false_positives[HUMAN_TEXT], keys[HUMAN_TEXT], rate[HUMAN_TEXT];
	char low_text[HUMAN_TEXT], high_text[HUMAN_TEXT];
	double low, high;

	printf("%s false of %s absent keys", human_count(m->false_positives, false_positives),
	       human_count(m->keys, keys));
	if (!m->keys)
		return;
	xbloom_wilson(m->false_positives, m->keys, &low, &high);
	printf(": %s (%s .. %s)", human_rate((double)m->false_positives / (double)m->keys, rate),
	       human_rate(low, low_text), human_rate(high, high_text));
}

void watch_line_text(const struct watch_line *line)
{
	char time_now[TIME_TEXT], since[TIME_TEXT], packets[HUMAN_TEXT], rate[HUMAN_TEXT];
	char samples[HUMAN_TEXT], lost[HUMAN_TEXT], missing[HUMAN_TEXT];

	printf("%s %s: %s packets", time_text(line->time, time_now), line->name,
	       human_count(line->live.asked, packets));
	if (line->live.asked)
		printf(", %s absent", human_rate(line->live.absent_share, rate));
	printf("; ");
	print_measured(&line->keys);
	printf(", predicted %s, %s", human_rate(line->fp_predicted, rate),
	       judgement_text(line->keys.judgement));
	if (isfinite(line->fp_packets))
		printf("; by packets %s", human_rate(line->fp_packets, rate));
	printf("; %s samples, %s lost", human_count(line->samples, samples),
	       human_count(line->lost, lost));
	if (line->missing)
		printf("; %s of listed keys that are not in the filter",
		       human_count(line->missing, missing));
	printf("; since %s ", time_text(line->since, since));
	print_measured(&line->total);
	printf(", %s\n", judgement_text(line->total.judgement));
}
