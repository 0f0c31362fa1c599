/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A costly question to a filter, asked in a child process: the gauge walks all bits and a measure
 * runs for its budget, and neither may keep a terminal waiting. The child inherits the open filter
 * and answers with one struct through a pipe. One job at a time.
 */
#ifndef XBLOOM_TOP_JOB_H
#define XBLOOM_TOP_JOB_H

#include <sys/types.h>

#include "libxbloom.h"

enum top_question { TOP_GAUGE, TOP_MEASURE };

struct top_job {
	pid_t pid; /* 0: there is none */
	int fd;	   /* readable when there is an answer */
	enum top_question question;
	uint64_t id;	   /* of the filter, for the caller */
	uint64_t inserted; /* when it was asked */
	double started;	   /* by monotonic_now() */
};

struct top_answer {
	int ret; /* 0, or a negative errno and err says why */
	struct xbloom_error err;
	struct xbloom_gauge gauge;
	struct xbloom_measurement measurement;
};

/* `seconds`: the budget of a measure. A negative errno: it could not be begun. */
int top_job_start(struct top_job *job, enum top_question question, const struct xbloom *f,
		  uint64_t id, double seconds);
/* To be called when job->fd is readable. */
void top_job_finish(struct top_job *job, struct top_answer *answer);
/* Give it up, if there is one. */
void top_job_stop(struct top_job *job);

#endif /* XBLOOM_TOP_JOB_H */
