/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A key: the fields of a flow that a filter looks at, packed into 64-bit words, and their hash.
 * This is the only definition of what a key is; packets, lists and devices all come through
 * xbloom_key_words().
 *
 * Word 0 (bit 0 is the lowest; "raw" means the bytes stand as they do on the wire, the first one
 * lowest):
 *
 *    0..31   family 4: the first keyed address, raw.  Otherwise: the ports, raw, source port first.
 *   32..39   prefix length of the keyed address: 32 or 128 for a host, 0 without an address
 *   40..43   family: 4, 6, or 0 when no address is keyed
 *   44..55   VLAN id, 0 when untagged or not keyed
 *   56..63   protocol number, 0 when not keyed
 *
 * Family 4 adds one word when a second address or a port is keyed: that address in bits 0..31,
 * the ports in bits 32..63. Family 6 adds two words for each keyed address, source first.
 * Fields that are not keyed are zero. So an IPv4 source is one word, an IPv4 5-tuple two, an IPv6
 * source three and an IPv6 5-tuple five; one filter holds both families and they never meet.
 */
#ifndef XBLOOM_KEY_H
#define XBLOOM_KEY_H

#include "siphash.h"

/* The fields a filter may key on, in the order in which a key is written as text. */
#define XBLOOM_SRC 0x01u
#define XBLOOM_DST 0x02u
#define XBLOOM_SPORT 0x04u
#define XBLOOM_DPORT 0x08u
#define XBLOOM_PROTO 0x10u
#define XBLOOM_VLAN 0x20u

#define XBLOOM_FIELDS_ADDR (XBLOOM_SRC | XBLOOM_DST)
#define XBLOOM_FIELDS_PORTS (XBLOOM_SPORT | XBLOOM_DPORT)
#define XBLOOM_FIELDS_ALL 0x3fu
#define XBLOOM_FIELDS_5TUPLE (XBLOOM_SRC | XBLOOM_DST | XBLOOM_SPORT | XBLOOM_DPORT | XBLOOM_PROTO)

#define XBLOOM_FAMILY_NONE 0u
#define XBLOOM_FAMILY_V4 4u
#define XBLOOM_FAMILY_V6 6u

#define XBLOOM_VLAN_MAX 4095u

/* An IPv6 5-tuple: header word, two addresses of two words. */
#define XBLOOM_KEY_WORDS_MAX 5u

/* RAW: the first byte in memory is the lowest of the number. BIG: it is the highest. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define XBLOOM_RAW32(x) ((__u32)(x))
#define XBLOOM_RAW64(x) ((__u64)(x))
#define XBLOOM_BIG32(x) __builtin_bswap32(x)
#define XBLOOM_BIG64(x) __builtin_bswap64(x)
#else
#define XBLOOM_RAW32(x) __builtin_bswap32(x)
#define XBLOOM_RAW64(x) __builtin_bswap64(x)
#define XBLOOM_BIG32(x) ((__u32)(x))
#define XBLOOM_BIG64(x) ((__u64)(x))
#endif

/*
 * A flow as a packet or a line of a list gives it. Addresses and ports hold the wire's bytes in
 * memory order (as a plain load from the packet gives them); `vlan` is a number. IPv4 addresses
 * stand in the first four bytes and leave the rest alone: only v4 is read for family 4.
 */
struct xbloom_flow {
	union {
		__u32 v4;
		__u64 v6[2];
	} src;
	union {
		__u32 v4;
		__u64 v6[2];
	} dst;
	__u16 ports[2]; /* source, destination */
	__u16 vlan;
	__u8 proto;
	__u8 plen; /* of the keyed address: 32 or 128 for a host */
	__u8 family;
};

XBLOOM_INLINE __u32 xbloom_key_ports(const struct xbloom_flow *f, __u32 fields)
{
	union {
		__u16 port[2];
		__u32 both;
	} u = { .port = { 0, 0 } };

	if (fields & XBLOOM_SPORT)
		u.port[0] = f->ports[0];
	if (fields & XBLOOM_DPORT)
		u.port[1] = f->ports[1];
	return XBLOOM_RAW32(u.both);
}

/*
 * Pack the keyed fields of a flow into words[]; fields is any non-empty set of the bits above.
 * With an address keyed, f->family is 4 or 6; without one it is not read. Returns the number of
 * words, 1 to XBLOOM_KEY_WORDS_MAX.
 */
XBLOOM_INLINE unsigned int xbloom_key_words(const struct xbloom_flow *f, __u32 fields,
					    __u64 words[XBLOOM_KEY_WORDS_MAX])
{
	__u64 head = 0;

	if (fields & XBLOOM_VLAN)
		head |= (__u64)(f->vlan & XBLOOM_VLAN_MAX) << 44;
	if (fields & XBLOOM_PROTO)
		head |= (__u64)f->proto << 56;

	if (!(fields & XBLOOM_FIELDS_ADDR)) {
		words[0] = head | xbloom_key_ports(f, fields);
		return 1;
	}
	head |= (__u64)f->plen << 32;

	if (f->family == XBLOOM_FAMILY_V4) {
		head |= (__u64)XBLOOM_FAMILY_V4 << 40;
		head |= XBLOOM_RAW32(fields & XBLOOM_SRC ? f->src.v4 : f->dst.v4);
		words[0] = head;
		if ((fields & XBLOOM_FIELDS_ADDR) != XBLOOM_FIELDS_ADDR &&
		    !(fields & XBLOOM_FIELDS_PORTS))
			return 1;
		words[1] = (__u64)xbloom_key_ports(f, fields) << 32;
		if ((fields & XBLOOM_FIELDS_ADDR) == XBLOOM_FIELDS_ADDR)
			words[1] |= XBLOOM_RAW32(f->dst.v4);
		return 2;
	}

	head |= (__u64)XBLOOM_FAMILY_V6 << 40;
	words[0] = head | xbloom_key_ports(f, fields);
	if (fields & XBLOOM_SRC) {
		words[1] = XBLOOM_RAW64(f->src.v6[0]);
		words[2] = XBLOOM_RAW64(f->src.v6[1]);
	} else {
		words[1] = XBLOOM_RAW64(f->dst.v6[0]);
		words[2] = XBLOOM_RAW64(f->dst.v6[1]);
	}
	if ((fields & XBLOOM_FIELDS_ADDR) != XBLOOM_FIELDS_ADDR)
		return 3;
	words[3] = XBLOOM_RAW64(f->dst.v6[0]);
	words[4] = XBLOOM_RAW64(f->dst.v6[1]);
	return 5;
}

/*
 * The hash of a flow under a filter's secret key: SipHash-1-3 of its words. All 64 bits are used,
 * and all that the filter ever learns of a key is this number.
 */
XBLOOM_INLINE __u64 xbloom_words_hash(const struct xbloom_hash_key *key, const __u64 *words,
				      unsigned int n)
{
	/* A lone IPv4 address, the commonest key, gets straight code that the registers hold. */
	if (n == 1)
		return xbloom_siphash_cd(key, words, 1, 1, XBLOOM_SIP_C, XBLOOM_SIP_D);
	return xbloom_siphash_cd(key, words, n, XBLOOM_KEY_WORDS_MAX, XBLOOM_SIP_C, XBLOOM_SIP_D);
}

XBLOOM_INLINE __u64 xbloom_key_hash(const struct xbloom_hash_key *key, const struct xbloom_flow *f,
				    __u32 fields)
{
	__u64 words[XBLOOM_KEY_WORDS_MAX] = { 0 };
	unsigned int n = xbloom_key_words(f, fields, words);

	return xbloom_words_hash(key, words, n);
}

/* The most words that a key of these fields can have: those of its IPv6 form. */
XBLOOM_INLINE unsigned int xbloom_key_width(__u32 fields)
{
	if (!(fields & XBLOOM_FIELDS_ADDR))
		return 1;
	return (fields & XBLOOM_FIELDS_ADDR) == XBLOOM_FIELDS_ADDR ? XBLOOM_KEY_WORDS_MAX : 3;
}

#endif /* XBLOOM_KEY_H */
