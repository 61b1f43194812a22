/* The payloads of the kernel events that matter here, from Windows 2000 (version 0) on.
 *
 * Layouts are fixed in code, not taken from schemas of the recording machine: those are incomplete for the newest
 * events of each Windows. A payload longer than known is read as far as known, a shorter one is refused. Sources: the
 * MOF classes that Microsoft documents (Process_TypeGroup1, Thread_V3_TypeGroup1, Image_V3 …) and real files. */
#ifndef SP_PLATFORM_WINDOWS_ETL_PAYLOAD_H
#define SP_PLATFORM_WINDOWS_ETL_PAYLOAD_H

#include "common/cursor.h"
#include "platform/windows/etl_record.h"

#include <stdlib.h>

/* A text in an event, not terminated. */
struct sp_etl_text {
	const uint8_t *bytes; /* NULL = absent */
	uint32_t size;        /* bytes */
	bool wide;            /* UTF-16, else 8-bit */
};

struct sp_etl_process {
	uint32_t pid, parent_pid;
	struct sp_etl_text name, command;
};
bool sp_etl_process_parse(const struct sp_etl_event *event, struct sp_etl_process *ret);

struct sp_etl_thread {
	uint32_t pid, tid;
	struct sp_etl_text name;
};
/* Also SetName events. */
bool sp_etl_thread_parse(const struct sp_etl_event *event, struct sp_etl_thread *ret);

struct sp_etl_image {
	uint64_t base, size;
	uint32_t pid;
	uint32_t timestamp; /* of the PE file; 0 = unknown */
	struct sp_etl_text path;
};
bool sp_etl_image_parse(const struct sp_etl_event *event, struct sp_etl_image *ret);

/* KernelTraceControl's ImageID (opcode 0: `size`, `timestamp`, `name`) and RSDS (the others). */
struct sp_etl_image_id {
	uint64_t base;
	uint32_t pid, size, timestamp, age;
	const uint8_t *guid; /* 16 bytes; NULL in an ImageID */
	struct sp_etl_text name;
};
bool sp_etl_image_id_parse(const struct sp_etl_event *event, struct sp_etl_image_id *ret);

struct sp_etl_sample {
	uint64_t ip;
	uint32_t tid;
	uint16_t count; /* timer: how many ticks; PMC: the source */
	bool dpc, isr;
};
bool sp_etl_sample_parse(const struct sp_etl_event *event, struct sp_etl_sample *ret);

/* Sampling interval: SET_INTERVAL, START and STOP of PerfInfo. */
struct sp_etl_interval {
	uint32_t source;         /* 0 = the timer */
	uint32_t interval;       /* in force now; timer: 100 ns, others: events */
	struct sp_etl_text name; /* of the source */
};
bool sp_etl_interval_parse(const struct sp_etl_event *event, struct sp_etl_interval *ret);

struct sp_etl_stack {
	uint64_t event_time; /* raw: which event it belongs to */
	uint32_t pid, tid;
	uint64_t key;          /* of a key reference or definition */
	const uint8_t *frames; /* leaf first, pointer_size each; may be unaligned */
	uint32_t frame_count;
};
bool sp_etl_stack_parse(const struct sp_etl_event *event, struct sp_etl_stack *ret);

static inline uint64_t sp_etl_pointer(const uint8_t *bytes, uint8_t pointer_size, uint32_t index)
{
	uint64_t wide;
	uint32_t narrow;
	if (pointer_size == 8) {
		memcpy(&wide, bytes + (size_t)index * 8, 8);
		return wide;
	}
	memcpy(&narrow, bytes + (size_t)index * 4, 4);
	return narrow;
}

/* Kernel addresses are in the upper half; 32-bit kernels may leave 3 GB to programs, but then the kernel's images tell.
 */
static inline bool sp_etl_is_kernel(uint64_t address, uint8_t kernel_pointer_size)
{
	return kernel_pointer_size == 4 ? address >= 0x80000000u && address <= UINT32_MAX : address >> 63;
}

struct sp_etl_switch {
	uint32_t new_tid, old_tid;
	uint8_t wait_reason, old_state;
};
bool sp_etl_switch_parse(const struct sp_etl_event *event, struct sp_etl_switch *ret);
bool sp_etl_ready_parse(const struct sp_etl_event *event, uint32_t *ret_tid);

/* ---- Texts ---- */

/* The NUL-terminated text at the cursor. */
struct sp_etl_text sp_etl_wide_text(struct sp_cursor *c);
struct sp_etl_text sp_etl_narrow_text(struct sp_cursor *c);
/* As UTF-8 with a NUL, cut to fit; malformed parts become U+FFFD. 8-bit text is taken for UTF-8, what is not for
 * Latin-1. */
void sp_etl_text_utf8(const struct sp_etl_text *text, char *out, size_t size);

/* KernelTraceControl and the others that merging adds. */
extern const struct sp_guid sp_etl_guid_image_id, sp_etl_guid_system, sp_etl_guid_metadata, sp_etl_guid_rt_lost;

#endif
