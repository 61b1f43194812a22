/* The common sample model: what a recording holds, whatever made it.
 *
 * A recording is an ordered sequence of records: definitions (process, thread, module, source, ...), then facts that
 * use them (mapping, sample, marker, loss, ...). Writers append records to a recording file, readers get the same
 * records back. Handles are numbers issued by whoever writes, dense from 0, one space each for processes, threads,
 * modules and sources. Strings are UTF-8, borrowed for the call. Times are ns of one clock (struct sp_record_clock
 * tells which). */
#ifndef SP_SAMPLER_PROFILE_MODEL_H
#define SP_SAMPLER_PROFILE_MODEL_H

#include "common/error.h"
#include "sampler/event.h"
#include "sampler/unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_HANDLE_NONE UINT32_MAX

enum sp_record_type {
	SP_RECORD_META = 1, /* key and value: machine, command line, mode ... */
	SP_RECORD_CLOCK,    /* pairs the clock with wall-clock time; at start, end and every minute */
	SP_RECORD_SOURCE,   /* what samples count */
	SP_RECORD_PROCESS,  /* a process, or its next program after an exec */
	SP_RECORD_PROCESS_END,
	SP_RECORD_THREAD,
	SP_RECORD_THREAD_NAME,
	SP_RECORD_THREAD_END,
	SP_RECORD_MODULE,
	SP_RECORD_MAPPING,
	SP_RECORD_UNMAPPING,
	SP_RECORD_JIT_FUNCTION,
	SP_RECORD_SAMPLE,
	SP_RECORD_MARKER,
	SP_RECORD_COUNTER, /* definition */
	SP_RECORD_COUNTER_VALUE,
	SP_RECORD_LOSS,
};

/* Keys of SP_RECORD_META that the profile writer knows; others go to the info panel as they are, under their key. */
#define SP_META_PRODUCT "product" /* "sp" or what made an imported trace */
#define SP_META_COMMAND "command" /* the command line, for the title and info panel */
#define SP_META_PROFILE_NAME "profile-name"
#define SP_META_OS "os"
#define SP_META_PLATFORM "platform" /* "Linux", "Windows", "macOS" */
#define SP_META_ARCH "arch"
#define SP_META_CPU "cpu"
#define SP_META_CPUS "cpus"
#define SP_META_MEMORY "memory" /* bytes */
#define SP_META_HOST "host"
#define SP_META_BOOT_ID "boot-id"
#define SP_META_MODE "mode" /* sp_capture_info.mode, and so on */
#define SP_META_SHORTFALL "shortfall"
#define SP_META_CURE "cure"
#define SP_META_RATE_NOTE "rate-note"
#define SP_META_INTERVAL_NS "interval-ns"
#define SP_META_EMPTY "empty" /* why there is no sample */

struct sp_record_meta {
	const char *key, *value;
};

struct sp_record_clock {
	const char *name; /* "CLOCK_MONOTONIC", ... */
	uint64_t time;    /* of that clock */
	uint64_t wall_ns; /* ns since 1970 at the same moment */
};

struct sp_record_source {
	uint32_t source;
	const char *name, *unit;
	bool off_cpu;
	double rate;
};

struct sp_record_process {
	uint32_t process;          /* a fresh handle also after an exec; then `previous` is the one before */
	uint32_t previous, parent; /* SP_HANDLE_NONE = none */
	uint32_t pid;
	uint32_t generation; /* counts execs */
	uint64_t time;       /* when it began */
	bool found;          /* was there already when the recording began */
	const char *name;
	const char *command_line; /* NULL = unknown */
};

struct sp_record_process_end {
	uint32_t process;
	uint64_t time;
};

struct sp_record_thread {
	uint32_t thread, process;
	uint32_t tid;
	uint64_t time;
	bool main; /* the thread whose tid is the pid; at most one a process handle */
	const char *name;
};

struct sp_record_thread_name {
	uint32_t thread;
	uint64_t time;
	const char *name;
};

struct sp_record_thread_end {
	uint32_t thread;
	uint64_t time;
};

enum sp_module_kind { SP_MODULE_FILE, SP_MODULE_KERNEL, SP_MODULE_VDSO, SP_MODULE_ANONYMOUS };

struct sp_record_module {
	uint32_t module;
	uint8_t kind;                        /* enum sp_module_kind */
	const char *name, *path;             /* of the binary */
	const char *debug_name, *debug_path; /* of where its symbols are; default: the same */
	const char *debug_id;                /* Breakpad form, "" = none */
	const char *code_id;                 /* "" = none */
	const char *arch;      /* "x86_64", "arm64", ... as the Firefox Profiler writes it; "" = unknown */
	const char *kept_path; /* a copy in sp's cache for what will not exist later; NULL = none */
	const char *note;      /* NULL, or why it can't be read */
};

/* [start, start + size) of the process shows the module; relative address = address - base. A mapping replaces what it
 * overlaps. process == SP_HANDLE_NONE: kernel space, for all processes. A process's mappings are all written for it,
 * also those that it has from the one that forked it. */
struct sp_record_mapping {
	uint32_t process, module;
	uint64_t time;
	uint64_t start, size;
	uint64_t base; /* the address where the module's relative address 0 lies */
};

struct sp_record_unmapping {
	uint32_t process;
	uint64_t time;
	uint64_t start, size;
};

/* Code made at run time; a later one replaces what it overlaps; an empty name: the code there is gone. `late`: read
 * after the fact (perf-PID.map), holds for the process's whole life where nothing else is mapped. */
struct sp_record_jit_function {
	uint32_t process;
	uint64_t time;
	uint64_t start, size;
	const char *name;
	bool late;
};

enum sp_stack_end {
	SP_STACK_WHOLE,
	SP_STACK_TRUNCATED, /* why: the sp_unwind_end in sp_record_sample.end */
};

/* A stack is an array of frames, leaf first, kernel frames before user frames. */
struct sp_record_sample {
	uint32_t thread, source;
	uint64_t time;
	uint32_t cpu;
	const struct sp_frame *frames; /* writer: the whole stack; reader: NULL, see `stack` */
	uint32_t frame_count;
	uint32_t kept;      /* writer: outermost frames that are those of the thread's previous sample with a stack, and
	                       not in `frames`; usually 0 */
	uint32_t stack;     /* reader: a node of the segment's stack tree; SP_HANDLE_NONE = no frames */
	uint8_t end;        /* enum sp_unwind_end of the user part */
	const char *label;  /* NULL, or a label frame that stands in for the stack: "[kernel, not sampled]" */
	uint64_t cpu_delta; /* ns of CPU time of the thread since its previous sample */
	bool cpu_delta_known;
	int64_t weight; /* in units of the source; 1 for an ordinary sample */
};

struct sp_record_marker {
	uint32_t thread; /* SP_HANDLE_NONE = the recording as a whole */
	uint64_t time, end_time;
	const char *name, *text; /* text may be NULL */
};

struct sp_record_counter {
	uint32_t counter, process;
	const char *name, *category, *description, *unit;
};

struct sp_record_counter_value {
	uint32_t counter;
	uint64_t time;
	double delta;
};

struct sp_record_loss {
	uint8_t kind;         /* enum sp_loss_kind */
	uint32_t thread, cpu; /* SP_HANDLE_NONE / SP_CPU_NONE = unknown */
	uint64_t time, end_time;
	uint64_t count;
};

struct sp_record {
	enum sp_record_type type;
	union {
		struct sp_record_meta meta;
		struct sp_record_clock clock;
		struct sp_record_source source;
		struct sp_record_process process;
		struct sp_record_process_end process_end;
		struct sp_record_thread thread;
		struct sp_record_thread_name thread_name;
		struct sp_record_thread_end thread_end;
		struct sp_record_module module;
		struct sp_record_mapping mapping;
		struct sp_record_unmapping unmapping;
		struct sp_record_jit_function jit_function;
		struct sp_record_sample sample;
		struct sp_record_marker marker;
		struct sp_record_counter counter;
		struct sp_record_counter_value counter_value;
		struct sp_record_loss loss;
	};
};

/* ---- The recording file ---- (format: docs/recording-format.md)
 *
 * Append-only, self-contained segments {length, type, CRC}, IDs anew in each segment, one segment at least each second.
 * A torn last segment is dropped by the reader, with a note. */

struct sp_recording_writer;
/* Creates `path` (an existing file is replaced). */
struct sp_error *sp_recording_writer_create(const char *path, struct sp_recording_writer **ret);
/* Appends a record. Segments are closed and written when they are a second old or 1 MiB large. An error (disk full)
 * is sticky: what was written stands. Not thread-safe. */
struct sp_error *sp_recording_write(struct sp_recording_writer *writer, const struct sp_record *record);
/* Closes the current segment now, so that a reader sees all that was written. */
struct sp_error *sp_recording_flush(struct sp_recording_writer *writer);
/* As sp_recording_flush() when the segment is a second old, else nothing: for a caller that has had nothing to write.
 */
struct sp_error *sp_recording_flush_old(struct sp_recording_writer *writer);
/* Flushes, marks the recording as finished, closes the file. The writer is gone in any case. */
struct sp_error *sp_recording_writer_finish(struct sp_recording_writer *writer);

struct sp_recording_reader;
/* A reader may follow a file that is still being written. */
struct sp_error *sp_recording_reader_create(const char *path, struct sp_recording_reader **ret);
/* The next record. *ret_more is false when there is none (yet): at the end of what is written. Pointers in *ret are
 * valid until the next call. Enums have values that are declared here and handles are dense and were given before they
 * are used, whatever the file holds. */
struct sp_error *sp_recording_read(struct sp_recording_reader *reader, struct sp_record *ret, bool *ret_more);
/* Whether the writer finished, and how many bytes were dropped so far: corrupt segments, what can't be decoded, and the
 * torn tail (of a recording that is still being written: what is not whole yet). */
bool sp_recording_finished(const struct sp_recording_reader *reader, uint64_t *ret_dropped_bytes);
/* The stack tree of the segment that the last record came from (stack_node.h), until the next record is read. The same
 * (parent, frame) is mostly the same node, and a parent's number is below its children's. Each segment begins its tree
 * anew, from node 0: then the number that sp_recording_segment() gives changes. */
uint64_t sp_recording_segment(const struct sp_recording_reader *reader);
struct sp_stack_node;
const struct sp_stack_node *sp_recording_stack_nodes(const struct sp_recording_reader *reader, size_t *ret_count);
void sp_recording_reader_destroy(struct sp_recording_reader *reader);

#endif
