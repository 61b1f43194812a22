/* A module's stream: symbol records, of which procedures are kept, and lines. */
#include "symbolication/pdb/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	S_END = 0x0006,
	S_THUNK32 = 0x1102,
	S_LPROC32 = 0x110f,
	S_GPROC32 = 0x1110,
	S_TRAMPOLINE = 0x112c,
	S_SEPCODE = 0x1132,
	S_LPROC32_ID = 0x1146,
	S_GPROC32_ID = 0x1147,
	S_LPROC32_DPC = 0x1155,
	S_LPROC32_DPC_ID = 0x1156,
};
enum { SIGNATURE_C13 = 4 };

typedef SP_VECTOR(struct pdb_procedure) procedure_vector;

static bool is_procedure(uint16_t kind)
{
	return kind == S_LPROC32 || kind == S_GPROC32 || kind == S_LPROC32_ID || kind == S_GPROC32_ID ||
	       kind == S_LPROC32_DPC || kind == S_LPROC32_DPC_ID;
}

/* S_GPROC32 and its kin. */
static bool read_procedure(struct sp_cursor c, uint16_t kind, struct pdb_procedure *ret)
{
	sp_cursor_skip(&c, 12); /* parent, end, next */
	ret->size = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 8); /* where the prologue ends, where the epilogue begins */
	ret->type = sp_cursor_u32(&c);
	uint32_t offset = sp_cursor_u32(&c);
	uint16_t section = sp_cursor_u16(&c);
	sp_cursor_skip(&c, 1);
	ret->name = sp_cursor_string(&c);
	ret->place = pdb_place_key(section, offset);
	ret->base = offset;
	ret->id_type = kind == S_LPROC32_ID || kind == S_GPROC32_ID || kind == S_LPROC32_DPC_ID;
	return !c.bad && section && ret->size;
}

static bool read_thunk(struct sp_cursor c, struct pdb_procedure *ret)
{
	sp_cursor_skip(&c, 12);
	uint32_t offset = sp_cursor_u32(&c);
	uint16_t section = sp_cursor_u16(&c);
	ret->size = sp_cursor_u16(&c);
	sp_cursor_skip(&c, 1);
	ret->name = sp_cursor_string(&c);
	ret->place = pdb_place_key(section, offset);
	ret->base = offset;
	ret->thunk = true;
	return !c.bad && section && ret->size && ret->name[0];
}

/* A jump to a function that was put in between by an incremental linker, or to reach far away. It has no name. */
static bool read_trampoline(struct sp_cursor c, struct pdb_procedure *ret)
{
	sp_cursor_skip(&c, 2); /* what it is for */
	ret->size = sp_cursor_u16(&c);
	uint32_t offset = sp_cursor_u32(&c), target_offset = sp_cursor_u32(&c);
	uint16_t section = sp_cursor_u16(&c);
	ret->target = pdb_place_key(sp_cursor_u16(&c), target_offset);
	ret->place = pdb_place_key(section, offset);
	ret->base = offset;
	ret->name = "";
	ret->thunk = true;
	return !c.bad && section && ret->size;
}

/* Code that was moved away from the procedure that it names, whose name and type it takes. */
static bool read_separated(struct sp_cursor c, const procedure_vector *procedures, struct pdb_procedure *ret)
{
	sp_cursor_skip(&c, 8);
	ret->size = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4); /* flags */
	uint32_t offset = sp_cursor_u32(&c), parent_offset = sp_cursor_u32(&c);
	uint16_t section = sp_cursor_u16(&c), parent_section = sp_cursor_u16(&c);
	uint64_t parent = pdb_place_key(parent_section, parent_offset);
	ret->place = pdb_place_key(section, offset);
	ret->base = offset;
	if (c.bad || !section || !ret->size)
		return false;
	/* The parent's record stands before it, mostly just before. */
	for (size_t i = procedures->count; i-- > 0 && procedures->count - i < 4096;) {
		const struct pdb_procedure *p = &procedures->items[i];
		if (parent - p->place < p->size) {
			ret->name = p->name;
			ret->type = p->type;
			ret->id_type = p->id_type;
			return true;
		}
	}
	return false;
}

static struct sp_error *read_symbols(struct pdb_module_data *data)
{
	procedure_vector procedures = { 0 };
	struct sp_cursor c = data->bytes.cursor;
	c.end = c.start + data->symbols_end;
	sp_cursor_skip(&c, 4);
	while (sp_cursor_left(&c) >= 4) {
		uint32_t at = (uint32_t)sp_cursor_offset(&c);
		uint16_t length = sp_cursor_u16(&c), kind = sp_cursor_u16(&c);
		struct sp_cursor record = c;
		if (length < 2 || length - 2u > sp_cursor_left(&c))
			break;
		record.end = record.at + (length - 2);
		sp_cursor_skip(&c, length - 2u);
		struct pdb_procedure procedure = { .record = at };
		bool take = is_procedure(kind)     ? read_procedure(record, kind, &procedure)
		            : kind == S_THUNK32    ? read_thunk(record, &procedure)
		            : kind == S_TRAMPOLINE ? read_trampoline(record, &procedure)
		            : kind == S_SEPCODE    ? read_separated(record, &procedures, &procedure)
		                                   : false;
		if (take && !sp_vector_push(&procedures, procedure)) {
			sp_vector_deinit(&procedures);
			return sp_error_no_memory();
		}
	}
	data->procedures = procedures.items;
	data->procedure_count = procedures.count;
	return NULL;
}

/* By place; the record that stands first goes first. */
static int compare_procedures(const void *a, const void *b)
{
	const struct pdb_procedure *x = a, *y = b;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->record < y->record ? -1 : x->record > y->record;
}

static struct sp_error *parse(struct sp_pdb *pdb, const struct pdb_module *module, struct pdb_module_data *data)
{
	uint32_t size = msf_size(&pdb->msf, module->stream);
	if (size > pdb->parse_budget)
		return sp_error_create(SP_ERROR_LIMIT, "the PDB's module streams overlap");
	pdb->parse_budget -= size;
	struct sp_error *error = msf_load(&pdb->msf, module->stream, 0, size, &data->bytes);
	if (error)
		return error;
	struct sp_cursor c = data->bytes.cursor;
	uint32_t signature = sp_cursor_u32(&c);
	if (c.bad || signature != SIGNATURE_C13)
		return sp_error_create(
		    SP_ERROR_UNSUPPORTED,
		    "a module's symbols are of an old form (version %u, of Visual C++ 6 or before): only "
		    "public symbols are known there",
		    signature);
	data->symbols_end = module->symbol_size < size ? module->symbol_size : size;
	if (data->symbols_end < 4)
		data->symbols_end = 4;
	error = read_symbols(data);
	if (error)
		return error;
	if (data->procedure_count)
		qsort(data->procedures, data->procedure_count, sizeof(*data->procedures), compare_procedures);
	struct sp_cursor c13 = sp_cursor_sub(&data->bytes.cursor, (uint64_t)module->symbol_size + module->c11_size,
	                                     module->c13_size);
	return c13.bad ? NULL : pdb_read_c13(pdb, data, c13);
}

void pdb_module_data_destroy(struct pdb_module_data *data)
{
	if (!data)
		return;
	for (size_t i = 0; i < data->procedure_count; i++) {
		struct pdb_inlines *inlines = atomic_load(&data->procedures[i].inlines);
		if (inlines) {
			free(inlines->sites);
			free(inlines->ranges);
		}
		free(inlines);
	}
	free(data->procedures);
	free(data->lines);
	free(data->rows);
	free(data->inlinees);
	free(data->error);
	free(data->bytes.owned);
	free(data);
}

static size_t memory_of(const struct pdb_module_data *data)
{
	size_t memory = sizeof(*data) + data->procedure_count * sizeof(*data->procedures) +
	                data->line_count * sizeof(*data->lines) + data->row_count * sizeof(*data->rows) +
	                data->inlinee_count * sizeof(*data->inlinees);
	return memory + (data->bytes.owned ? sp_cursor_left(&data->bytes.cursor) : 0);
}

struct sp_error *pdb_need_module(struct sp_pdb *pdb, size_t index, struct pdb_module_data **ret)
{
	*ret = NULL;
	if (index >= pdb->module_count || pdb->modules[index].stream == PDB_NO_STREAM)
		return NULL;
	struct pdb_module *module = &pdb->modules[index];
	*ret = atomic_load_explicit(&module->data, memory_order_acquire);
	if (*ret)
		return NULL;
	struct sp_error *error = NULL;
	pthread_mutex_lock(&pdb->lock);
	struct pdb_module_data *data = atomic_load_explicit(&module->data, memory_order_relaxed);
	if (!data) {
		data = calloc(1, sizeof(*data));
		error = data ? parse(pdb, module, data) : sp_error_no_memory();
		if (error) {
			bool no_memory = error->code == SP_ERROR_NO_MEMORY;
			pdb_module_data_destroy(data);
			/* What cannot be read is not tried again: an empty module stands for it. */
			data = no_memory ? NULL : calloc(1, sizeof(*data));
			if (data)
				data->error = strdup(error->message);
		}
		if (data) {
			atomic_fetch_add(&pdb->memory, memory_of(data));
			atomic_store_explicit(&module->data, data, memory_order_release);
		}
	}
	pthread_mutex_unlock(&pdb->lock);
	*ret = data;
	return error;
}

struct pdb_procedure *pdb_find_procedure(const struct pdb_module_data *data, uint64_t place)
{
	size_t low = 0, high = data->procedure_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (data->procedures[middle].place <= place)
			low = middle + 1;
		else
			high = middle;
	}
	/* Folded functions have several records at one place: the first that covers. */
	struct pdb_procedure *found = NULL;
	for (size_t tries = 0; low && tries < 64; tries++, low--) {
		struct pdb_procedure *p = &data->procedures[low - 1];
		if (found && p->place != found->place)
			break;
		if (place - p->place < p->size)
			found = p;
	}
	return found;
}
