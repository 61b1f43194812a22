/* What a profile builder has learned of a recording so far; shared by the files that take in, lay out and write. */
#ifndef SP_SAMPLER_OUTPUT_BUILDER_H
#define SP_SAMPLER_OUTPUT_BUILDER_H

#include "common/compress.h"
#include "common/intern.h"
#include "common/map.h"
#include "common/vector.h"
#include "sampler/output/output.h"
#include "sampler/output/profile_file.h"
#include "sampler/output/range_map.h"
#include "sampler/output/spool.h"
#include "sampler/output/tables.h"
#include "sampler/profile/model.h"

/* The label that stands for CPU time in the kernel which the samples could not see. */
#define SP_LABEL_KERNEL_UNSAMPLED "[kernel, not sampled]"

struct sp_build_process {
	bool defined;
	bool found;
	bool replaced; /* an exec began another one */
	bool ended;
	uint32_t pid, previous, parent;
	uint64_t start, end;
	uint64_t last_sample;
	uint32_t name, command;  /* string numbers; SP_INTERN_NONE = none */
	uint32_t view;           /* changes whenever an address that was looked up may now mean something else */
	struct sp_range_map map; /* its address space as it is now; empty after its end */
	uint64_t samples;
};

/* A table of samples: one a thread, and one more for each further source that counts something else. */
struct sp_build_row {
	uint32_t thread;     /* handle */
	uint32_t source;     /* SP_HANDLE_NONE: the ordinary samples */
	uint32_t head, tail; /* samples */
	uint64_t count;
	uint64_t first_time, last_time;
	uint64_t truncated; /* stacks */
	bool unsorted;      /* times are not in order */
	bool weighted;      /* some weight is not 1 */
	bool cpu_known;     /* some CPU delta is known */
};

struct sp_build_thread {
	bool defined, main, ended;
	uint32_t process, tid;
	uint64_t start, end;
	uint32_t name;
	uint32_t row;     /* of its ordinary samples */
	uint32_t markers; /* newest first, SP_INDEX_NONE = none */
};

struct sp_build_module {
	bool defined;
	uint8_t kind;                                                                          /* enum sp_module_kind */
	uint32_t name, path, debug_name, debug_path, debug_id, code_id, arch, kept_path, note; /* strings */
};

struct sp_build_source {
	bool defined, off_cpu;
	uint32_t name, unit;
	double rate;
};

#define SP_CPU_DELTA_UNKNOWN UINT32_MAX
#define SP_CPU_DELTA_LARGE (UINT32_MAX - 1) /* the value is in `large_cpu_deltas` */
#define SP_WEIGHT_LARGE INT32_MIN           /* the value is in `large_weights` */

struct sp_build_sample {
	uint64_t time;
	uint32_t next; /* of the same row */
	uint32_t stack;
	uint32_t cpu_delta; /* ns, or one of the above */
	int32_t weight;
};

enum sp_marker_kind { SP_MARKER_TEXT, SP_MARKER_LOSS };

struct sp_build_marker {
	uint64_t time, end;
	uint64_t count; /* losses */
	uint32_t next;  /* the one before of the same thread */
	uint32_t name, text;
	uint32_t cpu;
	uint8_t kind;      /* enum sp_marker_kind */
	uint8_t loss_kind; /* enum sp_loss_kind */
};

struct sp_build_counter {
	bool defined;
	uint32_t process, name, category, description, unit;
	uint32_t head, tail; /* values */
};

struct sp_build_value {
	uint64_t time;
	double delta;
	uint32_t next;
};

/* Code that became known after samples had been taken there: fills what was unknown, for the process's whole life. */
struct sp_late_range {
	uint32_t process; /* SP_HANDLE_NONE = kernel */
	struct sp_range range;
};

struct sp_build_meta {
	uint32_t key, value;
};

/* What each node of the segment's stack tree became, for the view that last asked. */
struct sp_node_cache {
	uint32_t stack;
	uint32_t tag; /* node_tag() in resolve.c; 0 = nothing */
};

/* What a raw frame became in a view. */
struct sp_frame_cache {
	uint64_t address;
	uint32_t view; /* 0 = nothing */
	uint32_t frame;
	uint8_t flags; /* sp_stack_flags() */
};
#define SP_FRAME_CACHE 8192 /* entries; a power of two */

/* The columns of a run of stacks as compressed text, made while the recording goes on (stack_parts.c). */
enum sp_stack_column { SP_COLUMN_FRAME, SP_COLUMN_PREFIX, SP_STACK_COLUMNS };
struct sp_stack_part {
	struct sp_gzip_part columns[SP_STACK_COLUMNS];
	size_t offsets[SP_STACK_COLUMNS]; /* into `part_bytes` */
};
#define SP_STACK_PART 32768 /* stacks a part */

struct sp_profile_builder {
	struct sp_profile_options options;
	char *profile_name; /* owned copy; NULL = the recording's */
	char *folder;       /* where the recording is, for spools */
	struct sp_recording_reader *reader;
	struct sp_intern strings;
	struct sp_tables tables;
	struct sp_range_map kernel;
	uint32_t views; /* issued */

	SP_VECTOR(struct sp_build_process) processes;
	SP_VECTOR(struct sp_build_thread) threads;
	SP_VECTOR(struct sp_build_row) rows;
	struct sp_map other_rows; /* thread << 32 | source -> row */
	SP_VECTOR(struct sp_build_module) modules;
	SP_VECTOR(struct sp_build_source) sources;
	uint32_t primary_source;
	SP_VECTOR(struct sp_build_counter) counters;
	SP_VECTOR(struct sp_late_range) late;
	SP_VECTOR(struct sp_build_meta) meta;
	SP_VECTOR(struct sp_record_clock) clocks; /* first and last; names are interned */
	SP_SPOOL(struct sp_build_sample) samples;
	SP_SPOOL(struct sp_build_marker) markers;
	SP_SPOOL(struct sp_build_value) values;
	struct sp_map large_cpu_deltas, large_weights; /* sample -> value */
	uint64_t segment;                              /* that `nodes` is of */
	SP_VECTOR(struct sp_node_cache) nodes;
	struct sp_frame_cache *frame_cache;    /* owned */
	SP_VECTOR(uint32_t) path;              /* scratch: nodes of a stack from the leaf on */
	uint32_t global_markers;               /* markers of no thread */
	SP_VECTOR(struct sp_stack_part) parts; /* of the first parts.count * SP_STACK_PART stacks */
	SP_SPOOL(uint8_t) part_bytes;

	uint64_t first_time, last_time; /* of samples and markers; first_time is UINT64_MAX when there are none */
	uint64_t ends[SP_UNWIND_NOT_RECORDED + 1];
	uint64_t losses[SP_LOSS_BUFFER + 1]; /* counts by kind; throttles are counted each */
	uint64_t throttled_ns;
	uint64_t weight, kernel_unsampled_weight; /* of ordinary samples */
	struct sp_profile_summary summary;
};

/* builder.c: takes in all that is written so far. */
struct sp_error *sp_build_take_in(struct sp_profile_builder *builder);

/* resolve.c: gives the processes an address means something for, and turns stacks into entries of the tables. */

/* A view number that nobody had before; 0 when there are too many. */
uint32_t sp_build_new_view(struct sp_profile_builder *builder);
struct sp_error *sp_build_map_range(struct sp_profile_builder *builder, uint32_t process, const struct sp_range *range);
struct sp_error *sp_build_unmap_range(struct sp_profile_builder *builder, uint32_t process, uint64_t start,
                                      uint64_t end);

struct sp_resolved_stack {
	uint32_t stack;
	bool spliced, guessed;
};
struct sp_error *sp_build_stack(struct sp_profile_builder *builder, const struct sp_record_sample *sample,
                                uint32_t process, struct sp_resolved_stack *ret);
/* Finds names for what was unknown when it was sampled. Gives the entry that takes the place of `entry`. */
struct sp_late_index;
struct sp_error *sp_late_index_create(const struct sp_profile_builder *builder, struct sp_late_index **ret);
struct sp_frame_entry sp_late_index_resolve(const struct sp_late_index *index, const struct sp_frame_entry *entry);
void sp_late_index_destroy(struct sp_late_index *index);

/* stack_parts.c */

/* Makes parts of the stacks that are there. */
struct sp_error *sp_build_stack_parts(struct sp_profile_builder *builder);
/* Writes a column of the stacks [first, end) as values of the open array. */
void sp_write_stack_column(struct sp_json *json, const struct sp_profile_builder *builder, enum sp_stack_column column,
                           size_t first, size_t end);

/* A string of the builder; NULL for SP_INTERN_NONE. */
static inline const char *sp_build_string(const struct sp_profile_builder *builder, uint32_t number)
{
	return number == SP_INTERN_NONE ? NULL : sp_intern_string(&builder->strings, number);
}

/* The last value of a meta key, NULL when there is none. */
const char *sp_build_meta(const struct sp_profile_builder *builder, const char *key);
/* The sampling interval in ns; 1 ms where the recording does not tell. */
uint64_t sp_build_interval(const struct sp_profile_builder *builder);

#endif
