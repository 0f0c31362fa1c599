// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Devices: the netlink attachment that `ip link show` prints. Which device belongs to which filter
 * is kept nowhere but in the kernel: a program belongs to the filter whose `slots` map it jumps
 * through. Every change names the program it expects to find, so two tools, or a tool and an
 * administrator, cannot undo each other's work by accident.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "internal.h"

/* A program names its maps by id; ours uses three or four. */
#define PROG_MAPS_MAX 16
#define SLOTS_MAP_NAME "xbloom_slots"
#define NSEC_PER_SEC 1000000000ULL

/* ---- what is on a device ---- */

static uint64_t boot_time_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

struct occupant {
	int fd; /* of the XDP program there, or -1 */
	uint32_t id;
	uint32_t flags; /* XDP_FLAGS_DRV_MODE or XDP_FLAGS_SKB_MODE */
	char name[BPF_OBJ_NAME_LEN];
	uint32_t slots_id; /* of its slots map, when it is one of our entry programs; else 0 */
	bool slot_filled;  /* there is a filter program behind it */
	bool trial;
	uint64_t deadline_ns; /* of a trial */
};

/* Find the maps that say whose program this is, and until when. */
static void look_at_maps(struct occupant *o, const uint32_t *map_ids, uint32_t n)
{
	uint32_t i, prog, slot = XBLOOM_SLOT;

	for (i = 0; i < n; i++) {
		struct bpf_map_info info = { 0 };
		uint32_t len = sizeof(info);
		AUTO_CLOSE int fd = bpf_map_get_fd_by_id(map_ids[i]);

		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) &&
		    info.type == BPF_MAP_TYPE_PROG_ARRAY && !strcmp(info.name, SLOTS_MAP_NAME)) {
			o->slot_filled = !bpf_map_lookup_elem(fd, &slot, &prog);
			o->slots_id = info.id;
		} else if (fd >= 0 && o->trial && strstr(info.name, ".rodata")) {
			o->deadline_ns = xbloom_try_deadline(fd);
		}
	}
}

static int identify(struct occupant *o)
{
	uint32_t map_ids[PROG_MAPS_MAX] = { 0 };
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info), known;
	bool entry;

	info.nr_map_ids = PROG_MAPS_MAX;
	info.map_ids = (uint64_t)(uintptr_t)map_ids;
	if (bpf_obj_get_info_by_fd(o->fd, &info, &len))
		return -errno;
	memcpy(o->name, info.name, sizeof(o->name));
	known = info.nr_map_ids < PROG_MAPS_MAX ? info.nr_map_ids : PROG_MAPS_MAX;
	entry = !strcmp(o->name, XBLOOM_PROG_ENTRY);
	o->trial = !strcmp(o->name, XBLOOM_PROG_TRY);
	if (entry || o->trial)
		look_at_maps(o, map_ids, known);
	if (!o->slots_id)
		o->trial = false;
	return 0;
}

/* What runs on a device; o->fd is the caller's to close, and -1 when nothing does. */
static int look(unsigned int ifindex, struct occupant *o)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	struct xbloom_libbpf_log log;
	int ret;

	*o = (struct occupant){ .fd = -1 };
	xbloom_libbpf_listen(&log);
	ret = bpf_xdp_query((int)ifindex, 0, &query);
	xbloom_libbpf_ignore(&log);
	if (ret)
		return ret;
	if (query.drv_prog_id) {
		o->id = query.drv_prog_id;
		o->flags = XDP_FLAGS_DRV_MODE;
	} else if (query.skb_prog_id) {
		o->id = query.skb_prog_id;
		o->flags = XDP_FLAGS_SKB_MODE;
	} else if (query.prog_id) {
		o->id = query.prog_id;
		o->flags = query.attach_mode == XDP_ATTACHED_HW ? XDP_FLAGS_HW_MODE : 0;
	}
	if (!o->id)
		return 0;
	o->fd = bpf_prog_get_fd_by_id(o->id);
	if (o->fd < 0) {
		/* Gone since: as good as nothing there. Anything else is a failure. */
		ret = errno == ENOENT ? 0 : -errno;
		*o = (struct occupant){ .fd = -1 };
		return ret;
	}
	ret = identify(o);
	if (ret)
		xbloom_close_fd(&o->fd);
	return ret;
}

static int look_or_fail(const char *device, unsigned int ifindex, struct occupant *o,
			struct xbloom_error *err)
{
	int ret = look(ifindex, o);

	return ret ? xbloom_fail_errno(err, ret, "cannot ask what runs on %s", device) : 0;
}

static int device_index(const char *device, unsigned int *ifindex, struct xbloom_error *err)
{
	*ifindex = if_nametoindex(device);
	if (!*ifindex)
		return xbloom_fail(err, -ENODEV, "there is no device %s (ip link shows them)",
				   device);
	return 0;
}

const char *xbloom_mode_name(enum xbloom_mode mode)
{
	static const char *const names[] = {
		[XBLOOM_MODE_AUTO] = "auto",
		[XBLOOM_MODE_NATIVE] = "native",
		[XBLOOM_MODE_GENERIC] = "generic",
	};

	return names[mode];
}

static enum xbloom_mode mode_of(uint32_t flags)
{
	return flags == XDP_FLAGS_SKB_MODE ? XBLOOM_MODE_GENERIC : XBLOOM_MODE_NATIVE;
}

/* Seconds until a trial ends; 0: it has, and its program passes everything. */
static double trial_left(const struct occupant *o)
{
	uint64_t now = boot_time_ns();

	return o->deadline_ns > now ? (double)(o->deadline_ns - now) / NSEC_PER_SEC : 0;
}

static uint32_t own_slots_id(const struct xbloom *f)
{
	return xbloom_map_id(f->fd[XBLOOM_PIN_SLOTS]);
}

/* The filter whose slots map has this id; false when no filter here has it. */
static bool filter_with_slots(uint32_t slots_id, char found[XBLOOM_NAME_MAX])
{
	char path[XBLOOM_PATH_MAX];
	char **names;
	size_t i, n;
	bool is = false;

	if (xbloom_names(&names, &n, NULL))
		return false;
	for (i = 0; i < n && !is; i++) {
		AUTO_CLOSE int fd = -1;

		if (xbloom_pin_path(path, names[i], XBLOOM_PIN_SLOTS, NULL))
			continue;
		fd = bpf_obj_get(path);
		is = fd >= 0 && xbloom_map_id(fd) == slots_id;
		if (is)
			snprintf(found, XBLOOM_NAME_MAX, "%s", names[i]);
	}
	xbloom_names_free(names, n);
	return is;
}

/* ---- one change on one device ---- */

/* Put prog (or nothing, -1) where `old` (or nothing, -1) is. The kernel's words go to log. */
static int change(unsigned int ifindex, int prog, int old, uint32_t flags,
		  struct xbloom_libbpf_log *log)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, opts);
	int ret;

	if (old >= 0)
		opts.old_prog_fd = old;
	else
		flags |= XDP_FLAGS_UPDATE_IF_NOEXIST;
	xbloom_libbpf_listen(log);
	ret = bpf_xdp_attach((int)ifindex, prog, flags, &opts);
	xbloom_libbpf_ignore(log);
	return ret;
}

static const char *kernel_words(const struct xbloom_libbpf_log *log, int code)
{
	static const char prefix[] = "libbpf: Kernel error message: ";

	if (!strncmp(log->text, prefix, strlen(prefix)))
		return log->text + strlen(prefix);
	return strerror(-code);
}

static int not_changed(const char *device, int code, const struct xbloom_libbpf_log *log,
		       struct xbloom_error *err)
{
	if (code == -EPERM || code == -EACCES)
		return xbloom_fail_errno(err, code, "cannot change what runs on %s", device);
	return xbloom_fail(err, code, "cannot change what runs on %s: %s", device,
			   kernel_words(log, code));
}

/* A device that is to be changed, and what it takes to change it back. */
struct target {
	const char *name;
	unsigned int ifindex;
	struct occupant before;
	bool done_already; /* f is attached there, for good and in the wanted mode */
};

/* Put back `before` (or nothing, -1) on the device, if it is `now` that runs there. */
static void put_back(const struct target *t, int now, int before)
{
	struct xbloom_libbpf_log log;
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	struct occupant o;

	if (bpf_obj_get_info_by_fd(now, &info, &len) || look(t->ifindex, &o))
		return;
	if (o.fd >= 0 && o.id == info.id) {
		if (before >= 0 && t->before.flags == o.flags) {
			change(t->ifindex, before, now, o.flags, &log);
		} else {
			change(t->ifindex, -1, now, o.flags, &log);
			if (before >= 0)
				change(t->ifindex, before, -1, t->before.flags, &log);
		}
	}
	xbloom_close_fd(&o.fd);
}

static void notice(const struct xbloom_attach_options *opts, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void notice(const struct xbloom_attach_options *opts, const char *format, ...)
{
	char text[sizeof(((struct xbloom_error *)0)->text)];
	va_list args;

	if (!opts->notice)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	opts->notice(opts->ctx, text);
}

/* ---- attach ---- */

/* May what is there be replaced? 0 yes, 1 it is us already, or an error. */
static int judge_own(const struct xbloom *f, const char *device, const struct occupant *o,
		     const struct xbloom_attach_options *opts, struct xbloom_error *err)
{
	bool same_mode = opts->mode == XBLOOM_MODE_AUTO || opts->mode == mode_of(o->flags);

	if (!opts->try_seconds)
		return !o->trial && same_mode;
	if (!o->trial)
		return xbloom_fail(err, -EBUSY,
				   "%s runs filter %s for good already: detach it before a trial",
				   device, xbloom_meta(f)->name);
	/* What it will put back is known to its watch alone. */
	if (trial_left(o) > 0)
		return xbloom_fail(
			err, -EBUSY,
			"a trial is running on %s: confirm it (--confirm-try) or detach it "
			"before another",
			device);
	return 0;
}

static int judge(struct xbloom *f, const char *device, const struct occupant *o,
		 const struct xbloom_attach_options *opts, struct xbloom_error *err)
{
	char other[XBLOOM_NAME_MAX];

	if (o->fd < 0)
		return 0;
	if (o->slots_id && o->slots_id == own_slots_id(f))
		return judge_own(f, device, o, opts, err);
	if (o->slots_id && !o->slot_filled) {
		notice(opts,
		       "%s: adopted the entry program (id %u) that was attached without a filter",
		       device, o->id);
		return 0;
	}
	if (opts->force)
		return 0;
	if (o->slots_id && filter_with_slots(o->slots_id, other))
		return xbloom_fail(err, -EBUSY,
				   "%s runs filter %s: xdp-bloom detach %s first, or --force",
				   device, other, device);
	if (o->slots_id)
		return xbloom_fail(
			err, -EBUSY,
			"%s runs a filter that is pinned elsewhere, %s (id %u): xdp-bloom "
			"detach %s first, or --force",
			device, o->name, o->id, device);
	return xbloom_fail(err, -EBUSY,
			   "%s runs another XDP program, %s (id %u): detach that first, or --force "
			   "to replace it",
			   device, o->name[0] ? o->name : "without a name", o->id);
}

/*
 * Attach in one mode. A device cannot run two modes at once, so from one to the other leads over
 * a moment without a program; within one mode the kernel swaps the programs.
 */
static int attach_mode(unsigned int ifindex, int prog, const struct occupant *o, uint32_t flags,
		       struct xbloom_libbpf_log *log)
{
	struct xbloom_libbpf_log unused;
	int ret;

	if (o->fd < 0 || o->flags == flags)
		return change(ifindex, prog, o->fd, flags, log);
	ret = change(ifindex, -1, o->fd, o->flags, log);
	if (ret)
		return ret;
	ret = change(ifindex, prog, -1, flags, log);
	if (ret)
		change(ifindex, o->fd, -1, o->flags, &unused);
	return ret;
}

static int refused(const char *device, enum xbloom_mode mode, int code,
		   const struct xbloom_libbpf_log *log, struct xbloom_error *err)
{
	if (code == -EPERM || code == -EACCES)
		return xbloom_fail_errno(err, code, "cannot attach to %s", device);
	if (code == -EBUSY || code == -EEXIST)
		return xbloom_fail(
			err, code,
			"what runs on %s was changed meanwhile, or is held by a bpf_link: %s",
			device, kernel_words(log, code));
	if (mode == XBLOOM_MODE_GENERIC)
		return xbloom_fail(err, code, "%s refuses generic mode: %s", device,
				   kernel_words(log, code));
	return xbloom_fail(err, code,
			   "%s refuses native mode: %s (--mode generic works without the driver, "
			   "more slowly)",
			   device, kernel_words(log, code));
}

/* In `auto` keep the mode that is running, else native, else generic. */
static int attach_one(const char *device, unsigned int ifindex, int prog, const struct occupant *o,
		      const struct xbloom_attach_options *opts, struct xbloom_error *err)
{
	struct xbloom_libbpf_log log, generic_log;
	enum xbloom_mode mode = opts->mode;
	uint32_t flags;
	int ret, native;

	if (mode == XBLOOM_MODE_AUTO && o->fd >= 0 && o->slots_id)
		mode = mode_of(o->flags);
	flags = mode == XBLOOM_MODE_GENERIC ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
	ret = attach_mode(ifindex, prog, o, flags, &log);
	if (!ret)
		return 0;
	if (opts->mode != XBLOOM_MODE_AUTO || mode == XBLOOM_MODE_GENERIC || ret == -EBUSY ||
	    ret == -EEXIST || ret == -EPERM)
		return refused(device, mode, ret, &log, err);

	native = ret;
	ret = attach_mode(ifindex, prog, o, XDP_FLAGS_SKB_MODE, &generic_log);
	if (ret)
		return refused(device, XBLOOM_MODE_GENERIC, ret, &generic_log, err);
	notice(opts, "%s refuses native mode: %s; attached in generic mode, which is slower",
	       device, kernel_words(&log, native));
	return 0;
}

/* A device that takes VLAN tags off the frame hides them from a key with vlan. */
static void warn_of_hidden_vlan(struct xbloom *f, const char *device,
				const struct xbloom_attach_options *opts)
{
	struct ethtool_value value = { .cmd = ETHTOOL_GFLAGS };
	struct ifreq request = { .ifr_data = (char *)&value };
	AUTO_CLOSE int fd = -1;

	if (!(xbloom_meta(f)->params.fields & XBLOOM_VLAN))
		return;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
	if (fd >= 0 && !ioctl(fd, SIOCETHTOOL, &request) && value.data & ETH_FLAG_RXVLAN)
		notice(opts,
		       "%s may take VLAN tags off before the filter sees them, and the key has "
		       "vlan: "
		       "ethtool -K %s rxvlan off",
		       device, device);
}

/* ---- trials ---- */

static void sleep_until(uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(deadline_ns % NSEC_PER_SEC),
	};

	while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Close everything but these n descriptors and the standard three. */
static void keep_only(int *fds, size_t n)
{
	unsigned int from = 3;
	size_t i;

	qsort(fds, n, sizeof(*fds), compare_fds);
	for (i = 0; i < n; i++) {
		if (fds[i] < (int)from)
			continue;
		if (fds[i] > (int)from)
			close_range(from, (unsigned int)fds[i] - 1, 0);
		from = (unsigned int)fds[i] + 1;
	}
	close_range(from, ~0u, 0);
}

/*
 * What a trial's end puts back: not a trial of before, which is over, and not the entry program of
 * a filter that was destroyed meanwhile.
 */
static int restored(const struct target *t)
{
	struct occupant o = { .fd = t->before.fd };

	if (o.fd < 0 || t->before.trial || identify(&o))
		return -1;
	return t->before.slot_filled && !o.slot_filled ? -1 : o.fd;
}

struct trial {
	const struct target *targets;
	size_t n;
	int prog;
	uint64_t deadline_ns;
};

/*
 * The process that ends a trial. It has left the terminal and its session, so that it outlives
 * both; and where it is killed, the program itself lets everything pass from the deadline on. It
 * puts back what was there before, and only where the trial's program still is: a confirmed trial
 * is none of its business.
 */
static void watch_trial(const struct trial *t, struct xbloom *f, int go)
{
	int *keep = calloc(t->n + 2, sizeof(*keep));
	size_t i, kept = 0;
	char byte;
	int null;

	/* The lock is the caller's, and the filter must not live on for our sake. */
	xbloom_close(f);
	if (!keep)
		_exit(1);
	keep[kept++] = go;
	keep[kept++] = t->prog;
	for (i = 0; i < t->n; i++)
		if (t->targets[i].before.fd >= 0)
			keep[kept++] = t->targets[i].before.fd;
	keep_only(keep, kept);
	setsid();
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	null = open("/dev/null", O_RDWR);
	if (chdir("/") || null < 0)
		_exit(1);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);

	/* One byte: the attach failed and was undone. The pipe's end: it is done, or the tool died. */
	if (read(go, &byte, 1) == 1)
		_exit(0);
	sleep_until(t->deadline_ns);
	for (i = 0; i < t->n; i++)
		put_back(&t->targets[i], t->prog, restored(&t->targets[i]));
	_exit(0);
}

/*
 * Start it before anything is attached, so that there is no moment in which nobody would end the
 * trial. *cancel is the end of a pipe: a byte calls it off, closing it sets it going.
 */
static int start_watch(const struct trial *t, struct xbloom *f, int *cancel,
		       struct xbloom_error *err)
{
	int pipe_fds[2], status = 0;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipe_fds))
		return xbloom_fail_errno(err, -errno, "cannot start the trial's watch");
	child = fork();
	if (!child) {
		/* Twice, so that it is nobody's zombie. */
		pid_t watch = fork();

		if (watch)
			_exit(watch < 0);
		close(pipe_fds[1]);
		watch_trial(t, f, pipe_fds[0]);
	}
	close(pipe_fds[0]);
	while (child > 0 && waitpid(child, &status, 0) < 0) {
		/* Who ignores SIGCHLD is not told; the program has its deadline in any case. */
		if (errno != EINTR)
			break;
	}
	if (child < 0 || status) {
		close(pipe_fds[1]);
		return xbloom_fail(err, -EAGAIN, "cannot start the trial's watch: no process");
	}
	*cancel = pipe_fds[1];
	return 0;
}

/* ---- the operations ---- */

static int refuse_twice(const char *const *devices, size_t n, struct xbloom_error *err)
{
	size_t i, j;

	for (i = 0; i < n; i++) {
		unsigned int ifindex = if_nametoindex(devices[i]);

		for (j = 0; j < i; j++)
			if (ifindex && ifindex == if_nametoindex(devices[j]))
				return xbloom_fail(err, -EINVAL, "device %s is named twice",
						   devices[i]);
	}
	return 0;
}

static int look_at_targets(struct xbloom *f, const char *const *devices, struct target *targets,
			   size_t n, const struct xbloom_attach_options *opts,
			   struct xbloom_error *err)
{
	size_t i;
	int ret = refuse_twice(devices, n, err);

	if (ret)
		return ret;
	for (i = 0; i < n; i++) {
		struct target *t = &targets[i];

		t->name = devices[i];
		ret = device_index(t->name, &t->ifindex, err);
		if (!ret)
			ret = look_or_fail(t->name, t->ifindex, &t->before, err);
		if (!ret)
			ret = judge(f, t->name, &t->before, opts, err);
		if (ret < 0)
			return ret;
		t->done_already = ret;
	}
	return 0;
}

static int attach_targets(struct xbloom *f, struct target *targets, size_t n, int prog,
			  const struct xbloom_attach_options *opts, struct xbloom_error *err)
{
	size_t i;
	int ret;

	for (i = 0; i < n; i++) {
		struct target *t = &targets[i];

		if (t->done_already) {
			notice(opts, "%s runs filter %s already", t->name, xbloom_meta(f)->name);
			continue;
		}
		ret = attach_one(t->name, t->ifindex, prog, &t->before, opts, err);
		if (ret) {
			while (i--)
				if (!targets[i].done_already)
					put_back(&targets[i], prog, targets[i].before.fd);
			return ret;
		}
		warn_of_hidden_vlan(f, t->name, opts);
	}
	return 0;
}

static int attach_on_trial(struct xbloom *f, struct target *targets, size_t n,
			   const struct xbloom_attach_options *opts, struct xbloom_error *err)
{
	struct trial t = {
		.targets = targets,
		.n = n,
		.deadline_ns = boot_time_ns() + opts->try_seconds * NSEC_PER_SEC,
	};
	AUTO_CLOSE int cancel = -1;
	AUTO_CLOSE int prog = xbloom_load_try(f->fd[XBLOOM_PIN_SLOTS], f->fd[XBLOOM_PIN_STATS],
					      t.deadline_ns, err);
	int ret;

	if (prog < 0)
		return prog;
	t.prog = prog;
	ret = start_watch(&t, f, &cancel, err);
	if (ret)
		return ret;
	ret = attach_targets(f, targets, n, prog, opts, err);
	if (ret && send(cancel, "x", 1, MSG_NOSIGNAL) != 1)
		notice(opts,
		       "the trial's watch could not be called off; it will find nothing to do");
	return ret;
}

int xbloom_attach(struct xbloom *f, const char *const *devices, size_t n,
		  const struct xbloom_attach_options *opts, struct xbloom_error *err)
{
	AUTO_FREE struct target *targets = calloc(n + 1, sizeof(*targets));
	size_t i;
	int ret;

	if (!targets)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < n; i++)
		targets[i].before.fd = -1;
	ret = look_at_targets(f, devices, targets, n, opts, err);
	if (!ret)
		ret = opts->try_seconds
			      ? attach_on_trial(f, targets, n, opts, err)
			      : attach_targets(f, targets, n, xbloom_prog_fd(f), opts, err);
	for (i = 0; i < n; i++)
		xbloom_close_fd(&targets[i].before.fd);
	return ret;
}

/* What is to become of a device that has this on it: a program, -1 for none, or an error in *err. */
struct outcome {
	int ret;
	int prog; /* owned */
};
typedef struct outcome (*outcome_fn)(const char *device, const struct occupant *o,
				     struct xbloom_error *err);

static int look_at_outcomes(const char *const *devices, size_t n, outcome_fn fn,
			    struct target *targets, int *progs, struct xbloom_error *err)
{
	size_t i;
	int ret = refuse_twice(devices, n, err);

	for (i = 0; i < n && !ret; i++) {
		struct target *t = &targets[i];
		struct outcome o;

		t->name = devices[i];
		ret = device_index(t->name, &t->ifindex, err);
		if (!ret)
			ret = look_or_fail(t->name, t->ifindex, &t->before, err);
		if (ret)
			break;
		o = fn(t->name, &t->before, err);
		ret = o.ret;
		progs[i] = o.prog;
	}
	return ret;
}

/* Put what was there back on the first n: the programs in progs, or nothing, are there now. */
static void change_back(const struct target *targets, const int *progs, size_t n)
{
	struct xbloom_libbpf_log log;

	while (n--)
		change(targets[n].ifindex, targets[n].before.fd, progs[n], targets[n].before.flags,
		       &log);
}

/* Change all n devices, or none. */
static int change_all(const struct target *targets, const int *progs, size_t n,
		      struct xbloom_error *err)
{
	struct xbloom_libbpf_log log;
	size_t i;
	int ret;

	for (i = 0; i < n; i++) {
		const struct target *t = &targets[i];

		ret = change(t->ifindex, progs[i], t->before.fd, t->before.flags, &log);
		if (ret) {
			not_changed(t->name, ret, &log, err);
			change_back(targets, progs, i);
			return ret;
		}
	}
	return 0;
}

static int settle_devices(const char *const *devices, size_t n, outcome_fn fn,
			  struct xbloom_error *err)
{
	AUTO_FREE struct target *targets = calloc(n + 1, sizeof(*targets));
	AUTO_FREE int *progs = calloc(n + 1, sizeof(*progs));
	size_t i;
	int ret;

	if (!targets || !progs)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < n; i++)
		targets[i].before.fd = progs[i] = -1;
	ret = look_at_outcomes(devices, n, fn, targets, progs, err);
	if (!ret)
		ret = change_all(targets, progs, n, err);
	for (i = 0; i < n; i++) {
		xbloom_close_fd(&targets[i].before.fd);
		xbloom_close_fd(&progs[i]);
	}
	return ret;
}

static struct outcome confirmed(const char *device, const struct occupant *o,
				struct xbloom_error *err)
{
	char name[XBLOOM_NAME_MAX];
	char path[XBLOOM_PATH_MAX];
	struct outcome out = { .prog = -1 };

	if (o->fd < 0 || !o->trial || trial_left(o) <= 0 || !filter_with_slots(o->slots_id, name)) {
		out.ret = xbloom_fail(
			err, -ENOENT,
			"no trial is running on %s: it was confirmed, or it has ended", device);
		return out;
	}
	out.ret = xbloom_pin_path(path, name, XBLOOM_PIN_PROG, err);
	if (out.ret)
		return out;
	out.prog = bpf_obj_get(path);
	if (out.prog < 0)
		out.ret = xbloom_fail_errno(err, -errno, "cannot open %s", path);
	return out;
}

int xbloom_confirm_try(const char *const *devices, size_t n, struct xbloom_error *err)
{
	return settle_devices(devices, n, confirmed, err);
}

static struct outcome detached(const char *device, const struct occupant *o,
			       struct xbloom_error *err)
{
	struct outcome out = { .prog = -1 };

	if (o->fd < 0)
		out.ret = xbloom_fail(err, -ENOENT, "%s runs no XDP program", device);
	else if (!o->slots_id)
		out.ret = xbloom_fail(
			err, -EBUSY,
			"%s runs another XDP program, %s (id %u), and it stays: ip link set dev %s "
			"%s off removes it",
			device, o->name[0] ? o->name : "without a name", o->id, device,
			o->flags == XDP_FLAGS_SKB_MODE ? "xdpgeneric" : "xdp");
	return out;
}

int xbloom_detach(const char *const *devices, size_t n, struct xbloom_error *err)
{
	return settle_devices(devices, n, detached, err);
}

uint32_t xbloom_slots_of_prog(int prog_fd)
{
	struct occupant o = { .fd = prog_fd };

	return identify(&o) ? 0 : o.slots_id;
}

/*
 * The devices of `all` on which these slots are jumped through; *targets is to be freed by
 * free_targets(), names in it are those of `all`.
 */
static int find_attached(const struct if_nameindex *all, uint32_t slots_id, struct target **targets,
			 size_t *n, struct xbloom_error *err)
{
	struct target *found;
	size_t i, total = 0;
	int ret = 0;

	*n = 0;
	while (all[total].if_index)
		total++;
	*targets = found = calloc(total + 1, sizeof(*found));
	if (!found)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < total && !ret; i++) {
		struct target t = { .name = all[i].if_name, .ifindex = all[i].if_index };

		ret = look(t.ifindex, &t.before);
		/* A device may go while we look at the others. */
		if (ret == -ENODEV)
			ret = 0;
		else if (ret)
			xbloom_fail_errno(err, ret, "cannot ask what runs on %s", t.name);
		else if (t.before.fd >= 0 && t.before.slots_id == slots_id)
			found[(*n)++] = t;
		else
			xbloom_close_fd(&t.before.fd);
	}
	return ret;
}

static void free_targets(struct target *targets, size_t n)
{
	while (n--)
		xbloom_close_fd(&targets[n].before.fd);
	free(targets);
}

int xbloom_devices(const struct xbloom *f, struct xbloom_device **devices, size_t *n,
		   struct xbloom_error *err)
{
	struct if_nameindex *all = if_nameindex();
	struct xbloom_device *list = NULL;
	struct target *found;
	size_t i, count;
	int ret;

	if (!all)
		return xbloom_fail_errno(err, -errno, "cannot list the devices");
	ret = find_attached(all, own_slots_id(f), &found, &count, err);
	if (!ret) {
		list = calloc(count + 1, sizeof(*list));
		if (!list)
			ret = xbloom_fail(err, -ENOMEM, "out of memory");
	}
	for (i = 0; i < count && list; i++) {
		const struct occupant *o = &found[i].before;

		list[i].ifindex = found[i].ifindex;
		list[i].mode = mode_of(o->flags);
		list[i].trial = o->trial;
		list[i].trial_left = o->trial ? trial_left(o) : 0;
		snprintf(list[i].name, sizeof(list[i].name), "%s", found[i].name);
	}
	free_targets(found, count);
	if_freenameindex(all);
	if (ret)
		return ret;
	*devices = list;
	*n = count;
	return 0;
}

static int detach_listed(const struct if_nameindex *all, uint32_t slots_id,
			 struct xbloom_error *err)
{
	AUTO_FREE int *progs = NULL;
	struct target *found;
	size_t i, n;
	int ret = find_attached(all, slots_id, &found, &n, err);

	if (!ret) {
		progs = calloc(n + 1, sizeof(*progs));
		if (!progs)
			ret = xbloom_fail(err, -ENOMEM, "out of memory");
	}
	for (i = 0; i < n && !ret; i++)
		progs[i] = -1;
	if (!ret)
		ret = change_all(found, progs, n, err);
	free_targets(found, n);
	return ret;
}

#define DETACH_ATTEMPTS 10

int xbloom_detach_all(uint32_t slots_id, struct xbloom_error *err)
{
	int ret, attempt = 0;

	/* A device that went, or a trial that ended, between the look and the change: look again. */
	do {
		struct if_nameindex *all = if_nameindex();

		if (!all)
			return xbloom_fail_errno(err, -errno, "cannot list the devices");
		ret = detach_listed(all, slots_id, err);
		if_freenameindex(all);
	} while ((ret == -ENODEV || ret == -EEXIST) && ++attempt < DETACH_ATTEMPTS);
	return ret;
}
