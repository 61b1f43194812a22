/* Fuzz target: the PDB reader on any bytes: all symbols, then frames and symbols of many addresses; of portable PDBs,
 * places of methods. */
#include "symbolication/pdb/pdb.h"
#include "symbolication/pdb/portable.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ADDRESSES = 512 };

static volatile size_t sink;

static void take(void *context, size_t index, const struct sp_dwarf_answer *answer)
{
	(void)context;
	(void)index;
	for (size_t i = 0; i < answer->count; i++) {
		const struct sp_dwarf_frame *frame = &answer->frames[i];
		sink += (frame->name ? strlen(frame->name) : 0) + (frame->file ? strlen(frame->file) : 0) + frame->line;
	}
}

static void look_up(struct sp_pdb *pdb, const struct sp_symbols *symbols)
{
	uint64_t addresses[ADDRESSES];
	for (size_t i = 0; i < ADDRESSES; i++) {
		uint64_t start = symbols->count ? symbols->items[i % symbols->count].address : 0x1000;
		addresses[i] = start + i / 4;
	}
	const char *note = NULL;
	sp_error_destroy(sp_pdb_lookup(pdb, addresses, ADDRESSES, take, NULL, &note));
	sink += note ? strlen(note) : 0;
	for (size_t i = 0; i < ADDRESSES; i++) {
		struct sp_symbol symbol;
		if (sp_pdb_symbol(pdb, addresses[i], &symbol))
			sink += strlen(symbol.name) + symbol.size;
	}
}

static void read_portable(const uint8_t *data, size_t size)
{
	struct sp_portable_pdb *pdb;
	struct sp_error *error = sp_portable_pdb_open(data, size, "fuzz", &pdb);
	if (error) {
		sp_error_destroy(error);
		return;
	}
	for (uint32_t method = 0; method < 64; method++) {
		struct sp_portable_place place;
		error = sp_portable_pdb_find(pdb, method, method * 4, &place);
		if (!error)
			free(place.file);
		sp_error_destroy(error);
	}
	sp_portable_pdb_destroy(pdb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (sp_portable_pdb_probe(data, size)) {
		read_portable(data, size);
		return 0;
	}
	struct sp_pdb *pdb;
	struct sp_symbols symbols;
	struct sp_error *error = sp_pdb_open(data, size, "fuzz", &pdb);
	if (error) {
		sp_error_destroy(error);
		return 0;
	}
	error = sp_pdb_symbols(pdb, &symbols);
	if (!error) {
		look_up(pdb, &symbols);
		sp_symbols_deinit(&symbols);
	}
	sp_error_destroy(error);
	sink += sp_pdb_memory(pdb);
	sp_pdb_destroy(pdb);
	return 0;
}
