/* MSF, the container of PDBs: a file of equal pages, in which streams are lists of pages.
 *
 * Pages of a stream mostly follow each other. Bytes that do are used where they lie; only what straddles pages that do
 * not is copied, so a look-up in a file of gigabytes touches only the pages that it needs. */
#ifndef SP_SYMBOLICATION_PDB_MSF_H
#define SP_SYMBOLICATION_PDB_MSF_H

#include "common/cursor.h"
#include "common/error.h"

struct msf_stream {
	uint32_t size;  /* bytes; 0 also for deleted streams */
	uint32_t pages; /* index of its first page number in msf.directory */
};

struct msf {
	struct sp_cursor file;
	uint32_t page_size;
	uint32_t page_count;
	uint8_t *directory;         /* owned; little-endian words */
	struct msf_stream *streams; /* owned */
	uint32_t stream_count;
	size_t memory;
};

/* Bytes of a stream: in the file, or a copy that `owned` holds. */
struct msf_bytes {
	struct sp_cursor cursor;
	uint8_t *owned; /* free()d by the caller */
};

bool msf_probe(const uint8_t *bytes, size_t size);
/* Reads the directory. `file` must outlive the result. */
struct sp_error *msf_open(struct sp_cursor file, struct msf *ret);
void msf_close(struct msf *msf);

/* 0 for streams that do not exist. */
uint32_t msf_size(const struct msf *msf, uint32_t stream);
/* Copies [offset, offset + size); false when that is not all inside. */
bool msf_read(const struct msf *msf, uint32_t stream, uint64_t offset, void *buffer, size_t size);
/* The bytes where they lie; NULL when they are not all inside or their pages do not follow each other. */
const uint8_t *msf_view(const struct msf *msf, uint32_t stream, uint64_t offset, size_t size);
/* A range of a stream as a whole, without copying where that can be. */
struct sp_error *msf_load(const struct msf *msf, uint32_t stream, uint64_t offset, size_t size, struct msf_bytes *ret);

/* A record of symbols or types at `offset`: 16 bits of length (of what follows), 16 bits of kind, the rest. Gives a
 * cursor over the rest; `buffer`, of MSF_RECORD_MAX bytes, is used when it straddles pages. The cursor is bad when
 * there is no whole record. */
enum { MSF_RECORD_MAX = 65536 };
struct sp_cursor msf_record(const struct msf *msf, uint32_t stream, uint64_t offset, uint8_t *buffer,
                            uint16_t *ret_kind, uint32_t *ret_size);

#endif
