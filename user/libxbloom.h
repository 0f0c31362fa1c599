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

struct xbloom; /* an open filter */

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

/* The rate of n looks, each wrong at `rate` and independent: 1-(1-p)^n. 1 % and 3: 2.97 %. */
double xbloom_rate_of_asks(double rate, unsigned int n);
/* The other way: the rate of each that makes this one of all. 2.97 % and 3: 1 %. */
double xbloom_rate_of_one(double rate, unsigned int n);

/* What is asked for. Zero means: not given. */
struct xbloom_size_request {
	uint32_t layout;     /* XBLOOM_LAYOUT_* */
	uint64_t items;	     /* distinct keys, at least 1 */
	double fp;	     /* XBLOOM_FP_MIN .. XBLOOM_FP_MAX; 0: XBLOOM_FP_DEFAULT */
	double bits_per_key; /* instead of fp */
	unsigned int hashes; /* classic: k; 0: the best one */
	unsigned int asks;   /* look-ups a packet, each of which may be wrong; 0: one */
};

struct xbloom_size {
	struct xbloom_geometry geometry;
	uint64_t items;
	uint64_t bytes;	     /* of the blocks */
	double bits_per_key; /* as rounded to the geometry */
	double fp;	     /* predicted at `items` keys */
	double fp_target;    /* what was asked for; by a budget of bits: the same as fp */
	/* The exact map of --confirm, by xbloom_plan_exact(); 0: none. */
	uint64_t exact_keys; /* it has room for */
	uint64_t exact_bytes;
	/* From where on the load is called high; 0: XBLOOM_ALARM_PERCENT. xbloom_plan() leaves 0. */
	unsigned int alarm_percent;
	/* What prefixes need; xbloom_plan() leaves all of it 0. */
	bool nets4;	       /* the exact map of IPv4 prefixes, xbloom_nets4_bytes() */
	unsigned int n_plens6; /* IPv6 lengths that a packet is asked for; 0: 128 alone */
	uint32_t plens6[XBLOOM_PLENS6_MAX]; /* the longest first, which is 128 */
	/* A time to live: arrays in rotation, and how long a key stays at least; 0: for ever. */
	unsigned int lives;
	uint64_t ttl_ns;
};

/* What the map of IPv4 prefixes takes: 2 MiB for each array of bits, or 0. */
uint64_t xbloom_nets4_bytes(const struct xbloom_size *size);

/*
 * Find the smallest geometry that keeps the rate at `items` keys. -EINVAL: a number is out of
 * range; -E2BIG: more than XBLOOM_BLOCKS_MAX blocks, or classic past 2^32 bits.
 */
int xbloom_plan(const struct xbloom_size_request *req, struct xbloom_size *size,
		struct xbloom_error *err);

/*
 * Add an exact map of keys of these fields to a plan: room for size->items keys and a quarter more
 * where max_bytes (0: no limit) allows, all of it taken when the filter is made. -E2BIG: max_bytes
 * is not enough for the items themselves, or they are more than a BPF map holds.
 */
int xbloom_plan_exact(struct xbloom_size *size, uint32_t fields, uint64_t max_bytes,
		      struct xbloom_error *err);

/*
 * xbloom_rate() solved for n: the most keys with which a filter of this geometry is wrong at `rate`
 * or less. 0 to UINT64_MAX, the latter for a rate of 1, which is never passed.
 */
uint64_t xbloom_keys_at_rate(const struct xbloom_geometry *g, double rate);

/*
 * The 95 % interval of a rate of which `hits` of n trials were seen (Wilson, 1927). 10 of 1,000:
 * 0.005441 .. 0.018309. Of no trials: 0 .. 1.
 */
void xbloom_wilson(uint64_t hits, uint64_t n, double *low, double *high);

/* ---- keys as text (keytext.c) ---- */

/* "src,dport", "5tuple", ... to XBLOOM_SRC | ...; -EINVAL. */
int xbloom_fields_parse(const char *text, uint32_t *fields, struct xbloom_error *err);

#define XBLOOM_FIELDS_TEXT 40
/* The canonical text of a field set: "5tuple" or a comma list. */
const char *xbloom_fields_text(uint32_t fields, char buf[XBLOOM_FIELDS_TEXT]);

/*
 * One key, its fields separated by commas in the order src,dst,sport,dport,proto,vlan:
 * "192.0.2.7", "2001:db8::1,443". With one port keyed it may be written as ipset does, tcp:443: the
 * protocol is the key's where it is keyed, and else the key stands for the port of every protocol.
 * An IPv4-mapped IPv6 address is read as IPv4. `text` has `len`
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
 * An exact map needs the keys themselves as well, `width` words each (xbloom_key_width()), the
 * unused ones 0; in no relation to the order of the hashes, duplicates included. Zero-initialise,
 * but for width; free with xbloom_hashes_free().
 */
struct xbloom_hashes {
	uint64_t *v;
	size_t n;
	size_t room;
	unsigned int width; /* 0: the hashes alone */
	__u64 *words;
	size_t words_n; /* keys in words[] */
	size_t words_room;
};

int xbloom_hashes_push(struct xbloom_hashes *h, uint64_t hash, struct xbloom_error *err);
/* The hash of a flow under `key`, and its words where they are wanted. */
int xbloom_hashes_push_flow(struct xbloom_hashes *h, const struct xbloom_hash_key *key,
			    const struct xbloom_flow *flow, uint32_t fields,
			    struct xbloom_error *err);
/* Sort (so that a fill walks memory in order) and drop duplicates; returns how many went. */
uint64_t xbloom_hashes_distinct(struct xbloom_hashes *h);
void xbloom_hashes_free(struct xbloom_hashes *h);

/* Called once when another tool holds the filter's lock for over a second. */
typedef void (*xbloom_wait_fn)(void *ctx, const char *name);

struct xbloom_options {
	/* Asked while a filter is made or waited for; true: give up, -ECANCELED, leave nothing. */
	bool (*cancelled)(void *ctx);
	xbloom_wait_fn waiting;
	xbloom_progress_fn progress;
	void *ctx;
};

/* The formats of lists. */
enum xbloom_format {
	XBLOOM_FORMAT_AUTO,	     /* by content */
	XBLOOM_FORMAT_PLAIN,	     /* an entry a line; FireHOL's netsets, Spamhaus DROP as text */
	XBLOOM_FORMAT_IPSET,	     /* `ipset save` */
	XBLOOM_FORMAT_NFT,	     /* `nft list set`, add element ... { } */
	XBLOOM_FORMAT_NFT_JSON,	     /* `nft -j list set` */
	XBLOOM_FORMAT_SPAMHAUS_JSON, /* an object a line, with "cidr" */
	XBLOOM_FORMAT_CROWDSEC,	     /* decisions as JSON: value, scope Ip or Range */
	XBLOOM_FORMAT_CSV,
	/* Network-order addresses of 4 or 16 bytes and nothing else; only ever asked for. */
	XBLOOM_FORMAT_RAW4,
	XBLOOM_FORMAT_RAW6,
	XBLOOM_FORMATS,
};

/* "auto", "plain", "ipset", "nft", "nft-json", "spamhaus-json", "crowdsec", "csv", "raw4", "raw6". */
int xbloom_format_parse(const char *name, enum xbloom_format *format, struct xbloom_error *err);
const char *xbloom_format_name(enum xbloom_format format);

/* What of a list was passed over. A comment line or a blank one of a text list is not. */
enum xbloom_ignored {
	XBLOOM_IGNORED_CREATE,	 /* what makes or empties a set, and says nothing of its elements */
	XBLOOM_IGNORED_HEADER,	 /* the first record of CSV, which names the columns */
	XBLOOM_IGNORED_METADATA, /* Spamhaus' closing line; nft's first object */
	XBLOOM_IGNORED_NOMATCH,	 /* ipset's exceptions to a prefix */
	XBLOOM_IGNORED_SCOPE,	 /* decisions over something else than addresses: Country, AS */
	XBLOOM_IGNORED_SIMULATED, /* decisions that CrowdSec itself does not enforce */
	XBLOOM_IGNORED_EMPTY,	  /* CSV: nothing in the column */
	/* Of entries that were taken; never an error. */
	XBLOOM_IGNORED_TIMEOUT, /* the entry would have expired */
	XBLOOM_IGNORED_COMMENT, /* a comment or counters */
	XBLOOM_IGNORED_REASONS,
};
/* "create", "header", ... */
const char *xbloom_ignored_name(enum xbloom_ignored reason);

struct xbloom_list_options {
	uint32_t fields; /* of the key: XBLOOM_SRC | ... */
	enum xbloom_format format;
	/*
	 * CSV: the column's number from 1, or its name in the header. NULL: the one with a name like
	 * ip or address, or else the one that holds entries.
	 */
	const char *column;
	bool strict;	      /* a line or element that would be ignored is an error */
	bool everything;      /* take 0.0.0.0/0 and ::/0, which otherwise are errors */
	unsigned int threads; /* 0: one for each CPU; 1: entries come in the file's order */
	const struct xbloom_options *opts; /* progress, cancelled; may be NULL */
};

/* The numbers of workers are below this, whatever `threads` says. */
#define XBLOOM_READERS_MAX 16

/*
 * Called for each entry: a key, or a prefix when flow->plen is shorter than a host's (its host bits
 * are zero). A range comes as the fewest prefixes that cover it, one call each. Called from several
 * threads at once, each with its own worker number; with threads 1 from the caller's, worker 0.
 * text, len: the entry as it stood in the file; NULL, 0 for the raw formats. A negative return ends
 * the reading and is returned; the message is the callback's to write. -EBADMSG, with one thread: what
 * it wrote, into the same error, is about the entry, and "FILE:LINE: " is put before it.
 */
typedef int (*xbloom_entry_fn)(void *ctx, unsigned int worker, const struct xbloom_flow *flow,
			       const char *text, size_t len);

struct xbloom_list_stats {
	uint64_t lines;	   /* for formats without lines: elements */
	uint64_t keys;	   /* entries that were one key, duplicates included */
	uint64_t prefixes; /* entries that were a prefix or range of more than one address */
	uint64_t masked;   /* prefixes with host bits set, which were cleared */
	uint64_t ignored[XBLOOM_IGNORED_REASONS];
};

/*
 * Read a list; "-" is standard input. gzip and zstd are recognised by content (but not in a raw
 * format). As a plain list: a
 * key, prefix or range a line; '#' and ';' start a comment; what follows an entry after white space
 * is ignored; blank lines and CRLF are fine. Prefixes and ranges go only with the key src or dst
 * alone.
 *
 * Adds to *stats (may be NULL). The first bad line of the file ends it with -EINVAL and
 * "FILE:LINE: what", whatever the number of threads; entries behind it may have been handed over.
 * An unreadable file: its errno. -ECANCELED. A list without entries is no error. Memory: a few MiB
 * for each thread.
 */
int xbloom_list_read(const char *path, const struct xbloom_list_options *options,
		     xbloom_entry_fn fn, void *ctx, struct xbloom_list_stats *stats,
		     struct xbloom_error *err);

/*
 * One argument of a command line: a key, prefix, or range "FIRST-LAST". Handed over as an entry of
 * a list is, by worker 0. stats may be NULL; lines are not counted.
 */
int xbloom_entry_parse(const char *text, size_t len, const struct xbloom_list_options *options,
		       xbloom_entry_fn fn, void *ctx, struct xbloom_list_stats *stats,
		       struct xbloom_error *err);

/* A list of single keys into hashes: -EINVAL for a prefix. Adds to *hashes and *stats. */
int xbloom_list_hash(const char *path, uint32_t fields, const struct xbloom_hash_key *key,
		     struct xbloom_hashes *hashes, struct xbloom_list_stats *stats,
		     xbloom_progress_fn progress, void *progress_ctx, struct xbloom_error *err);

/* ---- prefixes (prefixes.c) ---- */

/* Keys that IPv6 prefixes may come to when they are expanded to the filter's lengths. */
#define XBLOOM_EXPAND_MAX (16ULL << 20)

/* What the prefixes of a list come to in a filter. */
struct xbloom_prefix_plan {
	uint64_t merged;       /* prefixes that others cover, or that were joined */
	uint64_t nets4;	       /* bits of the exact map: /24s */
	uint64_t hosts4;       /* keys: the addresses of IPv4 prefixes longer than /24 */
	uint64_t keys6;	       /* keys: what IPv6 prefixes become */
	unsigned int n_plens6; /* lengths that IPv6 packets are asked for, */
	uint32_t plens6[XBLOOM_PLENS6_MAX]; /* the longest first, which is 128 */
	bool all4, all6;		    /* together they cover every address of the family */
};

/* ---- keys from lists (keys.c) ---- */

/*
 * What lists and arguments hold, on its way into a filter. Open, read, settle; then ask how many
 * they are, make the filter (xbloom_keys_put() as its filling) or add them to one.
 */
struct xbloom_keys;

struct xbloom_keys_options {
	uint32_t fields;
	struct xbloom_hash_key key; /* the secret of the filter that they are for */
	const struct xbloom_hash_key
		*source_key; /* copied; see struct xbloom_source; NULL: not wanted */
	bool words;	     /* keep the keys themselves: for an exact map, and for adding */
	uint64_t max_keys;   /* a reader may hold; 0: no limit */
	uint64_t expand_max; /* 0: XBLOOM_EXPAND_MAX */
	uint32_t plens6[XBLOOM_PLENS6_MAX]; /* that the filter has already */
	unsigned int n_plens6;
	/* Told of each entry as it is read, from several threads at once; may be NULL. */
	void (*seen)(void *ctx, unsigned int worker, const struct xbloom_flow *flow);
	void *seen_ctx;
};

int xbloom_keys_open(const struct xbloom_keys_options *options, struct xbloom_keys **out,
		     struct xbloom_error *err);
void xbloom_keys_close(struct xbloom_keys *keys);

/* As xbloom_list_read() and xbloom_entry_parse(). -E2BIG: more keys than may be held. */
int xbloom_keys_read(struct xbloom_keys *keys, const char *path,
		     const struct xbloom_list_options *options, struct xbloom_list_stats *stats,
		     struct xbloom_error *err);
int xbloom_keys_argument(struct xbloom_keys *keys, const char *text,
			 const struct xbloom_list_options *options, struct xbloom_list_stats *stats,
			 struct xbloom_error *err);
/* One entry: an xbloom_entry_fn whose ctx is the keys. */
int xbloom_keys_take(void *keys, unsigned int worker, const struct xbloom_flow *flow,
		     const char *text, size_t len);

/*
 * What the exact map and the map of IPv4 prefixes of a filter hold. -ENOENT: it has no exact map, and
 * bits do not tell their keys.
 */
int xbloom_keys_from_filter(struct xbloom_keys *keys, const struct xbloom *f,
			    struct xbloom_error *err);

/* All was read: sort, and drop what is there twice. -E2BIG: see xbloom_prefix_plan. */
int xbloom_keys_settle(struct xbloom_keys *keys, const struct xbloom_options *opts,
		       struct xbloom_error *err);
/*
 * The same keys for a filter with another secret, or other lengths. They must have words, and are
 * to be settled again.
 */
int xbloom_keys_rehash(struct xbloom_keys *keys, const struct xbloom_params *params,
		       struct xbloom_error *err);

/* Whether they were hashed for a filter with these constants. */
bool xbloom_keys_are_for(const struct xbloom_keys *keys, const struct xbloom_params *params);
/* How many can be held, by the memory that is available now: half of it. */
uint64_t xbloom_keys_that_fit(bool words);

/*
 * Of settled keys: those that the filter gets, expanded prefixes included; how many were dropped
 * because they had been there before. Streamed keys are not counted: 0, and 0.
 */
bool xbloom_keys_counted(const struct xbloom_keys *keys);
uint64_t xbloom_keys_distinct(const struct xbloom_keys *keys);
uint64_t xbloom_keys_repeated(const struct xbloom_keys *keys);
/* NULL: there was no prefix. */
const struct xbloom_prefix_plan *xbloom_keys_prefixes(const struct xbloom_keys *keys);
void xbloom_keys_source(const struct xbloom_keys *keys, struct xbloom_source *source);

/* ---- special addresses (special.c) ---- */

/* Room for a prefix as text. */
#define XBLOOM_EXEMPTION_TEXT 64

/*
 * Who loads a list that blocks wants to know, before it does harm, whether it covers private or
 * loopback addresses and the like, or what the machine itself lives by.
 */
struct xbloom_special;
int xbloom_special_open(uint32_t fields, struct xbloom_special **out, struct xbloom_error *err);
void xbloom_special_close(struct xbloom_special *s);
/* For xbloom_keys_options.seen, with the special as its ctx: counts entries that touch a range. */
void xbloom_special_seen(void *special, unsigned int worker, const struct xbloom_flow *flow);

struct xbloom_special_range {
	char range[XBLOOM_EXEMPTION_TEXT]; /* "10.0.0.0/8" */
	char name[64];			   /* "private", "the network of eth0", "a gateway" */
	uint64_t entries;		   /* of the list, that are in it or cover it */
};
/* Range number i, from 0; false: there are no more. */
bool xbloom_special_range(const struct xbloom_special *s, size_t i,
			  struct xbloom_special_range *out);

/* ---- filters (filter.c, state.c) ---- */

/* ---- exemptions (exempt.c) ---- */

/* A prefix that is never dropped. */
struct xbloom_exemption {
	struct xbloom_exempt_key key; /* IPv4 as ::ffff:a.b.c.d, its length 96 more */
	uint32_t why;		      /* XBLOOM_EXEMPT_USER | ... */
};

/*
 * The source address of a flow, of the length flow->plen. -EINVAL: an IPv6 prefix so short that it
 * would be one of all IPv4 addresses, too.
 */
int xbloom_exemption(const struct xbloom_flow *flow, uint32_t why, struct xbloom_exemption *out,
		     struct xbloom_error *err);
/* "192.0.2.0/24", "2001:db8::1". */
const char *xbloom_exemption_text(const struct xbloom_exemption *e,
				  char buf[XBLOOM_EXEMPTION_TEXT]);
/* Those of a list of addresses and prefixes. Free *out with free(). */
int xbloom_exempt_read(const char *path, struct xbloom_exemption **out, size_t *n,
		       struct xbloom_error *err);

/* How a filter treats packets. */
struct xbloom_rules {
	uint32_t fields; /* XBLOOM_SRC | ... */
	uint32_t policy; /* XBLOOM_POLICY_* */
	bool shadow;
	uint32_t unkeyed_drop; /* bits 1 << XBLOOM_MALFORMED | ... */
	bool confirm;	       /* block: drop only what the exact map holds; fixed at creation */
	uint32_t sample;       /* one packet in so many goes to the ring buffer; 0: none */
	/* What it is born with; only xbloom_create() and its like read these. */
	const struct xbloom_exemption *exempt;
	size_t n_exempt;
	bool guard; /* see xbloom_guard() */
};

/* The usual treatment of unkeyed packets: pass under block, drop under allow. */
uint32_t xbloom_unkeyed_default(uint32_t policy);

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
 * With rules->confirm, size->exact_keys says how large the exact map is, and hashes have words.
 * *out is open and locked for writing; free with xbloom_close().
 */
int xbloom_create(const char *name, const struct xbloom_size *size,
		  const struct xbloom_rules *rules, const struct xbloom_hash_key *key,
		  const struct xbloom_hashes *hashes, const struct xbloom_options *opts,
		  struct xbloom **out, struct xbloom_error *err);

/* What fills a filter that is being made, and nobody sees yet. */
struct xbloom_filling {
	int (*fill)(void *ctx, struct xbloom *f, struct xbloom_error *err);
	void *ctx;
};
/* The same with a filling (may be NULL). */
int xbloom_create_filled(const char *name, const struct xbloom_size *size,
			 const struct xbloom_rules *rules, const struct xbloom_hash_key *key,
			 const struct xbloom_filling *filling, const struct xbloom_options *opts,
			 struct xbloom **out, struct xbloom_error *err);

/* Settled keys into a filter that is being made, and what they came from into its record. */
int xbloom_keys_put(struct xbloom_keys *keys, struct xbloom *f, const struct xbloom_options *opts,
		    struct xbloom_error *err);
/*
 * Lists that are too long to be held: from now on keys go into f, which is being made, as they are
 * read. After the last, xbloom_keys_stream_end() in the place of settle and put.
 */
int xbloom_keys_stream_to(struct xbloom_keys *keys, struct xbloom *f, struct xbloom_error *err);
int xbloom_keys_stream_end(struct xbloom_keys *keys, struct xbloom *f,
			   const struct xbloom_options *opts, struct xbloom_error *err);

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
 * What the program answers to a packet with this key, prefixes and arrays that are live included.
 * Where flow->plen is shorter than a host's: true when every address of the prefix is maybe, by
 * whatever keys. An IPv6 prefix that no prefix of the filter covers, and that is over 2^16 parts of
 * the next length which the filter has, is not looked through: false, though in theory every address
 * of it could have been added.
 */
bool xbloom_test_flow(const struct xbloom *f, const struct xbloom_flow *flow);
/* The same of a key that has become words, as in a sample. */
bool xbloom_test_words(const struct xbloom *f, const __u64 *words, unsigned int n_words);

/*
 * Insert, into a filter without an exact map. From the return on, no packet with the key is called
 * absent. 1: a bit changed, which was counted; 0: none did. -EINVAL: f has an exact map, and needs
 * xbloom_add_all(); -EBADF: it was not opened with XBLOOM_OPEN_WRITE.
 */
int xbloom_add(struct xbloom *f, uint64_t hash);
/*
 * All of them, into the exact map as well where there is one (hashes have words then: -EINVAL).
 * *changed: how many changed a bit. -ENOSPC: the exact map has not room for all; nothing was put in.
 * -EBADF: f was not opened with XBLOOM_OPEN_WRITE; the same below.
 */
int xbloom_add_all(struct xbloom *f, const struct xbloom_hashes *hashes,
		   const struct xbloom_options *opts, uint64_t *changed, struct xbloom_error *err);

/*
 * Settled keys into a filter that is at work; everything else as with xbloom_add_all(). Its secret
 * and lengths must be those of the keys (xbloom_keys_rehash()), else -EAGAIN.
 */
int xbloom_add_keys(struct xbloom *f, struct xbloom_keys *keys, const struct xbloom_options *opts,
		    uint64_t *changed, struct xbloom_error *err);

/*
 * How many of the hashes, distinct, are certainly not in the filter. As many will change a bit, or
 * fewer.
 */
uint64_t xbloom_count_new(const struct xbloom *f, const struct xbloom_hashes *hashes);
/* The same of settled keys. */
uint64_t xbloom_count_new_keys(const struct xbloom *f, const struct xbloom_keys *keys);

/*
 * Load a filter program with new rules and put it in the slot. The fields and `confirm` cannot
 * change; allow and confirm do not go together: -EINVAL. With `sample` a ring buffer is made when
 * there is none yet.
 */
int xbloom_set_rules(struct xbloom *f, const struct xbloom_rules *rules, struct xbloom_error *err);
void xbloom_rules(const struct xbloom *f, struct xbloom_rules *rules);

/* Call the load high from this share of the capacity on, 1..100: -EINVAL. */
int xbloom_set_alarm(struct xbloom *f, unsigned int percent, struct xbloom_error *err);

/* ---- rebuilding (rebuild.c) ---- */

/*
 * Fill a filter anew, while it is at work. From begin to finish, keys that others add go into both
 * generations. -EBUSY: it is being rebuilt already.
 */
struct xbloom_rebuild;
int xbloom_rebuild_begin(const char *name, const struct xbloom_options *opts,
			 struct xbloom_rebuild **out, struct xbloom_error *err);
/* The record of the generation that is at work, as it was when the rebuild began. */
const struct xbloom_meta *xbloom_rebuild_meta(const struct xbloom_rebuild *r);
/*
 * Make the next generation, of this size, secret and filling, and put it in the place of the one at
 * work: each packet meets the one or the other. On failure the old one is as it was. *out is open
 * and locked for writing. -ENOENT: the filter was destroyed meanwhile.
 */
int xbloom_rebuild_finish(struct xbloom_rebuild *r, const struct xbloom_size *size,
			  const struct xbloom_hash_key *key, const struct xbloom_filling *filling,
			  const struct xbloom_options *opts, struct xbloom **out,
			  struct xbloom_error *err);
/* After it, or instead of it. */
void xbloom_rebuild_end(struct xbloom_rebuild *r);

/* What is exempt, sorted. Free *out with free(). */
int xbloom_exempt_list(const struct xbloom *f, struct xbloom_exemption **out, size_t *n,
		       struct xbloom_error *err);
/*
 * Replace those that are there for these reasons; what is there for another one, too, stays for that.
 * From one packet to the next, and all or nothing.
 */
int xbloom_exempt_replace(struct xbloom *f, uint32_t why, const struct xbloom_exemption *v,
			  size_t n, struct xbloom_error *err);
/*
 * Exempt what the machine itself lives by: the addresses of these devices and of those that stand on
 * them (VLANs, bridges, bonds), the gateways of routes that go out of them, and the resolvers in use,
 * as they are now, in the place of those that it had. Of no devices: none.
 */
int xbloom_guard(struct xbloom *f, const unsigned int *ifindexes, size_t n,
		 struct xbloom_error *err);
/* The same, beside those that it had: devices in another network namespace may live by them. */
int xbloom_guard_more(struct xbloom *f, const unsigned int *ifindexes, size_t n,
		      struct xbloom_error *err);
/* Take away again what these devices live by, but not what those that stay do. */
int xbloom_guard_less(struct xbloom *f, const unsigned int *gone, size_t n_gone,
		      const unsigned int *stay, size_t n_stay, struct xbloom_error *err);
/* Whether attaching does that by itself; in the filter's record. */
int xbloom_set_guard(struct xbloom *f, bool on, struct xbloom_error *err);

/* ---- a time to live (ttl.c) ---- */

struct xbloom_ttl_state {
	unsigned int lives;   /* arrays; 0: the filter has no time to live, and all else is 0 */
	unsigned int current; /* the array that keys go into */
	double ttl, longest;  /* seconds that a key stays, at least and at most */
	double turn_in;	      /* until they go into the next array; 0: with the next writer */
	struct {
		double expires_in; /* 0: its time is over */
		uint64_t inserted; /* adds that changed a bit of it */
	} array[XBLOOM_LIVES_MAX];
};
void xbloom_ttl(const struct xbloom *f, struct xbloom_ttl_state *state);

/* What has become of an open filter. */
enum xbloom_presence {
	XBLOOM_HERE,	/* it is as it was opened */
	XBLOOM_REBUILT, /* a later generation of it has its name: open it again */
	XBLOOM_GONE,	/* it was destroyed, or another filter has its name now */
};
enum xbloom_presence xbloom_presence(const struct xbloom *f);
/* XBLOOM_HERE. */
bool xbloom_is_there(const struct xbloom *f);

/* The keys that the exact map has room for; 0: there is none. *bytes (may be NULL): its memory. */
uint64_t xbloom_exact(const struct xbloom *f, uint64_t *bytes);

/*
 * Look-ups that a packet costs at most, each wrong at the rate of its own: one, or as many as the
 * filter has IPv6 lengths.
 */
unsigned int xbloom_asks(const struct xbloom *f);

/* What the filter holds of prefixes. */
struct xbloom_prefix_state {
	uint64_t nets4;	       /* /24s in the exact map, of arrays that are live */
	uint64_t nets4_bytes;  /* of that map; 0: there is none */
	unsigned int n_plens6; /* lengths that IPv6 packets are asked for: at least 1, */
	uint32_t plens6[XBLOOM_PLENS6_MAX]; /* the longest first, which is 128 */
};
void xbloom_prefix_state(const struct xbloom *f, struct xbloom_prefix_state *state);

/* What the bits say, by looking at all of them (of arrays that are live). */
struct xbloom_gauge {
	uint64_t ones;
	double estimated; /* keys, from the ones; infinite when every bit is set */
	double load;	  /* as xbloom_load() */
	/*
	 * The rates, of the bits as they are now: of one look-up in all arrays, of a packet of each
	 * family, and of the worse of these. Those of the two families differ where IPv6 packets are
	 * asked for under several lengths; IPv4 prefixes up to /24 are exact and add nothing.
	 */
	double fp_look;
	double fp_v4, fp_v6;
	double fp_predicted;
};
void xbloom_gauge(const struct xbloom *f, struct xbloom_gauge *gauge);

/* Adds that changed a bit: exact, also when a tool was killed in the middle of one. */
uint64_t xbloom_inserted(const struct xbloom *f);

/* Distinct keys put in (see xbloom_distinct()) / capacity. */
double xbloom_load(const struct xbloom *f);

/*
 * "ok", "high" (from alarm_percent of capacity) or "over" (more than capacity). In doubt, within
 * five standard deviations, "high" is early and "over" is late: a filter that holds exactly what
 * it was sized for is not called over.
 */
const char *xbloom_alarm(const struct xbloom *f);
/*
 * The same as it will be when keys have been added of which `more`, by xbloom_count_new(), were not
 * in the filter before.
 */
const char *xbloom_alarm_after(const struct xbloom *f, uint64_t more);

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

/* Below this share of absent keys a filter is ceremony: almost every packet pays for nothing. */
#define XBLOOM_CEREMONY_SHARE 0.05
/* Of fewer packets it is too early to say. */
#define XBLOOM_CEREMONY_PACKETS 1000

/* What counters, or the difference of two readings, say of the traffic. By packets, not by keys. */
struct xbloom_live {
	uint64_t asked;	     /* packets with a key: absent, maybe, confirmed, refuted */
	double absent_share; /* of asked; NAN: none were */
	double fp; /* refuted / (refuted + absent), for filters with an exact map; NAN: of none */
	bool ceremony; /* absent_share < XBLOOM_CEREMONY_SHARE, of enough packets */
};
void xbloom_live(const struct xbloom_stats *stats, struct xbloom_live *live);

/*
 * Take everything of NAME away, whatever state it is in, trials and attachments included. Devices
 * in other network namespaces keep the entry program; its slot is then empty, and it passes
 * everything.
 */
int xbloom_destroy(const char *name, const struct xbloom_options *opts, struct xbloom_error *err);

/* ---- filters without a name (filter.c) ---- */

/*
 * A filter that is nowhere but in this process: nothing is pinned and nothing can be attached. For
 * experiments: xbloom_add(), xbloom_test(), xbloom_gauge() and a prober work on it. `capacity` is
 * what its load is measured by. Free with xbloom_close().
 */
int xbloom_scratch(const struct xbloom_geometry *g, uint64_t capacity, uint32_t fields,
		   const struct xbloom_hash_key *key, struct xbloom **out,
		   struct xbloom_error *err);
/* Empty a scratch filter; does nothing to any other. */
void xbloom_clear(struct xbloom *f);

/* ---- asking the program in the kernel (probe.c) ---- */

/*
 * A prober runs a filter program of its own over the bits of f, in the kernel, by
 * BPF_PROG_TEST_RUN: the same code with the same constants, except that it answers (maybe is
 * dropped, absent passes), shadow and confirm are off, and counters and samples are the prober's
 * own. Nothing that f counts or samples is touched, and no device.
 *
 * The packets' keys are drawn in the kernel, too: key number i is a fixed bijection of i (until the
 * prober is closed), spread at random over all keys of f's shape and the given family, so that
 * different numbers are different keys.
 */
struct xbloom_prober;

struct xbloom_prober_options {
	uint32_t family; /* XBLOOM_FAMILY_V4 or _V6; without an address keyed it only frames them */
	uint64_t seed;	 /* of the bijection */
	bool tell_maybe; /* hand each key called maybe to `fn` below, */
	bool tell_absent; /* and each called absent */
};

/*
 * Called for each answer that is to be told, in the order of the keys' numbers; a negative return
 * ends the asking.
 */
typedef int (*xbloom_sample_fn)(void *ctx, const struct xbloom_sample *sample);

int xbloom_prober_open(const struct xbloom *f, const struct xbloom_prober_options *options,
		       struct xbloom_prober **out, struct xbloom_error *err);
void xbloom_prober_close(struct xbloom_prober *p);

/* log2 of how many keys there are to draw; those past 2^64 are drawn at random. */
unsigned int xbloom_prober_bits(const struct xbloom_prober *p);

/*
 * Ask for keys number first .. first + n - 1, all below 2^bits; *maybe: how many of them were
 * called so. -EIO: some were neither maybe nor absent, which cannot be.
 */
int xbloom_prober_ask(struct xbloom_prober *p, uint64_t first, uint64_t n, uint64_t *maybe,
		      xbloom_sample_fn fn, void *ctx, struct xbloom_error *err);

/* ---- the truth (truth.c) ---- */

/*
 * Whether a key is really listed: by lists (keys kept as hashes under a secret of its own, so that it
 * outlives generations, and prefixes of whatever lengths), or, without any, by the exact map of f as
 * it was when this was opened, its prefixes included.
 */
struct xbloom_truth;

/*
 * -ENOENT: no list, and f has no exact map. A bad line: -EINVAL, "file:line: what". -ECANCELED: as
 * opts->cancelled wanted it, which is asked while lists are read.
 */
int xbloom_truth_open(const struct xbloom *f, const char *const *files, size_t n,
		      const struct xbloom_options *opts, struct xbloom_truth **out,
		      struct xbloom_error *err);
void xbloom_truth_close(struct xbloom_truth *t);
/* True: listed, or in a listed prefix. */
bool xbloom_truth_has(const struct xbloom_truth *t, const __u64 *words, unsigned int n_words);
/* The distinct keys and prefixes in the lists, the latter merged; 0 for an exact map, which does not count them. */
uint64_t xbloom_truth_keys(const struct xbloom_truth *t);

/* ---- measuring (measure.c) ---- */

enum xbloom_verified {
	XBLOOM_BY_SPACE, /* drawn from so many keys that meeting a listed one by chance is negligible */
	XBLOOM_BY_LIST,
	XBLOOM_BY_EXACT, /* the exact map of the filter */
};

struct xbloom_measure_options {
	uint64_t probes; /* 0: as many as the interval needs */
	double seconds;	 /* budget; 0: XBLOOM_MEASURE_SECONDS, and none where probes are given */
	const struct xbloom_truth *truth; /* NULL: drawn from a large space */
	enum xbloom_verified verified;	  /* what truth is, XBLOOM_BY_SPACE without one */
	uint64_t seed;			  /* 0: random */
	const struct xbloom_options *opts;
};

#define XBLOOM_MEASURE_SECONDS 10
/* The interval that is aimed at: its width by the rate. */
#define XBLOOM_MEASURE_WIDTH 0.1

/* Of one family's keys, as below. */
struct xbloom_measured {
	uint32_t family;
	uint64_t probes, listed, false_positives;
	double fp_measured;
	double ci_low, ci_high;
	double fp_predicted;
	bool agree;
};

struct xbloom_measurement {
	uint64_t probes;	  /* absent keys that the program was asked for */
	uint64_t listed;	  /* drawn, but listed, and so not counted */
	uint64_t false_positives; /* of probes */
	double fp_measured;
	double ci_low, ci_high; /* 95 %, Wilson */
	double fp_predicted;	/* of the bits; the mean of before and after */
	bool agree;		/* the interval meets what was predicted before and after */
	bool narrow;		/* the interval is as narrow as XBLOOM_MEASURE_WIDTH */
	double needed;		/* probes that make it so, by fp_predicted */
	bool exhausted;		/* there are no more keys of this shape to ask for */
	bool empty;		/* the filter has no key: rate 0, nothing was asked */
	double seconds;
	enum xbloom_verified verified;
	unsigned int space_bits; /* the keys were drawn from 2^space_bits */
	/*
	 * The same by family. Where the predicted rates differ (`apart`: IPv6 packets are asked for
	 * under several lengths), each is compared with its own, fp_predicted is their mean as they
	 * were asked for, and `agree` says that all do. The intervals are then as wide as makes two
	 * of them as sure as one.
	 */
	bool apart;
	unsigned int families;
	struct xbloom_measured family[2];
};

/*
 * Ask the program in the kernel for absent keys and compare with the prediction. -EDOM: the filter's
 * keys are so few that a drawn one may be listed: a truth is needed. -ENODATA: the truth lists all
 * keys of this shape.
 */
int xbloom_measure(const struct xbloom *f, const struct xbloom_measure_options *options,
		   struct xbloom_measurement *out, struct xbloom_error *err);

/* ---- samples of live traffic (samples.c) ---- */

/*
 * The ring buffer of sampled packets. One reader at a time: -EBUSY. -ENOENT: this filter has never
 * been sampled (xbloom_set_rules()).
 */
struct xbloom_samples;
int xbloom_samples_open(const struct xbloom *f, struct xbloom_samples **out,
			struct xbloom_error *err);
void xbloom_samples_close(struct xbloom_samples *s);
/* Hand on what is there; returns how many, or what fn returned below 0. Does not wait. */
int64_t xbloom_samples_read(struct xbloom_samples *s, xbloom_sample_fn fn, void *ctx);

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
