/* perf_event records to events; see perf_decode.h. Layouts are those of perf_event_open(2). */
#include "platform/linux/perf_decode.h"

#include "common/cursor.h"

#include <string.h>

/* The fields that end every record but samples (sample_id_all), in this order and as far as sample_type has them. */
struct sample_id {
	uint32_t pid, tid;
	uint64_t time;
	uint64_t id;
	uint32_t cpu;
};

static size_t sample_id_size(uint64_t sample_type)
{
	const uint64_t fields = SP_PERF_SAMPLE_TID | SP_PERF_SAMPLE_TIME | SP_PERF_SAMPLE_ID | SP_PERF_SAMPLE_CPU |
	                        SP_PERF_SAMPLE_IDENTIFIER;
	return 8 * (size_t)__builtin_popcountll(sample_type & fields);
}

static struct sample_id read_sample_id(struct sp_cursor *c, uint64_t sample_type)
{
	struct sample_id id = { .cpu = SP_CPU_NONE };
	if (sample_type & SP_PERF_SAMPLE_TID) {
		id.pid = sp_cursor_u32(c);
		id.tid = sp_cursor_u32(c);
	}
	if (sample_type & SP_PERF_SAMPLE_TIME)
		id.time = sp_cursor_u64(c);
	if (sample_type & SP_PERF_SAMPLE_ID)
		id.id = sp_cursor_u64(c);
	if (sample_type & SP_PERF_SAMPLE_CPU) {
		id.cpu = sp_cursor_u32(c);
		sp_cursor_skip(c, 4);
	}
	if (sample_type & SP_PERF_SAMPLE_IDENTIFIER)
		id.id = sp_cursor_u64(c);
	return id;
}

/* The DWARF number of the register of bit `bit` of a mask; -1 = of no use. */
static int dwarf_register(enum sp_arch arch, unsigned bit)
{
	static const int8_t x86_64[24] = { SP_X86_64_RAX,
		                           SP_X86_64_RBX,
		                           SP_X86_64_RCX,
		                           SP_X86_64_RDX,
		                           SP_X86_64_RSI,
		                           SP_X86_64_RDI,
		                           SP_X86_64_RBP,
		                           SP_X86_64_RSP,
		                           SP_X86_64_RIP,
		                           -1,
		                           -1,
		                           -1,
		                           -1,
		                           -1,
		                           -1,
		                           -1,
		                           8,
		                           9,
		                           10,
		                           11,
		                           12,
		                           13,
		                           14,
		                           15 };
	if (arch == SP_ARCH_X86_64)
		return bit < 24 ? x86_64[bit] : -1;
	return arch == SP_ARCH_AARCH64 && bit < SP_REGS_MAX ? (int)bit : -1;
}

static void read_registers(struct sp_cursor *c, const struct sp_perf_layout *layout, struct sp_regs *ret)
{
	uint64_t abi = sp_cursor_u64(c);
	if (abi == SP_PERF_REGS_NONE)
		return;
	if (abi == SP_PERF_REGS_64)
		ret->arch = layout->arch;
	else
		ret->arch = layout->arch == SP_ARCH_X86_64 ? SP_ARCH_X86 : SP_ARCH_ARM;
	for (uint64_t mask = layout->regs_mask; mask; mask &= mask - 1) {
		uint64_t value = sp_cursor_u64(c);
		int number = dwarf_register(layout->arch, (unsigned)__builtin_ctzll(mask));
		if (number < 0 || abi != SP_PERF_REGS_64)
			continue;
		ret->value[number] = value;
		ret->known |= 1ull << number;
	}
}

/* Splits the chain at its context markers into the kernel's and the user's part. */
static void read_callchain(struct sp_cursor *c, struct sp_event_sample *sample)
{
	uint64_t count = sp_cursor_u64(c);
	if (count > sp_cursor_left(c) / 8) {
		sp_cursor_fail(c);
		return;
	}
	const uint64_t *chain = (const uint64_t *)(const void *)sp_cursor_bytes(c, count * 8);
	uint64_t context = 0;
	for (uint64_t i = 0; i < count;) {
		uint64_t end = i;
		while (end < count && chain[end] < SP_PERF_CONTEXT_MAX)
			end++;
		if (context == SP_PERF_CONTEXT_KERNEL && !sample->kernel_chain) {
			sample->kernel_chain = chain + i;
			sample->kernel_chain_count = (uint32_t)(end - i);
		} else if (context == SP_PERF_CONTEXT_USER && !sample->user_chain) {
			sample->user_chain = chain + i;
			sample->user_chain_count = (uint32_t)(end - i);
		}
		if (end < count)
			context = chain[end];
		i = end + 1;
	}
	if (!sample->kernel_chain_count)
		sample->kernel_chain = NULL;
	if (!sample->user_chain_count)
		sample->user_chain = NULL;
}

static void read_stack(struct sp_cursor *c, enum sp_arch arch, struct sp_event_sample *sample)
{
	uint64_t size = sp_cursor_u64(c);
	if (!size)
		return;
	const uint8_t *bytes = sp_cursor_bytes(c, size);
	uint64_t valid = sp_cursor_u64(c);
	if (c->bad || valid > size) {
		sp_cursor_fail(c);
		return;
	}
	unsigned sp = arch == SP_ARCH_X86_64 ? (unsigned)SP_X86_64_RSP : (unsigned)SP_AARCH64_SP;
	if (!valid || !(sample->regs.known >> sp & 1))
		return;
	sample->stack = (struct sp_stack_slice){ .address = sample->regs.value[sp], .bytes = bytes, .size = valid };
	sample->stack_cut = valid == size;
}

static void decode_sample(struct sp_cursor *c, const struct sp_perf_layout *layout, uint16_t misc,
                          struct sp_perf_record *ret)
{
	uint64_t type = layout->sample_type;
	struct sp_event *event = &ret->event;
	event->kind = SP_EVENT_SAMPLE;
	memset(&event->sample, 0, sizeof(event->sample));
	struct sp_event_sample *sample = &event->sample;
	unsigned mode = misc & SP_PERF_MISC_MODE_MASK;
	sample->in_kernel = mode == SP_PERF_MISC_KERNEL;
	if (type & SP_PERF_SAMPLE_IDENTIFIER)
		ret->id = sp_cursor_u64(c);
	if (type & SP_PERF_SAMPLE_IP)
		sample->ip = sp_cursor_u64(c);
	if (type & SP_PERF_SAMPLE_TID) {
		event->pid = sp_cursor_u32(c);
		event->tid = sp_cursor_u32(c);
	}
	if (type & SP_PERF_SAMPLE_TIME)
		event->time = sp_cursor_u64(c);
	if (type & SP_PERF_SAMPLE_ID)
		ret->id = sp_cursor_u64(c);
	if (type & SP_PERF_SAMPLE_CPU) {
		event->cpu = sp_cursor_u32(c);
		sp_cursor_skip(c, 4);
	}
	if (type & SP_PERF_SAMPLE_PERIOD)
		sample->period = sp_cursor_u64(c);
	if (type & SP_PERF_SAMPLE_CALLCHAIN)
		read_callchain(c, sample);
	if (type & SP_PERF_SAMPLE_REGS_USER)
		read_registers(c, layout, &sample->regs);
	if (type & SP_PERF_SAMPLE_STACK_USER)
		read_stack(c, layout->arch, sample);
}

static void decode_mmap2(struct sp_cursor *c, uint16_t misc, struct sp_event *event)
{
	const uint32_t prot_exec = 4;
	event->kind = SP_EVENT_MAP;
	memset(&event->map, 0, sizeof(event->map));
	struct sp_event_map *map = &event->map;
	event->pid = sp_cursor_u32(c);
	event->tid = sp_cursor_u32(c);
	map->start = sp_cursor_u64(c);
	map->size = sp_cursor_u64(c);
	map->file_offset = sp_cursor_u64(c);
	if (misc & SP_PERF_MISC_MMAP_BUILD_ID) {
		uint8_t size = sp_cursor_u8(c);
		sp_cursor_skip(c, 3);
		const uint8_t *id = sp_cursor_bytes(c, SP_BUILD_ID_MAX);
		if (id && size <= SP_BUILD_ID_MAX) {
			map->build_id_size = size;
			memcpy(map->build_id, id, size);
		}
	} else {
		uint64_t major = sp_cursor_u32(c), minor = sp_cursor_u32(c);
		/* As the C library's makedev() composes it. */
		map->device = (major & 0xfff) << 8 | (major & ~0xfffull) << 32 | (minor & 0xff) |
		              (minor & ~0xffull) << 12;
		map->inode = sp_cursor_u64(c);
		sp_cursor_skip(c, 8);
		if (!map->inode)
			map->device = 0;
	}
	map->executable = sp_cursor_u32(c) & prot_exec;
	sp_cursor_skip(c, 4);
	map->path = sp_cursor_string(c);
}

static void decode_fork(struct sp_cursor *c, enum sp_event_kind kind, struct sp_event *event)
{
	event->kind = kind;
	event->pid = sp_cursor_u32(c);
	uint32_t parent_pid = sp_cursor_u32(c);
	event->tid = sp_cursor_u32(c);
	uint32_t parent_tid = sp_cursor_u32(c);
	event->time = sp_cursor_u64(c);
	if (kind != SP_EVENT_THREAD_START)
		return;
	event->thread_start.parent_pid = parent_pid;
	event->thread_start.parent_tid = parent_tid;
	event->thread_start.name = NULL;
}

static void decode_comm(struct sp_cursor *c, uint16_t misc, struct sp_event *event)
{
	event->kind = misc & SP_PERF_MISC_COMM_EXEC ? SP_EVENT_EXEC : SP_EVENT_NAME;
	event->pid = sp_cursor_u32(c);
	event->tid = sp_cursor_u32(c);
	event->name.name = sp_cursor_string(c);
}

static void decode_ksymbol(struct sp_cursor *c, struct sp_event *event)
{
	event->kind = SP_EVENT_JIT_FUNCTION;
	event->pid = event->tid = 0;
	event->jit.start = sp_cursor_u64(c);
	event->jit.size = sp_cursor_u32(c);
	sp_cursor_skip(c, 2);
	bool gone = sp_cursor_u16(c) & SP_PERF_KSYMBOL_UNREGISTER;
	event->jit.name = sp_cursor_string(c);
	if (gone)
		event->jit.name = NULL;
}

static void decode_loss(struct sp_cursor *c, enum sp_loss_kind kind, bool has_id, struct sp_event *event)
{
	event->kind = SP_EVENT_LOSS;
	if (has_id)
		sp_cursor_skip(c, 8);
	event->loss = (struct sp_event_loss){ .kind = kind, .count = sp_cursor_u64(c), .end_time = event->time };
}

/* All records but samples: the body, and the identity at the end. */
static enum sp_perf_result decode_other(struct sp_cursor *body, uint32_t type, uint16_t misc, struct sp_event *event)
{
	switch (type) {
	case SP_PERF_RECORD_LOST:
		decode_loss(body, SP_LOSS_RING_FULL, true, event);
		return SP_PERF_EVENT;
	case SP_PERF_RECORD_LOST_SAMPLES:
		decode_loss(body, SP_LOSS_SAMPLES, false, event);
		return SP_PERF_EVENT;
	case SP_PERF_RECORD_COMM:
		decode_comm(body, misc, event);
		return SP_PERF_EVENT;
	case SP_PERF_RECORD_FORK:
		decode_fork(body, SP_EVENT_THREAD_START, event);
		return SP_PERF_EVENT;
	case SP_PERF_RECORD_EXIT:
		decode_fork(body, SP_EVENT_THREAD_EXIT, event);
		return SP_PERF_EVENT;
	case SP_PERF_RECORD_MMAP2:
		decode_mmap2(body, misc, event);
		return SP_PERF_EVENT;
	case SP_PERF_RECORD_SWITCH:
	case SP_PERF_RECORD_SWITCH_CPU_WIDE:
		/* The wide form's body names the other task; who switches is in the record's identity. */
		event->kind = misc & SP_PERF_MISC_SWITCH_OUT ? SP_EVENT_SWITCH_OUT : SP_EVENT_SWITCH_IN;
		event->context_switch.preempted = misc & SP_PERF_MISC_SWITCH_OUT_PREEMPT;
		return SP_PERF_EVENT;
	case SP_PERF_RECORD_KSYMBOL:
		decode_ksymbol(body, event);
		return SP_PERF_EVENT;
	case SP_PERF_RECORD_THROTTLE:
		return SP_PERF_THROTTLE;
	case SP_PERF_RECORD_UNTHROTTLE:
		return SP_PERF_UNTHROTTLE;
	default:
		return SP_PERF_SKIP;
	}
}

void sp_perf_decode(const struct sp_perf_layout *layout, const void *bytes, size_t size, struct sp_perf_record *ret)
{
	struct sp_cursor c = sp_cursor_init(bytes, size);
	uint32_t type = sp_cursor_u32(&c);
	uint16_t misc = sp_cursor_u16(&c);
	sp_cursor_skip(&c, 2);
	ret->result = SP_PERF_MALFORMED;
	ret->id = 0;
	ret->event.pid = ret->event.tid = 0;
	ret->event.time = 0;
	ret->event.cpu = SP_CPU_NONE;
	ret->event.found = false;
	if (type == SP_PERF_RECORD_SAMPLE) {
		decode_sample(&c, layout, misc, ret);
		if (!c.bad)
			ret->result = SP_PERF_EVENT;
		return;
	}
	size_t tail = sample_id_size(layout->sample_type);
	if (c.bad || sp_cursor_left(&c) < tail)
		return;
	size_t body_size = sp_cursor_left(&c) - tail;
	struct sp_cursor end = sp_cursor_sub(&c, SP_PERF_HEADER_SIZE + body_size, tail);
	struct sp_cursor body = sp_cursor_sub(&c, SP_PERF_HEADER_SIZE, body_size);
	struct sample_id id = read_sample_id(&end, layout->sample_type);
	ret->id = id.id;
	ret->event.pid = id.pid;
	ret->event.tid = id.tid;
	ret->event.time = id.time;
	ret->event.cpu = id.cpu;
	enum sp_perf_result result = decode_other(&body, type, misc, &ret->event);
	if (!body.bad)
		ret->result = result;
}
