/* Fuzzes the ETL reader: the input is a file. Every event's bytes and extended items are touched, twice, as a rewound
 * reader must give the same again. */
#include "platform/windows/etl_reader.h"

#include <stdlib.h>

static volatile uint64_t sink;

static uint64_t walk(struct sp_etl_reader *reader)
{
	struct sp_etl_event event;
	uint64_t sum = 0;
	while (sp_etl_reader_next(reader, &event)) {
		const uint8_t *data;
		uint32_t offset = 0, size;
		sum = sum * 31 + event.time + event.opcode;
		for (uint32_t i = 0; i < event.payload_size; i++)
			sum += event.payload[i];
		for (uint32_t i = 0; event.guid && i < SP_GUID_SIZE; i++)
			sum += event.guid[i];
		while (sp_etl_next_item(&event, &offset, &data, &size))
			for (uint32_t i = 0; i < size; i++)
				sum += data[i];
	}
	return sum + sp_etl_reader_counts(reader)->events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader;
	struct sp_error *error = sp_etl_sources_add_bytes(&sources, "input", data, size);
	if (!error)
		error = sp_etl_reader_create(&sources, &reader);
	if (!error) {
		uint64_t first = walk(reader);
		sp_etl_reader_rewind(reader);
		if (walk(reader) != first)
			abort();
		sink += first;
		sp_etl_reader_destroy(reader);
	}
	sp_error_destroy(error);
	sp_etl_sources_deinit(&sources);
	return 0;
}
