/* The reference engine: answers by libdwarf, written apart from our own decoder so that the two can be compared.
 *
 * It runs in a child process only (libdwarf_child.c): libdwarf crashes on some hostile files, keeps its settings in
 * globals and gives no memory back, all of which ends with the process. It walks the units in file order; a unit that
 * claims one of the addresses is read whole, functions, inlined calls and lines, into plain arrays that are searched
 * from end to end. Names are bare: scopes are not put in front. It reads no .dwo files and no packages: for split units
 * there are lines only. */
#include "constants.h"
#include "libdwarf_child.h"

#include "common/library.h"

#ifndef _WIN32

#include <libdwarf.h> /* after constants.h: it may define the same names */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(DW_LIBDWARF_VERSION_MAJOR) /* 0.1 and later */
typedef Dwarf_Unsigned section_index;
typedef Dwarf_Obj_Access_Interface_a access_interface;
typedef Dwarf_Obj_Access_Methods_a access_methods;
typedef Dwarf_Obj_Access_Section_a access_section;
typedef Dwarf_Small byte_order;
#define BIG_ENDIAN_FILE 1 /* DW_END_big */
#define LITTLE_ENDIAN_FILE 2
#else /* 2021 and before */
typedef Dwarf_Half section_index;
typedef Dwarf_Obj_Access_Interface access_interface;
typedef Dwarf_Obj_Access_Methods access_methods;
typedef Dwarf_Obj_Access_Section access_section;
typedef Dwarf_Endianness byte_order;
#define BIG_ENDIAN_FILE DW_OBJECT_MSB
#define LITTLE_ENDIAN_FILE DW_OBJECT_LSB
#endif

/* ---- Loading libdwarf ---- */

#define FUNCTIONS(X)                         \
	X(dwarf_attr)                        \
	X(dwarf_child)                       \
	X(dwarf_formsdata)                   \
	X(dwarf_formstring)                  \
	X(dwarf_formudata)                   \
	X(dwarf_get_ranges_b)                \
	X(dwarf_get_rnglists_entry_fields_a) \
	X(dwarf_global_formref)              \
	X(dwarf_highpc_b)                    \
	X(dwarf_line_srcfileno)              \
	X(dwarf_lineaddr)                    \
	X(dwarf_lineendsequence)             \
	X(dwarf_lineno)                      \
	X(dwarf_lineoff_b)                   \
	X(dwarf_lowpc)                       \
	X(dwarf_next_cu_header_d)            \
	X(dwarf_object_init_b)               \
	X(dwarf_offdie_b)                    \
	X(dwarf_rnglists_get_rle_head)       \
	X(dwarf_set_de_alloc_flag)           \
	X(dwarf_set_tied_dbg)                \
	X(dwarf_siblingof_b)                 \
	X(dwarf_srclines_b)                  \
	X(dwarf_srclines_files_data_b)       \
	X(dwarf_srclines_files_indexes)      \
	X(dwarf_srclines_from_linecontext)   \
	X(dwarf_srclines_include_dir_data)   \
	X(dwarf_tag)                         \
	X(dwarf_whatform)

/* Filled once, in the parent. */
static struct {
	FUNCTIONS(SP_LIBRARY_MEMBER)
} libdwarf;
static struct sp_error *load_failed;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

#define dwarf_attr libdwarf.dwarf_attr
#define dwarf_child libdwarf.dwarf_child
#define dwarf_formsdata libdwarf.dwarf_formsdata
#define dwarf_formstring libdwarf.dwarf_formstring
#define dwarf_formudata libdwarf.dwarf_formudata
#define dwarf_get_ranges_b libdwarf.dwarf_get_ranges_b
#define dwarf_get_rnglists_entry_fields_a libdwarf.dwarf_get_rnglists_entry_fields_a
#define dwarf_global_formref libdwarf.dwarf_global_formref
#define dwarf_highpc_b libdwarf.dwarf_highpc_b
#define dwarf_line_srcfileno libdwarf.dwarf_line_srcfileno
#define dwarf_lineaddr libdwarf.dwarf_lineaddr
#define dwarf_lineendsequence libdwarf.dwarf_lineendsequence
#define dwarf_lineno libdwarf.dwarf_lineno
#define dwarf_lineoff_b libdwarf.dwarf_lineoff_b
#define dwarf_lowpc libdwarf.dwarf_lowpc
#define dwarf_next_cu_header_d libdwarf.dwarf_next_cu_header_d
#define dwarf_object_init_b libdwarf.dwarf_object_init_b
#define dwarf_offdie_b libdwarf.dwarf_offdie_b
#define dwarf_rnglists_get_rle_head libdwarf.dwarf_rnglists_get_rle_head
#define dwarf_set_de_alloc_flag libdwarf.dwarf_set_de_alloc_flag
#define dwarf_set_tied_dbg libdwarf.dwarf_set_tied_dbg
#define dwarf_siblingof_b libdwarf.dwarf_siblingof_b
#define dwarf_srclines_b libdwarf.dwarf_srclines_b
#define dwarf_srclines_files_data_b libdwarf.dwarf_srclines_files_data_b
#define dwarf_srclines_files_indexes libdwarf.dwarf_srclines_files_indexes
#define dwarf_srclines_from_linecontext libdwarf.dwarf_srclines_from_linecontext
#define dwarf_srclines_include_dir_data libdwarf.dwarf_srclines_include_dir_data
#define dwarf_tag libdwarf.dwarf_tag
#define dwarf_whatform libdwarf.dwarf_whatform

static void load(void)
{
	static const char *const names[] = { LIBDWARF_LIBRARY, NULL };
	static const struct sp_library_function functions[] = { FUNCTIONS(SP_LIBRARY_ENTRY) };
	load_failed = sp_library_load(names, functions, sizeof(functions) / sizeof(functions[0]));
}

struct sp_error *dw_child_need_libdwarf(void)
{
	pthread_once(&load_once, load);
	return load_failed ? sp_error_copy(load_failed) : NULL;
}

/* ---- Giving libdwarf the sections ---- */

static int get_section_info(void *object, section_index index, access_section *ret, int *error)
{
	const struct dw_child_file *file = object;
	(void)error;
	if (index > file->section_count)
		return DW_DLV_NO_ENTRY;
	memset(ret, 0, sizeof(*ret));
	const struct dw_child_section *section = index ? &file->sections[index - 1] : NULL;
	const char *name = section ? section->name : ""; /* section 0 is empty */
	uint64_t size = section ? section->size : 0;
#if defined(DW_LIBDWARF_VERSION_MAJOR)
	ret->as_name = name;
	ret->as_type = section ? 1 : 0;
	ret->as_size = size;
	ret->as_addralign = 1;
#else
	ret->name = name;
	ret->type = section ? 1 : 0;
	ret->size = size;
#endif
	return DW_DLV_OK;
}

static byte_order get_byte_order(void *object)
{
	return ((const struct dw_child_file *)object)->big_endian ? BIG_ENDIAN_FILE : LITTLE_ENDIAN_FILE;
}

static Dwarf_Small get_length_size(void *object)
{
	return (Dwarf_Small)((const struct dw_child_file *)object)->address_size;
}

static Dwarf_Unsigned get_section_count(void *object)
{
	return ((const struct dw_child_file *)object)->section_count + 1;
}

static int load_section(void *object, section_index index, Dwarf_Small **ret, int *error)
{
	const struct dw_child_file *file = object;
	(void)error;
	if (!index || index > file->section_count)
		return DW_DLV_NO_ENTRY;
	*ret = (Dwarf_Small *)file->sections[index - 1].bytes; /* read only, libdwarf keeps to that */
	return DW_DLV_OK;
}

#if defined(DW_LIBDWARF_VERSION_MAJOR)
static Dwarf_Unsigned get_file_size(void *object)
{
	const struct dw_child_file *file = object;
	Dwarf_Unsigned size = 4096;
	for (size_t i = 0; i < file->section_count; i++)
		size += file->sections[i].size;
	return size;
}

static const access_methods methods = { .om_get_section_info = get_section_info,
	                                .om_get_byte_order = get_byte_order,
	                                .om_get_length_size = get_length_size,
	                                .om_get_pointer_size = get_length_size,
	                                .om_get_filesize = get_file_size,
	                                .om_get_section_count = get_section_count,
	                                .om_load_section = load_section };
#else
static const access_methods methods = { .get_section_info = get_section_info,
	                                .get_byte_order = get_byte_order,
	                                .get_length_size = get_length_size,
	                                .get_pointer_size = get_length_size,
	                                .get_section_count = get_section_count,
	                                .load_section = load_section };
#endif

static access_interface make_interface(struct dw_child_file *file)
{
#if defined(DW_LIBDWARF_VERSION_MAJOR)
	return (access_interface){ .ai_object = file, .ai_methods = &methods };
#else
	return (access_interface){ .object = file, .methods = &methods };
#endif
}

/* ---- What is read of a unit ---- */

struct range {
	Dwarf_Addr start, end;
};

typedef SP_VECTOR(struct range) ranges;

/* A function or an inlined call. */
struct node {
	Dwarf_Die die;
	ranges ranges;
	int32_t parent; /* node; -1 = none */
	bool is_function;
	Dwarf_Unsigned file, line, column; /* of the call */
};

struct row {
	Dwarf_Addr address;
	Dwarf_Unsigned file, line, column;
	bool end;
};

struct unit {
	Dwarf_Die root;
	Dwarf_Half version;
	Dwarf_Addr low;
	SP_VECTOR(struct node) nodes;
	SP_VECTOR(struct row) rows;
	Dwarf_Line_Context context;
	Dwarf_Unsigned line_version;
	const char *comp_dir;
};

struct engine {
	const struct dw_child_job *job;
	Dwarf_Debug main, supplementary;
	struct sp_limited_output *out;
};

/* ---- Attributes ---- */

static Dwarf_Attribute attribute_of(Dwarf_Die die, Dwarf_Half name)
{
	Dwarf_Attribute attribute = NULL;
	Dwarf_Error error = NULL;
	return dwarf_attr(die, name, &attribute, &error) == DW_DLV_OK ? attribute : NULL;
}

static Dwarf_Unsigned number_of(Dwarf_Die die, Dwarf_Half name)
{
	Dwarf_Attribute attribute = attribute_of(die, name);
	Dwarf_Error error = NULL;
	Dwarf_Unsigned value = 0;
	Dwarf_Signed negative = 0;
	if (!attribute)
		return 0;
	if (dwarf_formudata(attribute, &value, &error) == DW_DLV_OK)
		return value;
	return dwarf_formsdata(attribute, &negative, &error) == DW_DLV_OK ? (Dwarf_Unsigned)negative : 0;
}

static const char *text_of(Dwarf_Die die, Dwarf_Half name)
{
	Dwarf_Attribute attribute = attribute_of(die, name);
	Dwarf_Error error = NULL;
	char *text = NULL;
	return attribute && dwarf_formstring(attribute, &text, &error) == DW_DLV_OK ? text : NULL;
}

/* The DIE that an attribute refers to, in *ret_debug. */
static Dwarf_Die die_of(const struct engine *engine, Dwarf_Debug debug, Dwarf_Attribute attribute,
                        Dwarf_Debug *ret_debug)
{
	Dwarf_Half form = 0;
	Dwarf_Off offset = 0;
	Dwarf_Die die = NULL;
	Dwarf_Error error = NULL;
	if (dwarf_whatform(attribute, &form, &error) != DW_DLV_OK)
		return NULL;
	*ret_debug = debug;
	if (form == DW_FORM_GNU_ref_alt || form == DW_FORM_ref_sup4 || form == DW_FORM_ref_sup8)
		*ret_debug = engine->supplementary;
	Dwarf_Unsigned number = 0;
	if (!*ret_debug)
		return NULL;
	if (dwarf_global_formref(attribute, &offset, &error) != DW_DLV_OK) {
		if (dwarf_formudata(attribute, &number, &error) != DW_DLV_OK)
			return NULL;
		offset = number;
	}
	return dwarf_offdie_b(*ret_debug, offset, 1, &die, &error) == DW_DLV_OK ? die : NULL;
}

static bool add_range(const struct engine *engine, ranges *ret, Dwarf_Addr start, Dwarf_Addr end)
{
	const struct dw_child_job *job = engine->job;
	if (start >= end || (job->code_start < job->code_end && (start < job->code_start || start >= job->code_end)))
		return true;
	return sp_vector_push(ret, (struct range){ start, end });
}

static bool read_rnglists(const struct engine *engine, Dwarf_Attribute attribute, Dwarf_Half form, Dwarf_Unsigned value,
                          ranges *ret)
{
	Dwarf_Rnglists_Head head = NULL;
	Dwarf_Unsigned count = 0, offset = 0;
	Dwarf_Error error = NULL;
	if (dwarf_rnglists_get_rle_head(attribute, form, value, &head, &count, &offset, &error) != DW_DLV_OK)
		return true;
	for (Dwarf_Unsigned i = 0; i < count; i++) {
		unsigned length = 0, kind = 0;
		Dwarf_Unsigned raw1 = 0, raw2 = 0, start = 0, end = 0;
		Dwarf_Bool unavailable = 0;
		if (dwarf_get_rnglists_entry_fields_a(head, i, &length, &kind, &raw1, &raw2, &unavailable, &start, &end,
		                                      &error) != DW_DLV_OK)
			break;
		if (kind == DW_RLE_end_of_list)
			break;
		if (kind == DW_RLE_base_address || kind == DW_RLE_base_addressx || unavailable)
			continue;
		if (!add_range(engine, ret, start, end))
			return false;
	}
	return true;
}

static bool read_old_ranges(const struct engine *engine, const struct unit *unit, Dwarf_Die die, Dwarf_Unsigned offset,
                            ranges *ret)
{
	Dwarf_Ranges *list = NULL;
	Dwarf_Signed count = 0;
	Dwarf_Unsigned bytes = 0;
	Dwarf_Off real = 0;
	Dwarf_Error error = NULL;
	Dwarf_Addr base = unit->low;
	if (dwarf_get_ranges_b(engine->main, offset, die, &real, &list, &count, &bytes, &error) != DW_DLV_OK)
		return true;
	for (Dwarf_Signed i = 0; i < count && list[i].dwr_type != DW_RANGES_END; i++) {
		if (list[i].dwr_type == DW_RANGES_ADDRESS_SELECTION)
			base = list[i].dwr_addr2;
		else if (!add_range(engine, ret, base + list[i].dwr_addr1, base + list[i].dwr_addr2))
			return false;
	}
	return true;
}

/* False without memory. */
static bool read_ranges(const struct engine *engine, const struct unit *unit, Dwarf_Die die, ranges *ret)
{
	Dwarf_Attribute attribute = attribute_of(die, DW_AT_ranges);
	Dwarf_Error error = NULL;
	if (attribute) {
		Dwarf_Half form = 0;
		Dwarf_Unsigned value = 0;
		Dwarf_Off offset = 0;
		if (dwarf_whatform(attribute, &form, &error) != DW_DLV_OK)
			return true;
		if (dwarf_formudata(attribute, &value, &error) != DW_DLV_OK) {
			if (dwarf_global_formref(attribute, &offset, &error) != DW_DLV_OK)
				return true;
			value = offset;
		}
		return unit->version >= 5 ? read_rnglists(engine, attribute, form, value, ret)
		                          : read_old_ranges(engine, unit, die, value, ret);
	}
	Dwarf_Addr low = 0, high = 0;
	Dwarf_Half form = 0;
	enum Dwarf_Form_Class class = DW_FORM_CLASS_UNKNOWN;
	if (dwarf_lowpc(die, &low, &error) != DW_DLV_OK ||
	    dwarf_highpc_b(die, &high, &form, &class, &error) != DW_DLV_OK)
		return true;
	return add_range(engine, ret, low, class == DW_FORM_CLASS_CONSTANT ? low + high : high);
}

/* ---- Reading a unit ---- */

static bool push_node(const struct engine *engine, struct unit *unit, Dwarf_Die die, Dwarf_Half tag, int32_t *parent)
{
	struct node node = { .die = die, .parent = *parent, .is_function = tag == DW_TAG_subprogram };
	if (!read_ranges(engine, unit, die, &node.ranges))
		return false;
	if (node.is_function)
		node.parent = -1;
	else if (node.parent < 0)
		return true;
	if (!node.is_function) {
		node.file = number_of(die, DW_AT_call_file);
		node.line = number_of(die, DW_AT_call_line);
		node.column = number_of(die, DW_AT_call_column);
	}
	*parent = node.is_function && !node.ranges.count ? -1 : (int32_t)unit->nodes.count;
	return *parent < 0 || sp_vector_push(&unit->nodes, node);
}

/* A DIE that is still to be visited, and the node around it. */
struct pending {
	Dwarf_Die die;
	int32_t node;
};

/* Collects functions and inlined calls in file order. */
static bool read_nodes(const struct engine *engine, struct unit *unit)
{
	SP_VECTOR(struct pending) stack = { 0 };
	bool ok = sp_vector_push(&stack, (struct pending){ unit->root, -1 });
	while (ok && stack.count) {
		struct pending at = stack.items[--stack.count];
		Dwarf_Die next = NULL;
		Dwarf_Half tag = 0;
		Dwarf_Error error = NULL;
		int32_t node = at.node;
		/* The sibling is visited after the children: it goes below them on the stack. */
		if (at.die != unit->root && dwarf_siblingof_b(engine->main, at.die, 1, &next, &error) == DW_DLV_OK)
			ok = sp_vector_push(&stack, (struct pending){ next, at.node });
		if (dwarf_tag(at.die, &tag, &error) != DW_DLV_OK)
			continue;
		if (ok && (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine))
			ok = push_node(engine, unit, at.die, tag, &node);
		if (ok && dwarf_child(at.die, &next, &error) == DW_DLV_OK)
			ok = sp_vector_push(&stack, (struct pending){ next, node });
	}
	sp_vector_deinit(&stack);
	return ok;
}

static bool read_rows(struct unit *unit)
{
	Dwarf_Small tables = 0;
	Dwarf_Line *lines = NULL;
	Dwarf_Signed count = 0;
	Dwarf_Error error = NULL;
	if (dwarf_srclines_b(unit->root, &unit->line_version, &tables, &unit->context, &error) != DW_DLV_OK)
		return true;
	if (dwarf_srclines_from_linecontext(unit->context, &lines, &count, &error) != DW_DLV_OK)
		return true;
	for (Dwarf_Signed i = 0; i < count; i++) {
		struct row row = { 0 };
		Dwarf_Bool end = 0;
		if (dwarf_lineaddr(lines[i], &row.address, &error) != DW_DLV_OK ||
		    dwarf_lineno(lines[i], &row.line, &error) != DW_DLV_OK ||
		    dwarf_lineoff_b(lines[i], &row.column, &error) != DW_DLV_OK ||
		    dwarf_lineendsequence(lines[i], &end, &error) != DW_DLV_OK)
			break;
		if (dwarf_line_srcfileno(lines[i], &row.file, &error) != DW_DLV_OK)
			row.file = UINT64_MAX;
		row.end = end;
		if (!sp_vector_push(&unit->rows, row))
			return false;
	}
	return true;
}

static void unit_deinit(struct unit *unit)
{
	for (size_t i = 0; i < unit->nodes.count; i++)
		sp_vector_deinit(&unit->nodes.items[i].ranges);
	sp_vector_deinit(&unit->nodes);
	sp_vector_deinit(&unit->rows);
}

/* ---- Searching a unit ---- */

static bool holds(const ranges *list, Dwarf_Addr address, Dwarf_Addr *ret_size)
{
	for (size_t i = 0; i < list->count; i++) {
		if (address >= list->items[i].start && address < list->items[i].end) {
			*ret_size = list->items[i].end - list->items[i].start;
			return true;
		}
	}
	return false;
}

/* The function with the tightest range, the last of equal ones; -1 = none. */
static int32_t find_function(const struct unit *unit, Dwarf_Addr address)
{
	int32_t best = -1;
	Dwarf_Addr best_size = 0, size = 0;
	for (size_t i = 0; i < unit->nodes.count; i++) {
		const struct node *node = &unit->nodes.items[i];
		if (node->is_function && holds(&node->ranges, address, &size) && (best < 0 || size <= best_size)) {
			best = (int32_t)i;
			best_size = size;
		}
	}
	return best;
}

/* The innermost node of the function: the last one in the file whose callers all hold the address. */
static int32_t find_innermost(const struct unit *unit, int32_t function, Dwarf_Addr address)
{
	int32_t best = function;
	for (size_t i = (size_t)function + 1; i < unit->nodes.count; i++) {
		Dwarf_Addr size;
		int32_t at = (int32_t)i;
		if (!holds(&unit->nodes.items[i].ranges, address, &size))
			continue;
		while (at > function) {
			const struct node *node = &unit->nodes.items[at];
			if (node->is_function || (node->ranges.count && !holds(&node->ranges, address, &size)))
				break;
			at = node->parent;
		}
		if (at == function)
			best = (int32_t)i;
	}
	return best;
}

static bool is_code(const struct engine *engine, Dwarf_Addr address)
{
	const struct dw_child_job *job = engine->job;
	return job->code_start >= job->code_end || (address >= job->code_start && address < job->code_end);
}

/* The row of the tightest sequence, the first of equal ones. NULL = none. */
static const struct row *find_row(const struct engine *engine, const struct unit *unit, Dwarf_Addr address)
{
	const struct row *best = NULL, *rows = unit->rows.items;
	Dwarf_Addr best_span = 0;
	for (size_t first = 0, i = 0; i < unit->rows.count; i++) {
		if (!rows[i].end)
			continue;
		const struct row *found = NULL;
		Dwarf_Addr lowest = UINT64_MAX;
		for (size_t k = first; k < i; k++) {
			lowest = rows[k].address < lowest ? rows[k].address : lowest;
			if (rows[k].address <= address && (!found || rows[k].address >= found->address))
				found = &rows[k];
		}
		first = i + 1;
		Dwarf_Addr span = rows[i].address - lowest;
		if (found && address < rows[i].address && is_code(engine, lowest) && (!best || span < best_span)) {
			best = found;
			best_span = span;
		}
	}
	return best;
}

/* ---- Answers ---- */

/* Linkage name and name along the references. */
static void find_names(const struct engine *engine, Dwarf_Die die, const char **ret_linkage, const char **ret_name)
{
	Dwarf_Debug debug = engine->main;
	*ret_linkage = *ret_name = NULL;
	for (unsigned i = 0; i < 16 && die; i++) {
		const char *linkage = text_of(die, DW_AT_linkage_name);
		if (!linkage)
			linkage = text_of(die, DW_AT_MIPS_linkage_name);
		if (!*ret_linkage)
			*ret_linkage = linkage;
		if (!*ret_name)
			*ret_name = text_of(die, DW_AT_name);
		if (*ret_linkage && *ret_name)
			return;
		Dwarf_Attribute next = attribute_of(die, DW_AT_abstract_origin);
		if (!next)
			next = attribute_of(die, DW_AT_specification);
		die = next ? die_of(engine, debug, next, &debug) : NULL;
	}
}

static bool is_absolute(const char *path)
{
	return path[0] == '/' || path[0] == '\\' || (path[0] && path[1] == ':');
}

static void join(char *path, size_t size, const char *part)
{
	size_t length = strlen(path);
	if (!part || !*part)
		return;
	if (is_absolute(part))
		snprintf(path, size, "%s", part);
	else
		snprintf(path + length, size - length, "%s%s", length && path[length - 1] != '/' ? "/" : "", part);
}

/* Files and folders count from 1 in versions 2 to 4, from 0 in version 5, for libdwarf too. */
static const char *path_of(const struct unit *unit, Dwarf_Unsigned file, char *path, size_t size)
{
	const char *name = NULL, *folder = NULL;
	Dwarf_Unsigned folder_index = 0, time = 0, length = 0;
	Dwarf_Form_Data16 *md5 = NULL;
	Dwarf_Error error = NULL;
	Dwarf_Signed base = 0, count = 0, end = 0;
	if (!unit->context || file > INT32_MAX ||
	    dwarf_srclines_files_indexes(unit->context, &base, &count, &end, &error) != DW_DLV_OK ||
	    (Dwarf_Signed)file < base || (Dwarf_Signed)file >= end ||
	    dwarf_srclines_files_data_b(unit->context, (Dwarf_Signed)file, &name, &folder_index, &time, &length, &md5,
	                                &error) != DW_DLV_OK)
		return NULL;
	Dwarf_Signed index = folder_index <= INT32_MAX ? (Dwarf_Signed)folder_index : INT32_MAX;
	if ((index || unit->line_version >= 5) &&
	    dwarf_srclines_include_dir_data(unit->context, index, &folder, &error) != DW_DLV_OK)
		folder = NULL;
	*path = '\0';
	join(path, size, unit->comp_dir);
	if (folder && !(unit->comp_dir && !strcmp(folder, unit->comp_dir)))
		join(path, size, folder);
	join(path, size, name);
	return path;
}

static void put_frame(const struct engine *engine, const struct unit *unit, Dwarf_Die die, const struct row *place)
{
	const char *linkage = NULL, *name = NULL;
	char path[8192];
	if (die)
		find_names(engine, die, &linkage, &name);
	dw_child_put_text(engine->out, linkage);
	dw_child_put_text(engine->out, name);
	dw_child_put_text(engine->out, place ? path_of(unit, place->file, path, sizeof(path)) : NULL);
	dw_child_put_number(engine->out, place ? (uint32_t)place->line : 0);
	dw_child_put_number(engine->out, place ? (uint32_t)place->column : 0);
}

/* What is known of an address in a unit: 2 for a function, 1 for a line. */
static unsigned rank_of(int32_t function, const struct row *row)
{
	return (function >= 0 ? 2 : 0) + (row ? 1 : 0);
}

static void put_answer(const struct engine *engine, const struct unit *unit, size_t index, int32_t function,
                       const struct row *row)
{
	int32_t node = function >= 0 ? find_innermost(unit, function, engine->job->addresses[index]) : -1;
	uint32_t count = node < 0 ? 1 : 0;
	struct row place;
	for (int32_t at = node; at >= 0; at = unit->nodes.items[at].parent)
		count++;
	dw_child_put_number(engine->out, (uint32_t)index);
	dw_child_put_number(engine->out, count);
	if (node < 0)
		put_frame(engine, unit, NULL, row);
	while (node >= 0) {
		const struct node *call = &unit->nodes.items[node];
		put_frame(engine, unit, call->die, row);
		place = (struct row){ 0, call->file, call->line, call->column, false };
		row = &place;
		node = call->parent;
	}
}

/* Answers the addresses that the unit claims and no earlier one answered as well. A later answer to an address takes
 * the place of an earlier one. */
static bool answer_unit(const struct engine *engine, struct unit *unit, bool claims, uint8_t *ranks)
{
	const struct dw_child_job *job = engine->job;
	ranges claimed = { 0 };
	bool wanted = false, ok = !claims || read_ranges(engine, unit, unit->root, &claimed);
	Dwarf_Addr size;
	for (size_t i = 0; ok && i < job->count && !wanted; i++)
		wanted = ranks[i] < 3 && (!claimed.count || holds(&claimed, job->addresses[i], &size));
	if (ok && wanted) {
		unit->comp_dir = text_of(unit->root, DW_AT_comp_dir);
		ok = read_nodes(engine, unit) && read_rows(unit);
	}
	for (size_t i = 0; ok && wanted && i < job->count; i++) {
		if (ranks[i] == 3 || (claimed.count && !holds(&claimed, job->addresses[i], &size)))
			continue;
		int32_t function = find_function(unit, job->addresses[i]);
		const struct row *row = find_row(engine, unit, job->addresses[i]);
		unsigned rank = rank_of(function, row);
		if (rank <= ranks[i])
			continue;
		ranks[i] = (uint8_t)rank;
		put_answer(engine, unit, i, function, row);
	}
	sp_vector_deinit(&claimed);
	return ok;
}

/* `claims`: only units whose root says that it has the address. */
static bool answer_units(const struct engine *engine, bool claims, uint8_t *ranks)
{
	for (;;) {
		Dwarf_Unsigned length, type_offset, next;
		Dwarf_Half version, address_size, length_size, extension, type;
		Dwarf_Off abbrevs;
		Dwarf_Sig8 signature;
		Dwarf_Error error = NULL;
		struct unit unit = { 0 };
		Dwarf_Half tag = 0;
		if (dwarf_next_cu_header_d(engine->main, 1, &length, &version, &abbrevs, &address_size, &length_size,
		                           &extension, &signature, &type_offset, &next, &type, &error) != DW_DLV_OK)
			return true;
		if (dwarf_siblingof_b(engine->main, NULL, 1, &unit.root, &error) != DW_DLV_OK ||
		    dwarf_tag(unit.root, &tag, &error) != DW_DLV_OK)
			continue;
		if (tag != DW_TAG_compile_unit && tag != DW_TAG_skeleton_unit)
			continue;
		unit.version = version;
		if (dwarf_lowpc(unit.root, &unit.low, &error) != DW_DLV_OK)
			unit.low = 0;
		bool ok = answer_unit(engine, &unit, claims, ranks);
		unit_deinit(&unit);
		if (!ok)
			return false;
	}
}

bool dw_child_answer(const struct dw_child_job *job, struct sp_limited_output *out)
{
	struct engine engine = { .job = job, .out = out };
	struct dw_child_file main_file = job->main, other_file = job->supplementary;
	access_interface main_access = make_interface(&main_file), other_access = make_interface(&other_file);
	Dwarf_Error error = NULL;
	uint8_t *ranks = calloc(job->count + 1, 1);
	if (!ranks)
		return false;
	dwarf_set_de_alloc_flag(0);
	if (dwarf_object_init_b(&main_access, NULL, NULL, DW_GROUPNUMBER_BASE, &engine.main, &error) != DW_DLV_OK)
		engine.main = NULL;
	if (other_file.section_count &&
	    dwarf_object_init_b(&other_access, NULL, NULL, DW_GROUPNUMBER_BASE, &engine.supplementary, &error) ==
	        DW_DLV_OK &&
	    engine.main)
		dwarf_set_tied_dbg(engine.main, engine.supplementary, &error); /* for strings */
	/* DWARF 2 can't say in a root that its code is in several places: once more without asking it. */
	bool ok = engine.main && answer_units(&engine, true, ranks) && answer_units(&engine, false, ranks);
	free(ranks);
	return ok;
}

#else

struct sp_error *dw_child_need_libdwarf(void)
{
	return sp_error_create(SP_ERROR_UNSUPPORTED, "the libdwarf engine is not available on Windows");
}

bool dw_child_answer(const struct dw_child_job *job, struct sp_limited_output *out)
{
	(void)job;
	(void)out;
	return false;
}

#endif
