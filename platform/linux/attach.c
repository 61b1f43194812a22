/* Attaching; see attach.h.
 *
 * The side band is on before /proc is read, so nothing falls between: what changed meanwhile comes twice, and the later
 * word stands. The target is not stopped, since its parent would see that. With events of threads, the folders of
 * threads are listed again until a pass finds no new one: a thread made by one that has events already inherits them,
 * any other is found by the next pass. A thread that inherited some and was then found as well would be reported twice;
 * the filter (perf_ring.h) drops what its inherited copies say. */
#include "platform/linux/attach.h"

#include "common/clock.h"
#include "platform/linux/proc.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* A target that makes threads all the time gives every pass a new one; by now all of them inherit. */
#define MAX_PASSES 10

struct listing {
	struct sp_perf_session *session;
	struct sp_found_events *found;
	uint64_t time;
	struct sp_map parents; /* pid -> parent, of all processes, as of this pass */
	struct sp_map members; /* pids of the target's tree */
	bool news;             /* this pass found a thread */
	uint32_t pid, parent;  /* whose threads are being listed */
};

static struct sp_error *note_parent(void *context, uint32_t pid)
{
	struct listing *listing = context;
	uint32_t parent;
	if (pid != listing->session->filter.recorder_pid && sp_proc_parent(pid, &parent) &&
	    !sp_map_put(&listing->parents, pid, parent))
		return sp_error_no_memory();
	return NULL;
}

static struct sp_error *note_thread(void *context, uint32_t tid)
{
	struct listing *listing = context;
	struct sp_perf_session *session = listing->session;
	if (sp_map_get(&session->filter.listed, tid))
		return NULL;
	if (!sp_map_put(&session->filter.listed, tid, 1))
		return sp_error_no_memory();
	listing->news = true;
	struct sp_error *error = NULL;
	bool gone = false;
	if (session->mode != SP_PERF_MODE_SYSTEM && !sp_map_get(&session->filter.opened, tid)) {
		size_t from = session->events.count;
		error = sp_perf_session_add_thread(session, tid, &gone);
		if (!error)
			sp_perf_session_enable(session, from, SP_RING_SIDE_BAND, true);
	}
	if (!error && !gone)
		error = sp_found_events_add_thread(listing->found, listing->time, listing->pid, tid, listing->parent);
	return error;
}

static struct sp_error *list_process(struct listing *listing, uint32_t pid, uint32_t parent)
{
	bool first = !sp_map_get(&listing->members, pid);
	if (first && !sp_map_put(&listing->members, pid, 1))
		return sp_error_no_memory();
	listing->pid = pid;
	listing->parent = parent;
	/* The process comes before its other threads. */
	struct sp_error *error = note_thread(listing, pid);
	listing->parent = pid;
	char folder[64];
	snprintf(folder, sizeof(folder), "/proc/%u/task", pid);
	if (!error)
		error = sp_proc_numbers(folder, note_thread, listing);
	if (!error && first)
		error = sp_found_events_add_maps(listing->found, listing->time, pid);
	return error;
}

/* Lists the members of the tree that are not known yet, parents before children: as often as there is another
 * generation. */
static struct sp_error *list_descendants(struct listing *listing)
{
	struct sp_error *error = NULL;
	bool more = true;
	while (more && !error) {
		more = false;
		for (size_t i = 0; !error && i < listing->parents.capacity; i++) {
			const struct sp_map_slot *slot = &listing->parents.slots[i];
			if (!listing->parents.used[i] || sp_map_get(&listing->members, slot->key) ||
			    !sp_map_get(&listing->members, slot->value))
				continue;
			more = true;
			error = list_process(listing, (uint32_t)slot->key, (uint32_t)slot->value);
		}
	}
	return error;
}

static struct sp_error *list_known(struct listing *listing)
{
	struct sp_error *error = NULL;
	for (size_t i = 0; !error && i < listing->members.capacity; i++) {
		if (!listing->members.used[i])
			continue;
		uint32_t pid = (uint32_t)listing->members.slots[i].key;
		char folder[64];
		snprintf(folder, sizeof(folder), "/proc/%u/task", pid);
		listing->pid = listing->parent = pid;
		error = sp_proc_numbers(folder, note_thread, listing);
	}
	return error;
}

static struct sp_error *list_pass(struct listing *listing)
{
	listing->news = false;
	sp_map_clear(&listing->parents);
	struct sp_error *error = list_known(listing);
	if (!error)
		error = sp_proc_numbers("/proc", note_parent, listing);
	if (!error)
		error = list_descendants(listing);
	return error;
}

static struct sp_error *list_all(struct listing *listing, uint32_t pid)
{
	uint32_t parent = 0;
	sp_proc_parent(pid, &parent);
	struct sp_error *error = list_process(listing, pid, parent);
	for (int pass = 0; !error && pass < MAX_PASSES; pass++) {
		error = list_pass(listing);
		if (!listing->news)
			break;
	}
	return error;
}

struct choice {
	struct sp_perf_session *session;
	struct sp_error *error; /* of the last try */
	bool made;
};

/* The first thread of a process may have ended while others run. */
static struct sp_error *try_thread(void *context, uint32_t tid)
{
	struct choice *choice = context;
	if (choice->made || (choice->error && choice->error->errnum != ESRCH))
		return NULL;
	sp_error_destroy(choice->error);
	choice->error = sp_perf_session_choose(choice->session, tid);
	choice->made = !choice->error;
	return NULL;
}

/* An sp with file capabilities must not show its user what the user may not look into. CAP_PERFMON opens events on any
 * process, and new kernels let it read any maps; following this link still takes the right to trace. */
static struct sp_error *check_rights(uint32_t pid)
{
	char path[32], target[8];
	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	if (readlink(path, target, sizeof(target)) >= 0)
		return NULL;
	return sp_error_from_errno(errno == ENOENT ? ESRCH : errno, "cannot look into process %u", pid);
}

struct sp_error *sp_attach(struct sp_perf_session *session, struct sp_found_events *found, uint64_t time, uint32_t pid)
{
	char folder[64];
	snprintf(folder, sizeof(folder), "/proc/%u/task", pid);
	struct sp_error *error = check_rights(pid);
	if (error)
		return error;
	struct choice choice = { .session = session };
	error = sp_proc_numbers(folder, try_thread, &choice);
	if (error || choice.error) {
		sp_error_destroy(choice.error && error ? error : NULL);
		return choice.error ? choice.error : error;
	}
	if (!choice.made)
		return sp_error_create(SP_ERROR_NOT_FOUND, "there is no process %u", pid);
	struct listing listing = { .session = session, .found = found, .time = time };
	sp_perf_session_enable(session, 0, SP_RING_SIDE_BAND, true);
	error = list_all(&listing, pid);
	session->filter.listed_until = sp_clock_now();
	sp_map_deinit(&listing.parents);
	sp_map_deinit(&listing.members);
	return error;
}
