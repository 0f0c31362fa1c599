/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the data path and its users share through memory: the constants of a filter program
 * (.rodata), its counters (map `stats`) and the record of a filter (map `meta`).
 *
 * All three are bound to XBLOOM_VERSION. A change of any struct here, of a key word, of the hash
 * or of a position raises it, and a tool that meets another number says so and keeps its hands
 * off.
 */
#ifndef XBLOOM_MAPS_H
#define XBLOOM_MAPS_H

#include "key.h"
#include "layout.h"
#include "prefix.h"

#define XBLOOM_VERSION 3u
#define XBLOOM_MAGIC 0x6d6f6f6c62706478ULL /* "xdpbloom", little-endian */

#define XBLOOM_FEMTO 1e15   /* units of fp_target_femto in a rate of 1 */
#define XBLOOM_NAME_MAX 64u /* with the terminating zero */

/* The slot of the map `slots` in which the entry program finds the filter program. */
#define XBLOOM_SLOT 0u

#define XBLOOM_POLICY_BLOCK 0u
#define XBLOOM_POLICY_ALLOW 1u

/* Why a packet got its verdict. Each packet has exactly one reason and one action. */
enum xbloom_reason {
	XBLOOM_NOT_IP,	  /* ARP, LLDP, ...: never keyed, always passes */
	XBLOOM_NDP,	  /* IPv6 neighbour discovery: always passes */
	XBLOOM_NO_FILTER, /* the slot was empty: always passes */
	XBLOOM_ABSENT,	  /* certainly not in the filter */
	XBLOOM_MAYBE,	  /* in the filter, or a false positive; nobody asked the exact map */
	XBLOOM_CONFIRMED, /* maybe, and the exact map holds it */
	XBLOOM_REFUTED,	  /* maybe, but the exact map does not hold it: a false positive */
	XBLOOM_EXEMPT,	  /* its verdict was drop, but its address is exempt: always passes */
	XBLOOM_ERROR,	  /* the program could not ask the filter: always passes */
	/* Unkeyed: IP, but without the fields that the key wants. */
	XBLOOM_MALFORMED, /* cut short, or lengths and versions that contradict each other */
	XBLOOM_FRAGMENT,  /* not the first fragment, so no ports */
	XBLOOM_EXTHDR,	  /* more IPv6 extension headers than XBLOOM_EXTHDRS_MAX */
	XBLOOM_VLAN_TAGS, /* more VLAN tags than XBLOOM_VLAN_TAGS_MAX */
	XBLOOM_REASONS,
};

#define XBLOOM_UNKEYED_FIRST XBLOOM_MALFORMED
#define XBLOOM_UNKEYED_LAST XBLOOM_VLAN_TAGS
#define XBLOOM_UNKEYED_ALL                                                                         \
	(1u << XBLOOM_MALFORMED | 1u << XBLOOM_FRAGMENT | 1u << XBLOOM_EXTHDR |                    \
	 1u << XBLOOM_VLAN_TAGS)

#define XBLOOM_VLAN_TAGS_MAX 4u
/* RFC 8200 has six kinds, of which one may come twice; eight leaves room for the unknown. */
#define XBLOOM_EXTHDRS_MAX 8u

enum xbloom_action {
	XBLOOM_PASS,
	XBLOOM_DROP,
	XBLOOM_WOULD_DROP, /* shadow: the verdict is drop, the packet passes */
	XBLOOM_ACTIONS,
};

struct xbloom_counter {
	__u64 packets;
	__u64 bytes; /* of whole frames, Ethernet header included, FCS not */
};

/* The one element of the per-CPU array `stats`. */
struct xbloom_stats {
	struct xbloom_counter c[XBLOOM_REASONS][XBLOOM_ACTIONS];
	__u64 samples;	    /* handed to the ring buffer */
	__u64 samples_lost; /* found it full, or not there */
};

/* Of the ring buffer: 18,000 samples, a tenth of a second of 180,000 sampled packets a second. */
#define XBLOOM_SAMPLES_BYTES (1u << 20)

/* What the ring buffer `samples` carries: the key of a packet that the filter answered. */
struct xbloom_sample {
	__u64 words[XBLOOM_KEY_WORDS_MAX]; /* those past n_words are 0 */
	__u32 n_words;
	__u32 reason; /* XBLOOM_ABSENT, XBLOOM_MAYBE, XBLOOM_CONFIRMED or XBLOOM_REFUTED */
};

/* A maybe is looked up in the exact map `confirm`. */
#define XBLOOM_CONFIRM 0x1u
/* Answers of the one kind, and of the other, are sampled. */
#define XBLOOM_SAMPLE_MAYBE 0x2u
#define XBLOOM_SAMPLE_ABSENT 0x4u
#define XBLOOM_SAMPLE (XBLOOM_SAMPLE_MAYBE | XBLOOM_SAMPLE_ABSENT)
/* What is to be dropped is looked up among the exemptions. */
#define XBLOOM_EXEMPTS 0x8u

/* A key of the LPM trie `exempt`, in the order that the kernel wants. */
struct xbloom_exempt_key {
	__u32 plen; /* 0..128 */
	__u8 addr[16];
};

/* So many are constants of the program: under `allow` a flood asks for them. More are in a trie. */
#define XBLOOM_EXEMPT_CONSTANTS 8u

/* Why it is there: bits of a value of `exempt`. */
#define XBLOOM_EXEMPT_USER 0x1u	    /* --exempt */
#define XBLOOM_EXEMPT_OWN 0x2u	    /* an address of a device that the filter is attached to */
#define XBLOOM_EXEMPT_GATEWAY 0x4u  /* on one of its routes */
#define XBLOOM_EXEMPT_RESOLVER 0x8u /* in use by this machine */
#define XBLOOM_EXEMPT_GUARD (XBLOOM_EXEMPT_OWN | XBLOOM_EXEMPT_GATEWAY | XBLOOM_EXEMPT_RESOLVER)

/* Arrays of bits that a filter with a time to live has in rotation, at most. */
#define XBLOOM_LIVES_MAX 4u

/* Everything a filter program knows, frozen in .rodata when it is loaded. */
struct xbloom_params {
	struct xbloom_hash_key hash_key;
	__u64 blocks;
	__u64 bits;
	__u32 layout;
	__u32 k;
	__u32 fields;
	__u32 policy;
	__u32 shadow;	    /* 0 or 1 */
	__u32 unkeyed_drop; /* bit 1 << reason: that reason drops */
	/*
	 * What is done after the answer, in one word: XBLOOM_CONFIRM | ..., so that a filter without
	 * all of it looks once.
	 */
	__u32 extras;
	__u32 sample_every; /* one answer in so many is sampled, at least 1 */

	__u32 nets4;	/* 0 or 1: IPv4 prefixes are looked for in the map `nets4` */
	__u32 n_plens6; /* 0: only hosts, and plens6 is not read */
	struct xbloom_plen6 plens6[XBLOOM_PLENS6_MAX]; /* the host's first */

	__u32 exempt_trie; /* 0 or 1: the trie is asked, and not the constants */
	__u32 n_exempt;	   /* constants, 0..XBLOOM_EXEMPT_CONSTANTS */
	__u32 exempt_id;   /* of the trie that is the record of both; 0: nothing is exempt */
	__u32 reserved;
	struct xbloom_exempt exempt[XBLOOM_EXEMPT_CONSTANTS];

	/*
	 * With a time to live, `blocks` is the size of one of so many arrays that lie behind each
	 * other in the map (and so in `nets4`); 0 or 1: there is one, for ever. Each is asked until
	 * its time; keys are put into the array `current`.
	 */
	__u32 lives;
	__u32 current;
	__u64 expires_ns[XBLOOM_LIVES_MAX]; /* CLOCK_BOOTTIME */
};

/*
 * The list that a filter was filled from, so that the same list need not be put in again: sums over
 * its entries of hashes under a secret that no other hash is made with.
 */
struct xbloom_source {
	struct xbloom_hash_key key;
	__u64 sum[2];
	__u64 entries;	/* of the lists, duplicates included; 0: from no list */
	__u64 keys;	/* distinct ones that they came to; 0: nobody counted */
	__u64 inserted; /* `inserted` when it was filled: more were added since where that differs */
};

/*
 * What a writer is about to do. It sets bits and counts, and may be killed between any two
 * instructions: whoever takes the lock next finds `open` set and finishes the insert. Without that,
 * a key could have changed bits and not be counted.
 */
struct xbloom_journal {
	__u64 hash;
	__u64 inserted; /* before this insert */
	__u32 open;	/* 0 or 1 */
	__u32 reserved;
};

/*
 * The one element of the mmapable array `meta`: the record of a filter. Written by who holds the
 * filter's lock alone. It holds the secret.
 */
struct xbloom_meta {
	__u64 magic;
	__u32 version; /* XBLOOM_VERSION */
	__u32 size;    /* of this struct */

	struct xbloom_params params; /* as the program in the slot has them */
	/*
	 * A change of params is announced here before the slot is updated, and copied to params
	 * after that. pending is the id of the program that has `next` for its constants: while it
	 * is not 0, the program id in the slot tells which of the two is in force, also when the
	 * announcer died between.
	 */
	struct xbloom_params next;
	__u32 pending;
	__u32 generation; /* counts the fillings that replaced each other, from 1 */

	__u64 created;	/* seconds since 1970 */
	__u64 capacity; /* keys it was sized for */
	__u64 inserted; /* adds that changed at least one bit; see journal */
	struct xbloom_journal journal;
	__u64 fp_target_femto; /* the rate it was sized for, in units of 1e-15 */
	__u32 alarm_percent;   /* of capacity, from which the load is called high */
	__u32 guard;	       /* 0 or 1: attach exempts what the machine itself lives by */
	struct xbloom_source source;

	/*
	 * A rebuild fills the next generation in a directory of its own, and this is the id of its
	 * program: once the slot holds it, that directory is the filter, whoever lives to rename it.
	 */
	__u32 successor;
	/*
	 * With a time to live, a writer is about to make array number turning - 1 the current one, of
	 * which nothing was inserted yet. What was in the others is in inserted_before.
	 */
	__u32 turning;
	__u64 ttl_ns;
	__u64 inserted_before[XBLOOM_LIVES_MAX];
	char name[XBLOOM_NAME_MAX];
};

#endif /* XBLOOM_MAPS_H */
