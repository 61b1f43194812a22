/* storm COUNT PROGRAM [args...]: runs the program COUNT times, one after the other, by fork and exec, and prints the
 * CPU time of all of them in ms. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	for (int i = atoi(argv[1]); i > 0; i--) {
		pid_t pid = fork();
		if (pid == 0) {
			execv(argv[2], argv + 2);
			_exit(127);
		}
		int status;
		if (pid < 0 || waitpid(pid, &status, 0) < 0 || status)
			return 1;
	}
	struct rusage usage;
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("%.3f\n", (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
	                     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3);
	return 0;
}
