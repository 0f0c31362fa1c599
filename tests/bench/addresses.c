// SPDX-License-Identifier: GPL-2.0-only
/*
 * addresses: so many distinct IPv4 addresses, in no order, on stdout.
 *
 *     addresses N plain|ipset|nft|raw4
 *
 * Those of the set that the benchmark's BPF programs draw from (bench.bpf.h), at most 2^31. raw4 is the
 * addresses in network order; ipset and nft are what `ipset restore` and `nft -f` take.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.bpf.h"

#define NFT_BATCH 100000 /* elements of one command */
#define BUFFER (1 << 20)

static char *put_number(char *to, unsigned int n)
{
	if (n >= 100)
		*to++ = (char)('0' + n / 100);
	if (n >= 10)
		*to++ = (char)('0' + n / 10 % 10);
	*to++ = (char)('0' + n % 10);
	return to;
}

static char *put_address(char *to, uint32_t a)
{
	int shift;

	for (shift = 24; shift >= 0; shift -= 8) {
		to = put_number(to, a >> shift & 255);
		if (shift)
			*to++ = '.';
	}
	return to;
}

static char *put_text(char *to, const char *text)
{
	size_t len = strlen(text);

	memcpy(to, text, len);
	return to + len;
}

enum format { PLAIN, IPSET, NFT, RAW4, FORMATS };
static const char *const names[FORMATS] = { "plain", "ipset", "nft", "raw4" };

static char *put_one(char *to, enum format format, uint64_t i, uint64_t n, uint32_t a)
{
	uint32_t raw = htonl(a);

	switch (format) {
	case RAW4:
		memcpy(to, &raw, sizeof(raw));
		return to + sizeof(raw);
	case IPSET:
		to = put_text(to, "add bench ");
		break;
	case NFT:
		to = put_text(to, i % NFT_BATCH ? ",\n" : "add element inet bench listed { ");
		break;
	default:
		break;
	}
	to = put_address(to, a);
	if (format == NFT)
		return i % NFT_BATCH == NFT_BATCH - 1 || i == n - 1 ? put_text(to, " }\n") : to;
	*to++ = '\n';
	return to;
}

int main(int argc, char **argv)
{
	static char buf[BUFFER + 256];
	uint64_t n = argc > 2 ? strtoull(argv[1], NULL, 10) : 0, i;
	enum format format = PLAIN;
	char *to = buf;

	while (argc > 2 && format < FORMATS && strcmp(argv[2], names[format]))
		format++;
	if (!n || n > BENCH_INDEXES || format == FORMATS) {
		fprintf(stderr, "usage: addresses N plain|ipset|nft|raw4\n");
		return 2;
	}
	if (format == IPSET)
		printf("create bench hash:ip family inet hashsize 1024 maxelem %llu\n",
		       (unsigned long long)n);
	if (format == NFT)
		printf("add table inet bench\nadd set inet bench listed { type ipv4_addr; }\n");
	for (i = 0; i < n; i++) {
		to = put_one(to, format, i, n, bench_address((uint32_t)i, BENCH_PRESENT));
		if (to - buf >= BUFFER || i == n - 1) {
			if (fwrite(buf, 1, (size_t)(to - buf), stdout) != (size_t)(to - buf))
				return 1;
			to = buf;
		}
	}
	return fflush(stdout) ? 1 : 0;
}
