// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pictures, drawn by gnuplot; see plot.h. gnuplot is a child whose stdin is a pipe from here, whose
 * stdout is the unfinished file and whose stderr is kept, to be quoted when it fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "plot.h"

#define PLOT_SUFFIX ".svg"
/* The last thing in an SVG file; gnuplot writes a line feed or two behind it. */
#define PLOT_LAST "</svg>"
/* Enough for the last line of a message, and for what ends a picture. */
#define PLOT_TAIL 256

/* No size here is in pixels of a screen: SVG scales. Points are for 13-pixel text. */
static const char *const style =
	"set encoding utf8\n"
	"set border 3 linecolor rgb '#555555'\n"
	"set tics nomirror textcolor rgb '#333333'\n"
	"set grid linecolor rgb '#dddddd' linewidth 0.7 dashtype solid\n"
	"set key spacing 1.2 samplen 3\n"
	"set linetype 1 linecolor rgb '#0072b2' linewidth 2 dashtype solid pointtype 7\n"
	"set linetype 2 linecolor rgb '#d55e00' linewidth 2 dashtype (12,5) pointtype 5\n"
	"set linetype 3 linecolor rgb '#009e73' linewidth 2 dashtype (12,4,2,4) pointtype 9\n"
	"set linetype 4 linecolor rgb '#cc79a7' linewidth 2 dashtype (3,4) pointtype 13\n"
	"set linetype 5 linecolor rgb '#777777' linewidth 1 dashtype (4,3) pointtype 1\n";

/* ---- the child ---- */

/*
 * Run gnuplot with these three descriptors, and with the signals that this process had before
 * plot_begin(). 0 or an errno.
 */
static int spawn(char *const *argv, const sigset_t *mask, const int fds[3], pid_t *child)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t usual;
	int i, ret;

	/* It comes before our own terminal, -d or not, and gnuplot 5.4 may crash over a bad one. */
	unsetenv("GNUTERM");
	ret = posix_spawn_file_actions_init(&files);
	if (ret)
		return ret;
	ret = posix_spawnattr_init(&attributes);
	if (ret)
		goto out_files;
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	posix_spawnattr_setsigdefault(&attributes, &usual);
	posix_spawnattr_setsigmask(&attributes, mask);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	for (i = 0; i < 3 && !ret; i++)
		ret = posix_spawn_file_actions_adddup2(&files, fds[i], i);
	if (!ret)
		ret = posix_spawnp(child, argv[0], &files, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
out_files:
	posix_spawn_file_actions_destroy(&files);
	return ret;
}

static void spawn_failed(int error)
{
	if (error == ENOENT)
		fail("gnuplot is not installed (apt-get install gnuplot-nox): no picture was "
		     "drawn");
	else
		fail("cannot run gnuplot: %s: no picture was drawn", strerror(error));
}

static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static bool has_svg_name(const char *path)
{
	size_t len = strlen(path), suffix = strlen(PLOT_SUFFIX);

	return len > suffix && path[len - suffix - 1] != '/' &&
	       !strcmp(path + len - suffix, PLOT_SUFFIX);
}

static bool check_name(const char *path)
{
	if (has_svg_name(path))
		return true;
	fail("--plot '%s' does not end in " PLOT_SUFFIX ", and SVG is all that is drawn", path);
	return false;
}

/* A file can be made in its directory, and take its name. What changes later is found out later. */
static bool check_place(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	struct stat there;
	int error = 0;

	if (!directory)
		error = ENOMEM;
	else if (access(directory, W_OK | X_OK))
		error = errno;
	else if (!stat(path, &there) && S_ISDIR(there.st_mode))
		error = EISDIR;
	free(directory);
	if (error)
		fail("cannot write %s: %s", path, strerror(error));
	return !error;
}

bool plot_check(const char *path)
{
	static char name[] = "gnuplot", version[] = "--version";
	char *argv[] = { name, version, NULL };
	FILE *null;
	sigset_t mask;
	pid_t child;
	int fds[3], error;

	if (!check_name(path) || !check_place(path))
		return false;
	null = fopen("/dev/null", "r+e");
	if (!null) {
		fail("cannot open /dev/null: %s", strerror(errno));
		return false;
	}
	fds[0] = fds[1] = fds[2] = fileno(null);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	error = spawn(argv, &mask, fds, &child);
	if (error)
		spawn_failed(error);
	else
		wait_for(child);
	fclose(null);
	return !error;
}

/* ---- a picture ---- */

static void hold(struct plot *plot)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigprocmask(SIG_BLOCK, NULL, &plot->mask);
	hold_signals();
	sigaction(SIGPIPE, &ignore, &plot->on_pipe);
}

/* Let go of everything; the unfinished file goes, unless it has got its name. */
static void clean_up(struct plot *plot)
{
	if (plot->picture >= 0)
		close(plot->picture);
	if (plot->said >= 0)
		close(plot->said);
	if (plot->part)
		unlink(plot->part);
	free(plot->part);
	sigaction(SIGPIPE, &plot->on_pipe, NULL);
	/* Last: what was held back may end the process here. */
	sigprocmask(SIG_SETMASK, &plot->mask, NULL);
}

/* Beside the final name, so that it can take it in one step; with the usual mode. */
static bool open_part(struct plot *plot)
{
	mode_t mask;

	if (asprintf(&plot->part, "%s.XXXXXX", plot->path) < 0) {
		plot->part = NULL;
		fail("out of memory");
		return false;
	}
	plot->picture = mkostemp(plot->part, O_CLOEXEC);
	if (plot->picture < 0) {
		fail("cannot write %s: %s", plot->path, strerror(errno));
		free(plot->part);
		plot->part = NULL;
		return false;
	}
	mask = umask(0);
	umask(mask);
	fchmod(plot->picture, 0666 & ~mask);
	return true;
}

/* Start gnuplot, which draws into plot->picture. */
static bool start(struct plot *plot)
{
	/* -d: without the settings of whoever runs this. */
	static char name[] = "gnuplot", defaults[] = "-d";
	char *argv[] = { name, defaults, NULL };
	int ends[2], error;

	plot->said = memfd_create("gnuplot", MFD_CLOEXEC);
	if (plot->said < 0 || pipe2(ends, O_CLOEXEC)) {
		fail("cannot run gnuplot: %s", strerror(errno));
		return false;
	}
	plot->commands = fdopen(ends[1], "w");
	if (!plot->commands) {
		fail("out of memory");
		close(ends[0]);
		close(ends[1]);
		return false;
	}
	error = spawn(argv, &plot->mask, (const int[]){ ends[0], plot->picture, plot->said },
		      &plot->gnuplot);
	close(ends[0]);
	if (!error)
		return true;
	spawn_failed(error);
	fclose(plot->commands);
	return false;
}

FILE *plot_begin(struct plot *plot, const char *path, unsigned int width, unsigned int height)
{
	*plot = (struct plot){ .path = path, .picture = -1, .said = -1 };
	if (!check_name(path))
		return NULL;
	hold(plot);
	if (!open_part(plot) || !start(plot)) {
		clean_up(plot);
		return NULL;
	}
	fprintf(plot->commands,
		"set terminal svg size %u,%u fixed enhanced font 'sans-serif,13' "
		"background '#ffffff'\n%s",
		width, height, style);
	return plot->commands;
}

/* The end of a file, as text. */
static void read_tail(int fd, char text[PLOT_TAIL])
{
	off_t size = lseek(fd, 0, SEEK_END);
	ssize_t n = 0;

	if (size > 0)
		n = pread(fd, text, PLOT_TAIL - 1, size < PLOT_TAIL ? 0 : size - (PLOT_TAIL - 1));
	text[n > 0 ? n : 0] = '\0';
}

/* The last line that is not blank: gnuplot shows the command first, and then what is wrong. */
static const char *last_line(char *text)
{
	char *line, *last = NULL, *rest = text, *c;

	while ((line = strsep(&rest, "\n"))) {
		line += strspn(line, " \t");
		if (*line)
			last = line;
	}
	if (!last)
		return "it did not say why";
	for (c = last; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return last;
}

/* Whether gnuplot did what it was told; says it if not. A disk that is full it does not notice. */
static bool is_drawn(const struct plot *plot, int status, bool all_read)
{
	char tail[PLOT_TAIL];

	if (WIFSIGNALED(status)) {
		fail("gnuplot was ended by signal %d: no picture was drawn", WTERMSIG(status));
		return false;
	}
	if (status) {
		read_tail(plot->said, tail);
		fail("gnuplot failed: %s: no picture was drawn", last_line(tail));
		return false;
	}
	read_tail(plot->picture, tail);
	if (all_read && strstr(tail, PLOT_LAST))
		return true;
	fail("gnuplot left the picture unfinished (is there room on the disk?): %s was not written",
	     plot->path);
	return false;
}

int plot_end(struct plot *plot)
{
	bool all_read, done;

	all_read = !ferror(plot->commands);
	if (fclose(plot->commands))
		all_read = false;
	done = is_drawn(plot, wait_for(plot->gnuplot), all_read);
	if (done && rename(plot->part, plot->path)) {
		fail("cannot write %s: %s", plot->path, strerror(errno));
		done = false;
	}
	if (done) {
		free(plot->part);
		plot->part = NULL;
	}
	clean_up(plot);
	return done ? EXIT_DONE : EXIT_FAILED;
}
