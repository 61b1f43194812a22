/* run-timed REPORT command [args...]: runs the command and writes to REPORT its CPU time (user + system, with all its
 * children, in seconds) and when it ended (CLOCK_MONOTONIC, seconds). A profiler under test runs this program, so that
 * the command's own cost and the moment of its exit are known without asking the profiler. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	pid_t pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 2;
	struct rusage usage;
	getrusage(RUSAGE_CHILDREN, &usage);
	struct timespec now;
	FILE *report = fopen(argv[1], "w");
	if (!report)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &now);
	fprintf(report, "%.6f %.6f\n", seconds(usage.ru_utime) + seconds(usage.ru_stime),
	        (double)now.tv_sec + (double)now.tv_nsec / 1e9);
	fclose(report);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
