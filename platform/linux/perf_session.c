/* Perf events and rings of a capture; see perf_session.h. */
#include "platform/linux/perf_session.h"

#include "common/file.h"
#include "platform/linux/perf_attr.h"
#include "platform/linux/ring_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define IOC_ENABLE _IO('$', 0)
#define IOC_DISABLE _IO('$', 1)
#define IOC_SET_OUTPUT _IO('$', 5)
#define IOC_ID _IOR('$', 7, uint64_t *)

#define MAX_CPUS 8192

/* "0-3,8" -> cpus. */
static struct sp_error *parse_cpu_list(struct sp_perf_session *session, const char *list)
{
	SP_VECTOR(uint32_t) numbers = { 0 };
	for (const char *at = list; *at >= '0' && *at <= '9';) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long cpu = first; cpu <= last && numbers.count < MAX_CPUS; cpu++) {
			if (!sp_vector_push(&numbers, (uint32_t)cpu)) {
				sp_vector_deinit(&numbers);
				return sp_error_no_memory();
			}
		}
		at = *end == ',' ? end + 1 : end;
	}
	if (numbers.count)
		session->cpus = calloc(numbers.count, sizeof(*session->cpus));
	for (size_t i = 0; session->cpus && i < numbers.count; i++) {
		session->cpus[i].number = numbers.items[i];
		session->cpus[i].owner[SP_RING_SAMPLES] = session->cpus[i].owner[SP_RING_SIDE_BAND] = -1;
		session->cpu_count++;
	}
	bool empty = !numbers.count;
	sp_vector_deinit(&numbers);
	if (empty)
		return sp_error_create(SP_ERROR_FORMAT, "no CPU in \"%s\"", list);
	return session->cpus ? NULL : sp_error_no_memory();
}

/* All CPUs that are online, not only those sp may run on: the command may have others. */
static struct sp_error *find_cpus(struct sp_perf_session *session)
{
	char *list;
	size_t size;
	struct sp_error *error = sp_file_read("/sys/devices/system/cpu/online", 65536, &list, &size);
	if (error) {
		/* No sysfs: count them. */
		sp_error_destroy(error);
		long count = sysconf(_SC_NPROCESSORS_ONLN);
		char range[32];
		snprintf(range, sizeof(range), "0-%ld", count > 0 ? count - 1 : 0);
		return parse_cpu_list(session, range);
	}
	error = parse_cpu_list(session, list);
	free(list);
	return error;
}

struct sp_error *sp_perf_session_init(struct sp_perf_session *session, const struct sp_perf_wish *wish)
{
	*session = (struct sp_perf_session){ .log = wish->log };
	sp_perf_attr_init(session->attr, wish);
	struct sp_error *error = find_cpus(session);
	if (!error)
		error = sp_ring_memory_map(session, wish);
	if (error) {
		sp_perf_session_deinit(session);
		return error;
	}
	uint32_t most = (uint32_t)(session->ring_size[SP_RING_SAMPLES] / 4) & ~7u;
	if (session->attr[SP_RING_SAMPLES].sample_stack_user > most)
		session->attr[SP_RING_SAMPLES].sample_stack_user = most;
	return NULL;
}

static void close_events(struct sp_perf_session *session, size_t from)
{
	for (size_t i = from; i < session->events.count; i++)
		close(session->events.items[i].fd);
	session->events.count = from;
}

void sp_perf_session_deinit(struct sp_perf_session *session)
{
	close_events(session, 0);
	sp_ring_memory_unmap(session);
	sp_vector_deinit(&session->events);
	sp_map_deinit(&session->filter.owner_of);
	sp_map_deinit(&session->filter.opened);
	sp_map_deinit(&session->filter.listed);
	free(session->cpus);
	*session = (struct sp_perf_session){ 0 };
}

/* The id that the event's records carry tells which thread it was opened for. */
static bool remember_owner(struct sp_perf_session *session, const struct sp_perf_event *event)
{
	uint64_t id;
	if (ioctl(event->fd, IOC_ID, &id))
		return false;
	return sp_map_put(&session->filter.owner_of, id, event->tid) &&
	       sp_map_put(&session->filter.opened, event->tid, 1);
}

/* Opens one event into its ring; 0, or an errno. */
static int open_event(struct sp_perf_session *session, size_t cpu_index, int ring, int32_t pid)
{
	struct sp_perf_cpu *cpu = &session->cpus[cpu_index];
	int fd = sp_perf_open(&session->attr[ring], pid, (int)cpu->number, session->log);
	if (fd < 0)
		return -fd;
	struct sp_perf_event event = { .fd = fd,
		                       .cpu_index = (uint32_t)cpu_index,
		                       .tid = pid > 0 ? (uint32_t)pid : 0,
		                       .side_band = ring == SP_RING_SIDE_BAND };
	int problem = 0;
	if (ioctl(fd, IOC_SET_OUTPUT, cpu->owner[ring]))
		problem = errno;
	else if (event.tid && !remember_owner(session, &event))
		problem = ENOMEM;
	else if (!sp_vector_push(&session->events, event))
		problem = ENOMEM;
	if (problem)
		close(fd);
	return problem;
}

/* Opens side band and samples on every CPU; 0, or an errno after which nothing of it is open. A CPU that went offline
 * is passed over. */
static int open_all(struct sp_perf_session *session, int32_t pid)
{
	size_t from = session->events.count;
	for (int ring = SP_RINGS - 1; ring >= 0; ring--) {
		size_t opened = 0;
		for (size_t i = 0; i < session->cpu_count; i++) {
			int problem = open_event(session, i, ring, pid);
			opened += !problem;
			if (!problem || problem == ENODEV)
				continue;
			close_events(session, from);
			return problem;
		}
		if (!opened) {
			close_events(session, from);
			return ENODEV;
		}
	}
	return 0;
}

/* Cycles where the machine counts them for us, else the CPU clock (virtual machines). 0, or an errno. */
static int open_with_source(struct sp_perf_session *session, int32_t pid)
{
	struct sp_perf_attr cycles = session->attr[SP_RING_SAMPLES];
	int problem = open_all(session, pid);
	if (!problem || problem == EACCES || problem == EPERM || problem == ESRCH || problem == EMFILE)
		return problem;
	sp_perf_attr_use_clock(&session->attr[SP_RING_SAMPLES]);
	int second = open_all(session, pid);
	if (second)
		session->attr[SP_RING_SAMPLES] = cycles;
	return second;
}

static void set_layouts(struct sp_perf_session *session)
{
	for (int ring = 0; ring < SP_RINGS; ring++) {
		session->layout[ring] = (struct sp_perf_layout){
			.sample_type = session->attr[ring].sample_type,
			.regs_mask = session->attr[ring].sample_regs_user,
			.arch = sp_perf_native_arch(),
		};
	}
}

struct sp_error *sp_perf_session_choose(struct sp_perf_session *session, uint32_t tid)
{
	const struct sp_perf_attr plain[SP_RINGS] = { session->attr[0], session->attr[1] };
	int problem = 0;
	for (int mode = SP_PERF_MODE_SYSTEM; mode <= SP_PERF_MODE_THREAD_USER; mode++) {
		session->mode = (enum sp_perf_mode)mode;
		for (int ring = 0; ring < SP_RINGS; ring++) {
			session->attr[ring] = plain[ring];
			sp_perf_attr_set_mode(&session->attr[ring], session->mode);
		}
		problem = open_with_source(session, mode == SP_PERF_MODE_SYSTEM ? -1 : (int32_t)tid);
		if (!problem) {
			set_layouts(session);
			return NULL;
		}
		sp_log(session->log, SP_LOG_DEBUG, "perf_event_open, mode %c: %s", "ABC"[mode], strerror(problem));
		if (problem != EACCES && problem != EPERM)
			break;
	}
	return sp_error_from_errno(problem, "cannot sample process %u", tid);
}

struct sp_error *sp_perf_session_add_thread(struct sp_perf_session *session, uint32_t tid, bool *ret_gone)
{
	int problem = open_all(session, (int32_t)tid);
	*ret_gone = problem == ESRCH;
	if (!problem || problem == ESRCH)
		return NULL;
	return sp_error_from_errno(problem, "cannot sample thread %u", tid);
}

void sp_perf_session_enable(struct sp_perf_session *session, size_t from, int ring, bool on)
{
	for (size_t i = from; i < session->events.count; i++) {
		if (session->events.items[i].side_band == (ring == SP_RING_SIDE_BAND))
			ioctl(session->events.items[i].fd, on ? IOC_ENABLE : IOC_DISABLE, 0);
	}
}

uint64_t sp_perf_session_lost(const struct sp_perf_session *session, size_t cpu_index, int ring)
{
	if (!(session->attr[ring].read_format & SP_PERF_FORMAT_LOST))
		return session->cpus[cpu_index].ring[ring].lost_reported;
	uint64_t lost = 0;
	for (size_t i = 0; i < session->events.count; i++) {
		const struct sp_perf_event *event = &session->events.items[i];
		uint64_t values[2]; /* the count, then lost records */
		if (event->cpu_index == cpu_index && event->side_band == (ring == SP_RING_SIDE_BAND) &&
		    read(event->fd, values, sizeof(values)) == (ssize_t)sizeof(values))
			lost += values[1];
	}
	return lost;
}

void sp_perf_session_snapshot(struct sp_perf_session *session)
{
	for (int ring = 0; ring < SP_RINGS; ring++) {
		for (size_t i = 0; i < session->cpu_count; i++)
			sp_perf_ring_snapshot(&session->cpus[i].ring[ring]);
	}
}

const char *sp_perf_session_source(const struct sp_perf_session *session)
{
	return session->attr[SP_RING_SAMPLES].type == SP_PERF_TYPE_HARDWARE ? "cycles" : "cpu-clock";
}
