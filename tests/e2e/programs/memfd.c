/* memfd PROGRAM [args...]: runs a copy of the program that exists only in memory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	int from = open(argv[1], O_RDONLY | O_CLOEXEC), to = memfd_create("in-memory", MFD_CLOEXEC);
	char buffer[65536];
	ssize_t size;
	while ((size = read(from, buffer, sizeof(buffer))) > 0) {
		if (write(to, buffer, (size_t)size) != size)
			return 1;
	}
	fexecve(to, argv + 1, environ);
	perror("fexecve");
	return 127;
}
