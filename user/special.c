// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Addresses that a list should hardly hold: the ranges that the IANA keeps for special purposes
 * (RFC 6890 and those it names), and what this machine itself lives by. Entries are counted as they
 * are read, so a look at one must be cheap: its first byte tells of nearly all that they are none.
 */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "internal.h"

#define FIRST_BYTES 256
#define BYTE_BITS 8

static const struct {
	const char *prefix;
	unsigned int plen;
	const char *name;
} known[] = {
	{ "0.0.0.0", 8, "this network" },
	{ "10.0.0.0", 8, "private" },
	{ "100.64.0.0", 10, "shared by carriers" },
	{ "127.0.0.0", 8, "loopback" },
	{ "169.254.0.0", 16, "link-local" },
	{ "172.16.0.0", 12, "private" },
	{ "192.168.0.0", 16, "private" },
	{ "224.0.0.0", 4, "multicast" },
	{ "255.255.255.255", 32, "broadcast" },
	{ "::", 128, "unspecified" },
	{ "::1", 128, "loopback" },
	{ "::ffff:0:0", 96, "IPv4 written as IPv6" },
	{ "fc00::", 7, "private (unique local)" },
	{ "fe80::", 10, "link-local" },
	{ "ff00::", 8, "multicast" },
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

struct range {
	__u64 addr[2]; /* raw; an IPv4 one in the first four bytes */
	__u64 mask[2];
	uint8_t family;
	uint8_t plen;
	char name[sizeof(((struct xbloom_special_range *)0)->name)];
};

struct xbloom_special {
	uint32_t fields;
	struct range *v;
	size_t n;
	size_t row;	  /* of counts, in whole cache lines */
	uint64_t *counts; /* a row for each reader */
	bool first4[FIRST_BYTES], first6[FIRST_BYTES];
};

/* The first bytes that an address of a prefix can have. */
static void mark(bool first[FIRST_BYTES], unsigned int byte, unsigned int plen)
{
	unsigned int n = plen < BYTE_BITS ? 1u << (BYTE_BITS - plen) : 1, i;

	byte &= ~(n - 1);
	for (i = 0; i < n; i++)
		first[byte + i] = true;
}

static int push(struct xbloom_special *s, uint8_t family, const void *addr, unsigned int plen,
		const char *name, struct xbloom_error *err)
{
	struct range *v = reallocarray(s->v, s->n + 1, sizeof(*v)), *r;
	unsigned char first;
	size_t i;

	if (!v)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	s->v = v;
	r = &v[s->n];
	memset(r, 0, sizeof(*r));
	r->family = family;
	r->plen = (uint8_t)plen;
	memcpy(r->addr, addr, family == XBLOOM_FAMILY_V4 ? 4 : 16);
	xbloom_raw_mask128(plen, r->mask);
	r->addr[0] &= r->mask[0];
	r->addr[1] &= r->mask[1];
	snprintf(r->name, sizeof(r->name), "%s", name);
	/* One network may have several of our addresses. */
	for (i = 0; i < s->n; i++)
		if (!memcmp(&v[i], r, sizeof(*r)))
			return 0;
	memcpy(&first, r->addr, sizeof(first));
	mark(family == XBLOOM_FAMILY_V4 ? s->first4 : s->first6, first, plen);
	s->n++;
	return 0;
}

static int push_known(struct xbloom_special *s, struct xbloom_error *err)
{
	unsigned char addr[sizeof(struct in6_addr)] = { 0 };
	size_t i;
	int ret = 0;

	for (i = 0; i < KNOWN && !ret; i++) {
		bool v6 = strchr(known[i].prefix, ':');

		inet_pton(v6 ? AF_INET6 : AF_INET, known[i].prefix, addr);
		ret = push(s, v6 ? XBLOOM_FAMILY_V6 : XBLOOM_FAMILY_V4, addr, known[i].plen,
			   known[i].name, err);
	}
	return ret;
}

static int push_own(struct xbloom_special *s, const struct xbloom_machine_addr *a,
		    struct xbloom_error *err)
{
	char name[sizeof(s->v->name)], device[IF_NAMESIZE] = "";

	if (a->ifindex && !if_indextoname(a->ifindex, device))
		return 0; /* it has just gone */
	switch (a->why) {
	case XBLOOM_EXEMPT_OWN:
		/* Its own ranges are known already. */
		if (!strcmp(device, "lo"))
			return 0;
		snprintf(name, sizeof(name), "the network of %s", device);
		break;
	case XBLOOM_EXEMPT_GATEWAY:
		snprintf(name, sizeof(name), "a gateway of %s", device);
		break;
	default:
		snprintf(name, sizeof(name), "a resolver of this machine");
	}
	return push(s, a->flow.family, &a->flow.src, a->flow.plen, name, err);
}

int xbloom_special_open(uint32_t fields, struct xbloom_special **out, struct xbloom_error *err)
{
	struct xbloom_special *s = calloc(1, sizeof(*s));
	struct xbloom_machine machine = { 0 };
	size_t i, line = XBLOOM_BLOCK_BYTES / sizeof(uint64_t);
	int ret;

	if (!s)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	s->fields = fields;
	ret = push_known(s, err);
	/* Where this machine's own cannot be told, the rest still can. */
	if (!ret && !xbloom_machine_read(&machine, NULL))
		for (i = 0; i < machine.n && !ret; i++)
			ret = push_own(s, &machine.v[i], err);
	xbloom_machine_free(&machine);
	s->row = (s->n + line) / line * line;
	if (!ret) {
		s->counts = calloc(XBLOOM_READERS_MAX * s->row, sizeof(*s->counts));
		if (!s->counts)
			ret = xbloom_fail(err, -ENOMEM, "out of memory");
	}
	if (ret) {
		xbloom_special_close(s);
		return ret;
	}
	*out = s;
	return 0;
}

void xbloom_special_close(struct xbloom_special *s)
{
	if (!s)
		return;
	free(s->v);
	free(s->counts);
	free(s);
}

/* ---- counting ---- */

/* In it, or all of it: what they have in common decides. */
static bool touches(const struct range *r, const __u64 addr[2], unsigned int plen)
{
	__u64 mask[2];

	if (plen >= r->plen)
		return !(((addr[0] ^ r->addr[0]) & r->mask[0]) |
			 ((addr[1] ^ r->addr[1]) & r->mask[1]));
	xbloom_raw_mask128(plen, mask);
	return !(((addr[0] ^ r->addr[0]) & mask[0]) | ((addr[1] ^ r->addr[1]) & mask[1]));
}

static void count(const struct xbloom_special *s, unsigned int worker, uint8_t family,
		  const __u64 addr[2], unsigned int plen)
{
	uint64_t *counts = s->counts + worker * s->row;
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->v[i].family == family && touches(&s->v[i], addr, plen))
			counts[i]++;
}

void xbloom_special_seen(void *special, unsigned int worker, const struct xbloom_flow *flow)
{
	const struct xbloom_special *s = special;
	bool v4 = flow->family == XBLOOM_FAMILY_V4;
	__u64 addr[2] = { 0 };
	unsigned char first;

	if (!(s->fields & XBLOOM_FIELDS_ADDR))
		return;
	memcpy(addr, s->fields & XBLOOM_SRC ? flow->src.v6 : flow->dst.v6,
	       v4 ? sizeof(flow->src.v4) : sizeof(addr));
	memcpy(&first, addr, sizeof(first));
	if (flow->plen >= BYTE_BITS && !(v4 ? s->first4 : s->first6)[first])
		return;
	count(s, worker, flow->family, addr, flow->plen);
}

bool xbloom_special_range(const struct xbloom_special *s, size_t i,
			  struct xbloom_special_range *out)
{
	char addr[INET6_ADDRSTRLEN];
	const struct range *r;
	unsigned int w;

	if (i >= s->n)
		return false;
	r = &s->v[i];
	*out = (struct xbloom_special_range){ 0 };
	inet_ntop(r->family == XBLOOM_FAMILY_V4 ? AF_INET : AF_INET6, r->addr, addr, sizeof(addr));
	if (r->plen == (r->family == XBLOOM_FAMILY_V4 ? XBLOOM_PLEN4_HOST : XBLOOM_PLEN6_HOST))
		snprintf(out->range, sizeof(out->range), "%s", addr);
	else
		snprintf(out->range, sizeof(out->range), "%s/%u", addr, r->plen);
	memcpy(out->name, r->name, sizeof(out->name));
	for (w = 0; w < XBLOOM_READERS_MAX; w++)
		out->entries += s->counts[w * s->row + i];
	return true;
}
