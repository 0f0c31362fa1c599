// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom watch: verify a filter's answers on live traffic. Packets that were sampled at random
 * come through a ring buffer; each distinct key of them that the truth (lists, or the exact map)
 * does not hold is one trial of the filter's rate. Every interval, a line says what was measured,
 * what was predicted, and whether the two agree.
 *
 * Made to run for weeks: memory is fixed but for the lists, and a signal, a changed list, other
 * rules, a rebuild or the end of the filter are all part of its life.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "distinct.h"
#include "judge.h"
#include "watch_line.h"

#define INTERVAL_DEFAULT 60.0
#define INTERVAL_MIN 0.1
#define INTERVAL_MAX 604800.0 /* a week */

/* The ring buffer holds 18,000 samples: 360,000 a second find room. */
#define POLL_NS (50 * 1000000L)
/* A list that is the same at two looks is not being written. */
#define LOOK_EVERY 1.0
/* How long the last line may wait for who takes it. */
#define LAST_LINE_MS 1000

enum { OPT_FROM = OPT_FIRST, OPT_INTERVAL, OPT_COUNT };

static const struct option options[] = {
	{ "from", required_argument, NULL, OPT_FROM },
	{ "interval", required_argument, NULL, OPT_INTERVAL },
	{ "count", required_argument, NULL, OPT_COUNT },
	COMMON_OPTIONS,
};

struct request {
	const char *name;
	const char **files;
	size_t n_files;
	double interval; /* seconds */
	uint64_t count;	 /* lines; 0: no end */
	bool json;
};

/* What stat() says of a list, to see that it changed. All zero: it cannot be found. */
struct identity {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified;
};

struct list {
	struct identity read; /* when it was last read */
	struct identity seen; /* at the last look */
};

/*
 * Distinct keys that are trials of their own. IPv6 addresses of one prefix share the answer to it, where
 * the filter asks for prefixes; so of each prefix of the shortest length one address is taken.
 */
struct trials {
	struct xbloom_distinct_set keys;
	struct xbloom_distinct_set nets; /* prefixes of which one was taken */
};

/* Rates that are predicted of packets; without an address in the key both are the same. */
struct rates {
	double v4, v6;
};

struct watch {
	const struct request *req;
	struct xbloom *f;
	struct xbloom_samples *samples;
	struct xbloom_truth *truth;
	struct list *lists;
	double looked; /* at the lists */

	uint32_t opened; /* the generation that f was opened with, */
	uint32_t shape;	 /* and what it had for prefixes */
	/* The bits as they were when they were last looked at, and what they predict. */
	uint32_t generation;
	uint64_t inserted;
	struct rates predicted;
	uint32_t sample; /* one in so many */
	bool biased;	 /* by the rules as they are now, see is_biased() */

	/* Of this interval. */
	struct trials keys;
	struct xbloom_stats stats; /* at its begin */
	uint64_t n_samples;
	uint64_t n_maybe, n_false; /* sampled packets called maybe, and the unlisted of them */
	uint64_t n_missing;	   /* sampled packets called absent though listed */
	struct rates first;	   /* predicted at its begin */
	struct rates low, high;	   /* predicted since */
	bool bits_changed, truth_changed;
	bool was_biased; /* at some moment of it */

	/* Since the bits or the truth last changed. */
	struct trials total;
	time_t since;

	bool lost_said, stale_said;
	enum xbloom_judgement verdict; /* of the total */
};

/* ---- time and signals ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Those that end it, as far as its caller did not have it ignore them. */
static void add_ending_signals(sigset_t *set)
{
	static const int ending[] = { SIGINT, SIGTERM };
	struct sigaction action;
	size_t i;

	for (i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		if (!sigaction(ending[i], NULL, &action) && action.sa_handler != SIG_IGN)
			sigaddset(set, ending[i]);
}

/* And with `all`, the one that has the lists read again. */
static void signals_of_interest(sigset_t *set, bool all)
{
	sigemptyset(set);
	sigaddset(set, SIGHUP);
	if (all)
		add_ending_signals(set);
}

static void hold(bool all)
{
	sigset_t set;

	signals_of_interest(&set, all);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* A signal that came within one poll, or 0. */
static int wait_for_signal(void)
{
	const struct timespec poll = { .tv_nsec = POLL_NS };
	sigset_t set;
	int got;

	signals_of_interest(&set, true);
	got = sigtimedwait(&set, NULL, &poll);
	return got > 0 ? got : 0;
}

/* Whether a signal that ends it is waiting, for work that takes long. */
static bool is_to_end(void *ctx)
{
	sigset_t ending, waiting;

	(void)ctx;
	sigemptyset(&ending);
	add_ending_signals(&ending);
	if (sigpending(&waiting))
		return false;
	return sigandset(&waiting, &waiting, &ending) == 0 && !sigisemptyset(&waiting);
}

/* ---- lists ---- */

static struct identity identify(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return (struct identity){ 0 };
	return (struct identity){ st.st_dev, st.st_ino, st.st_size, st.st_mtim };
}

static bool same(const struct identity *a, const struct identity *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->modified.tv_sec == b->modified.tv_sec &&
	       a->modified.tv_nsec == b->modified.tv_nsec;
}

/* What can be read only once would be empty when it is read again. */
static bool check_lists(const struct request *r)
{
	struct stat st;
	size_t i;

	for (i = 0; i < r->n_files; i++) {
		if (!strcmp(r->files[i], "-") ||
		    (!stat(r->files[i], &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
			fail("watch reads its lists again when they change: '%s' has to be a file",
			     r->files[i]);
			return false;
		}
	}
	return true;
}

static int read_truth(struct watch *w, struct xbloom_truth **truth, struct xbloom_error *err)
{
	struct xbloom_options opts = *cli_options();
	size_t i;
	int ret;

	/* Before they are read: who changes them meanwhile has them read again. */
	for (i = 0; i < w->req->n_files; i++)
		w->lists[i].read = w->lists[i].seen = identify(w->req->files[i]);
	opts.cancelled = is_to_end;
	ret = xbloom_truth_open(w->f, w->req->files, w->req->n_files, &opts, truth, err);
	progress_done();
	return ret;
}

static void trials_clear(struct trials *t)
{
	xbloom_distinct_clear(&t->keys);
	xbloom_distinct_clear(&t->nets);
}

static void start_total(struct watch *w)
{
	trials_clear(&w->total);
	w->since = time(NULL);
	w->verdict = XBLOOM_TOO_FEW;
}

static void replace_truth(struct watch *w, struct xbloom_truth *truth)
{
	xbloom_truth_close(w->truth);
	w->truth = truth;
	w->truth_changed = true;
	w->n_maybe = w->n_false = 0;
	start_total(w);
}

/* What the lists hold by now was not read. */
static void forget_lists(struct watch *w)
{
	memset(w->lists, 0, w->req->n_files * sizeof(*w->lists));
}

static void read_lists_again(struct watch *w)
{
	struct xbloom_truth *truth = NULL;
	struct xbloom_error err = { "" };
	char keys[HUMAN_TEXT];
	int ret;

	if (!w->req->n_files)
		return;
	ret = read_truth(w, &truth, &err);
	if (ret == -ECANCELED) {
		forget_lists(w);
		return;
	}
	if (ret) {
		say("%s; the lists as they were before stay in force", err.text);
		return;
	}
	replace_truth(w, truth);
	say("the lists of %s were read again: %s keys", w->req->name,
	    human_count(xbloom_truth_keys(truth), keys));
}

/* Read the lists again when one has changed, and is at rest. */
static void look_at_lists(struct watch *w)
{
	bool changed = false;
	size_t i;

	if (now() - w->looked < LOOK_EVERY)
		return;
	w->looked = now();
	for (i = 0; i < w->req->n_files; i++) {
		struct list *l = &w->lists[i];
		struct identity id = identify(w->req->files[i]);

		changed |= !same(&id, &l->read) && same(&id, &l->seen);
		l->seen = id;
	}
	if (changed)
		read_lists_again(w);
}

/* A list is not what was read: judged by that, new keys would be false positives. */
static bool lists_are_stale(const struct watch *w)
{
	size_t i;

	for (i = 0; i < w->req->n_files; i++) {
		struct identity id = identify(w->req->files[i]);

		if (!same(&id, &w->lists[i].read))
			return true;
	}
	return false;
}

/* ---- samples ---- */

static bool is_listed(const struct watch *w, const __u64 *words, unsigned int n)
{
	return xbloom_truth_has(w->truth, words, n);
}

/* Not by the truth of a moment later, when somebody has just added it: the bits still say so. */
static bool is_missing(const struct watch *w, const struct xbloom_sample *s)
{
	return !xbloom_test_words(w->f, s->words, s->n_words);
}

static bool is_v6(const __u64 *words)
{
	return (words[0] >> 40 & 0xf) == XBLOOM_FAMILY_V6;
}

static void trials_put(struct trials *t, const struct xbloom_params *p,
		       const struct xbloom_sample *s, bool maybe)
{
	uint32_t n = p->n_plens6 <= XBLOOM_PLENS6_MAX ? p->n_plens6 : 0;

	if (n > 1 && is_v6(s->words)) {
		const struct xbloom_plen6 *shortest = &p->plens6[n - 1];
		const __u64 net[] = { s->words[1] & XBLOOM_RAW64(shortest->mask[0]),
				      s->words[2] & XBLOOM_RAW64(shortest->mask[1]) };

		if (!xbloom_distinct_put(&t->nets, net, 2, false))
			return;
	}
	xbloom_distinct_put(&t->keys, s->words, s->n_words, maybe);
}

static int take_sample(void *ctx, const struct xbloom_sample *s)
{
	bool maybe = s->reason != XBLOOM_ABSENT;
	struct watch *w = ctx;
	bool listed = is_listed(w, s->words, s->n_words);

	w->n_samples++;
	if (maybe) {
		w->n_maybe++;
		w->n_false += !listed;
	}
	if (listed) {
		/* Keys come into an exact map before they come into the filter. */
		w->n_missing += !maybe && w->req->n_files && is_missing(w, s);
		return 0;
	}
	trials_put(&w->keys, &xbloom_meta(w->f)->params, s, maybe);
	trials_put(&w->total, &xbloom_meta(w->f)->params, s, maybe);
	return 0;
}

static int take_samples(struct watch *w, struct xbloom_error *err)
{
	int64_t n = xbloom_samples_read(w->samples, take_sample, w);

	if (n >= 0)
		return 0;
	snprintf(err->text, sizeof(err->text), "cannot read the samples of filter %s: %s",
		 w->req->name, strerror((int)-n));
	return (int)n;
}

static int drop_sample(void *ctx, const struct xbloom_sample *s)
{
	(void)ctx;
	(void)s;
	return 0;
}

/* ---- the filter ---- */

/* Whether they have changed since they were last counted. */
static bool bits_are_new(const struct watch *w)
{
	return xbloom_inserted(w->f) != w->inserted ||
	       xbloom_meta(w->f)->generation != w->generation;
}

/* A key's answer holds as long as the bits do: those from before are no trials of the new bits. */
static bool notice_new_bits(struct watch *w)
{
	if (!bits_are_new(w))
		return false;
	w->bits_changed = true;
	start_total(w);
	return true;
}

/* Look at all bits, when they are new. */
static void predict(struct watch *w)
{
	struct xbloom_gauge gauge;

	if (!notice_new_bits(w))
		return;
	/* Before the bits: what is added meanwhile is new the next time. */
	w->generation = xbloom_meta(w->f)->generation;
	w->inserted = xbloom_inserted(w->f);
	xbloom_gauge(w->f, &gauge);
	w->predicted = (struct rates){ gauge.fp_v4, gauge.fp_v6 };
	w->low.v4 = fmin(w->low.v4, gauge.fp_v4);
	w->low.v6 = fmin(w->low.v6, gauge.fp_v6);
	w->high.v4 = fmax(w->high.v4, gauge.fp_v4);
	w->high.v6 = fmax(w->high.v6, gauge.fp_v6);
}

#define NO_SUCH_COUNT UINT64_MAX

/* Changes when a filter at work gets its first IPv4 prefix, or an IPv6 one of a length of its own. */
static uint32_t shape_of(const struct xbloom *f)
{
	const struct xbloom_params *p = &xbloom_meta(f)->params;

	return p->nets4 << 8 | p->n_plens6;
}

/* Of a filter that was just opened nothing is known. */
static void forget_bits(struct watch *w)
{
	w->shape = shape_of(w->f);
	w->opened = xbloom_meta(w->f)->generation;
	w->inserted = NO_SUCH_COUNT;
}

/*
 * The filter was filled anew: its bits are elsewhere, under another secret. Or prefixes have been added
 * to it, of which what was opened before knows nothing.
 */
static int follow_rebuild(struct watch *w, struct xbloom_error *err)
{
	struct xbloom_truth *truth = NULL;
	struct xbloom *f = NULL;
	int ret;

	if (xbloom_is_there(w->f) && xbloom_meta(w->f)->generation == w->opened &&
	    shape_of(w->f) == w->shape)
		return 0;
	ret = xbloom_open(w->req->name, 0, cli_options(), &f, err);
	/* An exact map belongs to the filter that was opened; lists belong to nobody. */
	if (!ret && !w->req->n_files)
		ret = xbloom_truth_open(f, NULL, 0, cli_options(), &truth, err);
	if (ret) {
		xbloom_close(f);
		return ret;
	}
	if (truth)
		replace_truth(w, truth);
	xbloom_close(w->f);
	w->f = f;
	/* What is in the buffer now, the old bits answered. */
	xbloom_samples_read(w->samples, drop_sample, NULL);
	forget_bits(w);
	predict(w);
	return 0;
}

/*
 * Whether the answer to a key has a say in how often the key is sampled. A sender who is dropped sends
 * less than one who gets through, or more; where not every packet is sampled, the keys of the one are
 * then met more seldom. In shadow all pass, and with an exact map all that are not listed.
 */
static bool is_biased(const struct xbloom_rules *rules)
{
	return !rules->shadow && !rules->confirm && rules->sample > 1;
}

static void notice_bias(struct watch *w, const struct xbloom_rules *rules)
{
	bool biased = is_biased(rules);

	if (biased && !w->biased)
		say("%s drops by its answers, so that who is answered maybe is not sampled as "
		    "often "
		    "as others: nothing is judged, unless it is in shadow, has an exact map, or "
		    "is sampled 1/1",
		    w->req->name);
	if (!biased && w->biased)
		start_total(w);
	w->biased = biased;
	w->was_biased |= biased;
}

static void notice_sampling(struct watch *w)
{
	struct xbloom_rules rules;

	xbloom_rules(w->f, &rules);
	notice_bias(w, &rules);
	if (!rules.sample && w->sample)
		say("sampling of %s was turned off: nothing is measured until xdp-bloom set %s "
		    "--sample 1/%u",
		    w->req->name, w->req->name, w->sample);
	if (rules.sample && !w->sample)
		say("sampling of %s is on again: one packet in %u", w->req->name, rules.sample);
	w->sample = rules.sample;
}

/* ---- what a line says ---- */

/* The counters at the end of the interval less those at its begin. */
static void subtract(struct xbloom_stats *stats, const struct xbloom_stats *begin)
{
	struct xbloom_counter *to = &stats->c[0][0];
	const struct xbloom_counter *from = &begin->c[0][0];
	size_t i;

	for (i = 0; i < (size_t)XBLOOM_REASONS * XBLOOM_ACTIONS; i++) {
		to[i].packets -= from[i].packets;
		to[i].bytes -= from[i].bytes;
	}
	stats->samples -= begin->samples;
	stats->samples_lost -= begin->samples_lost;
}

/*
 * The rate by packets: of those that are not listed, how many were called maybe. An exact map has
 * counted them. A list has not: as many as among the sampled. With 30 unlisted of 60 sampled maybes,
 * 1,000 maybes and 9,500 absent: 500 / (500 + 9,500) = 5 %.
 */
static double rate_by_packets(const struct watch *w, const struct xbloom_live *live)
{
	double absent = live->absent_share * (double)live->asked;
	double maybe = (double)live->asked - absent, unlisted;

	if (!w->req->n_files)
		return live->fp;
	if (!live->asked || (maybe >= 1 && !w->n_maybe))
		return NAN;
	unlisted = w->n_maybe ? maybe * (double)w->n_false / (double)w->n_maybe : 0;
	return unlisted + absent > 0 ? unlisted / (unlisted + absent) : NAN;
}

/* What is predicted of these keys, of either family; of none: the worse. */
static double predicted_of(const struct watch_rate *m, const struct rates *r)
{
	if (!m->keys)
		return r->v6;
	return ((double)(m->keys - m->keys6) * r->v4 + (double)m->keys6 * r->v6) / (double)m->keys;
}

/* Trials of two rates vary less than as many of their mean. */
static void judge(struct watch_rate *m, const struct rates *low, const struct rates *high)
{
	m->judgement = xbloom_judge(m->false_positives, m->keys, predicted_of(m, low),
				    predicted_of(m, high));
}

/*
 * Count the keys of a set; `again`: without those that the truth holds by now. (What it does not
 * hold any more was not kept.)
 */
static void count(const struct watch *w, const struct xbloom_distinct_set *set, bool again,
		  struct watch_rate *m)
{
	size_t i;

	*m = (struct watch_rate){ 0 };
	for (i = 0; i < set->n; i++) {
		const struct xbloom_distinct_key *key = &set->v[i];

		if (again && is_listed(w, key->words, key->n_words))
			continue;
		m->keys++;
		m->keys6 += is_v6(key->words);
		m->false_positives += key->maybe;
	}
}

static int make_line(struct watch *w, struct watch_line *line, struct xbloom_stats *stats,
		     struct xbloom_error *err)
{
	struct xbloom_stats interval;
	int ret = xbloom_stats(w->f, stats, err);

	if (ret)
		return ret;
	interval = *stats;
	subtract(&interval, &w->stats);
	predict(w);
	*line = (struct watch_line){
		.time = time(NULL),
		.name = w->req->name,
		.generation = w->generation,
		.sample = w->sample,
		.samples = w->n_samples,
		.lost = interval.samples_lost,
		.missing = w->n_missing,
		.since = w->since,
	};
	xbloom_live(&interval, &line->live);
	line->fp_packets = rate_by_packets(w, &line->live);
	count(w, &w->keys.keys, w->truth_changed || w->bits_changed, &line->keys);
	count(w, &w->total.keys, false, &line->total);
	line->fp_predicted =
		(predicted_of(&line->keys, &w->first) + predicted_of(&line->keys, &w->predicted)) /
		2;
	judge(&line->keys, &w->low, &w->high);
	judge(&line->total, &w->predicted, &w->predicted);
	line->stale = lists_are_stale(w);
	line->biased = w->was_biased;
	if (line->stale || line->biased)
		line->keys.judgement = XBLOOM_NOT_JUDGED;
	if (line->stale || w->biased)
		line->total.judgement = XBLOOM_NOT_JUDGED;
	w->verdict = line->total.judgement;
	return 0;
}

/* ---- intervals ---- */

static void start_interval(struct watch *w, const struct xbloom_stats *stats)
{
	w->stats = *stats;
	w->n_samples = w->n_maybe = w->n_false = w->n_missing = 0;
	w->first = w->low = w->high = w->predicted;
	w->bits_changed = w->truth_changed = false;
	w->was_biased = w->biased;
	trials_clear(&w->keys);
}

/* Once for each time it begins: the lines go on telling how many. */
static void explain_loss(struct watch *w, uint64_t lost)
{
	if (lost && !w->lost_said)
		say("samples of %s are lost: the buffer was full%s", w->req->name,
		    w->truth_changed ? " while the lists were read"
				     : "; sample fewer packets (xdp-bloom set --sample 1/N with a "
				       "larger N)");
	w->lost_said = lost;
}

/* The same of a list that never rests: its lines alone look like those of too little traffic. */
static void explain_staleness(struct watch *w, bool stale)
{
	if (stale && !w->stale_said)
		say("a list of %s is being changed: nothing is judged until it has been at rest "
		    "for %g s, and read",
		    w->req->name, LOOK_EVERY);
	w->stale_said = stale;
}

/* Whether somebody takes a line, within so many milliseconds; or has gone, which writing tells. */
static bool can_print(int timeout_ms)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&out, 1, timeout_ms) > 0;
}

static int nobody_takes(struct xbloom_error *err)
{
	snprintf(err->text, sizeof(err->text), "nobody takes the lines of this watch");
	return -EPIPE;
}

/* Print the line of the interval that ends now, and begin the next. */
static int end_interval(struct watch *w, struct xbloom_error *err)
{
	struct xbloom_stats stats;
	struct watch_line line;
	int ret = make_line(w, &line, &stats, err);

	if (ret)
		return ret;
	if (w->req->json)
		watch_line_json(&line);
	else
		watch_line_text(&line);
	explain_loss(w, line.lost);
	explain_staleness(w, line.stale);
	start_interval(w, &stats);
	return fflush(stdout) || ferror(stdout) ? nobody_takes(err) : 0;
}

/* Everything that is looked at between two lines. -ENOENT: the filter is gone. */
static int look(struct watch *w, struct xbloom_error *err)
{
	int ret = take_samples(w, err);

	if (ret)
		return ret;
	if (xbloom_presence(w->f) == XBLOOM_GONE) {
		snprintf(err->text, sizeof(err->text),
			 "filter %s was destroyed or replaced: this watch of it is over",
			 w->req->name);
		return -ENOENT;
	}
	notice_new_bits(w);
	ret = follow_rebuild(w, err);
	if (!ret)
		notice_sampling(w);
	return ret;
}

static int watch(struct watch *w, struct xbloom_error *err)
{
	double next = now() + w->req->interval;
	struct xbloom_error ignored;
	uint64_t lines = 0;
	int ret = 0;

	while (!ret && !(w->req->count && lines == w->req->count)) {
		int signal = wait_for_signal();
		bool last = signal && signal != SIGHUP;

		ret = look(w, err);
		if (ret == -ENOENT && can_print(LAST_LINE_MS))
			end_interval(w, &ignored);
		if (ret)
			break;
		if (signal == SIGHUP)
			read_lists_again(w);
		else
			look_at_lists(w);
		if (!last && now() < next)
			continue;
		/* Who waited in a write would lose samples, and could not be ended. */
		if (!can_print(last ? LAST_LINE_MS : 0)) {
			ret = last ? nobody_takes(err) : 0;
			continue;
		}
		ret = end_interval(w, err);
		lines++;
		/* Lines that could not be printed in time are left out. */
		while (next <= now())
			next += w->req->interval;
		if (last)
			break;
	}
	return ret;
}

/* ---- begin and end ---- */

/* What was sampled before is thrown away: nobody knows what the bits were then. */
static int throw_away_old(struct watch *w, struct xbloom_error *err)
{
	int64_t n = xbloom_samples_read(w->samples, drop_sample, NULL);
	char lost[HUMAN_TEXT], old[HUMAN_TEXT];
	struct xbloom_stats stats;
	int ret = xbloom_stats(w->f, &stats, err);

	if (ret)
		return ret;
	if (stats.samples_lost)
		say("%s: %s samples had been lost before, as nobody read them in time; %s that "
		    "were left are from before this watch, and not judged",
		    w->req->name, human_count(stats.samples_lost, lost),
		    human_count(n > 0 ? (uint64_t)n : 0, old));
	start_interval(w, &stats);
	start_total(w);
	return 0;
}

static void say_hello(const struct watch *w)
{
	char keys[HUMAN_TEXT];

	if (w->req->n_files)
		say("watching %s: one packet in %u is sampled and compared with %s listed keys; a "
		    "line every %g s",
		    w->req->name, w->sample, human_count(xbloom_truth_keys(w->truth), keys),
		    w->req->interval);
	else
		say("watching %s: one packet in %u is sampled and compared with the exact map; a "
		    "line every %g s",
		    w->req->name, w->sample, w->req->interval);
}

static bool trials_init(struct trials *t, const struct xbloom_hash_key *secret)
{
	return !xbloom_distinct_init(&t->keys, XBLOOM_DISTINCT_KEYS, secret) &&
	       !xbloom_distinct_init(&t->nets, XBLOOM_DISTINCT_KEYS, secret);
}

static void trials_free(struct trials *t)
{
	xbloom_distinct_free(&t->keys);
	xbloom_distinct_free(&t->nets);
}

static int open_sets(struct watch *w, struct xbloom_error *err)
{
	struct xbloom_hash_key secret;
	int ret = xbloom_hash_key_random(&secret, err);

	if (ret)
		return ret;
	w->lists = calloc(w->req->n_files + 1, sizeof(*w->lists));
	if (w->lists && trials_init(&w->keys, &secret) && trials_init(&w->total, &secret))
		return 0;
	snprintf(err->text, sizeof(err->text), "out of memory");
	return -ENOMEM;
}

static int begin(struct watch *w, struct xbloom_error *err)
{
	struct xbloom_rules rules;
	int ret = xbloom_open(w->req->name, 0, cli_options(), &w->f, err);

	if (ret)
		return ret;
	xbloom_rules(w->f, &rules);
	w->sample = rules.sample;
	if (!rules.sample) {
		snprintf(err->text, sizeof(err->text),
			 "sampling of %s is off: xdp-bloom set %s --sample 1/100", w->req->name,
			 w->req->name);
		return -ENOENT;
	}
	ret = open_sets(w, err);
	/* The lists first: a list that is wrong leaves no trace in the filter. */
	if (!ret)
		ret = read_truth(w, &w->truth, err);
	if (!ret)
		ret = xbloom_samples_open(w->f, &w->samples, err);
	if (ret)
		return ret;
	forget_bits(w);
	predict(w);
	return throw_away_old(w, err);
}

static void end(struct watch *w)
{
	xbloom_truth_close(w->truth);
	xbloom_samples_close(w->samples);
	xbloom_close(w->f);
	trials_free(&w->keys);
	trials_free(&w->total);
	free(w->lists);
}

static int run_watch(const struct request *r)
{
	struct watch w = { .req = r };
	struct xbloom_error err = { "" };
	int ret;

	/* Until there is something to say at the end, what ends others ends this. */
	hold(false);
	ret = begin(&w, &err);
	if (!ret) {
		hold(true);
		say_hello(&w);
		ret = watch(&w, &err);
	}
	end(&w);
	if (ret)
		return fail_err(&err);
	return w.verdict == XBLOOM_DISAGREE ? EXIT_NO : EXIT_DONE;
}

static bool parse_interval(const char *text, double *interval)
{
	if (!parse_positive("--interval", text, interval))
		return false;
	if (*interval < INTERVAL_MIN || *interval > INTERVAL_MAX) {
		fail("--interval '%s' is not between %g and %g seconds", text, INTERVAL_MIN,
		     INTERVAL_MAX);
		return false;
	}
	return true;
}

static bool parse(int argc, char **argv, struct request *r)
{
	bool good = true;
	int c;

	while (good && (c = next_option(&verb_watch, argc, argv, options)) != -1) {
		switch (c) {
		case OPT_FROM:
			r->files[r->n_files++] = optarg;
			break;
		case OPT_INTERVAL:
			good = parse_interval(optarg, &r->interval);
			break;
		case OPT_COUNT:
			good = parse_count("--count", optarg, COUNT_MAX, &r->count);
			break;
		case OPT_JSON:
			r->json = true;
			break;
		default:
			good = false;
		}
	}
	if (!good)
		return false;
	if (argc - optind != 1) {
		fail("watch needs the name of one filter (xdp-bloom watch --help)");
		return false;
	}
	r->name = argv[optind];
	return check_lists(r);
}

static int run(int argc, char **argv)
{
	struct request r = { .interval = INTERVAL_DEFAULT };
	int status = EXIT_FAILED;

	r.files = calloc((size_t)argc, sizeof(*r.files));
	if (!r.files)
		return fail("out of memory");
	if (parse(argc, argv, &r))
		status = run_watch(&r);
	free(r.files);
	return status;
}

const struct verb verb_watch = {
	.name = "watch",
	.summary = "verify the answers to sampled live traffic, a line an interval",
	.help = "usage: xdp-bloom watch NAME [--from FILE]... [--interval SECONDS] [--count N]\n"
		"\n"
		"Compares the keys of sampled packets (xdp-bloom set has them sampled) with "
		"lists,\n"
		"or with the filter's exact map, and tells the measured rate with its 95 %\n"
		"interval, the predicted one, and whether they agree: a right prediction is "
		"called\n"
		"wrong in one line of 10,000. Nothing is judged of a filter that drops, has no "
		"exact\n"
		"map, and does not have every packet sampled. Ctrl-C or SIGTERM ends it with a "
		"last\n"
		"line; exit status 1 when the total disagrees. SIGHUP, or a change of a list, has\n"
		"the lists read again.\n"
		"\n"
		"  --from FILE   what is really listed; a file, not a pipe\n"
		"  --interval S  seconds from line to line (60)\n"
		"  --count N     end after N lines\n"
		"  --json        one JSON object a line\n",
	.run = run,
};
