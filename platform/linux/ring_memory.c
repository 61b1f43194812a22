/* Ring memory; see ring_memory.h.
 *
 * The kernel lets an ordinary user lock perf_event_mlock_kb for each CPU, and RLIMIT_MEMLOCK beyond that, for all rings
 * together. All CPUs get rings of the same size; when not all can be mapped, all are made smaller in turn. */
#include "platform/linux/ring_memory.h"

#include "platform/linux/perf_attr.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB 1024ull
#define MIB (1024 * KIB)

/* About 150 ms of full stack dumps at 1 kHz, and 60 ms at 4 kHz. */
#define SAMPLES_WISH_SLOW (8 * MIB)
#define SAMPLES_WISH_FAST (16 * MIB)
#define SAMPLES_LEAST (32 * KIB)
/* 20,000 context switches. */
#define SIDE_BAND_WISH (1 * MIB)
#define SIDE_BAND_LEAST (32 * KIB)

/* sp is woken when this much is new: often enough to find it in the CPU's cache, seldom enough to cost nothing. */
#define WATERMARK_MOST (4 * MIB)

/* The next smaller pair: the side band shrinks down to 1/16 of the samples first, then both in turn. */
static bool make_smaller(uint64_t size[SP_RINGS])
{
	if (size[SP_RING_SIDE_BAND] > SIDE_BAND_LEAST && size[SP_RING_SIDE_BAND] * 16 > size[SP_RING_SAMPLES]) {
		size[SP_RING_SIDE_BAND] /= 2;
		return true;
	}
	if (size[SP_RING_SAMPLES] <= SAMPLES_LEAST)
		return false;
	size[SP_RING_SAMPLES] /= 2;
	return true;
}

static int map_ring(struct sp_perf_session *session, size_t cpu_index, int ring)
{
	struct sp_perf_cpu *cpu = &session->cpus[cpu_index];
	uint64_t size = session->ring_size[ring];
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct sp_perf_attr attr;
	uint64_t watermark = size / 4 < WATERMARK_MOST ? size / 4 : WATERMARK_MOST;
	sp_perf_attr_owner(&attr, watermark);
	int fd = sp_perf_open(&attr, 0, (int)cpu->number, session->log);
	if (fd < 0)
		return -fd;
	cpu->owner[ring] = fd;
	uint8_t *memory = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return errno;
	uint64_t offset;
	memcpy(&offset, memory + SP_PERF_PAGE_DATA_OFFSET, sizeof(offset));
	void *head = memory + SP_PERF_PAGE_DATA_HEAD, *tail = memory + SP_PERF_PAGE_DATA_TAIL;
	sp_perf_ring_init(&cpu->ring[ring], head, tail, memory + (offset ? offset : page), size, cpu->number,
	                  &session->layout[ring], &session->filter);
	cpu->ring[ring].mapping = memory;
	cpu->ring[ring].mapping_size = page + size;
	session->ring_bytes += page + size;
	return 0;
}

void sp_ring_memory_unmap(struct sp_perf_session *session)
{
	for (size_t i = 0; i < session->cpu_count; i++) {
		for (int ring = 0; ring < SP_RINGS; ring++) {
			sp_perf_ring_deinit(&session->cpus[i].ring[ring]);
			if (session->cpus[i].owner[ring] >= 0)
				close(session->cpus[i].owner[ring]);
			session->cpus[i].owner[ring] = -1;
		}
	}
	session->ring_bytes = 0;
}

static void forget_cpu(struct sp_perf_session *session, size_t index)
{
	session->cpu_count--;
	memmove(&session->cpus[index], &session->cpus[index + 1],
	        (session->cpu_count - index) * sizeof(session->cpus[0]));
}

/* 0, or an errno. CPUs that went offline are left out; that happens only before any of their rings is mapped. */
static int map_all(struct sp_perf_session *session)
{
	for (size_t i = 0; i < session->cpu_count; i++) {
		int problem = map_ring(session, i, SP_RING_SAMPLES);
		if (problem == ENODEV && session->cpu_count > 1) {
			forget_cpu(session, i--);
			continue;
		}
		if (!problem)
			problem = map_ring(session, i, SP_RING_SIDE_BAND);
		if (problem)
			return problem;
	}
	return 0;
}

/* Rings refer to themselves (stream.context), and forget_cpu() moved them. */
static void fix_contexts(struct sp_perf_session *session)
{
	for (size_t i = 0; i < session->cpu_count; i++) {
		for (int ring = 0; ring < SP_RINGS; ring++)
			session->cpus[i].ring[ring].stream.context = &session->cpus[i].ring[ring];
	}
}

struct sp_error *sp_ring_memory_map(struct sp_perf_session *session, const struct sp_perf_wish *wish)
{
	uint64_t *size = session->ring_size;
	size[SP_RING_SAMPLES] = wish->rate > 2000 ? SAMPLES_WISH_FAST : SAMPLES_WISH_SLOW;
	size[SP_RING_SIDE_BAND] = SIDE_BAND_WISH;
	for (;;) {
		int problem = map_all(session);
		if (!problem)
			break;
		bool none = session->cpu_count && session->cpus[0].owner[0] < 0;
		sp_ring_memory_unmap(session);
		if (none)
			return sp_error_from_errno(problem, "perf_event_open");
		if ((problem != EPERM && problem != ENOMEM) || !make_smaller(size))
			return sp_error_from_errno(problem, "cannot map perf rings of %llu KiB on each CPU",
			                           (unsigned long long)size[SP_RING_SAMPLES] / 1024);
		session->rings_cut = true;
	}
	fix_contexts(session);
	return NULL;
}
