/* zygote COUNT CPU-MS: forks COUNT children without exec; each takes a name of its own and uses CPU time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void burn(double milliseconds)
{
	volatile uint64_t sum = 0;
	struct timespec now;
	do {
		for (uint64_t i = 0; i < 20000; i++)
			sum += i;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while ((double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6 < milliseconds);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	double milliseconds = argc > 2 ? atof(argv[2]) : 50;
	for (int i = 0; i < count; i++) {
		if (fork() == 0) {
			char name[16];
			snprintf(name, sizeof(name), "worker-%d", i);
			prctl(PR_SET_NAME, name);
			burn(milliseconds);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
