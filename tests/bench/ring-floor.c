/* ring-floor HZ STACK_BYTES command [args...]: the floor of every sampling profiler. Opens one cpu-clock event a CPU as
 * sp does and runs the command. With STACK_BYTES 0 the samples hold nothing but the address (the cost of the timer);
 * else they hold registers and a copy of the user stack, and the reader does nothing but walk the records. Needs root.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_PAGES 4096 /* 16 MiB a CPU */
#define MAX_CPUS 1024

struct ring {
	struct perf_event_mmap_page *page;
	uint64_t records;
};

static volatile sig_atomic_t ended;

static void on_child(int signal)
{
	(void)signal;
	ended = 1;
}

static int open_event(int cpu, unsigned long hz, unsigned stack_bytes)
{
	struct perf_event_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_CPU_CLOCK;
	attr.freq = 1;
	attr.sample_freq = hz;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;
	if (stack_bytes) {
		attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
#if defined(__x86_64__)
		attr.sample_regs_user = 0xff0fff;
#else
		attr.sample_regs_user = (UINT64_C(1) << 33) - 1;
#endif
		attr.sample_stack_user = stack_bytes;
	}
	attr.watermark = 1;
	attr.wakeup_watermark = RING_PAGES * 4096 / 4;
	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static void walk(struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	const uint8_t *data = (const uint8_t *)ring->page + ring->page->data_offset;
	while (tail < head) {
		const struct perf_event_header *header = (const void *)(data + (tail & (ring->page->data_size - 1)));
		tail += header->size;
		ring->records++;
	}
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	static struct ring rings[MAX_CPUS];
	static struct pollfd fds[MAX_CPUS];
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	for (int cpu = 0; cpu < cpus && cpu < MAX_CPUS; cpu++) {
		int fd = open_event(cpu, strtoul(argv[1], NULL, 10), (unsigned)strtoul(argv[2], NULL, 10));
		if (fd < 0) {
			fprintf(stderr, "ring-floor: perf_event_open: %s\n", strerror(errno));
			return 2;
		}
		void *ring = mmap(NULL, (RING_PAGES + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (ring == MAP_FAILED)
			return 2;
		rings[cpu].page = ring;
		fds[cpu] = (struct pollfd){ .fd = fd, .events = POLLIN };
	}
	struct sigaction action = { .sa_handler = on_child };
	sigaction(SIGCHLD, &action, NULL);
	pid_t pid = fork();
	if (pid == 0) {
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	if (setpriority(0, 0, -20) < 0)
		perror("ring-floor: setpriority");
	while (!ended) {
		poll(fds, (nfds_t)cpus, 100);
		for (int cpu = 0; cpu < cpus && cpu < MAX_CPUS; cpu++)
			walk(&rings[cpu]);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
