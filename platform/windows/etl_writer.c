/* See etl_writer.h. */
#include "platform/windows/etl_writer.h"

#include "platform/windows/etl_buffer.h"
#include "platform/windows/xpress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_SIZE 65536u
#define MODE_COMPRESSED 0x04000000u
#define CPUS_MAX 2048

/* The buffer that a CPU fills. */
struct fill {
	uint8_t *bytes; /* owned; the whole buffer, header first */
	uint32_t used;
};

struct sp_etl_writer {
	FILE *file;
	char *path, *partial; /* owned */
	uint32_t buffer_size;
	bool compress;
	uint16_t loss_flags;
	uint8_t *header; /* owned: the first buffer */
	uint32_t header_size, header_used;
	struct fill fills[CPUS_MAX];
	uint8_t *packed; /* owned */
	int64_t sequence;
	uint64_t bytes;
	struct sp_error *failure; /* owned; sticky */
};

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value);
	put16(at + 2, value >> 16);
}

static void put64(uint8_t *at, uint64_t value)
{
	put32(at, (uint32_t)value);
	put32(at + 4, (uint32_t)(value >> 32));
}

static struct sp_error *write_bytes(struct sp_etl_writer *writer, const void *bytes, size_t size)
{
	if (!writer->failure && fwrite(bytes, 1, size, writer->file) != size)
		writer->failure = sp_error_from_errno(errno, "cannot write %s", writer->partial);
	writer->bytes += size;
	return writer->failure ? sp_error_copy(writer->failure) : NULL;
}

static void buffer_header(uint8_t *bytes, uint32_t stored, uint32_t used, int64_t sequence, uint16_t cpu,
                          uint16_t flags, uint16_t type)
{
	memset(bytes, 0, SP_ETL_BUFFER_HEADER);
	put32(bytes, stored);
	put32(bytes + 4, used);
	put32(bytes + 8, used);
	put64(bytes + 0x18, (uint64_t)sequence);
	put16(bytes + 0x28, cpu);
	put32(bytes + 0x2c, 3); /* what a flushed buffer has here */
	put32(bytes + 0x30, used);
	put16(bytes + 0x34, flags);
	put16(bytes + 0x36, type);
}

static struct sp_error *flush(struct sp_etl_writer *writer, uint16_t cpu)
{
	struct fill *fill = &writer->fills[cpu];
	uint16_t flags = SP_ETL_BUFFER_PROCESSOR_INDEX | writer->loss_flags;
	uint32_t used = fill->used;
	struct sp_error *error;
	if (used <= SP_ETL_BUFFER_HEADER)
		return NULL;
	writer->loss_flags = 0;
	if (writer->compress) {
		size_t size = sp_xpress_encode(fill->bytes + SP_ETL_BUFFER_HEADER, used - SP_ETL_BUFFER_HEADER,
		                               writer->packed + SP_ETL_BUFFER_HEADER);
		buffer_header(writer->packed, SP_ETL_BUFFER_HEADER + (uint32_t)size, used, writer->sequence++, cpu,
		              flags | SP_ETL_BUFFER_COMPRESSED, 0);
		error = write_bytes(writer, writer->packed, SP_ETL_BUFFER_HEADER + size);
	} else {
		memset(fill->bytes + used, 0xff, writer->buffer_size - used);
		buffer_header(fill->bytes, writer->buffer_size, used, writer->sequence++, cpu, flags, 0);
		error = write_bytes(writer, fill->bytes, writer->buffer_size);
	}
	fill->used = SP_ETL_BUFFER_HEADER;
	return error;
}

/* The first buffer, with the header event in it; written again at the end with the number of buffers. */
static struct sp_error *make_header(struct sp_etl_writer *writer, const struct sp_etl_writer_options *options)
{
	writer->header_used = SP_ETL_BUFFER_HEADER + (options->header_size + 7) / 8 * 8;
	writer->header_size = writer->compress ? (writer->header_used + 511) / 512 * 512 : writer->buffer_size;
	if (options->header_size < SP_ETL_SIZE_SYSTEM + 48 || writer->header_used > writer->buffer_size)
		return sp_error_create(SP_ERROR_FORMAT, "the trace's header event has an impossible size");
	writer->header = malloc(writer->header_size);
	if (!writer->header)
		return sp_error_no_memory();
	memset(writer->header, 0xff, writer->header_size);
	buffer_header(writer->header, writer->header_size, writer->header_used, writer->sequence++, 0,
	              SP_ETL_BUFFER_FLUSH_MARKER | SP_ETL_BUFFER_PROCESSOR_INDEX, SP_ETL_BUFFER_TYPE_HEADER);
	memset(writer->header + SP_ETL_BUFFER_HEADER, 0, writer->header_used - SP_ETL_BUFFER_HEADER);
	memcpy(writer->header + SP_ETL_BUFFER_HEADER, options->header, options->header_size);
	uint8_t *payload = writer->header + SP_ETL_BUFFER_HEADER + SP_ETL_SIZE_SYSTEM;
	uint32_t mode;
	put32(payload, writer->buffer_size);
	memcpy(&mode, payload + 32, 4);
	put32(payload + 32, (mode & ~MODE_COMPRESSED) | (writer->compress ? MODE_COMPRESSED : 0));
	return NULL;
}

struct sp_error *sp_etl_writer_create(const char *path, const struct sp_etl_writer_options *options,
                                      struct sp_etl_writer **ret)
{
	struct sp_etl_writer *writer = calloc(1, sizeof(*writer));
	size_t length = strlen(path) + sizeof(".partial");
	if (!writer)
		return sp_error_no_memory();
	writer->buffer_size = options->buffer_size ? options->buffer_size : BUFFER_SIZE;
	writer->compress = options->compress;
	writer->loss_flags = options->loss_flags;
	writer->path = strdup(path);
	writer->partial = malloc(length);
	if (writer->compress)
		writer->packed = malloc(SP_ETL_BUFFER_HEADER + sp_xpress_bound(writer->buffer_size));
	struct sp_error *error = NULL;
	if (!writer->path || !writer->partial || (writer->compress && !writer->packed))
		error = sp_error_no_memory();
	if (!error)
		error = make_header(writer, options);
	if (!error) {
		snprintf(writer->partial, length, "%s.partial", path);
		writer->file = fopen(writer->partial, "wb");
		if (!writer->file)
			error = sp_error_from_errno(errno, "cannot create %s", writer->partial);
	}
	if (!error)
		error = write_bytes(writer, writer->header, writer->header_size);
	if (error) {
		sp_etl_writer_destroy(writer);
		return error;
	}
	*ret = writer;
	return NULL;
}

struct sp_error *sp_etl_writer_put(struct sp_etl_writer *writer, uint16_t cpu, const void *record, uint32_t size)
{
	uint32_t padded = (size + 7) & ~7u;
	if (cpu >= CPUS_MAX || padded > writer->buffer_size - SP_ETL_BUFFER_HEADER)
		return sp_error_create(SP_ERROR_LIMIT, "a record of %u bytes of CPU %u does not fit into a buffer",
		                       size, cpu);
	struct fill *fill = &writer->fills[cpu];
	if (!fill->bytes) {
		fill->bytes = malloc(writer->buffer_size);
		fill->used = SP_ETL_BUFFER_HEADER;
	}
	if (!fill->bytes)
		return sp_error_no_memory();
	if (padded > writer->buffer_size - fill->used) {
		struct sp_error *error = flush(writer, cpu);
		if (error)
			return error;
	}
	memcpy(fill->bytes + fill->used, record, size);
	memset(fill->bytes + fill->used + size, 0, padded - size);
	fill->used += padded;
	return NULL;
}

struct sp_error *sp_etl_writer_finish(struct sp_etl_writer *writer, uint64_t *ret_bytes)
{
	struct sp_error *error = NULL;
	for (unsigned cpu = 0; cpu < CPUS_MAX && !error; cpu++)
		if (writer->fills[cpu].bytes)
			error = flush(writer, (uint16_t)cpu);
	*ret_bytes = writer->bytes;
	put32(writer->header + SP_ETL_BUFFER_HEADER + SP_ETL_SIZE_SYSTEM + 36, (uint32_t)writer->sequence);
	if (!error && fseek(writer->file, 0, SEEK_SET))
		error = sp_error_from_errno(errno, "cannot write %s", writer->partial);
	if (!error)
		error = write_bytes(writer, writer->header, writer->header_size);
	int closed = fclose(writer->file);
	writer->file = NULL;
	if (!error && closed)
		error = sp_error_from_errno(errno, "cannot write %s", writer->partial);
	if (!error && rename(writer->partial, writer->path))
		error = sp_error_from_errno(errno, "cannot rename %s to %s", writer->partial, writer->path);
	if (!error)
		writer->partial[0] = '\0';
	sp_etl_writer_destroy(writer);
	return error;
}

void sp_etl_writer_destroy(struct sp_etl_writer *writer)
{
	if (!writer)
		return;
	bool made = writer->file != NULL || writer->bytes;
	if (writer->file)
		fclose(writer->file);
	if (made && writer->partial && *writer->partial)
		remove(writer->partial);
	for (unsigned cpu = 0; cpu < CPUS_MAX; cpu++)
		free(writer->fills[cpu].bytes);
	free(writer->header);
	free(writer->packed);
	free(writer->path);
	free(writer->partial);
	sp_error_destroy(writer->failure);
	free(writer);
}

uint32_t sp_etl_header_record(const struct sp_etl_header *header, uint8_t out[SP_ETL_HEADER_RECORD_MAX])
{
	bool wide = header->pointer_size == 8;
	uint32_t tail = wide ? 248 : 240;
	uint32_t size = SP_ETL_SIZE_SYSTEM + tail + 32 + 4; /* two empty names */
	uint8_t *payload = out + SP_ETL_SIZE_SYSTEM;
	memset(out, 0, SP_ETL_HEADER_RECORD_MAX);
	put16(out, 2);
	out[2] = wide ? SP_ETL_TYPE_SYSTEM64 : SP_ETL_TYPE_SYSTEM32;
	out[3] = SP_ETL_MARKER_TRACE;
	put16(out + 4, size);
	out[6] = SP_ETL_TRACE_HEADER;
	out[7] = SP_ETL_GROUP_TRACE;
	put64(out + 0x10, header->raw_start);
	put32(payload, header->buffer_size);
	payload[4] = header->os_major;
	payload[5] = header->os_minor;
	put32(payload + 8, header->os_build);
	put32(payload + 12, header->cpus);
	put64(payload + 16, header->end_filetime);
	put32(payload + 32, header->mode);
	put32(payload + 44, header->pointer_size);
	put32(payload + 48, header->events_lost);
	put32(payload + 52, header->cpu_mhz);
	put64(payload + tail, header->boot_filetime);
	put64(payload + tail + 8, header->frequency);
	put64(payload + tail + 16, header->start_filetime);
	put32(payload + tail + 24, header->clock);
	put32(payload + tail + 28, header->buffers_lost);
	return size;
}
