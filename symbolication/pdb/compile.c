/* Compiles a PDB to the flat index: a part for each module, limited to what the module contributed to the image.
 *
 * In a PDB the line of a call is that of the caller's own table at the address, so it may change within an inlined
 * function. A procedure is therefore cut where anything changes, and each piece gets the nodes of its chain; what was
 * made for the piece before is used again. */
#include "symbolication/pdb/internal.h"

#include "symbolication/index/builder.h"

#include <stdlib.h>
#include <string.h>

struct compiler {
	struct sp_pdb *pdb;
	struct sp_index_part *part;
	const struct pdb_module_data *data;
	struct sp_map files;         /* file ID -> number in the index */
	struct sp_map nodes;         /* hash of (parent, site, place of the call) -> node; of one procedure */
	SP_VECTOR(uint32_t) borders; /* of one procedure: offsets in the section */
	struct pdb_frames frames;    /* of one piece */
};

static struct sp_index_place place_of(struct compiler *c, uint32_t file, uint32_t line, uint32_t column)
{
	struct sp_index_place place = { 0, line, column };
	uint64_t *known = sp_map_get(&c->files, file);
	if (known) {
		place.file = (uint32_t)*known;
		return place;
	}
	const char *name = pdb_file_name(c->pdb, c->data, file);
	if (name)
		place.file = sp_index_part_file(c->part, name, strlen(name));
	sp_map_put(&c->files, file, place.file); /* without memory it is asked for again */
	return place;
}

/* All rows, whatever function they are in. */
static void add_rows(struct compiler *c)
{
	for (size_t i = 0; i < c->data->line_count; i++) {
		const struct pdb_lines *lines = &c->data->lines[i];
		const struct pdb_row *rows = &c->data->rows[lines->first_row];
		uint32_t start = (uint32_t)lines->place, address;
		if (!pdb_address_of(c->pdb, (uint16_t)(lines->place >> 32), 0, &address) ||
		    lines->size > UINT32_MAX - start)
			continue;
		for (uint32_t k = 0; k < lines->row_count; k++) {
			uint32_t end = k + 1 < lines->row_count ? rows[k + 1].offset : start + lines->size;
			if (end > start + lines->size)
				end = start + lines->size;
			if (!rows[k].line || rows[k].offset < start || rows[k].offset >= end)
				continue;
			struct sp_index_place place = place_of(c, rows[k].file, rows[k].line, rows[k].column);
			sp_index_part_row(c->part, (uint64_t)address + rows[k].offset, (uint64_t)address + end, &place);
		}
	}
}

static bool push_border(struct compiler *c, uint64_t place, uint64_t start, uint64_t end)
{
	return place <= start || place >= end || sp_vector_push(&c->borders, (uint32_t)place);
}

static int compare_borders(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

/* Where anything changes in a procedure: rows, inlined functions, other procedures. */
static bool find_borders(struct compiler *c, const struct pdb_procedure *p, const struct pdb_inlines *inlines)
{
	uint64_t start = p->place, end = p->place + p->size, section = p->place >> 32 << 32;
	c->borders.count = 0;
	bool ok = sp_vector_push(&c->borders, (uint32_t)start) && sp_vector_push(&c->borders, (uint32_t)end);
	for (uint32_t i = 0; inlines && ok && i < inlines->range_count; i++) {
		ok = push_border(c, section + (uint32_t)(p->base + inlines->ranges[i].start), start, end) &&
		     push_border(c, section + (uint32_t)(p->base + inlines->ranges[i].end), start, end);
	}
	for (size_t i = pdb_first_lines(c->data, start); ok && i < c->data->line_count; i++) {
		const struct pdb_lines *lines = &c->data->lines[i];
		if (lines->place >= end)
			break;
		for (uint32_t k = 0; ok && k < lines->row_count; k++)
			ok = push_border(c, section + c->data->rows[lines->first_row + k].offset, start, end);
		ok = ok && push_border(c, lines->place, start, end) &&
		     push_border(c, lines->place + lines->size, start, end);
	}
	for (const struct pdb_procedure *q = p + 1; ok && q < c->data->procedures + c->data->procedure_count; q++) {
		if (q->place >= end)
			break;
		ok = push_border(c, q->place, start, end) && push_border(c, q->place + q->size, start, end);
	}
	if (ok)
		qsort(c->borders.items, c->borders.count, sizeof(*c->borders.items), compare_borders);
	return ok;
}

/* The node of a frame called from `parent` at `call`; made on first use. */
static uint32_t find_node(struct compiler *c, uint32_t parent, const struct pdb_frame *frame,
                          const struct sp_index_place *call)
{
	uint32_t words[5] = { parent, frame->site, call ? call->file : 0, call ? call->line : 0,
		              call ? call->column : 0 };
	uint64_t key = sp_hash_bytes(words, sizeof(words));
	uint64_t *known = sp_map_get(&c->nodes, key);
	if (known)
		return (uint32_t)*known;
	const char *name = frame->frame.name;
	uint32_t number = name ? sp_index_part_name(c->part, SP_INDEX_PLAIN, name, strlen(name)) : 0;
	uint32_t node = sp_index_part_node(c->part, parent, number, call);
	sp_map_put(&c->nodes, key, node);
	return node;
}

/* The nodes and the line of one piece. */
static void add_piece(struct compiler *c, uint64_t start, uint64_t end)
{
	uint32_t node = 0;
	struct sp_index_place place = { 0 };
	for (size_t i = 0; i < c->frames.count; i++) {
		const struct pdb_frame *frame = &c->frames.items[i];
		node = find_node(c, node, frame, i ? &place : NULL);
		sp_index_part_range(c->part, node, start, end);
		place = (struct sp_index_place){ 0 };
		if (frame->frame.file)
			place = place_of(c, frame->file, frame->frame.line, frame->frame.column);
	}
	if (c->frames.count > 1) /* the rows of the procedure itself are there already */
		sp_index_part_row(c->part, start, end, &place);
}

static bool add_procedure(struct compiler *c, struct pdb_procedure *p)
{
	bool no_memory = false;
	uint16_t section = (uint16_t)(p->place >> 32);
	uint32_t address;
	if (!pdb_address_of(c->pdb, section, 0, &address) || (uint32_t)p->place > UINT32_MAX - p->size)
		return true;
	const struct pdb_inlines *inlines = pdb_need_inlines(c->pdb, c->data, p, &no_memory);
	if (no_memory || !find_borders(c, p, inlines))
		return false;
	sp_map_clear(&c->nodes);
	for (size_t i = 0; i + 1 < c->borders.count; i++) {
		uint32_t start = c->borders.items[i], end = c->borders.items[i + 1];
		struct pdb_place place = { section, start };
		if (start == end || pdb_find_procedure(c->data, pdb_place_key(section, start)) != p)
			continue;
		if (!pdb_frames_at(c->pdb, c->data, place, &c->frames))
			return false;
		add_piece(c, (uint64_t)address + start, (uint64_t)address + end);
	}
	return true;
}

/* Contributions by module: those of module i are numbers[first[i]] up to numbers[first[i + 1]]. */
struct claims {
	uint32_t *numbers, *first;
};

static bool sort_claims(const struct sp_pdb *pdb, struct claims *ret)
{
	struct pdb_contribution contribution;
	ret->numbers = malloc((pdb->contribution_count + 1) * sizeof(*ret->numbers));
	ret->first = calloc(pdb->module_count + 2, sizeof(*ret->first));
	if (!ret->numbers || !ret->first)
		return false;
	for (size_t i = 0; pdb_contribution_at(pdb, i, &contribution); i++) {
		if (contribution.module < pdb->module_count)
			ret->first[contribution.module + 2]++;
	}
	for (size_t i = 2; i < pdb->module_count + 2; i++)
		ret->first[i] += ret->first[i - 1];
	for (size_t i = 0; pdb_contribution_at(pdb, i, &contribution); i++) {
		if (contribution.module < pdb->module_count)
			ret->numbers[ret->first[contribution.module + 1]++] = (uint32_t)i;
	}
	return true;
}

/* What a module contributed: it has nothing to say of other addresses. False when that is nothing. */
static bool add_claims(struct compiler *c, const struct claims *claims, size_t module)
{
	bool any = false;
	for (uint32_t i = claims->first[module]; i < claims->first[module + 1]; i++) {
		struct pdb_contribution contribution;
		uint32_t address;
		if (!pdb_contribution_at(c->pdb, claims->numbers[i], &contribution) || !contribution.size ||
		    !pdb_address_of(c->pdb, contribution.section, contribution.offset, &address))
			continue;
		sp_index_part_claim(c->part, address, (uint64_t)address + contribution.size);
		any = true;
	}
	return any;
}

static struct sp_error *add_module(struct compiler *c, struct sp_index_builder *builder, const struct claims *claims,
                                   size_t module)
{
	struct pdb_module_data *data;
	struct sp_error *error = pdb_need_module(c->pdb, module, &data);
	if (error || !data || (!data->procedure_count && !data->row_count))
		return error;
	error = sp_index_part_create(builder, (uint32_t)module, &c->part);
	if (error)
		return error;
	c->data = data;
	sp_map_clear(&c->files);
	bool ok = true;
	if (!add_claims(c, claims, module)) {
		sp_index_part_destroy(c->part);
		return NULL;
	}
	add_rows(c);
	for (size_t i = 0; i < data->procedure_count && ok; i++)
		ok = add_procedure(c, &data->procedures[i]);
	if (ok)
		return sp_index_part_finish(c->part);
	sp_index_part_destroy(c->part);
	return sp_error_no_memory();
}

bool sp_pdb_can_compile(const struct sp_pdb *pdb)
{
	return !pdb->to_source.count;
}

struct sp_error *sp_pdb_compile(const uint8_t *bytes, size_t size, const atomic_bool *cancel,
                                struct sp_index_builder *builder, char **ret_note)
{
	struct compiler c = { 0 };
	struct claims claims = { 0 };
	*ret_note = NULL;
	struct sp_error *error = sp_pdb_open(bytes, size, "the PDB", &c.pdb);
	if (error)
		return error;
	if (!sort_claims(c.pdb, &claims))
		error = sp_error_no_memory();
	for (size_t i = 0; i < c.pdb->module_count && !error; i++) {
		if (atomic_load(cancel))
			error = sp_error_create(SP_ERROR_CANCELLED, "the index is not wanted any more");
		else
			error = add_module(&c, builder, &claims, i);
		if (error && error->code != SP_ERROR_NO_MEMORY && error->code != SP_ERROR_CANCELLED) {
			if (!*ret_note) /* costs this module only */
				*ret_note = strdup(error->message);
			sp_error_destroy(error);
			error = NULL;
		}
	}
	if (error) {
		free(*ret_note);
		*ret_note = NULL;
	}
	free(claims.numbers);
	free(claims.first);
	sp_map_deinit(&c.files);
	sp_map_deinit(&c.nodes);
	sp_vector_deinit(&c.borders);
	sp_vector_deinit(&c.frames);
	sp_pdb_destroy(c.pdb);
	return error;
}
