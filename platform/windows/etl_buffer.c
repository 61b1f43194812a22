/* Buffer headers (WMI_BUFFER_HEADER) and the header event (TRACE_LOGFILE_HEADER). */
#include "platform/windows/etl_buffer.h"

#include "common/cursor.h"
#include "platform/windows/xpress.h"

/* Unpacked bytes for a stored one: records have times and addresses that never get near this. A file that claims more
 * would only cost time. */
#define RATIO_MAX 1024u

bool sp_etl_buffer_parse(const uint8_t *bytes, uint64_t left, struct sp_etl_buffer *ret)
{
	struct sp_cursor c = sp_cursor_init(bytes, SP_ETL_BUFFER_HEADER);
	uint32_t size = sp_cursor_u32(&c), saved = sp_cursor_u32(&c);
	sp_cursor_seek(&c, 0x18);
	int64_t sequence = (int64_t)sp_cursor_u64(&c);
	sp_cursor_seek(&c, 0x28);
	uint16_t cpu = sp_cursor_u16(&c);
	sp_cursor_seek(&c, 0x30);
	uint32_t offset = sp_cursor_u32(&c);
	uint16_t flags = sp_cursor_u16(&c), type = sp_cursor_u16(&c);
	uint32_t used = offset ? offset : saved;
	if (size < SP_ETL_BUFFER_HEADER || size > SP_ETL_BUFFER_MAX || size > left || used > SP_ETL_BUFFER_MAX ||
	    type > 15)
		return false;
	if (used < SP_ETL_BUFFER_HEADER)
		used = SP_ETL_BUFFER_HEADER;
	bool compressed = flags & SP_ETL_BUFFER_COMPRESSED;
	if (!compressed && used > size)
		used = size;
	*ret = (struct sp_etl_buffer){ .stored = size,
		                       .used = used,
		                       .cpu = flags & SP_ETL_BUFFER_PROCESSOR_INDEX ? cpu & 0x7ff : cpu & 0xff,
		                       .flags = flags,
		                       .type = type,
		                       .sequence = sequence };
	return true;
}

bool sp_etl_buffer_unpack(const struct sp_etl_buffer *buffer, const uint8_t *stored, size_t stored_size, uint8_t *out,
                          size_t size)
{
	size_t got;
	if (stored_size < SP_ETL_BUFFER_HEADER)
		return false;
	stored += SP_ETL_BUFFER_HEADER;
	stored_size -= SP_ETL_BUFFER_HEADER;
	if (!(buffer->flags & SP_ETL_BUFFER_COMPRESSED)) {
		if (size > stored_size)
			return false;
		memcpy(out, stored, size);
		return true;
	}
	if (size / RATIO_MAX > stored_size)
		return false;
	return sp_xpress_decode(stored, stored_size, out, size, &got) && got == size;
}

bool sp_etl_header_parse(const struct sp_etl_event *event, struct sp_etl_header *ret)
{
	struct sp_cursor c = sp_cursor_init(event->payload, event->payload_size);
	struct sp_etl_header header = { .raw_start = event->time };
	header.buffer_size = sp_cursor_u32(&c);
	header.os_major = sp_cursor_u8(&c);
	header.os_minor = sp_cursor_u8(&c);
	sp_cursor_skip(&c, 2);
	header.os_build = sp_cursor_u32(&c);
	header.cpus = sp_cursor_u32(&c);
	header.end_filetime = sp_cursor_u64(&c);
	sp_cursor_skip(&c, 8);
	header.mode = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 8);
	header.pointer_size = (uint8_t)sp_cursor_u32(&c);
	header.events_lost = sp_cursor_u32(&c);
	header.cpu_mhz = sp_cursor_u32(&c);
	if (header.pointer_size != 4 && header.pointer_size != 8)
		return false;
	sp_cursor_seek(&c, header.pointer_size == 4 ? 240 : 248);
	header.boot_filetime = sp_cursor_u64(&c);
	header.frequency = sp_cursor_u64(&c);
	header.start_filetime = sp_cursor_u64(&c);
	header.clock = (uint8_t)sp_cursor_u32(&c);
	header.buffers_lost = sp_cursor_u32(&c);
	if (c.bad)
		return false;
	if (header.clock == SP_ETL_CLOCK_SYSTEM)
		header.frequency = 10000000;
	else if (header.clock == SP_ETL_CLOCK_CYCLES && header.cpu_mhz)
		header.frequency = (uint64_t)header.cpu_mhz * 1000000;
	/* A clock without a known rate can't be shown; a rate beyond these limits is none. */
	if (!header.frequency || header.frequency > 1000000000000u)
		return false;
	*ret = header;
	return true;
}
