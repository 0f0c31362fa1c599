// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * One line that says what went wrong: composing it, adding the reason behind an errno and what
 * to do about it, and keeping what libbpf says from the terminal.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "internal.h"

/* Keep it one line, whatever a file name or the kernel put in. */
static void one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

int xbloom_fail(struct xbloom_error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	one_line(err->text);
	return code;
}

static const char *what_to_do(int code)
{
	switch (-code) {
	case EPERM:
	case EACCES:
		return " (needs root, or CAP_SYS_ADMIN, CAP_NET_ADMIN and rights to the bpf file "
		       "system)";
	case ENOMEM:
		return " (more memory, or fewer bits: --bits-per-key, --fp)";
	case ENOSYS:
		return " (the kernel lacks bpf(2))";
	default:
		return "";
	}
}

int xbloom_fail_errno(struct xbloom_error *err, int code, const char *format, ...)
{
	char text[sizeof(err->text)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return xbloom_fail(err, code, "%.300s: %s%s", text, strerror(-code), what_to_do(code));
}

static __thread struct xbloom_libbpf_log *listener;

/* Bookkeeping of libbpf's own, never the reason. */
static bool is_noise(const char *text)
{
	return strstr(text, "BEGIN PROG LOAD LOG") || strstr(text, "END PROG LOAD LOG") ||
	       strstr(text, "failed to load BPF skeleton") || strstr(text, "failed to load object");
}

__attribute__((format(printf, 2, 0))) static int keep(enum libbpf_print_level level,
						      const char *format, va_list args)
{
	char text[256];

	if (!listener || level != LIBBPF_WARN)
		return 0;
	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = '\0';
	/* The first warning is the cause; those after it say what failed because of it. */
	if (!is_noise(text) && !listener->text[0])
		snprintf(listener->text, sizeof(listener->text), "%s", text);
	return 0;
}

void xbloom_libbpf_listen(struct xbloom_libbpf_log *log)
{
	log->text[0] = '\0';
	log->outer = listener;
	listener = log;
	log->printer = libbpf_set_print(keep);
}

void xbloom_libbpf_ignore(struct xbloom_libbpf_log *log)
{
	listener = log->outer;
	libbpf_set_print(log->printer);
}

void xbloom_close_fd(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

void xbloom_free_ptr(void *p)
{
	free(*(void **)p);
}
