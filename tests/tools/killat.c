// SPDX-License-Identifier: GPL-2.0-only
/*
 * killat: run a command and kill it at an exact point, to see what is left behind.
 *
 *     killat STEP COMMAND [ARGUMENT...]
 *     killat --run OTHER STEP COMMAND [ARGUMENT...]
 *
 * The second form does not kill: at the step the command stands still while the shell runs OTHER,
 * and then goes on, to see what becomes of a reader whose ground moves. Calls of bpf() that only look
 * are steps then, too, and the exit status is 126 where the command came to its end before the step.
 *
 * A process can leave a mark on the system only by a system call (or by memory it shares, between
 * two calls), and few calls leave one. Those are the steps: each such call counts twice, just
 * before it and just after. SIGKILL comes at step STEP, so that running STEP = 1, 2, 3 ... until
 * the command survives has killed it everywhere. STEP 0 never kills.
 *
 * Threads of the command count, child processes do not and live on. Exit status: that of the
 * command when it came to its end, 137 when it was killed, 125 for an error of killat's own. File
 * descriptor 9, where there is one, gets a line that says which step it was, for the test's log.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <linux/ptrace.h> /* after the other, whose constants it defines again */
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_KILLED 137 /* what a shell says of a command that SIGKILL ended */
#define EXIT_OWN_ERROR 125
#define EXIT_NO_SUCH_STEP 126
#define EXIT_NOT_RUN 127
#define SYSCALL_STOP (SIGTRAP | 0x80)
#define THREADS_MAX 256
#define LOG_FD 9

static const struct marking_call {
	long nr;
	const char *name;
} marking_calls[] = {
	{ SYS_bpf, "bpf" },	  /* with some commands only, see bpf_marks() */
	{ SYS_openat, "openat" }, /* with O_CREAT only */
	{ SYS_mkdirat, "mkdirat" },
	{ SYS_unlinkat, "unlinkat" },
	{ SYS_renameat2, "renameat2" },
	{ SYS_linkat, "linkat" },
	{ SYS_symlinkat, "symlinkat" },
	{ SYS_fchmodat, "fchmodat" },
	{ SYS_ftruncate, "ftruncate" },
	{ SYS_fallocate, "fallocate" },
	{ SYS_flock, "flock" },
	{ SYS_mount, "mount" },
	{ SYS_umount2, "umount2" },
	{ SYS_write, "write" },
	{ SYS_pwrite64, "pwrite64" },
	{ SYS_sendto, "sendto" },
	{ SYS_sendmsg, "sendmsg" },
	{ SYS_clone, "clone" },
	{ SYS_clone3, "clone3" },
	{ SYS_kill, "kill" },
/* The older calls, which not every architecture has. */
#ifdef SYS_open
	{ SYS_open, "open" },
#endif
#ifdef SYS_mkdir
	{ SYS_mkdir, "mkdir" },
#endif
#ifdef SYS_rmdir
	{ SYS_rmdir, "rmdir" },
#endif
#ifdef SYS_unlink
	{ SYS_unlink, "unlink" },
#endif
#ifdef SYS_rename
	{ SYS_rename, "rename" },
#endif
#ifdef SYS_renameat
	{ SYS_renameat, "renameat" },
#endif
#ifdef SYS_link
	{ SYS_link, "link" },
#endif
#ifdef SYS_symlink
	{ SYS_symlink, "symlink" },
#endif
#ifdef SYS_chmod
	{ SYS_chmod, "chmod" },
#endif
#ifdef SYS_fork
	{ SYS_fork, "fork" },
#endif
#ifdef SYS_vfork
	{ SYS_vfork, "vfork" },
#endif
};

#define MARKING_CALLS (sizeof(marking_calls) / sizeof(marking_calls[0]))

/* The step's call that each thread is inside of; NULL for any other. */
static struct thread {
	pid_t tid;
	const struct marking_call *inside;
} threads[THREADS_MAX];

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...)
{
	va_list ap;

	fputs("killat: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_OWN_ERROR);
}

static struct thread *thread_of(pid_t tid)
{
	size_t i;

	for (i = 0; i < THREADS_MAX; i++) {
		if (!threads[i].tid)
			threads[i].tid = tid;
		if (threads[i].tid == tid)
			return &threads[i];
	}
	die("more than %d threads", THREADS_MAX);
}

/* What is run at the step; NULL: the command is killed there. */
static const char *other;

/* What most commands of bpf() make, or only read, is gone with the process's file descriptors. */
static bool bpf_marks(uint64_t command)
{
	switch (command) {
	case BPF_MAP_CREATE:
	case BPF_MAP_LOOKUP_ELEM:
	case BPF_MAP_GET_NEXT_KEY:
	case BPF_PROG_LOAD:
	case BPF_OBJ_GET:
	case BPF_PROG_GET_FD_BY_ID:
	case BPF_MAP_GET_FD_BY_ID:
	case BPF_OBJ_GET_INFO_BY_FD:
	case BPF_BTF_LOAD:
		return false;
	default:
		return true;
	}
}

static bool leaves_mark(const struct marking_call *call, const uint64_t *args)
{
	switch (call->nr) {
	case SYS_bpf:
		return other || bpf_marks(args[0]);
	case SYS_openat:
		return args[2] & O_CREAT;
#ifdef SYS_open
	case SYS_open:
		return args[1] & O_CREAT;
#endif
	default:
		return true;
	}
}

static const struct marking_call *marking_call(const struct ptrace_syscall_info *info)
{
	uint64_t args[6];
	size_t i;

	memcpy(args, (const void *)info->entry.args, sizeof(args));
	for (i = 0; i < MARKING_CALLS; i++)
		if (marking_calls[i].nr == (long)info->entry.nr)
			return leaves_mark(&marking_calls[i], args) ? &marking_calls[i] : NULL;
	return NULL;
}

/* A thread stopped before or after a system call: whether it is a step, and which call. */
static bool is_step(pid_t tid, const char **name, const char **when)
{
	struct thread *thread = thread_of(tid);
	struct ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof(info), &info) <= 0)
		return false;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		thread->inside = marking_call(&info);
		*when = "before";
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
		*when = "after";
	} else {
		return false;
	}
	if (!thread->inside)
		return false;
	*name = thread->inside->name;
	if (info.op == PTRACE_SYSCALL_INFO_EXIT)
		thread->inside = NULL;
	return true;
}

/* Wait for the command itself to be gone, whatever its threads still report. */
static void reap(pid_t command)
{
	int status;
	pid_t pid;

	do {
		pid = waitpid(-1, &status, __WALL);
	} while (pid > 0 && !(pid == command && (WIFEXITED(status) || WIFSIGNALED(status))));
}

static pid_t start(char **argv)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE |
			     PTRACE_O_TRACEEXEC;
	pid_t pid = fork();
	int status;

	if (pid < 0)
		die("cannot fork: %s", strerror(errno));
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) || raise(SIGSTOP))
			_exit(EXIT_OWN_ERROR);
		execvp(argv[0], argv);
		fprintf(stderr, "killat: %s: %s\n", argv[0], strerror(errno));
		_exit(EXIT_NOT_RUN);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		die("%s cannot be traced", argv[0]);
	if (ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)options))
		die("cannot trace: %s", strerror(errno));
	ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
	return pid;
}

static void run_other(uint64_t step, const char *when, const char *name)
{
	int status = system(other);

	if (status)
		die("\"%s\" ended with %d", other, status);
	dprintf(LOG_FD, "run at step %llu, %s %s\n", (unsigned long long)step, when, name);
}

static int run(pid_t command, uint64_t kill_at)
{
	const char *name, *when;
	uint64_t steps = 0;
	int status;
	pid_t pid;

	for (;;) {
		long sig = 0;

		pid = waitpid(-1, &status, __WALL);
		if (pid < 0)
			die("cannot wait: %s", strerror(errno));
		if (!WIFSTOPPED(status)) {
			if (pid != command)
				continue;
			dprintf(LOG_FD, "ended after %llu steps\n", (unsigned long long)steps);
			if (other && steps < kill_at)
				return EXIT_NO_SUCH_STEP;
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		}
		if (WSTOPSIG(status) == SYSCALL_STOP) {
			bool here = is_step(pid, &name, &when) && ++steps == kill_at;

			if (here && other) {
				run_other(steps, when, name);
			} else if (here) {
				kill(command, SIGKILL);
				reap(command);
				dprintf(LOG_FD, "killed at step %llu, %s %s\n",
					(unsigned long long)steps, when, name);
				return EXIT_KILLED;
			}
		} else if (!(status >> 16) && WSTOPSIG(status) != SIGSTOP) {
			/* Not an event of the tracing: the command's own signal. */
			sig = WSTOPSIG(status);
		}
		ptrace(PTRACE_SYSCALL, pid, NULL, (void *)sig);
	}
}

int main(int argc, char **argv)
{
	uint64_t kill_at;
	char *end;

	if (argc > 3 && !strcmp(argv[1], "--run")) {
		other = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc < 3) {
		fprintf(stderr, "usage: killat [--run OTHER] STEP COMMAND [ARGUMENT...]\n");
		return EXIT_OWN_ERROR;
	}
	errno = 0;
	kill_at = strtoull(argv[1], &end, 10);
	if (errno || *end || end == argv[1])
		die("\"%s\" is not a step", argv[1]);
	/* The command need not know about the log. */
	fcntl(LOG_FD, F_SETFD, FD_CLOEXEC);
	return run(start(argv + 2), kill_at);
}
