// SPDX-License-Identifier: GPL-2.0-only
/*
 * A costly question asked in a child process; see top_job.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rates.h"
#include "top_job.h"

/* So that one write() hands it over whole. */
_Static_assert(sizeof(struct top_answer) <= PIPE_BUF, "an answer is larger than a pipe's unit");

/* ---- in the child ---- */

/* The truth is the exact map where there is one; else a space so large that none is needed. */
static int measure(const struct xbloom *f, double seconds, struct top_answer *answer)
{
	struct xbloom_measure_options options = { .seconds = seconds };
	struct xbloom_truth *truth = NULL;
	struct xbloom_rules rules;
	int ret = 0;

	xbloom_rules(f, &rules);
	if (rules.confirm) {
		ret = xbloom_truth_open(f, NULL, 0, NULL, &truth, &answer->err);
		options.truth = truth;
		options.verified = XBLOOM_BY_EXACT;
	}
	if (!ret)
		ret = xbloom_measure(f, &options, &answer->measurement, &answer->err);
	xbloom_truth_close(truth);
	return ret;
}

/* The parent's handlers would only tell the child, which has nothing to put right. */
static void signals_as_usual(void)
{
	static const int signals[] = { SIGINT,	SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP,
				       SIGSEGV, SIGBUS,	 SIGFPE, SIGILL,  SIGABRT };
	sigset_t none;
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void
answer_and_exit(enum top_question question, const struct xbloom *f, double seconds, int fd)
{
	struct top_answer answer;

	memset(&answer, 0, sizeof(answer));
	if (question == TOP_GAUGE)
		xbloom_gauge(f, &answer.gauge);
	else
		answer.ret = measure(f, seconds, &answer);
	/* Not exit(): what the parent has buffered for the terminal is the parent's to write. */
	_exit(write(fd, &answer, sizeof(answer)) != sizeof(answer));
}

/* ---- in the parent ---- */

int top_job_start(struct top_job *job, enum top_question question, const struct xbloom *f,
		  uint64_t id, double seconds)
{
	pid_t parent = getpid();
	int fds[2], ret;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	*job = (struct top_job){
		.fd = fds[0],
		.question = question,
		.id = id,
		.inserted = xbloom_inserted(f),
		.started = monotonic_now(),
	};
	job->pid = fork();
	if (!job->pid) {
		signals_as_usual();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Or it has died before that. */
		if (getppid() != parent)
			_exit(1);
		answer_and_exit(question, f, seconds, fds[1]);
	}
	ret = job->pid < 0 ? -errno : 0;
	close(fds[1]);
	if (ret) {
		close(fds[0]);
		job->pid = 0;
	}
	return ret;
}

static void bury(struct top_job *job)
{
	close(job->fd);
	while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
		;
	job->pid = 0;
}

void top_job_finish(struct top_job *job, struct top_answer *answer)
{
	ssize_t n;

	do {
		n = read(job->fd, answer, sizeof(*answer));
	} while (n < 0 && errno == EINTR);
	if (n != sizeof(*answer)) {
		memset(answer, 0, sizeof(*answer));
		answer->ret = -EIO;
		snprintf(answer->err.text, sizeof(answer->err.text),
			 "the process that was to find out was killed; m tries again");
	}
	bury(job);
}

void top_job_stop(struct top_job *job)
{
	if (!job->pid)
		return;
	kill(job->pid, SIGKILL);
	bury(job);
}
