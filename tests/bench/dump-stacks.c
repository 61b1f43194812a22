/* Runs a command and writes the registers and stack bytes of samples of it and its children to a file, for the
 * unwinding benchmarks.
 *
 * usage: dump-stacks [-F HZ] [-s STACK_BYTES] -o FILE COMMAND ...     (Linux, x86-64, root)
 *
 * Records go to the file as they come out of the two or more rings; at the end they are sorted by time. */
#include "dump-file.h"

#include <elf.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_CPUS 256
#define RING_PAGES 8192 /* 32 MiB a CPU */
#define REGISTERS 17

struct ring {
	int fd;
	struct perf_event_mmap_page *page;
	uint8_t *data;
};

struct entry {
	uint64_t time, offset, size;
};

static struct ring rings[MAX_CPUS];
static int cpus;
static uint8_t record[1 << 17], output[1 << 17];
static struct entry *entries;
static size_t entry_count, entry_capacity;
static uint64_t written, samples, lost;
static FILE *unsorted;

static void write_record(uint32_t kind, uint64_t time, uint32_t pid, uint32_t tid, size_t body)
{
	struct dump_record *head = (struct dump_record *)output;
	size_t size = (sizeof(*head) + body + 7) & ~(size_t)7;
	*head = (struct dump_record){ kind, (uint32_t)size, time, pid, tid };
	memset(output + sizeof(*head) + body, 0, size - sizeof(*head) - body);
	if (fwrite(output, size, 1, unsorted) != 1)
		err(1, "write");
	if (entry_count == entry_capacity) {
		entry_capacity = entry_capacity ? entry_capacity * 2 : 4096;
		entries = realloc(entries, entry_capacity * sizeof(*entries));
		if (!entries)
			err(1, "realloc");
	}
	entries[entry_count++] = (struct entry){ time, written, size };
	written += size;
}

/* The order of the kernel's registers, as DWARF numbers: ax bx cx dx si di bp sp ip r8 ... r15. */
static const uint8_t dwarf_number[REGISTERS] = { 0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15 };

static void take_sample(const uint64_t *word)
{
	struct dump_sample *sample = (struct dump_sample *)(output + sizeof(struct dump_record));
	uint32_t pid = (uint32_t)word[0], tid = (uint32_t)(word[0] >> 32);
	uint64_t time = word[1], chain_count = word[2];
	const uint64_t *chain = word + 3;
	word = chain + chain_count;
	samples++;
	if (*word++ == PERF_SAMPLE_REGS_ABI_NONE)
		return; /* no user part */
	for (int i = 0; i < REGISTERS; i++)
		sample->registers[dwarf_number[i]] = *word++;
	uint64_t size = *word++;
	const uint8_t *stack = (const uint8_t *)word;
	uint64_t valid = 0;
	if (size)
		memcpy(&valid, stack + size, sizeof(valid));
	uint64_t *to = (uint64_t *)(sample + 1);
	sample->chain_count = 0;
	for (uint64_t i = 0; i < chain_count; i++)
		if (chain[i] < PERF_CONTEXT_MAX)
			to[sample->chain_count++] = chain[i];
	to += sample->chain_count;
	sample->stack_size = valid;
	memcpy(to, stack, valid);
	write_record(DUMP_SAMPLE, time, pid, tid, (size_t)((uint8_t *)to + valid - (uint8_t *)sample));
}

static void take(const struct perf_event_header *header)
{
	const uint64_t *word = (const uint64_t *)(header + 1);
	/* Other records than samples end with pid, tid and time. */
	const uint64_t *trailer = (const uint64_t *)((const uint8_t *)header + header->size) - 2;
	uint32_t pid = (uint32_t)word[0], tid = (uint32_t)(word[0] >> 32);
	uint8_t *body = output + sizeof(struct dump_record);
	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		take_sample(word);
		break;
	case PERF_RECORD_MMAP: {
		struct dump_map map = { word[1], word[2], word[3] };
		memcpy(body, &map, sizeof(map));
		size_t length = strlen((const char *)(word + 4)) + 1;
		memcpy(body + sizeof(map), word + 4, length);
		write_record(DUMP_MAP, trailer[1], pid, tid, sizeof(map) + length);
		break;
	}
	case PERF_RECORD_COMM:
		if (header->misc & PERF_RECORD_MISC_COMM_EXEC)
			write_record(DUMP_EXEC, trailer[1], pid, tid, 0);
		break;
	case PERF_RECORD_FORK: {
		struct dump_fork fork = { (uint32_t)(word[0] >> 32) };
		memcpy(body, &fork, sizeof(fork));
		if (pid != fork.parent)
			write_record(DUMP_FORK, trailer[1], pid, (uint32_t)word[1], sizeof(fork));
		break;
	}
	case PERF_RECORD_LOST:
		lost += word[1];
		break;
	default:
		break;
	}
}

static void drain(struct ring *ring)
{
	uint64_t size = (uint64_t)RING_PAGES * 4096, tail = ring->page->data_tail;
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	while (tail < head) {
		struct perf_event_header header;
		uint64_t at = tail & (size - 1);
		memcpy(&header, ring->data + at, sizeof(header));
		uint64_t first = at + header.size > size ? size - at : header.size;
		memcpy(record, ring->data + at, first);
		memcpy(record + first, ring->data, header.size - first);
		take((const struct perf_event_header *)record);
		tail += header.size;
	}
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

static void open_rings(pid_t pid, uint64_t rate, uint32_t stack)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = rate,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
		               PERF_SAMPLE_STACK_USER,
		.sample_regs_user = 0xff01ff,
		.sample_stack_user = stack,
		.exclude_callchain_kernel = 1,
		.disabled = 1,
		.enable_on_exec = 1,
		.inherit = 1,
		.mmap = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.watermark = 1,
		.wakeup_watermark = RING_PAGES * 1024,
	};
	cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > MAX_CPUS)
		errx(1, "too many CPUs");
	for (int cpu = 0; cpu < cpus; cpu++) {
		struct ring *ring = &rings[cpu];
		ring->fd = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (ring->fd < 0)
			err(1, "perf_event_open");
		void *map = mmap(NULL, (size_t)(RING_PAGES + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
		                 0);
		if (map == MAP_FAILED)
			err(1, "mmap");
		ring->page = map;
		ring->data = (uint8_t *)map + 4096;
	}
}

static int compare(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;
	if (left->time != right->time)
		return left->time < right->time ? -1 : 1;
	return left->offset < right->offset ? -1 : 1;
}

static void write_sorted(const char *path)
{
	FILE *file = fopen(path, "wb");
	uint8_t *bytes = mmap(NULL, written, PROT_READ, MAP_PRIVATE, fileno(unsorted), 0);
	if (!file || bytes == MAP_FAILED)
		err(1, "%s", path);
	qsort(entries, entry_count, sizeof(*entries), compare);
	for (size_t i = 0; i < entry_count; i++)
		if (fwrite(bytes + entries[i].offset, entries[i].size, 1, file) != 1)
			err(1, "%s", path);
	if (fclose(file) != 0)
		err(1, "%s", path);
}

int main(int argc, char **argv)
{
	uint64_t rate = 1000;
	uint32_t stack = 65528;
	const char *path = NULL;
	for (int option; (option = getopt(argc, argv, "+F:s:o:")) != -1;) {
		if (option == 'F')
			rate = strtoull(optarg, NULL, 10);
		else if (option == 's')
			stack = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'o')
			path = optarg;
		else
			return 2;
	}
	if (!path || optind == argc)
		errx(2, "usage: dump-stacks [-F HZ] [-s STACK_BYTES] -o FILE COMMAND ...");
	unsorted = tmpfile();
	if (!unsorted)
		err(1, "temporary file");
	const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	memcpy(output + sizeof(struct dump_record), vdso, 8192);
	write_record(DUMP_VDSO, 0, 0, 0, 8192);

	int go[2];
	if (pipe2(go, O_CLOEXEC) != 0)
		err(1, "pipe");
	pid_t pid = fork();
	if (pid == 0) {
		char byte;
		if (read(go[0], &byte, 1) != 1)
			_exit(127);
		execvp(argv[optind], argv + optind);
		_exit(127);
	}
	open_rings(pid, rate, stack);
	if (write(go[1], "", 1) != 1)
		err(1, "pipe");
	int status;
	struct timespec nap = { .tv_nsec = 20000000 };
	bool ended;
	do {
		ended = waitpid(pid, &status, WNOHANG) == pid;
		for (int i = 0; i < cpus; i++)
			drain(&rings[i]);
		if (!ended)
			nanosleep(&nap, NULL);
	} while (!ended);
	if (fflush(unsorted) != 0)
		err(1, "temporary file");
	write_sorted(path);
	fprintf(stderr, "%llu samples, %llu lost\n", (unsigned long long)samples, (unsigned long long)lost);
	return lost != 0;
}
