/* Attributes of perf events; see perf_attr.h. */
#include "platform/linux/perf_attr.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FLAG_FD_CLOEXEC 8ul

enum sp_arch sp_perf_native_arch(void)
{
#if defined(__x86_64__)
	return SP_ARCH_X86_64;
#elif defined(__aarch64__)
	return SP_ARCH_AARCH64;
#else
#error "no perf_event register numbers for this machine yet"
#endif
}

/* What records of both rings carry. */
#define SAMPLE_TYPE_COMMON (SP_PERF_SAMPLE_IDENTIFIER | SP_PERF_SAMPLE_TID | SP_PERF_SAMPLE_TIME | SP_PERF_SAMPLE_CPU)
#define FLAGS_COMMON \
	(SP_PERF_ATTR_DISABLED | SP_PERF_ATTR_WATERMARK | SP_PERF_ATTR_SAMPLE_ID_ALL | SP_PERF_ATTR_USE_CLOCKID)

static void init_common(struct sp_perf_attr *attr)
{
	*attr = (struct sp_perf_attr){
		.size = sizeof(*attr),
		.sample_type = SAMPLE_TYPE_COMMON,
		.read_format = SP_PERF_FORMAT_LOST,
		.flags = FLAGS_COMMON,
		.clockid = CLOCK_MONOTONIC,
	};
}

void sp_perf_attr_init(struct sp_perf_attr attr[SP_RINGS], const struct sp_perf_wish *wish)
{
	struct sp_perf_attr *samples = &attr[SP_RING_SAMPLES];
	init_common(samples);
	samples->type = SP_PERF_TYPE_HARDWARE;
	samples->config = SP_PERF_HW_CYCLES;
	samples->sample_period = (uint64_t)(wish->rate + 0.5);
	samples->sample_type |= SP_PERF_SAMPLE_IP | SP_PERF_SAMPLE_PERIOD | SP_PERF_SAMPLE_CALLCHAIN |
	                        SP_PERF_SAMPLE_REGS_USER | SP_PERF_SAMPLE_STACK_USER;
	samples->flags |= SP_PERF_ATTR_FREQ | SP_PERF_ATTR_EXCLUDE_IDLE | SP_PERF_ATTR_EXCLUDE_GUEST;
	if (wish->launching)
		samples->flags |= SP_PERF_ATTR_ENABLE_ON_EXEC;
	samples->sample_regs_user = sp_perf_native_arch() == SP_ARCH_X86_64 ? SP_PERF_REGS_X86_64
	                                                                    : SP_PERF_REGS_AARCH64;
	samples->sample_stack_user = wish->stack_bytes & ~7u;

	struct sp_perf_attr *side = &attr[SP_RING_SIDE_BAND];
	init_common(side);
	side->type = SP_PERF_TYPE_SOFTWARE;
	side->config = SP_PERF_SW_DUMMY;
	side->flags |= SP_PERF_ATTR_MMAP | SP_PERF_ATTR_MMAP2 | SP_PERF_ATTR_COMM | SP_PERF_ATTR_COMM_EXEC |
	               SP_PERF_ATTR_TASK | SP_PERF_ATTR_CONTEXT_SWITCH | SP_PERF_ATTR_KSYMBOL | SP_PERF_ATTR_BUILD_ID;
}

void sp_perf_attr_set_mode(struct sp_perf_attr *attr, enum sp_perf_mode mode)
{
	if (mode == SP_PERF_MODE_SYSTEM)
		attr->flags &= ~SP_PERF_ATTR_ENABLE_ON_EXEC;
	else
		attr->flags |= SP_PERF_ATTR_INHERIT;
	if (mode == SP_PERF_MODE_THREAD_USER)
		attr->flags |= SP_PERF_ATTR_EXCLUDE_KERNEL | SP_PERF_ATTR_EXCLUDE_HV;
}

void sp_perf_attr_use_clock(struct sp_perf_attr *attr)
{
	attr->type = SP_PERF_TYPE_SOFTWARE;
	attr->config = SP_PERF_SW_CPU_CLOCK;
	attr->flags &= ~(SP_PERF_ATTR_FREQ | SP_PERF_ATTR_EXCLUDE_GUEST);
	attr->sample_period = 1000000000u / attr->sample_period;
}

void sp_perf_attr_owner(struct sp_perf_attr *attr, uint64_t watermark)
{
	init_common(attr);
	attr->type = SP_PERF_TYPE_SOFTWARE;
	attr->config = SP_PERF_SW_DUMMY;
	attr->read_format = 0;
	attr->flags |= SP_PERF_ATTR_EXCLUDE_KERNEL | SP_PERF_ATTR_EXCLUDE_HV;
	attr->wakeup_watermark = (uint32_t)watermark;
}

/* What a recording can do without, least missed first. */
static const struct {
	const char *name;
	uint64_t flag; /* of attr.flags; 0 = of the read format */
	uint64_t read_format;
} wishes[] = {
	{ "exclude_idle", SP_PERF_ATTR_EXCLUDE_IDLE, 0 }, { "exclude_guest", SP_PERF_ATTR_EXCLUDE_GUEST, 0 },
	{ "ksymbol", SP_PERF_ATTR_KSYMBOL, 0 },           { "build_id", SP_PERF_ATTR_BUILD_ID, 0 },
	{ "read_format LOST", 0, SP_PERF_FORMAT_LOST },   { "context_switch", SP_PERF_ATTR_CONTEXT_SWITCH, 0 },
};
#define WISHES (sizeof(wishes) / sizeof(wishes[0]))

static int open_once(const struct sp_perf_attr *attr, int32_t pid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, pid, cpu, -1, FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

static bool drop_wish(struct sp_perf_attr *attr, size_t wish)
{
	if (!(attr->flags & wishes[wish].flag) && !(attr->read_format & wishes[wish].read_format))
		return false;
	attr->flags &= ~wishes[wish].flag;
	attr->read_format &= ~wishes[wish].read_format;
	return true;
}

/* EINVAL and its like for a whole attr mean: something in here is unknown. */
static bool is_refused_wish(int fd)
{
	return fd == -EINVAL || fd == -E2BIG || fd == -EOPNOTSUPP || fd == -EPERM;
}

int sp_perf_open(struct sp_perf_attr *attr, int32_t pid, int cpu, const struct sp_log *log)
{
	int first = open_once(attr, pid, cpu);
	if (first >= 0 || !is_refused_wish(first))
		return first;
	/* One wish at fault is the rule; else all up to the one that helps go. */
	for (size_t i = 0; i < WISHES; i++) {
		struct sp_perf_attr trial = *attr;
		if (!drop_wish(&trial, i))
			continue;
		int fd = open_once(&trial, pid, cpu);
		if (fd < 0)
			continue;
		sp_log(log, SP_LOG_DEBUG, "this kernel's perf_event does without %s", wishes[i].name);
		*attr = trial;
		return fd;
	}
	struct sp_perf_attr trial = *attr;
	for (size_t i = 0; i < WISHES; i++) {
		if (!drop_wish(&trial, i))
			continue;
		int fd = open_once(&trial, pid, cpu);
		if (fd < 0)
			continue;
		sp_log(log, SP_LOG_DEBUG, "this kernel's perf_event does without %s and what precedes it",
		       wishes[i].name);
		*attr = trial;
		return fd;
	}
	return first;
}
