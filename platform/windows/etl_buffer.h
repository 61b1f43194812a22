/* One buffer of an ETL file: its header, and its records once they are unpacked. Used by the reader only. */
#ifndef SP_PLATFORM_WINDOWS_ETL_BUFFER_H
#define SP_PLATFORM_WINDOWS_ETL_BUFFER_H

#include "platform/windows/etl_reader.h"

/* Of a buffer in a file, from its header. */
struct sp_etl_buffer {
	uint64_t offset;     /* in the file */
	uint64_t first_time; /* ns, of its first record */
	uint32_t stored;     /* bytes in the file */
	uint32_t used;       /* bytes with records when unpacked, header included */
	uint32_t order;      /* of all buffers of all files */
	uint16_t file, cpu, flags, type;
	int64_t sequence;
};

/* Reads the header at `bytes` (SP_ETL_BUFFER_HEADER of them); false when it is none. `left`: bytes of the file from
 * there on. */
bool sp_etl_buffer_parse(const uint8_t *bytes, uint64_t left, struct sp_etl_buffer *ret);

/* Unpacks `stored` (all of the buffer's bytes) to out[0 .. size), which are the bytes behind the header. False when it
 * can't be; a `size` below that of all records gives only the beginning. */
bool sp_etl_buffer_unpack(const struct sp_etl_buffer *buffer, const uint8_t *stored, size_t stored_size, uint8_t *out,
                          size_t size);

/* Parses a header event. */
bool sp_etl_header_parse(const struct sp_etl_event *event, struct sp_etl_header *ret);

#endif
