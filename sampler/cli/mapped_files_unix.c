/* Mapped files that shrink; see mapped_files.h.
 *
 * sp maps binaries and debug files of programs that other people rebuild meanwhile. Reading a page past the new end of
 * a mapped file raises SIGBUS. There is no other way to read such a mapping safely, so the page is replaced by one of
 * zeros and the read is done again. Any other SIGBUS ends the process, as it would without the handler. */
#include "sampler/cli/mapped_files.h"

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	(void)context;
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t page = (uintptr_t)info->si_addr & ~(page_size - 1);
	/* mmap() is no more than a system call here. */
	if (info->si_code == BUS_ADRERR &&
	    mmap((void *)page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
		return;
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigaction(signal, &action, NULL);
}

void sp_mapped_files_guard(void)
{
	struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
	sigaction(SIGBUS, &action, NULL);
}
