/* The file that dump-stacks writes and the unwinding benchmarks read: records in order of time, each 8-byte aligned,
 * in the machine's byte order. */
#ifndef TESTS_BENCH_DUMP_FILE_H
#define TESTS_BENCH_DUMP_FILE_H

#include <stdint.h>

enum dump_kind {
	DUMP_VDSO = 1, /* first record: the bytes of the vdso follow */
	DUMP_MAP,      /* struct dump_map and the path: an executable mapping */
	DUMP_EXEC,     /* all mappings of the process are gone */
	DUMP_FORK,     /* struct dump_fork: a new process with its parent's mappings */
	DUMP_SAMPLE,   /* struct dump_sample, the kernel's call chain, the stack's bytes */
};

struct dump_record {
	uint32_t kind; /* enum dump_kind */
	uint32_t size; /* bytes of the whole record */
	uint64_t time; /* ns */
	uint32_t pid, tid;
};

struct dump_map {
	uint64_t start, size, file_offset;
};

struct dump_fork {
	uint64_t parent;
};

struct dump_sample {
	uint64_t registers[17]; /* x86-64, by DWARF number; 16 = rip */
	uint64_t chain_count;   /* user addresses of the frame pointer chain, leaf first */
	uint64_t stack_size;    /* bytes from rsp up */
};

#endif
