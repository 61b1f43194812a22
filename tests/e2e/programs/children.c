/* children N PARALLEL LOOPS: forks N children, at most PARALLEL at a time, each of which counts to LOOPS in user code.
 * Prints "user_ms system_ms" of all of them by the kernel's own accounting. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	long loops = atol(argv[3]);
	int running = 0, parallel = atoi(argv[2]);
	for (int i = 0; i < atoi(argv[1]); i++) {
		if (running == parallel) {
			wait(NULL);
			running--;
		}
		int pid = fork();
		if (pid < 0)
			return 1;
		if (!pid) {
			for (long k = 0; k < loops; k++)
				sink += (unsigned long)k;
			_exit(0);
		}
		running++;
	}
	while (wait(NULL) > 0)
		;
	struct rusage usage;
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("%ld %ld\n", usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000,
	       usage.ru_stime.tv_sec * 1000 + usage.ru_stime.tv_usec / 1000);
	return 0;
}
