/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * libxbloom: make, fill, ask, attach and remove the filters of xdp-bloom.
 *
 * Conventions, everywhere:
 *  - A function that can fail returns 0 (or a count) on success and a negative errno otherwise,
 *    and then *err holds one line that says what is wrong, where, and what to do.
 *  - The library never prints and never exits. It keeps no state of its own but one thread-local
 *    pointer that collects what libbpf has to say during a call; for that time it takes the place
 *    of the process's libbpf print function, so let one thread at a time call the library.
 *  - Strings that come back through a struct are inside that struct; memory that comes back
 *    through a pointer is freed by the named function.
 *  - Sizes are bytes, counts and bits are 64-bit, rates are 0..1, times are seconds.
 *
 * A filter lives in /sys/fs/bpf/xdp-bloom/NAME, as pinned programs and maps; no process keeps it
 * alive. Writers of one filter wait for each other on a lock; readers never wait.
 */
#ifndef LIBXBLOOM_H
#define LIBXBLOOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../include/xbloom/maps.h"

/* Where filters live. The environment variable XDP_BLOOM_BPFFS replaces /sys/fs/bpf. */
#define XBLOOM_BPFFS "/sys/fs/bpf"
#define XBLOOM_DIR "xdp-bloom"

#define XBLOOM_FP_MIN 1e-9
#define XBLOOM_FP_MAX 0.5
#define XBLOOM_FP_DEFAULT 0.01
#define XBLOOM_ALARM_PERCENT 80

/* ---- errors ---- */

struct xbloom_error {
	char text[512];
};

/* ---- rates and sizes (rate.c, plan.c): arithmetic only, no privilege needed ---- */

/*
 * The false positive rate of a split filter at `bits_per_key` (> 0) bits a key:
 * sum over i of Poisson(i; 512/c) * (1-(1-1/64)^i)^8, and 512/c / 2^32. At 10 bits: 0.010490.
 */
double xbloom_rate_split(double bits_per_key);

/* That of a classic one with k hashes: (1-e^(-k/c))^k. At 8 bits, k 6: 0.021577. */
double xbloom_rate_classic(double bits_per_key, unsigned int k);

/* The rate of either for n keys in its geometry. */
double xbloom_rate(const struct xbloom_geometry *g, uint64_t n);

/*
 * How many distinct keys were put in when `inserted` of them changed a bit. The others found all
 * their bits set, each with the rate of its moment: dinserted/dn = 1 - rate(n), solved for n. The
 * standard deviation is about the square root of the difference. At 1 %: 100,170 for 100,000.
 */
double xbloom_distinct(const struct xbloom_geometry *g, uint64_t inserted);

/* What is asked for. Zero means: not given. */
struct xbloom_size_request {
	uint32_t layout;     /* XBLOOM_LAYOUT_* */
	uint64_t items;	     /* distinct keys, at least 1 */
	double fp;	     /* XBLOOM_FP_MIN .. XBLOOM_FP_MAX; 0: XBLOOM_FP_DEFAULT */
	double bits_per_key; /* instead of fp */
	unsigned int hashes; /* classic: k; 0: the best one */
};

struct xbloom_size {
	struct xbloom_geometry geometry;
	uint64_t items;
	uint64_t bytes;	     /* of the blocks */
	double bits_per_key; /* as rounded to the geometry */
	double fp;	     /* predicted at `items` keys */
	double fp_target;    /* what was asked for; by a budget of bits: the same as fp */
};

/*
 * Find the smallest geometry that keeps the rate at `items` keys. -EINVAL: a number is out of
 * range; -E2BIG: more than XBLOOM_BLOCKS_MAX blocks, or classic past 2^32 bits.
 */
int xbloom_plan(const struct xbloom_size_request *req, struct xbloom_size *size,
		struct xbloom_error *err);

/* ---- keys as text (keytext.c) ---- */

/* "src,dport", "5tuple", ... to XBLOOM_SRC | ...; -EINVAL. */
int xbloom_fields_parse(const char *text, uint32_t *fields, struct xbloom_error *err);

#define XBLOOM_FIELDS_TEXT 40
/* The canonical text of a field set: "5tuple" or a comma list. */
const char *xbloom_fields_text(uint32_t fields, char buf[XBLOOM_FIELDS_TEXT]);

/*
 * One key, its fields separated by commas in the order src,dst,sport,dport,proto,vlan:
 * "192.0.2.7", "2001:db8::1,443". An IPv4-mapped IPv6 address is read as IPv4. `text` has `len`
 * bytes and needs no terminating zero. -EINVAL, and *err says which part and why.
 */
int xbloom_key_parse(const char *text, size_t len, uint32_t fields, struct xbloom_flow *flow,
		     struct xbloom_error *err);

#define XBLOOM_KEY_TEXT 128
/* The canonical text of the keyed fields of a flow. */
const char *xbloom_key_text(const struct xbloom_flow *flow, uint32_t fields,
			    char buf[XBLOOM_KEY_TEXT]);

/* ---- lists (list.c, hashes.c) ---- */

/* Called now and then during long work; `total` is 0 when it is not known. */
typedef void (*xbloom_progress_fn)(void *ctx, const char *what, uint64_t done, uint64_t total);

/*
 * Keys as a filter sees them: hashes under its secret. Eight bytes a key, whatever the key is.
 * Zero-initialise; free with xbloom_hashes_free().
 */
struct xbloom_hashes {
	uint64_t *v;
	size_t n;
	size_t room;
};

int xbloom_hashes_push(struct xbloom_hashes *h, uint64_t hash, struct xbloom_error *err);
/* Sort (so that a fill walks memory in order) and drop duplicates; returns how many went. */
uint64_t xbloom_hashes_distinct(struct xbloom_hashes *h);
void xbloom_hashes_free(struct xbloom_hashes *h);

/*
 * Called for each key of a list with the text it stood as; a negative return ends the reading
 * and is returned.
 */
typedef int (*xbloom_key_fn)(void *ctx, const struct xbloom_flow *flow, const char *text,
			     size_t len);

struct xbloom_list_stats {
	uint64_t lines;
	uint64_t keys; /* lines that held one, duplicates included */
};

/*
 * Read a list: one key a line; '#' and ';' start a comment; what follows a key after white space
 * is ignored; blank lines and CRLF are fine. `path` "-" is standard input. The first bad line
 * ends it with -EINVAL and "file:line: what". An unreadable file: its errno.
 */
int xbloom_list_read(const char *path, uint32_t fields, xbloom_key_fn fn, void *ctx,
		     struct xbloom_list_stats *stats, struct xbloom_error *err);

/* The same into hashes. Adds to *hashes and *stats. */
int xbloom_list_hash(const char *path, uint32_t fields, const struct xbloom_hash_key *key,
		     struct xbloom_hashes *hashes, struct xbloom_list_stats *stats,
		     xbloom_progress_fn progress, void *progress_ctx, struct xbloom_error *err);

/* ---- filters (filter.c, state.c) ---- */

struct xbloom; /* an open filter */

/* How a filter treats packets. */
struct xbloom_rules {
	uint32_t fields; /* XBLOOM_SRC | ... */
	uint32_t policy; /* XBLOOM_POLICY_* */
	bool shadow;
	uint32_t unkeyed_drop; /* bits 1 << XBLOOM_MALFORMED | ... */
};

/* The usual treatment of unkeyed packets: pass under block, drop under allow. */
uint32_t xbloom_unkeyed_default(uint32_t policy);

/* Called once when another tool holds the filter's lock for over a second. */
typedef void (*xbloom_wait_fn)(void *ctx, const char *name);

struct xbloom_options {
	/* Asked while a filter is made or waited for; true: give up, -ECANCELED, leave nothing. */
	bool (*cancelled)(void *ctx);
	xbloom_wait_fn waiting;
	xbloom_progress_fn progress;
	void *ctx;
};

/* 0, or -EINVAL: letters, digits, '-' and '_', a letter or digit first, under 64 bytes. */
int xbloom_name_check(const char *name, struct xbloom_error *err);

/* Fill *key from the kernel's random numbers. */
int xbloom_hash_key_random(struct xbloom_hash_key *key, struct xbloom_error *err);

/*
 * Whether a filter of this name could be made: 0, or -EEXIST and others. Says nothing of a moment
 * later; it spares reading a long list in vain.
 */
int xbloom_available(const char *name, struct xbloom_error *err);

/*
 * Make a filter, fill it with hashes (made under `key`, distinct, sorted; may be NULL) and give
 * it its name: all at once, so that nobody sees it half-made. What a create that died left under
 * the name is replaced. -EEXIST: the name is taken; -ENOMEM: it would not fit in memory.
 * *out is open and locked for writing; free with xbloom_close().
 */
int xbloom_create(const char *name, const struct xbloom_size *size,
		  const struct xbloom_rules *rules, const struct xbloom_hash_key *key,
		  const struct xbloom_hashes *hashes, const struct xbloom_options *opts,
		  struct xbloom **out, struct xbloom_error *err);

#define XBLOOM_OPEN_WRITE 1u
/*
 * Open a filter; with XBLOOM_OPEN_WRITE wait for its lock and map it writable. -ENOENT: no such
 * filter; -EPROTO: made by another version of the tool; -EUCLEAN: half-made or corrupted.
 */
int xbloom_open(const char *name, unsigned int flags, const struct xbloom_options *opts,
		struct xbloom **out, struct xbloom_error *err);
void xbloom_close(struct xbloom *f);

/* The names of all filters, sorted; half-made ones too. Free with xbloom_names_free(). */
int xbloom_names(char ***names, size_t *n, struct xbloom_error *err);
void xbloom_names_free(char **names, size_t n);

/* Read only; valid until xbloom_close(). */
const struct xbloom_meta *xbloom_meta(const struct xbloom *f);
const struct xbloom_geometry *xbloom_geometry(const struct xbloom *f);
const struct xbloom_block *xbloom_blocks(const struct xbloom *f);
/* The pinned entry program; owned by f. */
int xbloom_prog_fd(const struct xbloom *f);

/* The hash of a flow under the filter's secret. */
uint64_t xbloom_hash(const struct xbloom *f, const struct xbloom_flow *flow);

/* True: maybe. False: certainly absent. */
bool xbloom_test(const struct xbloom *f, uint64_t hash);

/*
 * Insert; needs XBLOOM_OPEN_WRITE. From the return on, no packet with the key is called absent.
 * Returns whether a bit changed, and counts it if so.
 */
bool xbloom_add(struct xbloom *f, uint64_t hash);
/* All of them; returns how many changed a bit. */
uint64_t xbloom_add_all(struct xbloom *f, const struct xbloom_hashes *hashes,
			const struct xbloom_options *opts);

/* Load a filter program with new rules and put it in the slot; the fields cannot change. */
int xbloom_set_rules(struct xbloom *f, const struct xbloom_rules *rules, struct xbloom_error *err);
void xbloom_rules(const struct xbloom *f, struct xbloom_rules *rules);

/* What the bits say, by looking at all of them. */
struct xbloom_gauge {
	uint64_t ones;
	double estimated;    /* keys, from the ones; infinite when every bit is set */
	double load;	     /* as xbloom_load() */
	double fp_predicted; /* of the bits as they are now */
};
void xbloom_gauge(const struct xbloom *f, struct xbloom_gauge *gauge);

/* Distinct keys put in (see xbloom_distinct()) / capacity. */
double xbloom_load(const struct xbloom *f);

/*
 * "ok", "high" (from alarm_percent of capacity) or "over" (more than capacity). In doubt, within
 * three standard deviations, "high" is early and "over" is late: a filter that holds exactly what
 * it was sized for is not called over.
 */
const char *xbloom_alarm(const struct xbloom *f);

/* The counters, summed over CPUs. */
int xbloom_stats(const struct xbloom *f, struct xbloom_stats *stats, struct xbloom_error *err);

/* Counters by the names that `show` prints. A packet is in one of the reasons, and one action. */
struct xbloom_named_counter {
	const char *name;
	struct xbloom_counter value;
};
#define XBLOOM_NAMED_COUNTERS (XBLOOM_REASONS + XBLOOM_ACTIONS)
void xbloom_stats_named(const struct xbloom_stats *stats,
			struct xbloom_named_counter out[XBLOOM_NAMED_COUNTERS]);
/* The name of a reason: "absent", "malformed", ... */
const char *xbloom_reason_name(uint32_t reason);

/*
 * Take everything of NAME away, whatever state it is in, trials and attachments included. Devices
 * in other network namespaces keep the entry program; its slot is then empty, and it passes
 * everything.
 */
int xbloom_destroy(const char *name, const struct xbloom_options *opts, struct xbloom_error *err);

/* ---- devices (attach.c) ---- */

enum xbloom_mode { XBLOOM_MODE_AUTO, XBLOOM_MODE_NATIVE, XBLOOM_MODE_GENERIC };
const char *xbloom_mode_name(enum xbloom_mode mode);

struct xbloom_device {
	char name[16];
	unsigned int ifindex;
	enum xbloom_mode mode;
	bool trial;
	double trial_left; /* seconds; 0: it is over, and what is attached passes everything */
};

/* The devices (of this network namespace) that f is attached to. Free *devices with free(). */
int xbloom_devices(const struct xbloom *f, struct xbloom_device **devices, size_t *n,
		   struct xbloom_error *err);

/* Told about what is not an error but must not go unsaid. */
typedef void (*xbloom_notice_fn)(void *ctx, const char *text);

struct xbloom_attach_options {
	enum xbloom_mode mode;
	bool force;		  /* replace a foreign program */
	unsigned int try_seconds; /* 0: for good */
	xbloom_notice_fn notice;  /* a fall back to generic mode, an adopted program, ... */
	void *ctx;
};

/*
 * Attach f to all n devices, or to none: who was attached when one fails is detached again. An
 * entry program that belongs to no filter (ip link ... obj) is adopted; -EBUSY: another XDP
 * program is there.
 */
int xbloom_attach(struct xbloom *f, const char *const *devices, size_t n,
		  const struct xbloom_attach_options *opts, struct xbloom_error *err);

/* Make the trials on all n devices permanent. -ENOENT: no trial is running on one; none is made. */
int xbloom_confirm_try(const char *const *devices, size_t n, struct xbloom_error *err);

/*
 * Take our programs off all n devices. -ENOENT: one has none; -EBUSY: one has another's; either
 * way, all stay.
 */
int xbloom_detach(const char *const *devices, size_t n, struct xbloom_error *err);

#endif /* LIBXBLOOM_H */
