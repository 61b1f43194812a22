/* From events to a recording: merge of the streams by time, process and module state, unwinding workers, accounting.
 *
 * The caller's thread is the reader: it never unwinds. Workers (min(4, CPUs / 4 + 1)) unwind; finished samples are
 * committed to the recording in time order. */
#ifndef SP_SAMPLER_RECORD_PIPELINE_H
#define SP_SAMPLER_RECORD_PIPELINE_H

#include "common/error.h"
#include "common/log.h"
#include "sampler/backend.h"
#include "sampler/importer.h"
#include "sampler/profile/model.h"

struct sp_pipeline;

/* How the pipeline reaches the live target's files; all NULL for imports. */
struct sp_pipeline_options {
	const struct sp_backend_ops *ops; /* for open_mapped_file and friends; NULL for imports */
	struct sp_backend *backend;
	const struct sp_source *sources;
	size_t source_count;
	uint64_t interval_ns;
	bool kernel_sampled; /* false: compute the kernel's share from switches ("[kernel, not sampled]") */
	bool whole_system;   /* keep only the process tree of root_pid */
	uint32_t root_pid;
	const char
	    *cache_folder; /* where vdso, kallsyms, deleted files are kept under their IDs; NULL = nothing is kept */
	struct sp_recording_writer *recording; /* borrowed */
	const struct sp_log *log;
};

struct sp_pipeline_counts {
	uint64_t samples; /* committed */
	uint64_t late;    /* dropped since their time had been passed on, or their thread had ended */
	uint64_t ends[SP_UNWIND_NO_REGS + 1]; /* user stacks by how they ended, after completion */
	uint64_t spliced;
	uint64_t cpu_ns;           /* CPU time by the switch records */
	uint64_t kernel_estimated; /* weight of the samples that stand for unsampled time in the kernel */
	uint32_t survivors;        /* processes of the tree that were alive at the end */
};

/* Writes the sources' definitions. During a live capture it also pairs the clocks (SP_RECORD_CLOCK) at the start, each
 * minute and at the end; other meta data are the caller's to write. */
struct sp_error *sp_pipeline_create(const struct sp_pipeline_options *options, struct sp_pipeline **ret);
/* Adds a stream; all before the first advance, or later when it starts past the watermark. */
struct sp_error *sp_pipeline_add_stream(struct sp_pipeline *pipeline, struct sp_stream *stream);
/* Takes all events with time < watermark (UINT64_MAX: all there are). Errors of the recording file are sticky. */
struct sp_error *sp_pipeline_advance(struct sp_pipeline *pipeline, uint64_t watermark);
/* Another run of the command in the same recording, after sp_pipeline_finish(): a new backend of the same kind, whose
 * streams are added next. Handles and modules go on. */
struct sp_error *sp_pipeline_next_run(struct sp_pipeline *pipeline, struct sp_backend *backend, uint32_t root_pid);
/* Takes what the streams still have, waits for the workers, reads JIT maps, closes open intervals. Processes and
 * threads that are still alive have no end in the recording. `end_time`: when sampling ended. */
struct sp_error *sp_pipeline_finish(struct sp_pipeline *pipeline, uint64_t end_time);
void sp_pipeline_counts(const struct sp_pipeline *pipeline, struct sp_pipeline_counts *ret);
/* Calls `emit` for each process of the tree that was alive at the end, except root_pid. */
void sp_pipeline_survivors(const struct sp_pipeline *pipeline,
                           void (*emit)(void *context, uint32_t pid, const char *name), void *context);
void sp_pipeline_destroy(struct sp_pipeline *pipeline);

#endif
