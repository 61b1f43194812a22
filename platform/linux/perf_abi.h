/* The kernel's perf_event interface: constants and structs of its ABI, as far as sp uses them.
 *
 * Declared here and not taken from <linux/perf_event.h>, since that header is as old as the distribution (Debian 12's
 * lacks fields that its own kernel may know), and since the record decoder must build on every OS. Values are those of
 * the kernel's ABI, which never change. Source: perf_event_open(2) and the kernel's documentation. Little-endian only.
 */
#ifndef SP_PLATFORM_LINUX_PERF_ABI_H
#define SP_PLATFORM_LINUX_PERF_ABI_H

#include <stdint.h>

enum {
	SP_PERF_TYPE_HARDWARE = 0,
	SP_PERF_TYPE_SOFTWARE = 1,
	SP_PERF_HW_CYCLES = 0,
	SP_PERF_SW_CPU_CLOCK = 0,
	SP_PERF_SW_DUMMY = 9,
};

/* attr.sample_type, in the order in which a sample holds the fields (IDENTIFIER comes first of all). */
#define SP_PERF_SAMPLE_IP (1u << 0)
#define SP_PERF_SAMPLE_TID (1u << 1)
#define SP_PERF_SAMPLE_TIME (1u << 2)
#define SP_PERF_SAMPLE_CALLCHAIN (1u << 5)
#define SP_PERF_SAMPLE_ID (1u << 6)
#define SP_PERF_SAMPLE_CPU (1u << 7)
#define SP_PERF_SAMPLE_PERIOD (1u << 8)
#define SP_PERF_SAMPLE_REGS_USER (1u << 12)
#define SP_PERF_SAMPLE_STACK_USER (1u << 13)
#define SP_PERF_SAMPLE_IDENTIFIER (1u << 16)

/* attr.read_format */
#define SP_PERF_FORMAT_ID (1u << 2)
#define SP_PERF_FORMAT_LOST (1u << 4) /* Linux 6.0 */

/* attr.flags: the bit field of the ABI as one number. */
#define SP_PERF_ATTR_DISABLED (1ull << 0)
#define SP_PERF_ATTR_INHERIT (1ull << 1)
#define SP_PERF_ATTR_EXCLUDE_KERNEL (1ull << 5)
#define SP_PERF_ATTR_EXCLUDE_HV (1ull << 6)
#define SP_PERF_ATTR_EXCLUDE_IDLE (1ull << 7)
#define SP_PERF_ATTR_MMAP (1ull << 8)
#define SP_PERF_ATTR_COMM (1ull << 9)
#define SP_PERF_ATTR_FREQ (1ull << 10)
#define SP_PERF_ATTR_ENABLE_ON_EXEC (1ull << 12)
#define SP_PERF_ATTR_TASK (1ull << 13)
#define SP_PERF_ATTR_WATERMARK (1ull << 14)
#define SP_PERF_ATTR_SAMPLE_ID_ALL (1ull << 18)
#define SP_PERF_ATTR_EXCLUDE_GUEST (1ull << 20)
#define SP_PERF_ATTR_MMAP2 (1ull << 23)
#define SP_PERF_ATTR_COMM_EXEC (1ull << 24)
#define SP_PERF_ATTR_USE_CLOCKID (1ull << 25)
#define SP_PERF_ATTR_CONTEXT_SWITCH (1ull << 26)
#define SP_PERF_ATTR_KSYMBOL (1ull << 29)
#define SP_PERF_ATTR_BUILD_ID (1ull << 34) /* Linux 5.12 */

/* The first 128 bytes of the kernel's struct perf_event_attr; a kernel that knows fewer takes it when the rest is 0. */
struct sp_perf_attr {
	uint32_t type;
	uint32_t size;
	uint64_t config;
	uint64_t sample_period; /* or the frequency, with SP_PERF_ATTR_FREQ */
	uint64_t sample_type;
	uint64_t read_format;
	uint64_t flags;
	uint32_t wakeup_watermark; /* bytes, with SP_PERF_ATTR_WATERMARK */
	uint32_t bp_type;
	uint64_t config1;
	uint64_t config2;
	uint64_t branch_sample_type;
	uint64_t sample_regs_user;
	uint32_t sample_stack_user;
	int32_t clockid;
	uint64_t sample_regs_intr;
	uint32_t aux_watermark;
	uint16_t sample_max_stack;
	uint16_t reserved_2;
	uint32_t aux_sample_size;
	uint32_t reserved_3;
	uint64_t sig_data;
};
_Static_assert(sizeof(struct sp_perf_attr) == 128, "size of the ABI");

enum sp_perf_record_type {
	SP_PERF_RECORD_LOST = 2,
	SP_PERF_RECORD_COMM = 3,
	SP_PERF_RECORD_EXIT = 4,
	SP_PERF_RECORD_THROTTLE = 5,
	SP_PERF_RECORD_UNTHROTTLE = 6,
	SP_PERF_RECORD_FORK = 7,
	SP_PERF_RECORD_SAMPLE = 9,
	SP_PERF_RECORD_MMAP2 = 10,
	SP_PERF_RECORD_LOST_SAMPLES = 13,
	SP_PERF_RECORD_SWITCH = 14,
	SP_PERF_RECORD_SWITCH_CPU_WIDE = 15,
	SP_PERF_RECORD_KSYMBOL = 17,
};

/* Every record begins with: u32 type, u16 misc, u16 size (of the whole record). */
#define SP_PERF_HEADER_SIZE 8
#define SP_PERF_RECORD_MAX 65535

/* misc: the CPU's mode, and bits whose meaning depends on the record. */
#define SP_PERF_MISC_MODE_MASK 7u
#define SP_PERF_MISC_KERNEL 1u
#define SP_PERF_MISC_USER 2u
#define SP_PERF_MISC_COMM_EXEC (1u << 13)
#define SP_PERF_MISC_SWITCH_OUT (1u << 13)
#define SP_PERF_MISC_SWITCH_OUT_PREEMPT (1u << 14)
#define SP_PERF_MISC_MMAP_BUILD_ID (1u << 14)

#define SP_PERF_KSYMBOL_UNREGISTER 1u

/* Entries of a call chain from here on are no addresses, they say what follows. */
#define SP_PERF_CONTEXT_MAX ((uint64_t)-4095)
#define SP_PERF_CONTEXT_KERNEL ((uint64_t)-128)
#define SP_PERF_CONTEXT_USER ((uint64_t)-512)

/* ABI of sampled registers. */
enum {
	SP_PERF_REGS_NONE = 0,
	SP_PERF_REGS_32 = 1,
	SP_PERF_REGS_64 = 2,
};

/* Register numbers of sample masks. x86: ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8..r15;
 * arm64: x0..x30, sp, pc. These masks name the ones that unwinding can use. */
#define SP_PERF_REGS_X86_64 0xff01ffull
#define SP_PERF_REGS_AARCH64 0x1ffffffffull

/* The first page of a ring: offsets of what is used of it. */
#define SP_PERF_PAGE_DATA_HEAD 1024
#define SP_PERF_PAGE_DATA_TAIL 1032
#define SP_PERF_PAGE_DATA_OFFSET 1040
#define SP_PERF_PAGE_DATA_SIZE 1048

#endif
