/* The pipeline's state, shared by the files that make it up: pipeline.c (merge, back pressure, life), process_state.c
 * (who is who), samples.c (samples and CPU time), commit.c (the way into the recording). All of it belongs to the
 * reader thread. */
#ifndef SP_SAMPLER_RECORD_INTERNAL_H
#define SP_SAMPLER_RECORD_INTERNAL_H

#include "common/map.h"
#include "common/vector.h"
#include "sampler/record/account.h"
#include "sampler/record/facts.h"
#include "sampler/record/pipeline.h"
#include "sampler/record/stream_merge.h"
#include "sampler/record/workers.h"

/* Samples under way. */
#define SP_TASKS_MAX 4096
/* Bytes of finished stacks that wait for an earlier one. */
#define SP_RESULT_BYTES_MAX ((size_t)16 << 20)
/* Stack bytes copied out of full streams ... */
#define SP_COPY_BYTES_MAX ((size_t)32 << 20)
/* ... of which one sample gets this part of what is left, and no less than so many bytes: the longer the workers stand
 * still, the shorter the stacks that wait for them (their outer part may still be spliced), and the later samples are
 * lost. */
#define SP_COPY_PART 512
#define SP_COPY_BYTES_MIN ((size_t)2048)

struct sp_process;

struct sp_thread {
	uint32_t tid;
	uint32_t handle; /* SP_HANDLE_NONE until it is announced */
	struct sp_process *process;
	char *name;         /* owned */
	uint64_t time;      /* when it began */
	uint64_t last_time; /* of its latest sample or switch */
	uint64_t end_time;
	bool ended; /* its end was seen; it stays for what the kernel still does in its name */
	bool gone;  /* out of the tables; only tasks refer to it */
	uint32_t tasks;
	struct sp_account account;
	struct sp_thread_stacks stacks;
	struct sp_thread *next, **link; /* of its process */
};

struct sp_process {
	uint32_t pid;
	uint32_t handle;   /* SP_HANDLE_NONE until it is announced */
	uint32_t previous; /* handle of the program before an exec */
	uint32_t parent;   /* handle */
	uint32_t generation;
	uint64_t time; /* when it (or its program) began */
	uint64_t born; /* when the pid began */
	uint64_t last_time;
	bool found;
	bool mapped;            /* its address space is in the recording */
	char *name;             /* owned */
	struct sp_facts *facts; /* a reference; NULL = nothing is known */
	struct sp_space *space; /* a reference */
	struct sp_thread *threads;
	struct sp_process *next, **link; /* of all */
};

enum sp_entry_kind {
	SP_ENTRY_RECORD,  /* a record as it is */
	SP_ENTRY_PROCESS, /* a record that lacks the command line */
	SP_ENTRY_SAMPLE,
	SP_ENTRY_SPACE,   /* all mappings of a space */
	SP_ENTRY_MAPPING, /* one */
	SP_ENTRY_PERF_MAP,
};

/* What waits to be written. */
struct sp_entry {
	uint8_t kind;     /* enum sp_entry_kind */
	uint32_t process; /* handle */
	uint64_t time;
	union {
		struct sp_record *record; /* owned, with its strings */
		struct sp_task *task;
		struct sp_space *space;           /* a reference */
		struct sp_mapping mapping;        /* with a user of the module */
		struct sp_perf_map_job *perf_map; /* owned */
	};
	struct sp_facts *facts; /* SP_ENTRY_PROCESS, _PERF_MAP: a reference; may be NULL */
};

/* A process of the tree that was alive at the end. */
struct sp_survivor {
	uint32_t pid;
	char *name; /* owned */
};

struct sp_commit {
	struct sp_entry *entries;      /* owned; circular */
	size_t first, count, capacity; /* a power of two */
	uint32_t next_module;
};

struct sp_pipeline {
	struct sp_pipeline_options options;
	struct sp_error *error; /* sticky; owned */
	struct sp_signal progress;
	struct sp_loader *loader;
	struct sp_modules *modules;
	struct sp_workers *workers;
	struct sp_merge merge;
	struct sp_commit commit;

	struct sp_map processes; /* pid -> struct sp_process * */
	struct sp_map threads;   /* tid -> struct sp_thread * */
	struct sp_process *all;
	SP_VECTOR(uint32_t) ended;             /* tids whose end was seen */
	SP_VECTOR(struct sp_thread *) running; /* on a CPU now; kept when the kernel's share is estimated */
	struct sp_facts *orphans;              /* facts without references that the loader still has */
	uint32_t next_process, next_thread;

	uint64_t started;   /* of sp_clock_now() */
	uint64_t watermark; /* all before it was taken */
	uint64_t now;       /* time of the latest event */
	bool switches_seen; /* CPU times are known */
	size_t tasks;       /* under way */
	SP_VECTOR(struct sp_task *) spare_tasks;
	SP_VECTOR(struct sp_frame) frames; /* of the sample being written */
	size_t copied_bytes;
	uint64_t late, late_first, late_last; /* since the last report */
	uint64_t next_clock;                  /* when to pair the clocks again */
	SP_VECTOR(struct sp_survivor) survivors;
	struct sp_pipeline_counts counts;
};

/* ---- commit.c ---- */

/* Queues a copy of the record, or writes it when nothing waits before it. */
void sp_commit_record(struct sp_pipeline *p, const struct sp_record *record);
/* As sp_commit_record() for a process whose command line is among the facts (a reference that is taken over). */
void sp_commit_process(struct sp_pipeline *p, const struct sp_record *record, struct sp_facts *facts);
/* Takes over what the entry owns. */
void sp_commit_push(struct sp_pipeline *p, const struct sp_entry *entry);
/* Writes what is ready, in order; `all`: waits until all is. */
void sp_commit_run(struct sp_pipeline *p, bool all);
/* Whether nothing waits, or what waits first is ready. */
bool sp_commit_first_ready(const struct sp_pipeline *p);
void sp_commit_deinit(struct sp_pipeline *p);
/* Keeps the first error; consumes it. */
void sp_pipeline_fail(struct sp_pipeline *p, struct sp_error *error);

/* ---- process_state.c ---- */

/* The thread that an event is about; NULL when it is none of ours. Made when it must have been missed. */
struct sp_thread *sp_thread_of_event(struct sp_pipeline *p, const struct sp_event *event);
/* Whether the event is of a process of ours, but of a thread that the OS had forgotten already. */
bool sp_is_of_ended_thread(const struct sp_pipeline *p, const struct sp_event *event);
/* Gives process and thread handles, and puts their definitions and mappings into the recording: before a sample. */
void sp_announce_for_sample(struct sp_pipeline *p, struct sp_thread *thread);
void sp_on_thread_start(struct sp_pipeline *p, const struct sp_event *event);
void sp_on_thread_exit(struct sp_pipeline *p, const struct sp_event *event);
void sp_on_name(struct sp_pipeline *p, const struct sp_event *event);
void sp_on_exec(struct sp_pipeline *p, const struct sp_event *event);
void sp_on_map(struct sp_pipeline *p, const struct sp_event *event);
void sp_on_kernel_module(struct sp_pipeline *p, const struct sp_event *event);
void sp_on_jit_function(struct sp_pipeline *p, const struct sp_event *event);
/* Ends threads whose end was seen some time before the watermark (or at all). */
void sp_end_threads(struct sp_pipeline *p, bool all);
/* At the end of a run: what is still alive is counted, its JIT maps are read, and it is forgotten. */
void sp_end_processes(struct sp_pipeline *p);
void sp_thread_drop_task(struct sp_thread *thread);
void sp_facts_release(struct sp_pipeline *p, struct sp_facts *facts);
void sp_sweep_facts(struct sp_pipeline *p);

/* ---- samples.c ---- */

/* A task without references; NULL without memory. */
struct sp_task *sp_task_new(struct sp_pipeline *p);
/* Takes the sample in task->event. False when it is not wanted: then the task is as before. */
bool sp_on_sample(struct sp_pipeline *p, struct sp_task *task);
void sp_on_switch(struct sp_pipeline *p, const struct sp_event *event);
void sp_on_loss(struct sp_pipeline *p, const struct sp_event *event);
void sp_on_marker(struct sp_pipeline *p, const struct sp_event *event);
/* Adds samples for the time in the kernel that was not sampled, up to `time`. */
void sp_estimate_kernel(struct sp_pipeline *p, struct sp_thread *thread, uint64_t time, uint64_t next_ns);
/* The thread got a CPU, or is on none any more. */
void sp_start_running(struct sp_pipeline *p, struct sp_thread *thread, uint64_t time);
void sp_stop_running(struct sp_pipeline *p, struct sp_thread *thread, uint64_t time);
void sp_estimate_running(struct sp_pipeline *p, uint64_t time);
/* A finished sample as a record; the task is freed. */
void sp_write_sample(struct sp_pipeline *p, struct sp_task *task);
void sp_task_release(struct sp_pipeline *p, struct sp_task *task);
/* Keeps a task that nothing refers to for the next sample. */
void sp_task_spare(struct sp_pipeline *p, struct sp_task *task);
void sp_report_late(struct sp_pipeline *p);

#endif
