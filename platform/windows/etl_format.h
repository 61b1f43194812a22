/* Numbers of the ETL file format: buffer flags, header types, kernel groups and event codes, provider GUIDs.
 *
 * The format has no public specification. What is here follows the headers of the Windows SDK (evntrace.h, evntcons.h),
 * the MOF classes that Microsoft documents for kernel events, and what real files hold. Little endian throughout. */
#ifndef SP_PLATFORM_WINDOWS_ETL_FORMAT_H
#define SP_PLATFORM_WINDOWS_ETL_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- Buffers ---- */

#define SP_ETL_BUFFER_HEADER 0x48
#define SP_ETL_BUFFER_MAX ((uint32_t)16 << 20) /* what Windows allows a session to ask for */

enum {
	SP_ETL_BUFFER_FLUSH_MARKER = 1,
	SP_ETL_BUFFER_EVENTS_LOST = 2,
	SP_ETL_BUFFER_BUFFER_LOST = 4,
	SP_ETL_BUFFER_RT_BACKUP_CORRUPT = 8,
	SP_ETL_BUFFER_PROCESSOR_INDEX = 0x20,
	SP_ETL_BUFFER_COMPRESSED = 0x40,
};
#define SP_ETL_BUFFER_TYPE_HEADER 4

/* ---- Records ---- */

enum {
	SP_ETL_TYPE_SYSTEM32 = 0x01,
	SP_ETL_TYPE_SYSTEM64 = 0x02,
	SP_ETL_TYPE_COMPACT32 = 0x03,
	SP_ETL_TYPE_COMPACT64 = 0x04,
	SP_ETL_TYPE_FULL32 = 0x0a,
	SP_ETL_TYPE_INSTANCE32 = 0x0b,
	SP_ETL_TYPE_TIMED = 0x0c,
	SP_ETL_TYPE_ERROR = 0x0d,
	SP_ETL_TYPE_WNODE = 0x0e,
	SP_ETL_TYPE_PERFINFO32 = 0x10,
	SP_ETL_TYPE_PERFINFO64 = 0x11,
	SP_ETL_TYPE_EVENT32 = 0x12,
	SP_ETL_TYPE_EVENT64 = 0x13,
	SP_ETL_TYPE_FULL64 = 0x14,
	SP_ETL_TYPE_INSTANCE64 = 0x15,
};
#define SP_ETL_MARKER_TRACE 0xc0 /* the top byte of a record's first word */
#define SP_ETL_MARKER_MESSAGE 0x90
#define SP_ETL_END 0xffffffffu

/* Sizes of the fixed headers. */
enum {
	SP_ETL_SIZE_SYSTEM = 0x20,
	SP_ETL_SIZE_COMPACT = 0x18,
	SP_ETL_SIZE_PERFINFO = 0x10,
	SP_ETL_SIZE_FULL = 0x30,
	SP_ETL_SIZE_INSTANCE = 0x48,
	SP_ETL_SIZE_EVENT = 0x50,
};

/* Items that may follow an EVENT_HEADER. */
enum {
	SP_ETL_ITEM_STACK32 = 5,
	SP_ETL_ITEM_STACK64 = 6,
	SP_ETL_ITEM_SCHEMA = 0xb,
	SP_ETL_ITEM_TRAITS = 0xc,
	SP_ETL_ITEM_STACK_KEY32 = 0x11,
	SP_ETL_ITEM_STACK_KEY64 = 0x12,
};

/* ---- Kernel events: groups, and the event codes (opcodes) of each ---- */

enum {
	SP_ETL_GROUP_TRACE = 0,
	SP_ETL_GROUP_DISK_IO = 1,
	SP_ETL_GROUP_PAGE_FAULT = 2,
	SP_ETL_GROUP_PROCESS = 3,
	SP_ETL_GROUP_FILE_IO = 4,
	SP_ETL_GROUP_THREAD = 5,
	SP_ETL_GROUP_CONFIG = 0xb,
	SP_ETL_GROUP_PERFINFO = 0xf,
	SP_ETL_GROUP_IMAGE = 0x14,
	SP_ETL_GROUP_STACK = 0x18,
	SP_ETL_GROUP_NONE = 0xff, /* not a kernel event */
};

enum { SP_ETL_TRACE_HEADER = 0, SP_ETL_TRACE_EXTENSION = 5, SP_ETL_TRACE_PARTITION = 0x50 };
enum {
	SP_ETL_START = 1,
	SP_ETL_STOP = 2,
	SP_ETL_DC_START = 3, /* "data collection": what was there when the session began ... */
	SP_ETL_DC_STOP = 4,  /* ... and when it ended */
};
enum {
	SP_ETL_IMAGE_UNLOAD = 2,
	SP_ETL_IMAGE_DC_START = 3,
	SP_ETL_IMAGE_DC_STOP = 4,
	SP_ETL_IMAGE_LOAD = 10,
};
enum { SP_ETL_THREAD_CSWITCH = 36, SP_ETL_THREAD_READY = 50, SP_ETL_THREAD_SET_NAME = 72 };
enum {
	SP_ETL_PERF_SAMPLE = 46,
	SP_ETL_PERF_PMC = 47,
	SP_ETL_PERF_SET_INTERVAL = 72,
	SP_ETL_PERF_START = 73,
	SP_ETL_PERF_STOP = 74,
};
enum {
	SP_ETL_STACK_WALK = 32,
	SP_ETL_STACK_DELETE = 35,
	SP_ETL_STACK_RUNDOWN = 36,
	SP_ETL_STACK_KERNEL_KEY = 37,
	SP_ETL_STACK_USER_KEY = 38,
};
#define SP_ETL_STACK_MAX 192 /* frames that the kernel walks at most */
enum { SP_ETL_CONFIG_CPU = 10, SP_ETL_CONFIG_PLATFORM = 25 };

/* KernelTraceControl: what merging a trace adds. */
enum { SP_ETL_IMAGE_ID = 0, SP_ETL_IMAGE_RSDS = 36, SP_ETL_IMAGE_IL_RSDS = 37, SP_ETL_IMAGE_PORTABLE_PDB = 38 };
enum { SP_ETL_SYS_BUILD = 32, SP_ETL_SYS_PATHS = 33, SP_ETL_SYS_VOLUME = 35 };
enum { SP_ETL_META_EVENT = 32 };

/* ---- Providers ---- */

#define SP_GUID_SIZE 16
/* A GUID as it lies in a file. */
struct sp_guid {
	uint8_t bytes[SP_GUID_SIZE];
};

#define SP_GUID(a, b, c, d0, d1, d2, d3, d4, d5, d6, d7)                                                             \
	{                                                                                                            \
		{                                                                                                    \
			(uint8_t)(a), (uint8_t)((a) >> 8), (uint8_t)((a) >> 16), (uint8_t)((a) >> 24), (uint8_t)(b), \
			    (uint8_t)((b) >> 8), (uint8_t)(c), (uint8_t)((c) >> 8), d0, d1, d2, d3, d4, d5, d6, d7   \
		}                                                                                                    \
	}

static inline bool sp_guid_equal(const uint8_t *a, const struct sp_guid *b)
{
	return !memcmp(a, b->bytes, SP_GUID_SIZE);
}

#endif
