// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reading the ring buffer of sampled packets. What one reader takes no other sees, so there is one
 * at a time: who holds the lock of the directory `watching` beside the pins. The kernel drops the
 * lock with its holder, and the directory goes with the filter.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <bpf/libbpf.h>

#include "internal.h"

/* No more fit in, their 8-byte heads left aside: what is there, and no end of what still comes. */
#define SAMPLES_MAX (XBLOOM_SAMPLES_BYTES / sizeof(struct xbloom_sample))

struct xbloom_samples {
	int lock_fd;
	struct ring_buffer *ring;
	/* Of the reading that goes on. */
	xbloom_sample_fn fn;
	void *ctx;
	int64_t n;
};

/* libbpf ends a reading only when nothing is left, which under a flood is never. */
#define ENOUGH (-EAGAIN)

/* Shared memory: a sample is looked at before it is believed. */
static bool is_sane(const struct xbloom_sample *sample, size_t size)
{
	return size >= sizeof(*sample) && sample->n_words >= 1 &&
	       sample->n_words <= XBLOOM_KEY_WORDS_MAX &&
	       (sample->reason == XBLOOM_ABSENT || sample->reason == XBLOOM_MAYBE ||
		sample->reason == XBLOOM_CONFIRMED || sample->reason == XBLOOM_REFUTED);
}

static int on_sample(void *ctx, void *data, size_t size)
{
	const struct xbloom_sample *sample = data;
	struct xbloom_samples *s = ctx;
	int ret;

	s->n++;
	if (is_sane(sample, size)) {
		ret = s->fn(s->ctx, sample);
		if (ret < 0)
			return ret;
	}
	return s->n < (int64_t)SAMPLES_MAX ? 0 : ENOUGH;
}

static int take_lock(struct xbloom_samples *s, const struct xbloom *f, struct xbloom_error *err)
{
	const char *name = xbloom_meta(f)->name;
	int dir = f->dir_fd;

	if (mkdirat(dir, XBLOOM_WATCHING, 0700) && errno != EEXIST)
		return xbloom_fail_errno(err, -errno, "cannot make a directory in filter %s", name);
	s->lock_fd = openat(dir, XBLOOM_WATCHING, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->lock_fd < 0)
		return xbloom_fail_errno(err, -errno,
					 "cannot open " XBLOOM_WATCHING " in filter %s", name);
	if (!flock(s->lock_fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno == EWOULDBLOCK)
		return xbloom_fail(err, -EBUSY, "another watch reads the samples of filter %s",
				   name);
	return xbloom_fail_errno(err, -errno, "cannot lock the samples of filter %s", name);
}

static int open_ring(struct xbloom_samples *s, const struct xbloom *f, struct xbloom_error *err)
{
	int fd = f->fd[XBLOOM_PIN_SAMPLES], ret;
	struct xbloom_libbpf_log log;

	xbloom_libbpf_listen(&log);
	s->ring = ring_buffer__new(fd, on_sample, s, NULL);
	ret = s->ring ? 0 : -errno;
	xbloom_libbpf_ignore(&log);
	if (ret)
		return xbloom_fail_errno(err, ret, "cannot map the samples of filter %s",
					 xbloom_meta(f)->name);
	return 0;
}

int xbloom_samples_open(const struct xbloom *f, struct xbloom_samples **out,
			struct xbloom_error *err)
{
	const char *name = xbloom_meta(f)->name;
	struct xbloom_samples *s;
	int ret;

	if (f->fd[XBLOOM_PIN_SAMPLES] < 0)
		return xbloom_fail(err, -ENOENT,
				   "filter %s has never been sampled: xdp-bloom set %s "
				   "--sample 1/100",
				   name, name);
	s = calloc(1, sizeof(*s));
	if (!s)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	s->lock_fd = -1;
	ret = take_lock(s, f, err);
	if (!ret)
		ret = open_ring(s, f, err);
	if (ret) {
		xbloom_samples_close(s);
		return ret;
	}
	*out = s;
	return 0;
}

void xbloom_samples_close(struct xbloom_samples *s)
{
	if (!s)
		return;
	ring_buffer__free(s->ring);
	/* Last, as it lets the next reader in. */
	xbloom_close_fd(&s->lock_fd);
	free(s);
}

int64_t xbloom_samples_read(struct xbloom_samples *s, xbloom_sample_fn fn, void *ctx)
{
	int ret;

	s->fn = fn;
	s->ctx = ctx;
	s->n = 0;
	ret = ring_buffer__consume(s->ring);
	return ret < 0 && !(ret == ENOUGH && s->n == (int64_t)SAMPLES_MAX) ? ret : s->n;
}
