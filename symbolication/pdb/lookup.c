/* Look-ups in a PDB: frames of addresses, and symbols. */
#include "symbolication/pdb/internal.h"

#include <stdlib.h>
#include <string.h>

/* One batch of addresses. */
struct lookup {
	struct sp_pdb *pdb;
	struct pdb_frames found;
	SP_VECTOR(struct sp_dwarf_frame) frames; /* innermost first */
	struct sp_error *error;                  /* no memory, or the first module that could not be read */
	const char *note;                        /* the same of one that was tried before */
};

static struct sp_error *keep_first(struct sp_error *first, struct sp_error *error)
{
	if (!first || (error && error->code == SP_ERROR_NO_MEMORY && first->code != SP_ERROR_NO_MEMORY)) {
		sp_error_destroy(first);
		return error;
	}
	sp_error_destroy(error);
	return first;
}

/* A module's data for a place, NULL when it has none. */
static struct pdb_module_data *module_of(struct sp_pdb *pdb, struct pdb_place place, struct sp_error **error)
{
	struct pdb_contribution contribution;
	struct pdb_module_data *data;
	if (!pdb_find_contribution(pdb, place, &contribution))
		return NULL;
	*error = keep_first(*error, pdb_need_module(pdb, contribution.module, &data));
	return data;
}

static const struct pdb_inline_range *find_range(const struct pdb_inlines *inlines, const struct pdb_inline_site *site,
                                                 uint32_t offset)
{
	const struct pdb_inline_range *ranges = &inlines->ranges[site->first_range];
	size_t low = 0, high = site->range_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ranges[middle].start <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	/* Ranges may overlap in bad data: the nearest one that covers. */
	for (size_t tries = 0; low && tries < 8; tries++, low--) {
		if (offset < ranges[low - 1].end)
			return &ranges[low - 1];
	}
	return NULL;
}

/* Appends the frame of site `index`. */
static bool push_site(struct sp_pdb *pdb, const struct pdb_module_data *data, const struct pdb_inlines *inlines,
                      uint32_t index, const struct pdb_inline_range *range, struct pdb_frames *frames)
{
	struct pdb_frame frame = { .frame.name = pdb_inlinee_name(pdb, data, inlines->sites[index].inlinee),
		                   .site = index + 1 };
	if (range) {
		frame.file = range->file;
		frame.frame.file = pdb_file_name(pdb, data, range->file);
		frame.frame.line = range->line;
		frame.frame.column = range->line ? range->column : 0;
	}
	return sp_vector_push(frames, frame);
}

/* Whether a site or one inside it covers `offset`. */
static bool reaches(const struct pdb_inline_site *site, uint32_t offset)
{
	return offset >= site->low && offset < site->high;
}

/* Goes down the sites that cover an offset. A site that is only in the way to one inside it, whose code lies outside of
 * it, is a frame without a line. */
static bool push_sites(struct sp_pdb *pdb, const struct pdb_module_data *data, const struct pdb_inlines *inlines,
                       uint32_t offset, struct pdb_frames *frames)
{
	uint32_t waiting[PDB_INLINE_DEPTH_MAX];
	unsigned waiting_count = 0;
	uint32_t end = inlines->site_count;
	for (uint32_t i = 0; i < end;) {
		const struct pdb_inline_site *site = &inlines->sites[i];
		while (waiting_count && i >= inlines->sites[waiting[waiting_count - 1]].next)
			waiting_count--;
		if (!reaches(site, offset)) {
			i = site->next > i ? site->next : i + 1;
			continue;
		}
		const struct pdb_inline_range *range = find_range(inlines, site, offset);
		if (!range) {
			if (waiting_count < PDB_INLINE_DEPTH_MAX)
				waiting[waiting_count++] = i;
			i++;
			continue;
		}
		for (unsigned k = 0; k < waiting_count; k++) {
			if (!push_site(pdb, data, inlines, waiting[k], NULL, frames))
				return false;
		}
		waiting_count = 0;
		if (!push_site(pdb, data, inlines, i, range, frames))
			return false;
		i++;
		end = site->next;
	}
	return true;
}

bool pdb_frames_at(struct sp_pdb *pdb, const struct pdb_module_data *data, struct pdb_place place,
                   struct pdb_frames *ret)
{
	uint64_t key = pdb_place_key(place.section, place.offset);
	struct pdb_procedure *procedure = pdb_find_procedure(data, key);
	const struct pdb_row *row = pdb_find_row(data, key);
	ret->count = 0;
	if (!procedure && !row)
		return true;
	struct pdb_frame frame = { .frame.name = procedure ? pdb_procedure_name(pdb, procedure) : NULL };
	if (row) {
		frame.file = row->file;
		frame.frame.file = pdb_file_name(pdb, data, row->file);
		frame.frame.line = row->line;
		frame.frame.column = row->column;
	}
	if (!sp_vector_push(ret, frame))
		return false;
	bool no_memory = false;
	const struct pdb_inlines *inlines = procedure ? pdb_need_inlines(pdb, data, procedure, &no_memory) : NULL;
	if (inlines && !push_sites(pdb, data, inlines, place.offset - procedure->base, ret))
		return false;
	return !no_memory;
}

/* All frames of one place, innermost first. */
static bool find_frames(struct lookup *lookup, struct pdb_place place)
{
	struct pdb_module_data *data = module_of(lookup->pdb, place, &lookup->error);
	if (!data)
		return true;
	if (data->error)
		lookup->note = data->error;
	if (!pdb_frames_at(lookup->pdb, data, place, &lookup->found) ||
	    !sp_vector_reserve(&lookup->frames, lookup->found.count))
		return false;
	for (size_t i = lookup->found.count; i-- > 0;)
		lookup->frames.items[lookup->frames.count++] = lookup->found.items[i].frame;
	return true;
}

struct sp_error *sp_pdb_lookup(struct sp_pdb *pdb, const uint64_t *addresses, size_t count,
                               void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                               void *context, const char **ret_note)
{
	struct lookup lookup = { .pdb = pdb };
	for (size_t i = 0; i < count; i++) {
		struct pdb_place place;
		lookup.frames.count = 0;
		if (pdb_place_of(pdb, addresses[i], &place) && !find_frames(&lookup, place)) {
			lookup.error = keep_first(lookup.error, sp_error_no_memory());
			break;
		}
		struct sp_dwarf_answer answer = { lookup.frames.items, lookup.frames.count };
		emit(context, i, &answer);
	}
	sp_vector_deinit(&lookup.found);
	sp_vector_deinit(&lookup.frames);
	if (lookup.error && lookup.error->code == SP_ERROR_NO_MEMORY)
		return lookup.error;
	if (ret_note)
		*ret_note = lookup.error  ? pdb_keep(pdb, lookup.error->message, strlen(lookup.error->message))
		            : lookup.note ? lookup.note
		                          : pdb->note;
	sp_error_destroy(lookup.error);
	return NULL;
}

/* A procedure as a symbol; false when a tool has removed it from the image. */
static bool procedure_symbol(struct sp_pdb *pdb, struct pdb_procedure *procedure, struct sp_symbol *ret)
{
	uint32_t address, section = (uint32_t)(procedure->place >> 32), offset = (uint32_t)procedure->place;
	if (!pdb_address_of(pdb, (uint16_t)section, offset, &address))
		return false;
	*ret = (struct sp_symbol){ .name = pdb_procedure_name(pdb, procedure),
		                   .address = address,
		                   .size = pdb->from_source.count ? 0 : procedure->size,
		                   .source = SP_SYMBOL_SYMTAB };
	return ret->name[0];
}

static bool public_symbol(struct sp_pdb *pdb, const struct pdb_public *symbol, struct sp_symbol *ret)
{
	uint32_t address, size = 0;
	struct pdb_contribution contribution;
	if (!pdb_address_of(pdb, symbol->place.section, symbol->place.offset, &address))
		return false;
	if (!pdb->from_source.count && symbol->next != UINT32_MAX)
		size = symbol->next - symbol->place.offset;
	/* It does not reach over the end of its object file's part. */
	if (!pdb->from_source.count && pdb_find_contribution(pdb, symbol->place, &contribution)) {
		uint32_t left = contribution.size - (symbol->place.offset - contribution.offset);
		size = !size || size > left ? left : size;
	}
	*ret = (struct sp_symbol){ .name = symbol->name, .address = address, .size = size, .source = SP_SYMBOL_EXPORT };
	return true;
}

bool sp_pdb_symbol(struct sp_pdb *pdb, uint64_t address, struct sp_symbol *ret)
{
	struct pdb_place place;
	struct pdb_public symbol;
	struct sp_error *error = NULL;
	if (!pdb_place_of(pdb, address, &place))
		return false;
	struct pdb_module_data *data = module_of(pdb, place, &error);
	sp_error_destroy(error);
	struct pdb_procedure *procedure = data ? pdb_find_procedure(data, pdb_place_key(place.section, place.offset))
	                                       : NULL;
	if (procedure && procedure_symbol(pdb, procedure, ret))
		return true;
	if (!pdb_find_public(pdb, place, &symbol) || !public_symbol(pdb, &symbol, ret))
		return false;
	return !ret->size || address - ret->address < ret->size;
}

typedef SP_VECTOR(struct sp_symbol) symbol_vector;

static struct sp_error *add_procedures(struct sp_pdb *pdb, symbol_vector *symbols)
{
	for (size_t i = 0; i < pdb->module_count; i++) {
		struct pdb_module_data *data;
		struct sp_error *error = pdb_need_module(pdb, i, &data);
		if (error && error->code == SP_ERROR_NO_MEMORY)
			return error;
		sp_error_destroy(error); /* the others are there */
		for (size_t k = 0; data && k < data->procedure_count; k++) {
			struct sp_symbol symbol;
			if (procedure_symbol(pdb, &data->procedures[k], &symbol) && !sp_vector_push(symbols, symbol))
				return sp_error_no_memory();
		}
	}
	return NULL;
}

static bool in_code(const struct sp_pdb *pdb, const struct pdb_place *place)
{
	return place->section && place->section <= pdb->section_count && pdb->sections[place->section - 1].executable;
}

struct sp_error *sp_pdb_symbols(struct sp_pdb *pdb, struct sp_symbols *ret)
{
	symbol_vector symbols = { 0 };
	*ret = (struct sp_symbols){ 0 };
	struct sp_error *error = add_procedures(pdb, &symbols);
	for (uint32_t i = 0; i < pdb->address_map_count && !error; i++) {
		struct pdb_public public;
		struct sp_symbol symbol;
		if (pdb_public_at(pdb, i, &public) && in_code(pdb, &public.place) &&
		    public_symbol(pdb, &public, &symbol) && !sp_vector_push(&symbols, symbol))
			error = sp_error_no_memory();
	}
	ret->items = symbols.items;
	ret->count = symbols.count;
	if (error)
		sp_symbols_deinit(ret);
	return error;
}
