/* One record of an ETL buffer as an event, whatever kind of header it has. */
#ifndef SP_PLATFORM_WINDOWS_ETL_RECORD_H
#define SP_PLATFORM_WINDOWS_ETL_RECORD_H

#include "platform/windows/etl_format.h"

#include <stddef.h>

#define SP_ETL_ID_UNKNOWN UINT32_MAX /* a PID or TID that the header does not have */

/* Pointers lie in the record's bytes. */
struct sp_etl_event {
	uint64_t time;  /* raw clock from decode; ns from the reader (etl_reader.h) */
	uint8_t type;   /* SP_ETL_TYPE_* */
	uint8_t group;  /* SP_ETL_GROUP_*; classic kernel events with a GUID are given theirs */
	uint8_t opcode; /* the event code of kernel events */
	uint8_t version, level, channel;
	uint8_t pointer_size; /* of pointers in the payload: 4 or 8 */
	uint16_t id, task;    /* of manifest events, else 0 */
	uint16_t cpu;
	uint16_t file;     /* the reader's */
	uint32_t pid, tid; /* SP_ETL_ID_UNKNOWN = the header does not say */
	uint64_t keyword;
	const uint8_t *guid; /* of the provider, 16 bytes; NULL for records that only have a group */
	const uint8_t *payload;
	uint32_t payload_size;
	uint32_t extended_size;
	const uint8_t *extended; /* items after an EVENT_HEADER; NULL = none */
	const uint8_t *record;   /* the whole of it */
	uint32_t record_size;
	uint8_t counters; /* PMC values between header and payload */
};

enum sp_etl_decoded {
	SP_ETL_EVENT,   /* *ret is set */
	SP_ETL_SKIPPED, /* a record of a kind that carries no event for us; its size is known */
	SP_ETL_ENDED,   /* the end marker, or no room for another record */
	SP_ETL_CORRUPT, /* no record: the rest of the buffer is unreadable */
};

/* Decodes the record at `bytes`, which has at most `left` bytes. `file_pointer_size` is that of the kernel of the file.
 * *ret_step: how far the next record is. */
enum sp_etl_decoded sp_etl_record_decode(const uint8_t *bytes, size_t left, uint8_t file_pointer_size,
                                         struct sp_etl_event *ret, uint32_t *ret_step);

/* Walks the items after an EVENT_HEADER: the next one's type, or 0 at the end. *offset begins at 0. */
uint16_t sp_etl_next_item(const struct sp_etl_event *event, uint32_t *offset, const uint8_t **ret_data,
                          uint32_t *ret_size);

#endif
