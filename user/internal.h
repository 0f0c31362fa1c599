/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the library's own files share. Nothing outside user/ includes it, and no verb does.
 */
#ifndef XBLOOM_INTERNAL_H
#define XBLOOM_INTERNAL_H

#include <stdarg.h>

#include <bpf/libbpf.h>

#include "libxbloom.h"

/* ---- error.c ---- */

/* Write the line and return `code`, so that a failure is one statement. err may be NULL. */
int xbloom_fail(struct xbloom_error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with ": reason" for -code appended, and what to do where that is known. */
int xbloom_fail_errno(struct xbloom_error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * While a libbpf call is made, keep the first thing it said (it carries the kernel's own words
 * from netlink and the verifier) instead of letting it print.
 */
struct xbloom_libbpf_log {
	char text[256];
	struct xbloom_libbpf_log *outer;
	int (*printer)(enum libbpf_print_level, const char *, va_list); /* the caller's own */
};
void xbloom_libbpf_listen(struct xbloom_libbpf_log *log);
void xbloom_libbpf_ignore(struct xbloom_libbpf_log *log);

/* ---- keytext.c ---- */

/* An IPv6 address; an IPv4 one stands in the first four. */
#define XBLOOM_ADDRESS_BYTES 16

/* What an entry of a list stands for. */
struct xbloom_span {
	struct xbloom_flow
		flow; /* the key; a prefix, masked, by its plen; or where a range starts */
	bool range;   /* up to and with `last`, which is another address than the first */
	bool masked;  /* the prefix had host bits set */
	uint8_t last[XBLOOM_ADDRESS_BYTES]; /* as on the wire */
};

/*
 * xbloom_key_parse() for lists: with the key src or dst alone also ADDRESS/LENGTH, ADDRESS/NETMASK
 * and FIRST-LAST, with or without blanks around the dash. -EINVAL.
 */
int xbloom_span_parse(const char *text, size_t len, uint32_t fields, struct xbloom_span *span,
		      struct xbloom_error *err);

/* ---- rate.c ---- */

/* The part of a split filter's rate that no number of bits removes. */
double xbloom_split_floor(double keys_per_block);
/* xbloom_wilson() for each of two rates, so that both intervals hold theirs with 95 %. */
void xbloom_wilson_of_two(uint64_t hits, uint64_t n, double *low, double *high);

/* ---- cleanup, for __attribute__((cleanup)) ---- */

void xbloom_close_fd(int *fd);
#define AUTO_CLOSE __attribute__((cleanup(xbloom_close_fd)))

void xbloom_free_ptr(void *p);
#define AUTO_FREE __attribute__((cleanup(xbloom_free_ptr)))

/* ---- state.c: directories, pins and locks ---- */

/* Pins of a complete filter, in the order in which they are made. */
enum xbloom_pin {
	XBLOOM_PIN_META,
	XBLOOM_PIN_FILTER,
	XBLOOM_PIN_STATS,
	XBLOOM_PIN_SLOTS,
	XBLOOM_PIN_PROG,
	XBLOOM_PINS_ALWAYS,
	/* Only where used. */
	XBLOOM_PIN_CONFIRM = XBLOOM_PINS_ALWAYS,
	XBLOOM_PIN_SAMPLES,
	XBLOOM_PIN_NETS4,
	XBLOOM_PIN_EXEMPT,
	XBLOOM_PINS,
};
extern const char *const xbloom_pin_names[XBLOOM_PINS];

/* A directory in that of a filter: its lock is that of the one who reads samples. */
#define XBLOOM_WATCHING "watching"

#define XBLOOM_PATH_MAX 256

/*
 * The root directory of all filters; with `make` the bpffs is mounted and the directory made where
 * they are missing. -ENOENT: there are no filters; -ENODEV: there is no bpffs, and one mounted from
 * here would be seen by this mount namespace only.
 */
int xbloom_root_open(bool make, int *fd, struct xbloom_error *err);

/* The path of a pin in a directory entry: NAME, or one of those below. */
int xbloom_pin_path(char path[XBLOOM_PATH_MAX], const char *entry, enum xbloom_pin pin,
		    struct xbloom_error *err);
int xbloom_entry_path(char path[XBLOOM_PATH_MAX], const char *entry, const char *pin,
		      struct xbloom_error *err);

bool xbloom_exists(int rootfd, const char *entry);

/* Take the lock of an open directory; `opts->waiting` is called after a second. */
int xbloom_lock(int dirfd, const char *name, const struct xbloom_options *opts,
		struct xbloom_error *err);

/* Whether the directory is still the one at this path: nobody renamed or removed it. */
bool xbloom_still_at(int dirfd, int rootfd, const char *entry);

/* Remove everything in a directory of pins; `entry` is its name for messages. */
int xbloom_empty_dir(int dirfd, const char *entry, struct xbloom_error *err);

/* The same, and the directory itself. Not there: fine. */
int xbloom_remove_dir(int rootfd, const char *entry, struct xbloom_error *err);

/*
 * Remove every "+NAME" and "-NAME" that a dead tool left behind. Best effort: what stays is in
 * nobody's way until its name is used again, and then the error is told.
 */
void xbloom_sweep(int rootfd);
/* One of them, and why it would not go. Gone already: fine. */
int xbloom_sweep_one(int rootfd, const char *entry, struct xbloom_error *err);

/*
 * Remove the "=NAME" of a filter that is not there any more, unless a rebuild is still at it: it
 * will find out by itself.
 */
void xbloom_sweep_successor(int rootfd, const char *entry);

/*
 * "+NAME", "-NAME" and "=NAME": the directory entry of a filter under construction, in removal, and
 * of the next generation of one that is there.
 */
void xbloom_building_entry(char entry[XBLOOM_NAME_MAX + 1], const char *name);
void xbloom_trash_entry(char entry[XBLOOM_NAME_MAX + 1], const char *name);
void xbloom_successor_entry(char entry[XBLOOM_NAME_MAX + 1], const char *name);

/* ---- prog.c: programs ---- */

/* The maps that a program is given; -1: it does not use that one. */
struct xbloom_prog_maps {
	int filter;
	int slots;
	int stats;
	int confirm;
	int samples;
	int nets4;
	int exempt;
};

/* Load the entry program over these maps. Returns its fd. */
int xbloom_load_entry(int slots_fd, int stats_fd, struct xbloom_error *err);
/* The trial's entry program, which passes everything from deadline_ns (CLOCK_BOOTTIME) on. */
int xbloom_load_try(int slots_fd, int stats_fd, uint64_t deadline_ns, struct xbloom_error *err);
/* The deadline of a trial program, read from its constants; 0: this map holds none. */
uint64_t xbloom_try_deadline(int rodata_fd);
/* The filter program, specialised. Returns its fd. */
int xbloom_load_slot(const struct xbloom_prog_maps *maps, const struct xbloom_params *params,
		     struct xbloom_error *err);

#define XBLOOM_PROG_ENTRY "xdp_bloom"
#define XBLOOM_PROG_TRY "xdp_bloom_try"

/* ---- filter.c ---- */

/* An open filter. */
struct xbloom {
	char name[XBLOOM_NAME_MAX];
	bool writable;
	int dir_fd;			 /* holds the lock when writable; -1: a scratch filter */
	int fd[XBLOOM_PINS];		 /* -1: not there */
	struct xbloom_geometry geometry; /* checked once; never read from shared memory again */
	struct xbloom_meta *meta;
	struct xbloom_block *blocks; /* of all lives, array behind array */
	struct xbloom_block *nets4;  /* NULL: it has none; XBLOOM_NETS4_BLOCKS for each life */
	uint32_t lives;		     /* arrays of bits, 1..XBLOOM_LIVES_MAX */
	bool rebuilding;	     /* when it was opened for writing, its next generation was */
	size_t meta_len;
	size_t blocks_len;
	size_t nets4_len;
};

/* ---- rules.c ---- */

/* The constants of the program that is in the slot now. */
const struct xbloom_params *xbloom_params_in_force(const struct xbloom *f);
/* Make the record say what the slot does; for who holds the lock. */
void xbloom_settle_rules(struct xbloom *f);
/* Load a filter program with these constants, but with the geometry that was checked. */
int xbloom_load_rules(struct xbloom *f, struct xbloom_params params, struct xbloom_error *err);
int xbloom_fill_slot(struct xbloom *f, int prog, struct xbloom_error *err);
/*
 * Put a program with these constants into the slot, in one step for packets and for the record, by
 * who holds the lock: a tool that is killed has changed all or nothing.
 */
int xbloom_change_params(struct xbloom *f, const struct xbloom_params *next,
			 struct xbloom_error *err);
/*
 * Make a filter at work able to hold what is planned, by who holds the lock: the exact map of IPv4
 * prefixes, and a program that looks at it and asks for the lengths.
 */
int xbloom_widen(struct xbloom *f, const struct xbloom_prefix_plan *plan, struct xbloom_error *err);
void xbloom_set_plens6(struct xbloom_params *p, const uint32_t *plens6, unsigned int n);
/* The id of a program; 0 when that cannot be told. */
uint32_t xbloom_prog_id(int prog);
/* What rules cannot be: -EINVAL. */
int xbloom_check_rules(const struct xbloom_rules *rules, struct xbloom_error *err);
/* Write them into constants. */
void xbloom_rules_to_params(const struct xbloom_rules *rules, struct xbloom_params *p);

/* ---- filter.c again ---- */

/* A map with 32-bit keys, as the arrays of a filter are. Returns its fd. */
int xbloom_make_array(enum bpf_map_type type, const char *map_name, uint32_t value_size,
		      uint64_t entries, uint32_t flags, struct xbloom_error *err);

/* Map what is open and not mapped yet. */
int xbloom_map_all(struct xbloom *f, struct xbloom_error *err);
struct xbloom *xbloom_new(const char *name, bool writable);
/* -ENOMEM: it would not fit into what this machine has available. */
int xbloom_check_memory(const struct xbloom_size *size, struct xbloom_error *err);
/* Bytes; UINT64_MAX: that cannot be told. */
uint64_t xbloom_memory_available(void);
/* Make the maps of a generation, write its record and fill it. See xbloom_create_filled(). */
int xbloom_build_generation(struct xbloom *f, const struct xbloom_size *size,
			    const struct xbloom_rules *rules, const struct xbloom_hash_key *key,
			    const struct xbloom_filling *filling, const struct xbloom_options *opts,
			    struct xbloom_error *err);
/* Pin whatever f has open in this entry of the root directory. */
int xbloom_pin_all(struct xbloom *f, const char *entry, struct xbloom_error *err);
/* Make a filter that is being built, and has no program yet, able to hold these prefixes. */
int xbloom_hold_prefixes(struct xbloom *f, const struct xbloom_prefix_plan *plan,
			 struct xbloom_error *err);

/* ---- machine.c ---- */

/* An address that this machine lives by, of its own, of a gateway or of a resolver. */
struct xbloom_machine_addr {
	struct xbloom_flow flow; /* src; plen: of its own ones, that of their network */
	uint32_t why;		 /* XBLOOM_EXEMPT_OWN, _GATEWAY or _RESOLVER */
	unsigned int ifindex;	 /* 0: of none */
};
/* What comes for `upper` comes through `lower`: a VLAN and its device, a port and its bridge. */
struct xbloom_machine_link {
	unsigned int lower, upper;
};
struct xbloom_machine {
	struct xbloom_machine_addr *v;
	size_t n;
	struct xbloom_machine_link *links;
	size_t n_links;
};
/* As the network namespace of the caller has them. Free with xbloom_machine_free(). */
int xbloom_machine_read(struct xbloom_machine *m, struct xbloom_error *err);
void xbloom_machine_free(struct xbloom_machine *m);

/* These devices, and all that stand on them, at whatever height. Free *out with free(). */
int xbloom_machine_above(const struct xbloom_machine *m, const unsigned int *ifindexes, size_t n,
			 unsigned int **out, size_t *n_out, struct xbloom_error *err);

/* ---- exempt.c ---- */

/* The exemptions of a filter that is being made, and has no program yet. */
int xbloom_exempt_at_birth(struct xbloom *f, const struct xbloom_exemption *v, size_t n,
			   struct xbloom_error *err);
/* Make f->fd[XBLOOM_PIN_EXEMPT] the record that the program in force names; -ENOENT: it is gone. */
int xbloom_check_exempt(struct xbloom *f);
/* Put the pins in order after a tool that died; for who holds the lock. */
void xbloom_settle_exempt(struct xbloom *f);

/* ---- ttl.c ---- */

/* CLOCK_BOOTTIME, as the programs have it. */
uint64_t xbloom_boot_ns(void);
/* How long an array takes keys. One hour and 2 lives: an hour; 3 lives: half of one. */
uint64_t xbloom_ttl_period(uint64_t ttl_ns, unsigned int lives);
/* From now on keys go into this array, whose time begins. */
void xbloom_ttl_begin(struct xbloom_params *p, uint64_t ttl_ns, uint32_t array, uint64_t now);
/* Turn to the next array when it is time, by who holds the lock and has settled all else. */
int xbloom_turn(struct xbloom *f, struct xbloom_error *err);

/* ---- rebuild.c ---- */

/*
 * What a rebuild that died left behind is taken away, or, where it died after its generation had
 * come into force, brought to its end; by who holds the filter's lock, and by readers where nobody
 * holds it. True: another directory has the filter's name now, and f must be opened again.
 * Otherwise f->rebuilding says whether a rebuild is at work.
 */
bool xbloom_settle_successor(int rootfd, struct xbloom *f);

/* Wait until no packet is in a program that was in a slot when this was called. */
int xbloom_grace_period(struct xbloom_error *err);

/* ---- late.c: keys that are added while the next generation is being filled ---- */

/* Write down n keys of `width` words each for who fills it; before their bits are set. */
int xbloom_late_add(const struct xbloom *f, const __u64 *words, size_t n, struct xbloom_error *err);
/* Hand on all that was written down, by who holds the filter's lock. */
typedef int (*xbloom_late_fn)(void *ctx, const __u64 *words);
int xbloom_late_read(const char *name, unsigned int width, xbloom_late_fn fn, void *ctx,
		     struct xbloom_error *err);

/* The map of IPv4 prefixes, all empty. Returns its fd. */
int xbloom_make_nets4(uint32_t lives, struct xbloom_error *err);

/* -EBADF: f was not opened for writing. */
int xbloom_check_writable(const struct xbloom *f, struct xbloom_error *err);

/* ---- hashes.c ---- */

#define XBLOOM_DIGIT_BITS 8
#define XBLOOM_DIGITS (1u << XBLOOM_DIGIT_BITS)
#define XBLOOM_FIRST_SHIFT (64 - XBLOOM_DIGIT_BITS)

/* One key's words, and all of another's; both have the same width. */
int xbloom_hashes_push_words(struct xbloom_hashes *h, const __u64 *words, struct xbloom_error *err);
int xbloom_hashes_append_words(struct xbloom_hashes *to, const struct xbloom_hashes *from,
			       struct xbloom_error *err);

/* Order by the digit at `shift` alone, in place; start[d] is where digit d begins. */
void xbloom_radix_partition(uint64_t *v, size_t n, unsigned int shift,
			    size_t start[XBLOOM_DIGITS + 1]);
/* Sort by all digits from that at `shift` down. */
void xbloom_radix_sort(uint64_t *v, size_t n, unsigned int shift);
/* Of sorted ones each once; returns how many that are. */
size_t xbloom_drop_repeated(uint64_t *v, size_t n);

/* ---- prefixes.c ---- */

/* The address is a number, its first bit the highest; of an IPv4 one the highest 32 count. */
struct xbloom_prefix {
	uint64_t addr[2];
	uint8_t family;
	uint8_t plen;
};

/* Zero-initialise; free with xbloom_prefixes_free(). */
struct xbloom_prefixes {
	struct xbloom_prefix *v;
	size_t n;
	size_t room;
};

/* As the key of a filter that is keyed by src or dst alone. */
void xbloom_prefix_flow(const struct xbloom_prefix *p, uint32_t fields, struct xbloom_flow *flow);

/* The keyed address of a flow, its length flow->plen; host bits are cleared. */
int xbloom_prefixes_push(struct xbloom_prefixes *p, const struct xbloom_flow *flow, uint32_t fields,
			 struct xbloom_error *err);
int xbloom_prefixes_append(struct xbloom_prefixes *to, const struct xbloom_prefixes *from,
			   struct xbloom_error *err);
void xbloom_prefixes_free(struct xbloom_prefixes *p);

/*
 * Sort them, drop those that are covered by others, and join halves: what is left covers the same
 * addresses, each once, with the fewest prefixes. Returns how many went.
 */
uint64_t xbloom_prefixes_merge(struct xbloom_prefixes *p);

/* Whether one of these, which are merged, covers all of `one`. */
bool xbloom_prefixes_cover(const struct xbloom_prefixes *p, const struct xbloom_prefix *one);

/*
 * What merged prefixes come to in a filter that has the n_given lengths already (a new one: none),
 * all of which the plan has, too. max_keys (0: XBLOOM_EXPAND_MAX) bounds the keys of the IPv6 ones:
 * -E2BIG, and the plan says which lengths would have been the best. -EINVAL: lengths that no filter
 * has.
 */
int xbloom_prefixes_plan(const struct xbloom_prefixes *p, const uint32_t *given,
			 unsigned int n_given, uint64_t max_keys, struct xbloom_prefix_plan *plan,
			 struct xbloom_error *err);

/* Called for each key; a negative return ends it and is returned. */
typedef int (*xbloom_expanded_fn)(void *ctx, const struct xbloom_flow *flow);
/* The keys of a plan: hosts of IPv4 prefixes longer than /24, and what IPv6 ones become. */
int xbloom_prefixes_expand(const struct xbloom_prefixes *p, const struct xbloom_prefix_plan *plan,
			   uint32_t fields, xbloom_expanded_fn fn, void *ctx);
/* The others: bits of an exact map. Returns how many changed. */
uint64_t xbloom_prefixes_nets4(const struct xbloom_prefixes *p, struct xbloom_block *nets4);

/* How many of the words of a key, padded with zeroes, are its own. */
unsigned int xbloom_words_used(const __u64 *words, uint32_t fields);
/* The words of a key src or dst alone as a prefix, a host's length included; false: another key. */
bool xbloom_words_to_prefix(const __u64 *words, uint32_t fields, struct xbloom_prefix *p);
/* Whether they are those of a prefix (of a key src or dst alone), and then its flow. */
bool xbloom_words_prefix(const __u64 *words, uint32_t fields, struct xbloom_flow *flow);

/* ---- ask.c ---- */

/* The arrays of bits whose time is not over, a bit each; of one that is for ever: 1. */
uint32_t xbloom_live_arrays(const struct xbloom *f, const struct xbloom_params *p);

/* ---- fill.c: into bits that no packet sees yet ---- */

/*
 * A filler puts hashes into the current array of a filter that is being made, from several threads
 * at once: the filter's memory is cut into regions, each with a lock, and sorted hashes walk
 * through them. It counts what changed a bit, exactly.
 */
struct xbloom_filler;
int xbloom_filler_open(struct xbloom *f, struct xbloom_filler **out, struct xbloom_error *err);
/* Any order is right; sorted is fast. */
void xbloom_filler_put(struct xbloom_filler *filler, const uint64_t *v, size_t n);
/* The keys of an exact map: n of them, words behind words. Before their hashes. */
int xbloom_filler_put_words(struct xbloom_filler *filler, __u64 *words, size_t n,
			    struct xbloom_error *err);
/*
 * Free it, and tell how many it put in, which whoever filled a filter adds to its record. The filter
 * itself is not touched: one that failed may be gone by now.
 */
uint64_t xbloom_filler_close(struct xbloom_filler *filler);

/* ---- keys.c, for insert.c ---- */

/* Of settled ones: as one vector, the prefixes among them, and for who fills the next generation. */
int xbloom_keys_gather(struct xbloom_keys *keys, struct xbloom_hashes *out,
		       struct xbloom_error *err);
const struct xbloom_prefixes *xbloom_keys_merged(const struct xbloom_keys *keys);
int xbloom_keys_late(const struct xbloom_keys *keys, const struct xbloom *f,
		     struct xbloom_error *err);

/* ---- insert.c ---- */

/* The array that keys are put into. */
struct xbloom_block *xbloom_current(const struct xbloom *f);
/* Finish the insert that a writer died in. */
void xbloom_settle_journal(struct xbloom *f);
/* Why the exact map took no more; `code` as its update gave it. */
int xbloom_exact_no_room(const struct xbloom *f, int code, struct xbloom_error *err);
/* Fill a new filter: all of it, or until it is cancelled (-ECANCELED). */
int xbloom_fill(struct xbloom *f, const struct xbloom_hashes *hashes,
		const struct xbloom_options *opts, struct xbloom_error *err);

/* ---- stats.c ---- */

/* The CPUs that there could be, each with its own copy of a per-CPU map's values. */
int xbloom_count_cpus(unsigned int *cpus, struct xbloom_error *err);

/* The counters in a per-CPU map, summed. */
int xbloom_stats_sum(int fd, struct xbloom_stats *stats, struct xbloom_error *err);

/* The id of a map; 0 when that cannot be told. */
uint32_t xbloom_map_id(int fd);

/* Detach what the pins in this entry of the root directory still identify. */
int xbloom_detach_entry(const char *entry, struct xbloom_error *err);

/* ---- attach.c ---- */

/* The id of the slots map that an entry program jumps through; 0: it is none of ours. */
uint32_t xbloom_slots_of_prog(int prog_fd);

/* Detach whatever of the filter with this slots map is attached here. */
int xbloom_detach_all(uint32_t slots_id, struct xbloom_error *err);

#endif /* XBLOOM_INTERNAL_H */
