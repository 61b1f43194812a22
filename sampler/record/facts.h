/* What only a live process can tell, asked by the loader as early as possible; and its perf-PID.map, read late. */
#ifndef SP_SAMPLER_RECORD_FACTS_H
#define SP_SAMPLER_RECORD_FACTS_H

#include "common/cursor.h"
#include "common/file.h"
#include "sampler/backend.h"
#include "sampler/record/loader.h"

/* Counted by the reader thread. A fork has the facts of its parent until it runs another program. */
struct sp_facts {
	struct sp_job job;
	const struct sp_backend_ops *ops;
	struct sp_backend *backend;
	uint32_t pid;
	uint32_t references;
	struct sp_facts *next; /* of those that wait for the loader to be freed */
	/* Once the job is done: */
	char *command_line;  /* owned; NULL = unknown */
	char *perf_map_path; /* owned; where its perf-PID.map would be, for us; NULL = unknown */
};

/* NULL without memory. */
struct sp_facts *sp_facts_create(const struct sp_backend_ops *ops, struct sp_backend *backend, struct sp_loader *loader,
                                 uint32_t pid);
void sp_facts_free(struct sp_facts *facts);

/* A perf-PID.map being taken in. */
struct sp_perf_map_job {
	struct sp_job job;
	const struct sp_facts *facts; /* a reference of the caller's; done before this job is */
	uint64_t not_before_ns;       /* wall clock: an older file is another process's */
	/* Once the job is done: */
	struct sp_file_map file;
	struct sp_cursor text; /* what is left to parse */
	uint64_t given, skipped;
};

/* More functions than this of one process are not taken in. */
#define SP_PERF_MAP_FUNCTIONS_MAX ((uint64_t)4 << 20)

struct sp_perf_map_job *sp_perf_map_job_create(const struct sp_facts *facts, uint64_t not_before_ns,
                                               struct sp_loader *loader);
void sp_perf_map_job_free(struct sp_perf_map_job *job);

#endif
