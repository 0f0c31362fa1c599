// SPDX-License-Identifier: GPL-2.0-only
/*
 * xdp-bloom VERB ...: the table of verbs, and who is called.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli.h"

#define TOOL_VERSION "0.1"

static const struct verb *const verbs[] = {
	&verb_plan,   &verb_create,  &verb_attach, &verb_show,	  &verb_add,
	&verb_test,   &verb_measure, &verb_watch,  &verb_top,	  &verb_set,
	&verb_detach, &verb_destroy, &verb_lab,	   &verb_rebuild,
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static void print_help(FILE *out)
{
	size_t i;

	fputs("xdp-bloom: a Bloom filter in front of the network stack\n\n", out);
	for (i = 0; i < VERBS; i++)
		fprintf(out, "  xdp-bloom %-8s %s\n", verbs[i]->name, verbs[i]->summary);
	fputs("\n`xdp-bloom VERB --help` tells the rest. Every verb takes --json.\n"
	      "Exit status: 0 done, 1 the answer is no, 2 it could not be done.\n",
	      out);
}

int main(int argc, char **argv)
{
	static char help_option[] = "--help";
	size_t i;
	int fd, status;

	/* Or a directory that is opened later could be taken for standard output. */
	while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
		;
	if (fd >= 0)
		close(fd);
	/* A core dump would carry a filter's secret. */
	prctl(PR_SET_DUMPABLE, 0);
	/* A line at a time, so that the lines of tools that share a log do not mix. */
	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	if (argc < 2)
		return fail("no verb given (xdp-bloom --help)");
	/* help VERB: VERB --help. */
	if (!strcmp(argv[1], "help") && argc > 2) {
		argv[1] = argv[2];
		argv[2] = help_option;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return EXIT_DONE;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("xdp-bloom " TOOL_VERSION " (filter format %u)\n", XBLOOM_VERSION);
		return EXIT_DONE;
	}
	for (i = 0; i < VERBS; i++)
		if (!strcmp(argv[1], verbs[i]->name))
			break;
	if (i == VERBS)
		return fail("unknown verb '%s' (xdp-bloom --help)", argv[1]);
	status = verbs[i]->run(argc - 1, argv + 1);
	progress_done();
	/* What was promised on stdout must have arrived there. */
	if (fflush(stdout) || ferror(stdout))
		return fail("cannot write to standard output");
	return status;
}
