/* ETL files as one sequence of events in time order.
 *
 * A file is buffers back to back, each filled by one CPU. The reader lists them first (their headers, and the time of
 * the first record), then takes events from all that overlap in time, through a heap. It holds only the buffers that it
 * is in the middle of. Several files of one recording (kernel and user session) are read as one. */
#ifndef SP_PLATFORM_WINDOWS_ETL_READER_H
#define SP_PLATFORM_WINDOWS_ETL_READER_H

#include "platform/windows/etl_record.h"
#include "platform/windows/etl_source.h"

/* What the first event of a file, the header event, says. */
struct sp_etl_header {
	uint8_t os_major, os_minor;
	uint32_t os_build;
	uint32_t cpus, cpu_mhz;
	uint32_t buffer_size;
	uint32_t mode;        /* LogFileMode */
	uint32_t events_lost; /* as the session counted at its end */
	uint32_t buffers_lost;
	uint8_t pointer_size;    /* of the recorded kernel */
	uint8_t clock;           /* SP_ETL_CLOCK_* */
	uint64_t frequency;      /* ticks of the raw clock a second */
	uint64_t raw_start;      /* raw time of the header event ... */
	uint64_t start_filetime; /* ... and the wall clock at that moment: 100 ns since 1601 */
	uint64_t end_filetime;   /* 0 = unknown */
	uint64_t boot_filetime;
};
enum { SP_ETL_CLOCK_QPC = 1, SP_ETL_CLOCK_SYSTEM = 2, SP_ETL_CLOCK_CYCLES = 3 };
#define SP_ETL_MODE_CIRCULAR 0x2u

/* What could not be read, and what the recorder says it dropped. */
struct sp_etl_counts {
	uint64_t buffers, events;
	uint64_t corrupt_buffers;           /* unreadable from some record on */
	uint64_t bad_compression;           /* compressed in a way that is not known, or damaged: skipped whole */
	uint64_t skipped_records;           /* of kinds that carry nothing for us, or with headers that do not fit */
	uint64_t truncated_bytes;           /* at the end of a file, that are no whole buffer */
	uint64_t unordered;                 /* events given out of time order: the file itself has them so */
	uint64_t flagged_events_lost;       /* buffers that the recorder marked: events were lost here */
	uint64_t flagged_buffer_lost;       /* ... a buffer was lost here */
	uint64_t missing_buffers;           /* gaps in the numbers of the buffers */
	uint64_t events_lost, buffers_lost; /* from the headers */
};

struct sp_etl_reader;
/* The sources are borrowed; they all must be ETL files. The first file's clock is the one of all times: ns, by the raw
 * clock of the recorded machine. */
struct sp_error *sp_etl_reader_create(struct sp_etl_sources *sources, struct sp_etl_reader **ret);
void sp_etl_reader_destroy(struct sp_etl_reader *reader);

/* The next event; its pointers are valid until the next call. False at the end, or after an I/O error. */
bool sp_etl_reader_next(struct sp_etl_reader *reader, struct sp_etl_event *ret);
/* Begins anew with the first event. */
void sp_etl_reader_rewind(struct sp_etl_reader *reader);
/* The I/O error (or lack of memory) that ended the reading; the caller owns it. NULL = none. */
struct sp_error *sp_etl_reader_failure(struct sp_etl_reader *reader);

const struct sp_etl_header *sp_etl_reader_header(const struct sp_etl_reader *reader, size_t file);
const struct sp_etl_counts *sp_etl_reader_counts(const struct sp_etl_reader *reader);
/* ns of a raw time of a file's clock. */
uint64_t sp_etl_reader_time(const struct sp_etl_reader *reader, size_t file, uint64_t raw);
/* Bytes of all files, and of the buffers read so far. */
void sp_etl_reader_progress(const struct sp_etl_reader *reader, uint64_t *ret_done, uint64_t *ret_total);
/* Wall-clock time (ns since 1970) at the time of the header event of the first file; 0 = unknown. */
uint64_t sp_etl_reader_wall(const struct sp_etl_reader *reader, uint64_t *ret_time);

/* Whether the first bytes are an ETL file's: a buffer header of the right type with a header event behind it. */
bool sp_etl_probe(const uint8_t *head, size_t size);
#define SP_ETL_PROBE_SIZE 0x70

#endif
