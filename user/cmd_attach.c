// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom attach: put a filter on devices, for good or on trial, and confirm a trial.
 */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "exemptions.h"

enum { OPT_MODE = OPT_FIRST, OPT_TRY, OPT_CONFIRM_TRY, OPT_FORCE, OPT_NO_GUARD };

static const struct option options[] = {
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "try", required_argument, NULL, OPT_TRY },
	{ "confirm-try", no_argument, NULL, OPT_CONFIRM_TRY },
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "no-guard", no_argument, NULL, OPT_NO_GUARD },
	COMMON_OPTIONS,
};

/* A day: longer than anyone waits for a lost connection, and far from overflowing. */
#define TRY_MAX_SECONDS 86400

static bool parse_mode(const char *text, enum xbloom_mode *mode)
{
	enum xbloom_mode m;

	for (m = XBLOOM_MODE_AUTO; m <= XBLOOM_MODE_GENERIC; m++) {
		if (!strcmp(text, xbloom_mode_name(m))) {
			*mode = m;
			return true;
		}
	}
	fail("unknown mode '%s': choose auto, native or generic", text);
	return false;
}

static bool parse_try(const char *text, unsigned int *seconds)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	unsigned long unit = 1;

	if (*end == 'm')
		unit = 60;
	else if (*end == 'h')
		unit = 3600;
	if (*text < '0' || *text > '9' || n < 1 || n > TRY_MAX_SECONDS / unit ||
	    (*end && (!strchr("smh", *end) || end[1]))) {
		fail("--try '%s' is not a time between 1 s and a day: write 60, 60s, 5m or 1h",
		     text);
		return false;
	}
	*seconds = (unsigned int)(n * unit);
	return true;
}

static struct json_object *device_json(const struct xbloom_device *d)
{
	struct json_object *o = json_object_new_object();

	json_add(o, "name", json_object_new_string(d->name));
	json_add(o, "mode", json_object_new_string(xbloom_mode_name(d->mode)));
	json_add(o, "trial", json_object_new_boolean(d->trial));
	if (d->trial)
		json_add(o, "trial_left", json_number(d->trial_left));
	return o;
}

const char *trial_text(const struct xbloom_device *d, char buf[HUMAN_TEXT])
{
	buf[0] = '\0';
	if (d->trial && d->trial_left > 0)
		snprintf(buf, HUMAN_TEXT, ", on trial, %.0f s left", d->trial_left);
	else if (d->trial)
		snprintf(buf, HUMAN_TEXT, ", trial over: passes");
	return buf;
}

struct json_object *devices_json(const struct xbloom_device *devices, size_t n)
{
	struct json_object *array = json_object_new_array();
	size_t i;

	for (i = 0; i < n; i++)
		json_object_array_add(array, device_json(&devices[i]));
	return array;
}

/* Say where the filter is now, which is what was asked for. */
static int print_attached(struct xbloom *f, const struct xbloom_attach_options *opts, bool json,
			  struct xbloom_error *err)
{
	const char *name = xbloom_meta(f)->name;
	struct xbloom_device *devices = NULL;
	char trial[HUMAN_TEXT];
	struct json_object *o;
	size_t i, n;
	int ret = xbloom_devices(f, &devices, &n, err);

	if (ret)
		return ret;
	if (json) {
		o = json_object_new_object();
		json_add(o, "name", json_object_new_string(name));
		json_add(o, "devices", devices_json(devices, n));
		print_json(o);
	} else {
		for (i = 0; i < n; i++)
			printf("%s: on %s, %s mode%s\n", name, devices[i].name,
			       xbloom_mode_name(devices[i].mode), trial_text(&devices[i], trial));
		if (opts->try_seconds) {
			printf("undone in %u s unless you confirm it: xdp-bloom attach "
			       "--confirm-try",
			       opts->try_seconds);
			for (i = 0; i < n; i++)
				if (devices[i].trial)
					printf(" %s", devices[i].name);
			printf("\n");
		}
	}
	free(devices);
	return 0;
}

/* The guard first, so that the filter never drops what the machine lives by. */
static int attach_on_guard(struct xbloom *f, const char *const *devices, size_t n,
			   const struct xbloom_attach_options *opts, struct xbloom_error *err)
{
	struct xbloom_exemption *old = NULL;
	size_t n_old = 0;
	int ret = xbloom_exempt_list(f, &old, &n_old, err);

	if (!ret)
		ret = guard_devices(f, devices, n, err);
	if (!ret) {
		ret = xbloom_attach(f, devices, n, opts, err);
		if (ret)
			take_back_exemptions(f, old, n_old);
	}
	free(old);
	return ret ? ret : say_guard(f, err);
}

static int attach(const char *name, const char *const *devices, size_t n,
		  const struct xbloom_attach_options *opts, bool guard, bool json)
{
	struct xbloom_error err = { "" };
	struct xbloom_rules rules;
	struct xbloom *f = NULL;
	int ret = xbloom_open(name, XBLOOM_OPEN_WRITE, cli_options(), &f, &err);

	if (!ret) {
		xbloom_rules(f, &rules);
		ret = guard && wants_guard(f, rules.policy)
			      ? attach_on_guard(f, devices, n, opts, &err)
			      : xbloom_attach(f, devices, n, opts, &err);
	}
	if (!ret)
		ret = print_attached(f, opts, json, &err);
	xbloom_close(f);
	return ret ? fail_err(&err) : EXIT_DONE;
}

/* Whether each device is on trial with this filter; if not, that is reported. */
static bool on_trial_with(const char *name, char *const *devices, size_t n)
{
	struct xbloom_device *attached = NULL;
	struct xbloom_error err = { "" };
	struct xbloom *f = NULL;
	size_t i, j, found = 0;
	bool good = false;

	if (xbloom_open(name, 0, cli_options(), &f, &err) ||
	    xbloom_devices(f, &attached, &found, &err)) {
		fail_err(&err);
		goto out;
	}
	for (i = 0; i < n; i++) {
		for (j = 0; j < found; j++)
			if (attached[j].trial && attached[j].ifindex == if_nametoindex(devices[i]))
				break;
		if (j == found) {
			fail("%s is not on trial with filter %s", devices[i], name);
			goto out;
		}
	}
	good = true;
out:
	free(attached);
	xbloom_close(f);
	return good;
}

static int confirm(const char *name, char *const *devices, size_t n, bool json)
{
	struct xbloom_error err = { "" };

	if (name && !on_trial_with(name, devices, n))
		return EXIT_FAILED;
	if (xbloom_confirm_try((const char *const *)devices, n, &err))
		return fail_err(&err);
	print_devices_done("confirmed", devices, n, json);
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct xbloom_attach_options opts = { .notice = say_notice };
	bool json = false, good = true, confirming = false, guard = true;
	const char *name;
	int c;

	while (good && (c = next_option(&verb_attach, argc, argv, options)) != -1) {
		switch (c) {
		case OPT_MODE:
			good = parse_mode(optarg, &opts.mode);
			break;
		case OPT_TRY:
			good = parse_try(optarg, &opts.try_seconds);
			break;
		case OPT_CONFIRM_TRY:
			confirming = true;
			break;
		case OPT_FORCE:
			opts.force = true;
			break;
		case OPT_NO_GUARD:
			guard = false;
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
	if (confirming && (opts.try_seconds || opts.force || opts.mode != XBLOOM_MODE_AUTO))
		return fail("--confirm-try stands alone: xdp-bloom attach --confirm-try DEV...");
	/* The command line of the trial, with --confirm-try for --try: it begins with a filter. */
	name = NULL;
	if (confirming && argc - optind > 1 && !if_nametoindex(argv[optind]) &&
	    xbloom_available(argv[optind], NULL) == -EEXIST)
		name = argv[optind++];
	if (confirming && optind < argc)
		return confirm(name, argv + optind, (size_t)(argc - optind), json);
	if (confirming)
		return fail("attach --confirm-try needs a device (xdp-bloom attach --help)");
	if (argc - optind < 2)
		return fail("attach needs a filter and a device (xdp-bloom attach --help)");
	name = argv[optind++];
	return attach(name, (const char *const *)argv + optind, (size_t)(argc - optind), &opts,
		      guard, json);
}

const struct verb verb_attach = {
	.name = "attach",
	.summary = "put a filter on devices",
	.help = "usage: xdp-bloom attach NAME DEV... [--mode auto|native|generic] [--try TIME] "
		"[--force]\n"
		"                        [--no-guard]\n"
		"       xdp-bloom attach [NAME] DEV... --confirm-try\n"
		"\n"
		"Attaches to all devices or to none. An entry program that was loaded with\n"
		"`ip link set dev DEV xdp obj xdp_bloom.bpf.o sec xdp` is adopted.\n"
		"\n"
		"  --mode M       native runs in the driver; generic in the stack, on any device;\n"
		"                 auto (the default) tries native first\n"
		"  --try TIME     undo it after that time (60, 60s, 5m), even if this terminal is "
		"gone\n"
		"  --confirm-try  keep what is on trial on DEV\n"
		"  --force        replace another XDP program that is there\n"
		"  --no-guard     do not exempt DEV's own addresses, its gateways and the "
		"resolvers,"
		" which\n"
		"                 a block filter otherwise never drops\n"
		"  --json         one JSON object\n",
	.run = run,
};
