/* Fuzz target: the recording reader on any bytes.
 *
 * The input's payloads would not survive their CRCs under mutation, so the input is also wrapped as the payload of one
 * whole segment: mutations reach the record decoder directly. */
#include "sampler/profile/recording.h"
#include "sampler/profile/stack_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_stack(const struct sp_recording_reader *reader, uint32_t node)
{
	size_t count;
	const struct sp_stack_node *nodes = sp_recording_stack_nodes(reader, &count);
	while (node != SP_HANDLE_NONE) {
		if (node >= count)
			abort();
		uint32_t parent = nodes[node].parent;
		if (parent != SP_HANDLE_NONE && parent >= node)
			abort();
		node = parent;
	}
}

/* Handles are dense and given before they are used. */
struct seen {
	uint32_t processes, threads, modules, sources, counters;
};

static void check(const struct sp_recording_reader *reader, const struct sp_record *record, struct seen *seen)
{
	bool good = true;
	switch (record->type) {
	case SP_RECORD_PROCESS:
		good = record->process.process == seen->processes++;
		break;
	case SP_RECORD_THREAD:
		good = record->thread.thread == seen->threads++ && record->thread.process < seen->processes;
		break;
	case SP_RECORD_MODULE:
		good = record->module.module == seen->modules++;
		break;
	case SP_RECORD_SOURCE:
		good = record->source.source == seen->sources++;
		break;
	case SP_RECORD_COUNTER:
		good = record->counter.counter == seen->counters++ && record->counter.process < seen->processes;
		break;
	case SP_RECORD_SAMPLE:
		good = record->sample.thread < seen->threads && record->sample.source < seen->sources;
		check_stack(reader, record->sample.stack);
		break;
	case SP_RECORD_MAPPING:
		good = record->mapping.module < seen->modules &&
		       (record->mapping.process < seen->processes || record->mapping.process == SP_HANDLE_NONE);
		break;
	default:
		break;
	}
	if (!good)
		abort();
}

static void read_all(const char *path)
{
	struct sp_recording_reader *reader;
	struct sp_record record;
	struct seen seen = { 0 };
	bool more = true;
	uint64_t dropped;
	struct sp_error *error = sp_recording_reader_create(path, &reader);
	if (error) {
		sp_error_destroy(error);
		return;
	}
	while (!error && more) {
		error = sp_recording_read(reader, &record, &more);
		if (!error && more)
			check(reader, &record, &seen);
	}
	sp_error_destroy(error);
	sp_recording_finished(reader, &dropped);
	sp_recording_reader_destroy(reader);
}

static void try(const void *head, size_t head_size, const uint8_t *data, size_t size)
{
	int fd = memfd_create("recording", 0);
	if (fd < 0)
		abort();
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, head, head_size) != (ssize_t)head_size || write(fd, data, size) != (ssize_t)size)
		abort();
	read_all(path);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[SP_SEGMENT_HEADER_SIZE];
	struct sp_segment_header header = {
		.version = SP_SEGMENT_VERSION,
		.type = SP_SEGMENT_RECORDS,
		.stored_size = (uint32_t)size,
		.size = (uint32_t)size,
		.payload_crc = sp_segment_crc(data, size),
	};
	sp_segment_header_encode(&header, bytes);
	try(bytes, sizeof(bytes), data, size);
	try(NULL, 0, data, size);
	return 0;
}
