/* Asking live processes; see facts.h. The jobs run on the loader's thread. */
#include "sampler/record/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ask(struct sp_job *job)
{
	struct sp_facts *facts = (struct sp_facts *)((char *)job - offsetof(struct sp_facts, job));
	char path[64];
	facts->command_line = facts->ops->command_line(facts->backend, facts->pid);
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", facts->ops->target_pid(facts->backend, facts->pid));
	struct sp_error *error = facts->ops->target_path(facts->backend, facts->pid, path, &facts->perf_map_path);
	if (error) {
		sp_error_destroy(error);
		facts->perf_map_path = NULL;
	}
}

struct sp_facts *sp_facts_create(const struct sp_backend_ops *ops, struct sp_backend *backend, struct sp_loader *loader,
                                 uint32_t pid)
{
	struct sp_facts *facts = calloc(1, sizeof(*facts));
	if (!facts)
		return NULL;
	facts->references = 1;
	facts->ops = ops;
	facts->backend = backend;
	facts->pid = pid;
	facts->job.run = ask;
	sp_loader_push(loader, &facts->job);
	return facts;
}

void sp_facts_free(struct sp_facts *facts)
{
	free(facts->command_line);
	free(facts->perf_map_path);
	free(facts);
}

static void open_perf_map(struct sp_job *base)
{
	struct sp_perf_map_job *job = (struct sp_perf_map_job *)((char *)base - offsetof(struct sp_perf_map_job, job));
	if (!job->facts->perf_map_path)
		return;
	struct sp_error *error = sp_file_map_path(job->facts->perf_map_path, &job->file);
	if (error) {
		/* Most programs have none. */
		sp_error_destroy(error);
		return;
	}
	if (job->file.mtime_ns >= 0 && (uint64_t)job->file.mtime_ns < job->not_before_ns)
		sp_file_unmap(&job->file);
	job->text = sp_cursor_init(job->file.bytes, job->file.size);
}

struct sp_perf_map_job *sp_perf_map_job_create(const struct sp_facts *facts, uint64_t not_before_ns,
                                               struct sp_loader *loader)
{
	struct sp_perf_map_job *job = calloc(1, sizeof(*job));
	if (!job)
		return NULL;
	job->facts = facts;
	job->not_before_ns = not_before_ns;
	job->job.run = open_perf_map;
	sp_loader_push(loader, &job->job);
	return job;
}

void sp_perf_map_job_free(struct sp_perf_map_job *job)
{
	sp_file_unmap(&job->file);
	free(job);
}
