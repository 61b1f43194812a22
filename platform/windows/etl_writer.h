/* Writes ETL files: for the filter, and for tests of what no public trace holds.
 *
 * Records are given whole, in time order, each with the CPU that wrote it; they go into buffers a CPU, which are
 * written as they fill up, as Windows does. */
#ifndef SP_PLATFORM_WINDOWS_ETL_WRITER_H
#define SP_PLATFORM_WINDOWS_ETL_WRITER_H

#include "common/error.h"
#include "platform/windows/etl_reader.h"

struct sp_etl_writer_options {
	uint32_t buffer_size;  /* of each buffer; 0 = 64 KiB */
	bool compress;         /* buffers by plain LZ77 */
	uint16_t loss_flags;   /* SP_ETL_BUFFER_*_LOST, for the first buffer of records */
	const uint8_t *header; /* the record of the header event; size, compression and buffer count in it are set */
	uint32_t header_size;
};

struct sp_etl_writer;
/* Writes beside `path`; finish() renames. */
struct sp_error *sp_etl_writer_create(const char *path, const struct sp_etl_writer_options *options,
                                      struct sp_etl_writer **ret);
/* A record with its header, as it shall stand in the file; at most 65535 bytes. */
struct sp_error *sp_etl_writer_put(struct sp_etl_writer *writer, uint16_t cpu, const void *record, uint32_t size);
/* Writes what is left and puts the file in its place. The writer is gone in any case. */
struct sp_error *sp_etl_writer_finish(struct sp_etl_writer *writer, uint64_t *ret_bytes);
/* Gives up: nothing remains. */
void sp_etl_writer_destroy(struct sp_etl_writer *writer);

/* ---- Records, for who has none to copy ---- */

#define SP_ETL_HEADER_RECORD_MAX 512
/* A header event for a trace; returns its size. */
uint32_t sp_etl_header_record(const struct sp_etl_header *header, uint8_t out[SP_ETL_HEADER_RECORD_MAX]);

#endif
