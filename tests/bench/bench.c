// SPDX-License-Identifier: GPL-2.0-only
/*
 * What one look-up costs: the filter beside the kernel's own Bloom filter map, hash map and LPM
 * trie, in one process and one run, so that a noisy machine is equally noisy for all of them.
 *
 * Every contender gets the same stream of random addresses, by BPF_PROG_TEST_RUN, absent and then
 * present ones. The run is made of rounds; in each, every contender runs once, in an order that
 * rotates, after a warm-up. Its price is its nanoseconds per packet above those of the program
 * that only generates, parses and counts, in the same round; ratios too are taken within rounds.
 * What is printed are medians and quartiles over rounds.
 *
 * The counters are checked after every run: a present address that is called absent, or a rate of
 * false positives that the formula does not explain, ends it with an error and without a figure.
 *
 * It touches no interface and pins nothing. Exit status: 0, or 2 with one line on stderr.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "libxbloom.h"
#include "xdp_bloom.skel.h"
#include "bench/bench.bpf.h"
#include "bench/bench.skel.h"

#define NS_PER_S 1000000000ULL
#define ROUNDS_MAX 1001
#define SLICE_NS 20000000.0 /* one run: long against its system call, short against drift */
#define WARM_SHARE 2	    /* one packet for so many is spent, untimed, before each run */
#define CALIBRATE_PACKETS 20000
#define LPM_PATIENCE_NS (5 * NS_PER_S)
#define BATCH 10000
#define SIGMAS 4.0 /* one correct run in 16000 strays so far */
#define FRAME_LEN 64
#define KBLOOM_HASHES_MAX 15 /* the kernel's: four bits of map_extra */

enum contender_id {
	PARSE_ONLY,
	ONE_LINE,
	SPLIT,
	SPLIT_ENTRY,
	CLASSIC,
	KBLOOM,
	KBLOOM_DOC,
	HASH,
	LPM,
	CONTENDERS,
};

/* What a look-up may say of an address that is not in the set. */
enum errs {
	NEVER_ASKS,    /* says absent, whatever the address */
	NEVER_ERRS,    /* exact: every maybe is true */
	ERRS_AT_A_RATE /* a Bloom filter */
};

struct contender {
	const char *name;
	const char *json_name;
	enum errs errs;
	bool present; /* takes part in this run */
	int prog_fd;  /* what bench_generate jumps to */
	int map_fd;   /* what is looked up in, or -1 */
	int repeat[BENCH_MODES];
	double *ns[BENCH_MODES]; /* per round: per packet, generator and parser included */

	uint64_t bytes;	     /* of the structure alone; 0: not known */
	uint64_t map_bytes;  /* of the map, as the kernel accounts it */
	unsigned int k;	     /* hashes or bits per key; 0: not a Bloom filter */
	double fp_predicted; /* by the formula, from the size and the number of keys */
	double fp_expected;  /* of this very instance, where its bits can be read */
	double fp_spread;    /* standard deviation of instances around fp_expected */
	uint64_t probes;     /* absent addresses asked, all rounds and warm-ups */
	uint64_t false_positives;
};

enum lpm_wish { LPM_IF_QUICK, LPM_YES, LPM_NO };

struct bench {
	/* options */
	uint32_t keys;
	unsigned int rounds;
	double bits_per_key;
	int cpu;
	enum lpm_wish lpm;
	bool json;

	struct contender c[CONTENDERS];
	struct xdp_bloom_bpf *split;
	struct xdp_bloom_bpf *classic;
	struct bench_bpf *bpf;
	uint64_t state;		    /* of the generator, between runs */
	struct xbloom_stats *stats; /* room for one per possible CPU */
	int cpus;
	unsigned char frame[FRAME_LEN];

	/* about the machine, as text */
	struct utsname uts;
	char cpu_model[128];
	char l2[32];
	char l3[32];
};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list args;

	fputs("bench: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

/* For calls that return 0 or a negative errno. */
static void must(int ret, const char *what)
{
	if (ret < 0)
		die("%s: %s", what, strerror(-ret));
}

static void *must_alloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		die("out of memory");
	return p;
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* ---- the machine ---- */

/* The text after the first ':' (or the whole line) of the first line that starts with `key`. */
static void read_field(const char *path, const char *key, char *buf, size_t size)
{
	FILE *f = fopen(path, "r");
	char line[256];

	snprintf(buf, size, "unknown");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		char *value = line;

		if (strncmp(line, key, strlen(key)) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		if (*key && strchr(line, ':'))
			value = strchr(line, ':') + 1;
		value += strspn(value, " \t");
		snprintf(buf, size, "%.*s", (int)size - 1, value);
		break;
	}
	fclose(f);
}

/* Other work moves between CPUs; this run and its caches stay on one. */
static void pin_to_cpu(struct bench *b)
{
	cpu_set_t set;
	int i;

	if (b->cpu < 0) {
		if (sched_getaffinity(0, sizeof(set), &set))
			die("sched_getaffinity: %s", strerror(errno));
		for (i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &set))
				b->cpu = i;
	}
	CPU_ZERO(&set);
	CPU_SET(b->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("cannot run on CPU %d: %s", b->cpu, strerror(errno));
}

static void look_at_machine(struct bench *b)
{
	char path[96];

	uname(&b->uts);
	read_field("/proc/cpuinfo", "model name", b->cpu_model, sizeof(b->cpu_model));
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cache/index2/size", b->cpu);
	read_field(path, "", b->l2, sizeof(b->l2));
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cache/index3/size", b->cpu);
	read_field(path, "", b->l3, sizeof(b->l3));
}

static uint64_t map_bytes(int fd)
{
	char path[64], value[32];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	read_field(path, "memlock:", value, sizeof(value));
	return strtoull(value, NULL, 10);
}

/* An interpreted program says nothing about a compiled one. */
static void check_jit(int prog_fd, const char *name)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);

	must(bpf_obj_get_info_by_fd(prog_fd, &info, &len), "BPF_OBJ_GET_INFO_BY_FD");
	if (!info.jited_prog_len)
		die("the BPF JIT is off, so program %s is interpreted and its times mean nothing: "
		    "set net.core.bpf_jit_enable=1",
		    name);
}

/* ---- our filters ---- */

/* Any frame will do: Ethernet, IPv4, UDP; the generator writes the source address. */
static void make_frame(struct bench *b)
{
	struct ethhdr *eth = (struct ethhdr *)b->frame;
	struct iphdr *ip = (struct iphdr *)(eth + 1);
	struct udphdr *udp = (struct udphdr *)(ip + 1);

	eth->h_proto = htons(ETH_P_IP);
	ip->version = 4;
	ip->ihl = sizeof(*ip) / 4;
	ip->tot_len = htons(FRAME_LEN - sizeof(*eth));
	ip->ttl = 64;
	ip->protocol = IPPROTO_UDP;
	ip->daddr = htonl(0xc0000201); /* 192.0.2.1 */
	udp->len = htons(FRAME_LEN - sizeof(*eth) - sizeof(*ip));
}

static struct xbloom_size plan(struct bench *b, uint32_t layout, double fp)
{
	struct xbloom_size_request req = { .layout = layout, .items = b->keys };
	struct xbloom_error err = { "" };
	struct xbloom_size size;

	if (fp > 0)
		req.fp = fp;
	else
		req.bits_per_key = b->bits_per_key;
	if (xbloom_plan(&req, &size, &err) < 0)
		die("%s", err.text);
	return size;
}

/* The rate of the bits as they stand: mean over blocks of the product of the words' fills. */
static double fp_of_split(const struct xbloom_geometry *g, const struct xbloom_block *blocks)
{
	double sum = 0;
	uint64_t i;
	int w;

	for (i = 0; i < g->blocks; i++) {
		double product = 1;

		for (w = 0; w < (int)XBLOOM_BLOCK_WORDS; w++)
			product *= __builtin_popcountll(blocks[i].w[w]) / (double)XBLOOM_WORD_BITS;
		sum += product;
	}
	return sum / (double)g->blocks;
}

/* The same for classic: every probe sees the fill of the whole array. */
static double fp_of_classic(const struct xbloom_geometry *g, const struct xbloom_block *blocks)
{
	uint64_t i, ones = 0;
	int w;

	for (i = 0; i < g->blocks; i++)
		for (w = 0; w < (int)XBLOOM_BLOCK_WORDS; w++)
			ones += (uint64_t)__builtin_popcountll(blocks[i].w[w]);
	return pow((double)ones / (double)g->bits, g->k);
}

static void fill_ours(struct bench *b, struct contender *c, const struct xbloom_size *size,
		      const struct xbloom_hash_key *key)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t len = (size->bytes + page - 1) / page * page;
	struct xbloom_flow flow = { .family = XBLOOM_FAMILY_V4, .plen = 32 };
	struct xbloom_block *blocks;
	uint32_t i;

	blocks = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, c->map_fd, 0);
	if (blocks == MAP_FAILED)
		die("cannot map the filter: %s", strerror(errno));
	for (i = 0; i < b->keys; i++) {
		flow.src.v4 = htonl(bench_address(i, BENCH_PRESENT));
		xbloom_set_hash(&size->geometry, blocks, xbloom_key_hash(key, &flow, XBLOOM_SRC));
	}
	c->fp_expected = size->geometry.layout == XBLOOM_LAYOUT_SPLIT
				 ? fp_of_split(&size->geometry, blocks)
				 : fp_of_classic(&size->geometry, blocks);
	munmap(blocks, len);
}

/* The real object, as the tool would load it; `stats` is a map to count into, or -1. */
static struct xdp_bloom_bpf *load_ours(struct bench *b, struct contender *c,
				       const struct xbloom_size *size, int stats)
{
	struct xdp_bloom_bpf *skel = xdp_bloom_bpf__open();
	struct xbloom_hash_key key;
	__u32 slot = XBLOOM_SLOT;
	int fd;

	if (!skel)
		die("cannot open the filter's BPF object: %s", strerror(errno));
	if (getrandom(&key, sizeof(key), 0) != sizeof(key))
		die("getrandom: %s", strerror(errno));
	skel->rodata->params = (struct xbloom_params){
		.hash_key = key,
		.blocks = size->geometry.blocks,
		.bits = size->geometry.bits,
		.layout = size->geometry.layout,
		.k = size->geometry.k,
		.fields = XBLOOM_SRC,
		.policy = XBLOOM_POLICY_BLOCK,
	};
	bpf_program__set_autoload(skel->progs.xdp_bloom_try, false);
	bpf_program__set_flags(skel->progs.xdp_bloom,
			       bpf_program__flags(skel->progs.xdp_bloom) | BPF_F_XDP_HAS_FRAGS);
	must(bpf_map__set_max_entries(skel->maps.xbloom_filter, (__u32)size->geometry.blocks),
	     "cannot size the filter");
	if (stats >= 0)
		must(bpf_map__reuse_fd(skel->maps.xbloom_stats, stats),
		     "cannot share the counters");
	must(xdp_bloom_bpf__load(skel), "cannot load the filter");

	fd = bpf_program__fd(skel->progs.xdp_bloom_slot);
	must(bpf_map_update_elem(bpf_map__fd(skel->maps.xbloom_slots), &slot, &fd, BPF_ANY),
	     "cannot fill the slot");
	c->prog_fd = fd;
	c->map_fd = bpf_map__fd(skel->maps.xbloom_filter);
	c->bytes = size->bytes;
	c->k = size->geometry.k;
	c->fp_predicted = size->fp;
	fill_ours(b, c, size, &key);
	return skel;
}

static void make_ours(struct bench *b)
{
	struct xbloom_size split = plan(b, XBLOOM_LAYOUT_SPLIT, 0);
	struct xbloom_size classic = plan(b, XBLOOM_LAYOUT_CLASSIC, split.fp);
	struct contender *entry = &b->c[SPLIT_ENTRY];

	b->split = load_ours(b, &b->c[SPLIT], &split, -1);
	b->classic =
		load_ours(b, &b->c[CLASSIC], &classic, bpf_map__fd(b->split->maps.xbloom_stats));

	entry->prog_fd = bpf_program__fd(b->split->progs.xdp_bloom);
	entry->map_fd = b->c[SPLIT].map_fd;
	entry->bytes = b->c[SPLIT].bytes;
	entry->k = b->c[SPLIT].k;
	entry->fp_predicted = b->c[SPLIT].fp_predicted;
	entry->fp_expected = b->c[SPLIT].fp_expected;
}

/* ---- the peers ---- */

/*
 * How many bits the kernel gives a Bloom filter map: max_entries * hashes * 7/5 (for 1/ln 2),
 * rounded up to a power of two, from 64 to 2^32.
 */
static uint64_t kbloom_bits(uint64_t max_entries, unsigned int k)
{
	uint64_t bits = max_entries * k / 5 * 7, power = 64;

	if (max_entries * k > UINT32_MAX)
		return 1ULL << 32;
	while (power < bits && power < 1ULL << 32)
		power <<= 1;
	return power;
}

static uint32_t kbloom_entries(uint64_t bits, unsigned int k)
{
	uint64_t entries = bits / 7 * 5 / k;

	return entries > UINT32_MAX ? UINT32_MAX : (uint32_t)entries;
}

/*
 * The size, of at most four times ours, and the number of hashes whose rate for our keys comes
 * nearest to ours, as a ratio. For a million keys at 12 bits: 2^24 bits and 3 hashes.
 */
static void kbloom_nearest(struct bench *b, uint64_t *bits, unsigned int *k)
{
	double target = b->c[SPLIT].fp_predicted, best = INFINITY;
	uint64_t most = 4 * 8 * b->c[SPLIT].bytes, m;
	unsigned int i;

	for (m = 64; m <= most && m <= 1ULL << 32; m <<= 1) {
		for (i = 1; i <= KBLOOM_HASHES_MAX; i++) {
			double fp = xbloom_rate_classic((double)m / b->keys, i);
			double distance = fabs(log(fp / target));

			if (distance >= best || kbloom_bits(kbloom_entries(m, i), i) != m)
				continue;
			best = distance;
			*bits = m;
			*k = i;
		}
	}
}

static void set_kbloom(struct bench *b, enum contender_id id, struct bpf_map *map,
		       uint32_t max_entries, unsigned int k)
{
	struct contender *c = &b->c[id];
	uint64_t bits = kbloom_bits(max_entries, k);
	double load = (double)k * b->keys / (double)bits;
	double fill = -expm1(-load);

	must(bpf_map__set_max_entries(map, max_entries), "cannot size the kernel's Bloom filter");
	must(bpf_map__set_map_extra(map, k), "cannot set its number of hashes");
	c->bytes = bits / 8;
	c->k = k;
	c->fp_predicted = xbloom_rate_classic((double)bits / b->keys, k);
	c->fp_expected = c->fp_predicted;
	/*
	 * Its bits cannot be read, so allow for how they fall: the number of bits set has variance
	 * m e^-l (1 - (1 + l) e^-l) for l = kn/m, and the rate is the k-th power of the fill.
	 */
	c->fp_spread = c->fp_predicted * k *
		       sqrt(exp(-load) * (1 - (1 + load) * exp(-load)) / (double)bits) / fill;
}

static void fill_map(struct bench *b, int fd, const char *what)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	__u32 *keys = must_alloc(BATCH, sizeof(*keys));
	__u32 *values = must_alloc(BATCH, sizeof(*values));
	uint32_t i, n;
	__u32 count;

	for (i = 0; i < b->keys; i += n) {
		for (n = 0; n < BATCH && i + n < b->keys; n++)
			keys[n] = htonl(bench_address(i + n, BENCH_PRESENT));
		count = n;
		must(bpf_map_update_batch(fd, keys, values, &count, &opts), what);
	}
	free(keys);
	free(values);
}

static void fill_kbloom(struct bench *b, int fd)
{
	uint32_t i, addr;

	for (i = 0; i < b->keys; i++) {
		addr = htonl(bench_address(i, BENCH_PRESENT));
		must(bpf_map_update_elem(fd, NULL, &addr, BPF_ANY),
		     "cannot fill the kernel's Bloom filter");
	}
}

/* False when it was given up for slowness. */
static bool fill_lpm(struct bench *b, int fd)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC);
	struct bench_lpm_key key = { .prefix_len = 32 };
	__u32 i, value = 0;

	for (i = 0; i < b->keys; i++) {
		if (b->lpm == LPM_IF_QUICK && i % BATCH == 0 &&
		    now_ns(CLOCK_MONOTONIC) - start > LPM_PATIENCE_NS)
			return false;
		key.addr = htonl(bench_address(i, BENCH_PRESENT));
		must(bpf_map_update_elem(fd, &key, &value, BPF_ANY), "cannot fill the LPM trie");
	}
	return true;
}

static void make_peers(struct bench *b)
{
	double bits_wanted = -log2(b->c[SPLIT].fp_predicted);
	struct bench_bpf *skel = bench_bpf__open();
	unsigned int k = 1, k_doc;
	uint64_t bits = 0;

	if (!skel)
		die("cannot open the benchmark's BPF object: %s", strerror(errno));
	b->bpf = skel;
	skel->rodata->params = b->split->rodata->params;

	kbloom_nearest(b, &bits, &k);
	set_kbloom(b, KBLOOM, skel->maps.bench_kbloom, kbloom_entries(bits, k), k);
	/* What its documentation suggests: the number of keys, and log2(1/rate) hashes. */
	k_doc = (unsigned int)fmin(fmax(round(bits_wanted), 1), KBLOOM_HASHES_MAX);
	set_kbloom(b, KBLOOM_DOC, skel->maps.bench_kbloom_doc, b->keys, k_doc);
	must(bpf_map__set_max_entries(skel->maps.bench_hash, b->keys), "cannot size the hash map");
	must(bpf_map__set_max_entries(skel->maps.bench_lpm, b->keys), "cannot size the LPM trie");
	bpf_map__set_autocreate(skel->maps.xbloom_slots, false);
	must(bpf_map__reuse_fd(skel->maps.xbloom_filter, b->c[SPLIT].map_fd),
	     "cannot share the filter");
	must(bpf_map__reuse_fd(skel->maps.xbloom_stats, bpf_map__fd(b->split->maps.xbloom_stats)),
	     "cannot share the counters");
	must(bench_bpf__load(skel), "cannot load the benchmark's BPF object");

	b->c[PARSE_ONLY].prog_fd = bpf_program__fd(skel->progs.bench_parse_only);
	b->c[PARSE_ONLY].map_fd = -1;
	b->c[ONE_LINE].prog_fd = bpf_program__fd(skel->progs.bench_one_line);
	b->c[ONE_LINE].map_fd = b->c[SPLIT].map_fd;
	b->c[ONE_LINE].bytes = b->c[SPLIT].bytes;
	b->c[KBLOOM].prog_fd = bpf_program__fd(skel->progs.bench_ask_kbloom);
	b->c[KBLOOM].map_fd = bpf_map__fd(skel->maps.bench_kbloom);
	b->c[KBLOOM_DOC].prog_fd = bpf_program__fd(skel->progs.bench_ask_kbloom_doc);
	b->c[KBLOOM_DOC].map_fd = bpf_map__fd(skel->maps.bench_kbloom_doc);
	b->c[HASH].prog_fd = bpf_program__fd(skel->progs.bench_ask_hash);
	b->c[HASH].map_fd = bpf_map__fd(skel->maps.bench_hash);
	b->c[LPM].prog_fd = bpf_program__fd(skel->progs.bench_ask_lpm);
	b->c[LPM].map_fd = bpf_map__fd(skel->maps.bench_lpm);

	fill_kbloom(b, b->c[KBLOOM].map_fd);
	fill_kbloom(b, b->c[KBLOOM_DOC].map_fd);
	fill_map(b, b->c[HASH].map_fd, "cannot fill the hash map");
	b->c[LPM].present = b->lpm != LPM_NO && fill_lpm(b, b->c[LPM].map_fd);
}

static void make_contenders(struct bench *b)
{
	static const struct contender table[CONTENDERS] = {
		[PARSE_ONLY] = { .name = "parse only", .json_name = "parse_only" },
		[ONE_LINE] = { .name = "one random line (the limit)", .json_name = "one_line" },
		[SPLIT] = { .name = "xdp-bloom, split",
			    .json_name = "split",
			    .errs = ERRS_AT_A_RATE },
		[SPLIT_ENTRY] = { .name = "xdp-bloom, split, from entry",
				  .json_name = "split_entry",
				  .errs = ERRS_AT_A_RATE },
		[CLASSIC] = { .name = "xdp-bloom, classic",
			      .json_name = "classic",
			      .errs = ERRS_AT_A_RATE },
		[KBLOOM] = { .name = "kernel bloom map, like rate",
			     .json_name = "kernel_bloom",
			     .errs = ERRS_AT_A_RATE },
		[KBLOOM_DOC] = { .name = "kernel bloom map, by its doc",
				 .json_name = "kernel_bloom_doc",
				 .errs = ERRS_AT_A_RATE },
		[HASH] = { .name = "kernel hash map", .json_name = "hash", .errs = NEVER_ERRS },
		[LPM] = { .name = "kernel LPM trie", .json_name = "lpm", .errs = NEVER_ERRS },
	};
	int i, mode;

	memcpy(b->c, table, sizeof(table));
	for (i = 0; i < CONTENDERS; i++) {
		b->c[i].present = true;
		for (mode = 0; mode < (int)BENCH_MODES; mode++)
			b->c[i].ns[mode] = must_alloc(b->rounds, sizeof(double));
	}
	make_ours(b);
	make_peers(b);
	for (i = 0; i < CONTENDERS; i++) {
		check_jit(b->c[i].prog_fd, b->c[i].name);
		if (b->c[i].map_fd >= 0)
			b->c[i].map_bytes = map_bytes(b->c[i].map_fd);
	}
	check_jit(bpf_program__fd(b->bpf->progs.bench_generate), "bench_generate");
}

/* ---- a run ---- */

static void clear_stats(struct bench *b)
{
	__u32 zero = 0;

	memset(b->stats, 0, sizeof(*b->stats) * (size_t)b->cpus);
	must(bpf_map_update_elem(bpf_map__fd(b->split->maps.xbloom_stats), &zero, b->stats,
				 BPF_ANY),
	     "cannot clear the counters");
}

static uint64_t packets(const struct bench *b, unsigned int reason, unsigned int action)
{
	uint64_t sum = 0;
	int cpu;

	for (cpu = 0; cpu < b->cpus; cpu++)
		sum += b->stats[cpu].c[reason][action].packets;
	return sum;
}

/* Every packet of the run got the verdict it had to get, or there is no benchmark. */
static void check_run(struct bench *b, struct contender *c, unsigned int mode, int repeat)
{
	uint64_t absent, maybe;
	__u32 zero = 0;

	must(bpf_map_lookup_elem(bpf_map__fd(b->split->maps.xbloom_stats), &zero, b->stats),
	     "cannot read the counters");
	absent = packets(b, XBLOOM_ABSENT, XBLOOM_PASS);
	maybe = packets(b, XBLOOM_MAYBE, XBLOOM_DROP);
	if (absent + maybe != (uint64_t)repeat)
		die("%s: of %d packets only %llu were called absent or maybe", c->name, repeat,
		    (unsigned long long)(absent + maybe));
	if (c->errs == NEVER_ASKS) {
		if (maybe)
			die("%s: it called %llu packets maybe without asking", c->name,
			    (unsigned long long)maybe);
		return;
	}
	if (mode == BENCH_PRESENT) {
		if (absent)
			die("%s: it called %llu of %d present addresses absent", c->name,
			    (unsigned long long)absent, repeat);
		return;
	}
	if (c->errs == NEVER_ERRS && maybe)
		die("%s: it found %llu of %d absent addresses", c->name, (unsigned long long)maybe,
		    repeat);
	c->probes += (uint64_t)repeat;
	c->false_positives += maybe;
}

/*
 * Run `repeat` packets and return the nanoseconds of CPU time that each took. (The duration that
 * the kernel reports is cut to whole nanoseconds; the CPU time is not, and like it leaves out the
 * time of other tasks. The rest of the system call is a few microseconds of tens of milliseconds.)
 */
static double run(struct bench *b, struct contender *c, unsigned int mode, int repeat)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = b->frame, .data_size_in = FRAME_LEN,
		    .repeat = repeat);
	struct bench_generator *g = &b->bpf->bss->generator;
	uint64_t start;
	double ns;

	g->state = b->state;
	g->range = mode == BENCH_PRESENT ? b->keys : BENCH_INDEXES;
	g->mode = mode;
	clear_stats(b);
	start = now_ns(CLOCK_THREAD_CPUTIME_ID);
	must(bpf_prog_test_run_opts(bpf_program__fd(b->bpf->progs.bench_generate), &opts),
	     "BPF_PROG_TEST_RUN");
	ns = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / repeat;
	b->state = g->state;
	check_run(b, c, mode, repeat);
	return ns;
}

static void aim(struct bench *b, struct contender *c)
{
	__u32 zero = 0;

	must(bpf_map_update_elem(bpf_map__fd(b->bpf->maps.bench_target), &zero, &c->prog_fd,
				 BPF_ANY),
	     c->name);
}

static void calibrate(struct bench *b)
{
	unsigned int mode;
	int i;

	for (i = 0; i < CONTENDERS; i++) {
		if (!b->c[i].present)
			continue;
		aim(b, &b->c[i]);
		for (mode = 0; mode < BENCH_MODES; mode++)
			b->c[i].repeat[mode] =
				(int)(SLICE_NS / run(b, &b->c[i], mode, CALIBRATE_PACKETS)) + 1;
	}
}

static void measure(struct bench *b)
{
	unsigned int turns = CONTENDERS * BENCH_MODES, round, turn;

	calibrate(b);
	for (round = 0; round < b->rounds; round++) {
		for (turn = 0; turn < turns; turn++) {
			unsigned int who = (turn + round) % turns, mode = who % BENCH_MODES;
			struct contender *c = &b->c[who / BENCH_MODES];

			if (!c->present)
				continue;
			aim(b, c);
			run(b, c, mode, c->repeat[mode] / WARM_SHARE + 1);
			c->ns[mode][round] = run(b, c, mode, c->repeat[mode]);
		}
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\rround %u of %u%s", round + 1, b->rounds,
				round + 1 == b->rounds ? "\r\033[K" : "");
	}
}

/* The measured rate of each Bloom filter has to be the one that its bits explain. */
static void check_rates(const struct bench *b)
{
	int i;

	for (i = 0; i < CONTENDERS; i++) {
		const struct contender *c = &b->c[i];
		double p = c->fp_expected, n = (double)c->probes, sigma, off;

		if (c->errs != ERRS_AT_A_RATE)
			continue;
		sigma = sqrt(p * (1 - p) / n + c->fp_spread * c->fp_spread);
		off = (double)c->false_positives / n - p;
		if (fabs(off) > SIGMAS * sigma + 1 / n)
			die("%s: %llu false positives in %llu probes are %.1f standard deviations "
			    "from the predicted %.4f %%",
			    c->name, (unsigned long long)c->false_positives,
			    (unsigned long long)c->probes, fabs(off) / sigma, 100 * p);
	}
}

/* ---- the figures ---- */

struct figure {
	double q1, median, q3;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Quantile q of n sorted values, between neighbours by their distance. */
static double quantile(const double *v, unsigned int n, double q)
{
	double at = q * (n - 1);
	unsigned int low = (unsigned int)at;

	if (low + 1 >= n)
		return v[n - 1];
	return v[low] + (at - low) * (v[low + 1] - v[low]);
}

static struct figure figure_of(double *v, unsigned int n)
{
	qsort(v, n, sizeof(*v), by_value);
	return (struct figure){ quantile(v, n, 0.25), quantile(v, n, 0.5), quantile(v, n, 0.75) };
}

/* Above parse-only of the same round; parse-only itself is given as it is. */
static double price(const struct bench *b, enum contender_id id, unsigned int mode,
		    unsigned int round)
{
	double ns = b->c[id].ns[mode][round];

	return id == PARSE_ONLY ? ns : ns - b->c[PARSE_ONLY].ns[mode][round];
}

static struct figure price_figure(const struct bench *b, enum contender_id id, unsigned int mode)
{
	double v[ROUNDS_MAX];
	unsigned int i;

	for (i = 0; i < b->rounds; i++)
		v[i] = price(b, id, mode, i);
	return figure_of(v, b->rounds);
}

/* What split costs as a part of what `id` costs, round by round. */
static struct figure ratio_figure(const struct bench *b, enum contender_id id, unsigned int mode)
{
	double v[ROUNDS_MAX];
	unsigned int i;

	for (i = 0; i < b->rounds; i++)
		v[i] = price(b, SPLIT, mode, i) / price(b, id, mode, i);
	return figure_of(v, b->rounds);
}

static double fp_measured(const struct contender *c)
{
	return c->probes ? (double)c->false_positives / (double)c->probes : 0;
}

static void print_table(const struct bench *b)
{
	static const char *const mode_name[BENCH_MODES] = { "absent", "present" };
	unsigned int mode;
	int i;

	printf("kernel %s %s, JIT on; %s, CPU %d, L2 %s, L3 %s\n", b->uts.release, b->uts.machine,
	       b->cpu_model, b->cpu, b->l2, b->l3);
	printf("%u IPv4 source keys, %u rounds; ns per packet above parse only, median "
	       "[quartiles]\n\n",
	       b->keys, b->rounds);

	printf("%-30s %-23s %-23s %s\n", "", "absent", "present", "split costs, absent/present");
	for (i = 0; i < CONTENDERS; i++) {
		if (!b->c[i].present) {
			printf("%-30s not run%s\n", b->c[i].name,
			       b->lpm == LPM_IF_QUICK ? ": too slow to fill (--lpm insists)" : "");
			continue;
		}
		printf("%-30s", b->c[i].name);
		for (mode = 0; mode < BENCH_MODES; mode++) {
			struct figure f = price_figure(b, i, mode);

			printf(" %6.1f [%6.1f %6.1f]", f.median, f.q1, f.q3);
		}
		if (i != PARSE_ONLY && i != SPLIT) {
			printf("  ");
			for (mode = 0; mode < BENCH_MODES; mode++)
				printf(" x %.2f", ratio_figure(b, i, mode).median);
		}
		printf("\n");
	}

	printf("\n%-30s %6s %12s %12s %4s %12s %12s\n", "", "bits", "bytes", "map bytes", "k",
	       "predicted", "measured");
	for (i = 0; i < CONTENDERS; i++) {
		const struct contender *c = &b->c[i];

		if (!c->present || c->map_fd < 0 || i == ONE_LINE)
			continue;
		printf("%-30s", c->name);
		if (c->errs != ERRS_AT_A_RATE) {
			printf(" %6.1f %12s %12llu %4s %12s %12s\n",
			       8.0 * (double)c->map_bytes / b->keys, "",
			       (unsigned long long)c->map_bytes, "", "exact", "0");
			continue;
		}
		printf(" %6.2f %12llu %12llu %4u %10.4f %% %10.4f %%\n",
		       8.0 * (double)c->bytes / b->keys, (unsigned long long)c->bytes,
		       (unsigned long long)c->map_bytes, c->k, 100 * c->fp_predicted,
		       100 * fp_measured(c));
	}
	printf("(bits: per key; of the map where the structure has no size of its own)\n\n");

	for (mode = 0; mode < BENCH_MODES; mode++) {
		struct figure like = ratio_figure(b, KBLOOM, mode);
		struct figure doc = ratio_figure(b, KBLOOM_DOC, mode);

		printf("%-8s split / kernel bloom map: like rate %.2f [%.2f %.2f], by its doc %.2f "
		       "[%.2f %.2f]\n",
		       mode_name[mode], like.median, like.q1, like.q3, doc.median, doc.q1, doc.q3);
	}
}

static struct json_object *json_figure(struct figure f)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "median", json_object_new_double(f.median));
	json_object_object_add(o, "q1", json_object_new_double(f.q1));
	json_object_object_add(o, "q3", json_object_new_double(f.q3));
	return o;
}

static struct json_object *json_contender(const struct bench *b, enum contender_id id)
{
	const struct contender *c = &b->c[id];
	struct json_object *o = json_object_new_object(), *ratio;

	json_object_object_add(o, "name", json_object_new_string(c->json_name));
	json_object_object_add(o, "absent_ns", json_figure(price_figure(b, id, BENCH_ABSENT)));
	json_object_object_add(o, "present_ns", json_figure(price_figure(b, id, BENCH_PRESENT)));
	if (id != PARSE_ONLY && id != SPLIT) {
		ratio = json_object_new_object();
		json_object_object_add(ratio, "absent",
				       json_figure(ratio_figure(b, id, BENCH_ABSENT)));
		json_object_object_add(ratio, "present",
				       json_figure(ratio_figure(b, id, BENCH_PRESENT)));
		json_object_object_add(o, "split_ratio", ratio);
	}
	if (c->map_fd >= 0)
		json_object_object_add(o, "map_bytes",
				       json_object_new_int64((int64_t)c->map_bytes));
	if (c->errs != ERRS_AT_A_RATE)
		return o;
	json_object_object_add(o, "bytes", json_object_new_int64((int64_t)c->bytes));
	json_object_object_add(o, "bits_per_key",
			       json_object_new_double(8.0 * (double)c->bytes / b->keys));
	json_object_object_add(o, "k", json_object_new_int64(c->k));
	json_object_object_add(o, "fp_predicted", json_object_new_double(c->fp_predicted));
	json_object_object_add(o, "fp_expected", json_object_new_double(c->fp_expected));
	json_object_object_add(o, "fp_measured", json_object_new_double(fp_measured(c)));
	json_object_object_add(o, "probes", json_object_new_int64((int64_t)c->probes));
	json_object_object_add(o, "false_positives",
			       json_object_new_int64((int64_t)c->false_positives));
	return o;
}

static void print_json(const struct bench *b)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	int i;

	json_object_object_add(o, "kernel", json_object_new_string(b->uts.release));
	json_object_object_add(o, "machine", json_object_new_string(b->uts.machine));
	json_object_object_add(o, "cpu_model", json_object_new_string(b->cpu_model));
	json_object_object_add(o, "cpu", json_object_new_int(b->cpu));
	json_object_object_add(o, "l2", json_object_new_string(b->l2));
	json_object_object_add(o, "l3", json_object_new_string(b->l3));
	json_object_object_add(o, "jit", json_object_new_boolean(true));
	json_object_object_add(o, "keys", json_object_new_int64(b->keys));
	json_object_object_add(o, "rounds", json_object_new_int64(b->rounds));
	for (i = 0; i < CONTENDERS; i++)
		if (b->c[i].present)
			json_object_array_add(list, json_contender(b, i));
	json_object_object_add(o, "contenders", list);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY));
	json_object_put(o);
}

/* ---- the command line ---- */

static const char usage[] =
	"usage: bench [--keys N] [--rounds N] [--bits-per-key B] [--cpu N] [--lpm | --no-lpm] "
	"[--json]\n"
	"  --keys N          IPv4 source addresses in the set, 1000 to 2^30 (1000000)\n"
	"  --rounds N        how often everything is measured, 1 to 1001 (15)\n"
	"  --bits-per-key B  of layout split, which sets the rate for all, 8 to 64 (12)\n"
	"  --cpu N           the CPU to run on (the last one allowed)\n"
	"  --lpm, --no-lpm   with the LPM trie, or without (with, if it fills within 5 s)\n"
	"  --json            one JSON object instead of the table\n"
	"Needs root, or CAP_BPF and CAP_NET_ADMIN.\n";

static double number(const char *text, double min, double max, const char *what)
{
	char *end;
	double x = strtod(text, &end);

	if (end == text || *end || !(x >= min && x <= max))
		die("%s is not a number from %.0f to %.0f, as %s takes it", text, min, max, what);
	return x;
}

static void parse_options(struct bench *b, int argc, char **argv)
{
	static const struct option options[] = {
		{ "keys", required_argument, NULL, 'n' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "bits-per-key", required_argument, NULL, 'b' },
		{ "cpu", required_argument, NULL, 'c' },
		{ "lpm", no_argument, NULL, 'l' },
		{ "no-lpm", no_argument, NULL, 'L' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			b->keys = (uint32_t)number(optarg, 1000, 1 << 30, "--keys");
			break;
		case 'r':
			b->rounds = (unsigned int)number(optarg, 1, ROUNDS_MAX, "--rounds");
			break;
		case 'b':
			b->bits_per_key = number(optarg, 8, 64, "--bits-per-key");
			break;
		case 'c':
			b->cpu = (int)number(optarg, 0, CPU_SETSIZE - 1, "--cpu");
			break;
		case 'l':
			b->lpm = LPM_YES;
			break;
		case 'L':
			b->lpm = LPM_NO;
			break;
		case 'j':
			b->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			exit(2); /* getopt has said why */
		}
	}
	if (optind < argc)
		die("what is %s? It takes options only (--help)", argv[optind]);
}

int main(int argc, char **argv)
{
	static struct bench b = {
		.keys = 1000000,
		.rounds = 15,
		.bits_per_key = 12,
		.cpu = -1,
	};

	libbpf_set_print(NULL);
	parse_options(&b, argc, argv);
	pin_to_cpu(&b);
	look_at_machine(&b);
	make_frame(&b);
	b.cpus = libbpf_num_possible_cpus();
	must(b.cpus, "how many CPUs are there");
	b.stats = must_alloc((size_t)b.cpus, sizeof(*b.stats));
	if (getrandom(&b.state, sizeof(b.state), 0) != sizeof(b.state))
		die("getrandom: %s", strerror(errno));
	make_contenders(&b);
	measure(&b);
	check_rates(&b);
	if (b.json)
		print_json(&b);
	else
		print_table(&b);
	return 0;
}
