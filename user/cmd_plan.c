// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom plan: what a filter would cost and how often it would be wrong. Needs no privilege.
 */
#include "cli.h"

enum { OPT_ITEMS = OPT_FIRST, OPT_FP, OPT_BITS, OPT_LAYOUT, OPT_HASHES };

static const struct option options[] = {
	{ "items", required_argument, NULL, OPT_ITEMS },
	{ "fp", required_argument, NULL, OPT_FP },
	{ "bits-per-key", required_argument, NULL, OPT_BITS },
	{ "layout", required_argument, NULL, OPT_LAYOUT },
	{ "hashes", required_argument, NULL, OPT_HASHES },
	COMMON_OPTIONS,
};

static void print_plan(const struct xbloom_size *s)
{
	char items[HUMAN_TEXT], bytes[HUMAN_TEXT], blocks[HUMAN_TEXT], bits[HUMAN_TEXT];
	char rate[HUMAN_TEXT];

	printf("layout        %s\n", layout_name(s->geometry.layout));
	printf("keys          %s\n", human_count(s->items, items));
	printf("memory        %s (%s blocks of %u bytes, %s bits)\n", human_bytes(s->bytes, bytes),
	       human_count(s->geometry.blocks, blocks), XBLOOM_BLOCK_BYTES,
	       human_count(s->geometry.bits, bits));
	printf("bits per key  %.2f\n", s->bits_per_key);
	printf("hashes        %u\n", s->geometry.k);
	printf("rate          %s of absent keys will be called maybe\n", human_rate(s->fp, rate));
}

static void print_plan_json(const struct xbloom_size *s)
{
	struct json_object *o = json_object_new_object();

	json_add(o, "layout", json_object_new_string(layout_name(s->geometry.layout)));
	json_add(o, "items", json_u64(s->items));
	json_add(o, "k", json_u64(s->geometry.k));
	json_add(o, "bits", json_u64(s->geometry.bits));
	json_add(o, "blocks", json_u64(s->geometry.blocks));
	json_add(o, "bytes", json_u64(s->bytes));
	json_add(o, "bits_per_key", json_number(s->bits_per_key));
	json_add(o, "fp_predicted", json_number(s->fp));
	print_json(o);
}

static int run(int argc, char **argv)
{
	struct xbloom_size_request req = { .layout = XBLOOM_LAYOUT_SPLIT };
	struct xbloom_error err = { "" };
	struct xbloom_size size;
	bool json = false, good = true;
	int c;

	while (good && (c = next_option(&verb_plan, argc, argv, options)) != -1) {
		switch (c) {
		case OPT_ITEMS:
			good = parse_count("--items", optarg, COUNT_MAX, &req.items);
			break;
		case OPT_FP:
			good = parse_rate("--fp", optarg, &req.fp);
			break;
		case OPT_BITS:
			good = parse_positive("--bits-per-key", optarg, &req.bits_per_key);
			break;
		case OPT_LAYOUT:
			good = parse_layout(optarg, &req.layout);
			break;
		case OPT_HASHES:
			good = parse_hashes(optarg, &req.hashes);
			break;
		case OPT_JSON:
			json = true;
			break;
		default:
			return EXIT_FAILED;
		}
	}
	if (!good)
		return EXIT_FAILED;
	if (optind < argc)
		return fail("plan takes no argument '%s' (xdp-bloom plan --help)", argv[optind]);
	if (!req.items)
		return fail("plan needs --items N: how many keys (xdp-bloom plan --help)");
	if (xbloom_plan(&req, &size, &err))
		return fail_err(&err);
	if (json)
		print_plan_json(&size);
	else
		print_plan(&size);
	return EXIT_DONE;
}

const struct verb verb_plan = {
	.name = "plan",
	.summary = "work out size and error rate of a filter before making one",
	.help = "usage: xdp-bloom plan --items N [--fp P | --bits-per-key B] [--layout L] "
		"[--hashes K]\n"
		"\n"
		"  --items N         distinct keys; k, M and G are understood\n"
		"  --fp P            the rate of absent keys called maybe: 0.01 (the default) or "
		"1%,\n"
		"                    from 1e-9 to 0.5\n"
		"  --bits-per-key B  a budget instead of a rate\n"
		"  --layout L        split (the default) or classic\n"
		"  --hashes K        classic only: k, 1 to 30; without it the best one\n"
		"  --json            one JSON object\n",
	.run = run,
};
