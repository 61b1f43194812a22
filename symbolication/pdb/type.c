/* Names of functions, put together from type records: scopes of inlinees, and parameters.
 *
 * The spelling is that of samply (pdb-addr2line's defaults): no return type, "class" and "struct" left out, a blank
 * behind commas, none before '*' and '&'. Records are found through the hash stream's table of index and offset, about
 * one pair for eight kilobytes, so that nothing has to be read in full. */
#include "symbolication/pdb/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LF_MODIFIER = 0x1001,
	LF_POINTER = 0x1002,
	LF_PROCEDURE = 0x1008,
	LF_MFUNCTION = 0x1009,
	LF_ARGLIST = 0x1201,
	LF_ARRAY = 0x1503,
	LF_CLASS = 0x1504,
	LF_STRUCTURE = 0x1505,
	LF_UNION = 0x1506,
	LF_ENUM = 0x1507,
	LF_INTERFACE = 0x1519,
	LF_FUNC_ID = 0x1601,
	LF_MFUNC_ID = 0x1602,
	LF_STRING_ID = 0x1605,
	LF_CLASS2 = 0x1608, /* these four: by Visual C++ 2019 and later, with wider properties and counts */
	LF_STRUCTURE2 = 0x1609,
	LF_UNION2 = 0x160a,
	LF_INTERFACE2 = 0x160b,
};
enum {
	FIRST_INDEX = 0x1000, /* below are the simple types */
	HEADER = 56,
	WALK_MAX = 8192, /* records between two hints: real ones have some hundred */
	STEPS_MAX = 2048,
	DEPTH_MAX = 32,
	NAME_MAX_SIZE = 65536,
	POINTERS_MAX = 16,
	ARGUMENTS_MAX = 256,
	FORWARD_REFERENCE = 0x80,
};

/* One name in the making. Record bytes may lie in `record`, which the next fetch overwrites. */
struct namer {
	struct sp_pdb *pdb;
	struct sp_buffer out;
	unsigned steps, depth;
	bool failed; /* too large, or no memory */
	uint8_t record[MSF_RECORD_MAX];
};

struct type {
	uint16_t kind;
	uint64_t at; /* of the body in the stream */
	struct sp_cursor body;
};

struct sp_error *pdb_open_types(struct sp_pdb *pdb, uint32_t stream, struct pdb_types *ret)
{
	uint8_t header[HEADER];
	*ret = (struct pdb_types){ .stream = stream, .hash_stream = PDB_NO_STREAM };
	if (!msf_read(&pdb->msf, stream, 0, header, sizeof(header)))
		return NULL; /* names come without parameters then */
	struct sp_cursor c = sp_cursor_init(header, sizeof(header));
	sp_cursor_skip(&c, 4);
	ret->header_size = sp_cursor_u32(&c);
	ret->first = sp_cursor_u32(&c);
	ret->end = sp_cursor_u32(&c);
	uint64_t end = (uint64_t)ret->header_size + sp_cursor_u32(&c);
	uint32_t size = msf_size(&pdb->msf, stream);
	ret->records_end = end < size ? (uint32_t)end : size;
	ret->hash_stream = sp_cursor_u16(&c);
	sp_cursor_seek(&c, 40);
	ret->hints = sp_cursor_u32(&c);
	ret->hint_count = sp_cursor_u32(&c) / 8;
	return NULL;
}

/* The last hint at or before an index: where to begin to walk. */
static void find_hint(const struct sp_pdb *pdb, const struct pdb_types *types, uint32_t index, uint32_t *ret_index,
                      uint64_t *ret_at)
{
	*ret_index = types->first;
	*ret_at = types->header_size;
	uint32_t low = 0, high = types->hint_count, pair[2];
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (!msf_read(&pdb->msf, types->hash_stream, types->hints + (uint64_t)middle * 8, pair, sizeof(pair)))
			return;
		if (pair[0] <= index) {
			*ret_index = pair[0];
			*ret_at = types->header_size + (uint64_t)pair[1];
			low = middle + 1;
		} else {
			high = middle;
		}
	}
}

/* Finds a record; false when there is none, or the name has become too much work. */
static bool fetch(struct namer *n, const struct pdb_types *types, uint32_t index, struct type *ret)
{
	uint32_t at_index, size;
	uint64_t at;
	if (index < types->first || index >= types->end || ++n->steps > STEPS_MAX)
		return false;
	find_hint(n->pdb, types, index, &at_index, &at);
	for (unsigned i = 0; at_index < index; at_index++, i++) {
		uint16_t length;
		if (i == WALK_MAX || !msf_read(&n->pdb->msf, types->stream, at, &length, sizeof(length)))
			return false;
		at += length + 2u;
	}
	if (at >= types->records_end)
		return false;
	ret->body = msf_record(&n->pdb->msf, types->stream, at, n->record, &ret->kind, &size);
	ret->at = at + 4;
	return !ret->body.bad;
}

static void put(struct namer *n, const char *text)
{
	size_t size = strlen(text);
	if (n->failed || n->out.size + size > NAME_MAX_SIZE) {
		n->failed = true;
		return;
	}
	struct sp_error *error = sp_buffer_write(&n->out, text, size);
	n->failed = error != NULL;
	sp_error_destroy(error);
}

/* A number with a variable form: small ones stand for themselves. */
static uint64_t numeric(struct sp_cursor *c)
{
	uint16_t leaf = sp_cursor_u16(c);
	if (leaf < 0x8000)
		return leaf;
	switch (leaf) {
	case 0x8000:
		return sp_cursor_u8(c);
	case 0x8001:
	case 0x8002:
		return sp_cursor_u16(c);
	case 0x8003:
	case 0x8004:
		return sp_cursor_u32(c);
	case 0x8009:
	case 0x800a:
		return sp_cursor_u64(c);
	default:
		sp_cursor_fail(c);
		return 0;
	}
}

struct simple {
	uint8_t kind, size;
	const char *name;
};
static const struct simple simple_types[] = {
	{ 0x03, 0, "void" },
	{ 0x08, 4, "HRESULT" },
	{ 0x10, 1, "signed char" },
	{ 0x11, 2, "short" },
	{ 0x12, 4, "long" },
	{ 0x13, 8, "long long" },
	{ 0x14, 16, "int128_t" },
	{ 0x20, 1, "unsigned char" },
	{ 0x21, 2, "unsigned short" },
	{ 0x22, 4, "unsigned long" },
	{ 0x23, 8, "unsigned long long" },
	{ 0x24, 16, "uint128_t" },
	{ 0x30, 1, "bool" },
	{ 0x31, 2, "bool16_t" },
	{ 0x32, 4, "bool32_t" },
	{ 0x33, 8, "bool64_t" },
	{ 0x40, 4, "float" },
	{ 0x41, 8, "double" },
	{ 0x42, 10, "long double" },
	{ 0x43, 16, "long double" },
	{ 0x44, 6, "float48_t" },
	{ 0x45, 4, "float" },
	{ 0x46, 2, "float16_t" },
	{ 0x50, 8, "complex<float>" },
	{ 0x51, 16, "complex<double>" },
	{ 0x52, 20, "complex<long double>" },
	{ 0x68, 1, "int8_t" },
	{ 0x69, 1, "uint8_t" },
	{ 0x70, 1, "char" },
	{ 0x71, 2, "wchar_t" },
	{ 0x72, 2, "int16_t" },
	{ 0x73, 2, "uint16_t" },
	{ 0x74, 4, "int" },
	{ 0x75, 4, "unsigned int" },
	{ 0x76, 8, "int64_t" },
	{ 0x77, 8, "uint64_t" },
	{ 0x78, 16, "int128_t" },
	{ 0x79, 16, "uint128_t" },
	{ 0x7a, 2, "char16_t" },
	{ 0x7b, 4, "char32_t" },
	{ 0x7c, 1, "char8_t" },
};

static const struct simple *find_simple(uint32_t index)
{
	for (size_t i = 0; i < sizeof(simple_types) / sizeof(simple_types[0]); i++) {
		if (simple_types[i].kind == (index & 0xff))
			return &simple_types[i];
	}
	return NULL;
}

static bool is_simple_pointer(uint32_t index)
{
	return index < FIRST_INDEX && index & 0xf00;
}

static void put_simple(struct namer *n, uint32_t index, bool is_const)
{
	const struct simple *simple = find_simple(index);
	bool pointer = is_simple_pointer(index);
	if (!(index & 0xff)) { /* in a list of arguments: the rest may be anything */
		put(n, pointer ? "void*" : "...");
		return;
	}
	if (index == 0x103) {
		put(n, "std::nullptr_t");
		return;
	}
	if (is_const && !pointer)
		put(n, "const ");
	put(n, simple ? simple->name : "?");
	if (pointer)
		put(n, is_const ? " const*" : "*");
}

static void put_type(struct namer *n, uint32_t index);
static void put_arguments(struct namer *n, uint32_t list, uint32_t first);

/* One '*' or '&' of a chain. */
struct pointer {
	uint8_t mode;
	bool is_const, pointee_const;
};

static void put_pointers(struct namer *n, const struct pointer *pointers, unsigned count, bool blank)
{
	static const char *const signs[] = { "*", "&", "::*", "::*", "&&", "?", "?", "?" };
	for (unsigned i = count; i-- > 0;) {
		if (pointers[i].pointee_const)
			put(n, blank || i + 1 < count ? " const" : "const");
		put(n, signs[pointers[i].mode]);
		if (pointers[i].is_const)
			put(n, " const");
	}
}

/* What a chain of pointers ends at: functions go around it, everything else stands before it. */
static void put_pointee(struct namer *n, uint32_t index, const struct pointer *pointers, unsigned count)
{
	struct type type = { 0 };
	if (index < FIRST_INDEX || !fetch(n, &n->pdb->types, index, &type) ||
	    (type.kind != LF_PROCEDURE && type.kind != LF_MFUNCTION)) {
		put_type(n, index);
		put_pointers(n, pointers, count, true);
		return;
	}
	bool member = type.kind == LF_MFUNCTION;
	uint32_t result = sp_cursor_u32(&type.body), class = member ? sp_cursor_u32(&type.body) : 0;
	sp_cursor_skip(&type.body, member ? 8 : 4);
	uint32_t list = sp_cursor_u32(&type.body);
	put_type(n, result);
	put(n, " (");
	if (member)
		put_type(n, class);
	put_pointers(n, pointers, count, false);
	put(n, ")(");
	put_arguments(n, list, 0);
	put(n, ")");
}

static struct pointer read_pointer(struct sp_cursor *body, uint32_t *ret_target)
{
	*ret_target = sp_cursor_u32(body);
	uint32_t attributes = sp_cursor_u32(body);
	return (struct pointer){ .mode = attributes >> 5 & 7, .is_const = attributes >> 10 & 1 };
}

static void put_pointer(struct namer *n, struct sp_cursor body, bool is_const)
{
	struct pointer pointers[POINTERS_MAX];
	unsigned count = 1;
	uint32_t target;
	pointers[0] = read_pointer(&body, &target);
	pointers[0].is_const |= is_const;
	while (count < POINTERS_MAX) {
		struct type type = { 0 };
		if (target < FIRST_INDEX || !fetch(n, &n->pdb->types, target, &type))
			break;
		if (type.kind == LF_MODIFIER) {
			uint32_t modified = sp_cursor_u32(&type.body);
			pointers[count - 1].pointee_const = sp_cursor_u16(&type.body) & 1;
			target = modified;
			if (target < FIRST_INDEX || !fetch(n, &n->pdb->types, target, &type))
				break;
		}
		if (type.kind != LF_POINTER)
			break;
		pointers[count++] = read_pointer(&type.body, &target);
	}
	put_pointee(n, target, pointers, count);
}

static void put_modified(struct namer *n, struct sp_cursor body)
{
	uint32_t target = sp_cursor_u32(&body);
	bool is_const = sp_cursor_u16(&body) & 1;
	struct type type = { 0 };
	if (target < FIRST_INDEX) {
		put_simple(n, target, is_const);
	} else if (fetch(n, &n->pdb->types, target, &type) && type.kind == LF_POINTER) {
		put_pointer(n, type.body, is_const);
	} else {
		if (is_const)
			put(n, "const ");
		put_type(n, target);
	}
}

/* The size of a type, for the dimensions of arrays; 0 = unknown. */
static uint64_t size_of(struct namer *n, uint32_t index)
{
	struct type type = { 0 };
	for (unsigned i = 0; i < DEPTH_MAX; i++) {
		unsigned pointer_size = n->pdb->machine == 0x8664 || n->pdb->machine == 0xaa64 ? 8 : 4;
		if (index < FIRST_INDEX) {
			const struct simple *simple = find_simple(index);
			return is_simple_pointer(index) ? pointer_size : simple ? simple->size : 0;
		}
		if (!fetch(n, &n->pdb->types, index, &type))
			return 0;
		uint16_t properties;
		switch (type.kind) {
		case LF_POINTER:
			sp_cursor_skip(&type.body, 4);
			return sp_cursor_u32(&type.body) >> 13 & 0x3f;
		case LF_CLASS:
		case LF_STRUCTURE:
		case LF_INTERFACE:
		case LF_UNION:
			sp_cursor_skip(&type.body, 2);
			properties = sp_cursor_u16(&type.body);
			sp_cursor_skip(&type.body, type.kind == LF_UNION ? 4 : 12);
			return properties & FORWARD_REFERENCE ? 0 : numeric(&type.body);
		case LF_CLASS2:
		case LF_STRUCTURE2:
		case LF_INTERFACE2:
		case LF_UNION2:
			properties = sp_cursor_u32(&type.body) & UINT16_MAX;
			sp_cursor_skip(&type.body, type.kind == LF_UNION2 ? 4 : 12);
			numeric(&type.body); /* how many members */
			return properties & FORWARD_REFERENCE ? 0 : numeric(&type.body);
		case LF_ENUM:
			sp_cursor_skip(&type.body, 4);
			break;
		case LF_MODIFIER:
			break;
		default:
			return 0;
		}
		index = sp_cursor_u32(&type.body);
	}
	return 0;
}

/* Sizes are in bytes, those of inner dimensions within those of the outer ones. */
static void put_array(struct namer *n, struct sp_cursor body)
{
	uint64_t sizes[POINTERS_MAX];
	unsigned count = 0;
	uint32_t element = 0;
	struct type type = { .kind = LF_ARRAY, .body = body };
	while (type.kind == LF_ARRAY && count < POINTERS_MAX) {
		element = sp_cursor_u32(&type.body);
		sp_cursor_skip(&type.body, 4);
		sizes[count++] = numeric(&type.body);
		if (element < FIRST_INDEX || !fetch(n, &n->pdb->types, element, &type))
			break;
	}
	uint64_t element_size = size_of(n, element);
	put_type(n, element);
	for (unsigned i = 0; i < count; i++) {
		uint64_t inner = i + 1 < count ? sizes[i + 1] : element_size;
		char text[32] = "[]";
		if (inner)
			snprintf(text, sizeof(text), "[%llu]", (unsigned long long)(sizes[i] / inner));
		put(n, text);
	}
}

/* The name stands behind `skip` bytes and some numbers of variable form. */
static void put_record_name(struct namer *n, struct sp_cursor body, unsigned skip, unsigned numbers)
{
	sp_cursor_skip(&body, skip);
	while (numbers--)
		numeric(&body);
	const char *name = sp_cursor_string(&body);
	put(n, body.bad || !name[0] ? "?" : name);
}

static void put_record(struct namer *n, const struct type *type)
{
	switch (type->kind) {
	case LF_MODIFIER:
		put_modified(n, type->body);
		break;
	case LF_POINTER:
		put_pointer(n, type->body, false);
		break;
	case LF_ARRAY:
		put_array(n, type->body);
		break;
	case LF_CLASS:
	case LF_STRUCTURE:
	case LF_INTERFACE:
		put_record_name(n, type->body, 16, 1);
		break;
	case LF_UNION:
		put_record_name(n, type->body, 8, 1);
		break;
	case LF_ENUM:
		put_record_name(n, type->body, 12, 0);
		break;
	case LF_CLASS2:
	case LF_STRUCTURE2:
	case LF_INTERFACE2:
		put_record_name(n, type->body, 16, 2);
		break;
	case LF_UNION2:
		put_record_name(n, type->body, 8, 2);
		break;
	case LF_PROCEDURE:
	case LF_MFUNCTION:
		put(n, "()");
		break;
	default:
		put(n, "?");
		break;
	}
}

static void put_type(struct namer *n, uint32_t index)
{
	struct type type = { 0 };
	if (n->failed)
		return;
	if (index < FIRST_INDEX) {
		put_simple(n, index, false);
	} else if (n->depth == DEPTH_MAX || !fetch(n, &n->pdb->types, index, &type)) {
		put(n, "?");
	} else {
		n->depth++;
		put_record(n, &type);
		n->depth--;
	}
}

/* The types of a list, after `first` if that is not 0. */
static void put_arguments(struct namer *n, uint32_t list, uint32_t first)
{
	struct type type = { 0 };
	if (first)
		put_type(n, first);
	if (!fetch(n, &n->pdb->types, list, &type) || type.kind != LF_ARGLIST)
		return;
	uint32_t count = sp_cursor_u32(&type.body);
	for (uint32_t i = 0; i < count && !n->failed; i++) {
		uint32_t index;
		if (i == ARGUMENTS_MAX ||
		    !msf_read(&n->pdb->msf, n->pdb->types.stream, type.at + 4 + (uint64_t)i * 4, &index, sizeof(index)))
			break;
		if (i || first)
			put(n, ", ");
		put_type(n, index);
	}
}

/* Whether `pointer` is the "this" of a class, and if so, whether of a constant one. */
static bool points_to_class(struct namer *n, uint32_t pointer, uint32_t class, bool *ret_const)
{
	struct type type = { 0 };
	*ret_const = false;
	if (!fetch(n, &n->pdb->types, pointer, &type) || type.kind != LF_POINTER)
		return false;
	uint32_t target = sp_cursor_u32(&type.body);
	if (target == class)
		return true;
	if (!fetch(n, &n->pdb->types, target, &type) || type.kind != LF_MODIFIER)
		return false;
	target = sp_cursor_u32(&type.body);
	*ret_const = sp_cursor_u16(&type.body) & 1;
	return target == class;
}

/* "(int, char*) const" of a function's type; nothing when that cannot be read. */
static void put_signature(struct namer *n, uint32_t index)
{
	struct type type = { 0 };
	if (!fetch(n, &n->pdb->types, index, &type) || (type.kind != LF_PROCEDURE && type.kind != LF_MFUNCTION))
		return;
	sp_cursor_skip(&type.body, 4);
	uint32_t class = 0, this = 0;
	if (type.kind == LF_MFUNCTION) {
		class = sp_cursor_u32(&type.body);
		this = sp_cursor_u32(&type.body);
	}
	sp_cursor_skip(&type.body, 4);
	uint32_t list = sp_cursor_u32(&type.body);
	/* Rust puts the first argument of what is no method into "this". */
	bool is_const = false, method = this && points_to_class(n, this, class, &is_const);
	put(n, "(");
	put_arguments(n, list, method ? 0 : this);
	put(n, method && is_const ? ") const" : ")");
}

/* Ends a name: keeps it, or `fallback` when it could not be made. */
static const char *finish(struct namer *n, const char *fallback)
{
	const char *name = NULL;
	if (!n->failed && n->out.size)
		name = pdb_keep(n->pdb, n->out.bytes, n->out.size);
	free(n->out.bytes);
	free(n);
	return name ? name : fallback;
}

static struct namer *begin(struct sp_pdb *pdb)
{
	struct namer *n = malloc(sizeof(*n));
	if (n) {
		n->pdb = pdb;
		n->out = (struct sp_buffer){ 0 };
		n->steps = n->depth = 0;
		n->failed = false;
	}
	return n;
}

/* What a thunk of incremental linking jumps to, spelled as Microsoft's tools do: where in the table the thunk is, and
 * the function. */
static const char *trampoline_name(struct sp_pdb *pdb, const struct pdb_procedure *thunk)
{
	struct pdb_place place = { (uint16_t)(thunk->target >> 32), (uint32_t)thunk->target };
	struct pdb_place own = { (uint16_t)(thunk->place >> 32), (uint32_t)thunk->place };
	struct pdb_contribution contribution, table;
	struct pdb_module_data *data = NULL;
	struct pdb_public symbol;
	const char *target = NULL;
	if (pdb_find_contribution(pdb, place, &contribution))
		sp_error_destroy(pdb_need_module(pdb, contribution.module, &data));
	struct pdb_procedure *procedure = data ? pdb_find_procedure(data, thunk->target) : NULL;
	if (procedure && !procedure->target)
		target = pdb_procedure_name(pdb, procedure);
	else if (pdb_find_public(pdb, place, &symbol) && symbol.place.offset == place.offset)
		target = symbol.name;
	struct namer *n = target ? begin(pdb) : NULL;
	if (!n)
		return "";
	char start[32];
	bool known = pdb_find_contribution(pdb, own, &table);
	snprintf(start, sizeof(start), "ILT+%u(", own.offset - (known ? table.offset : 0));
	put(n, start);
	put(n, target);
	put(n, ")");
	return finish(n, "");
}

const char *pdb_procedure_name(struct sp_pdb *pdb, struct pdb_procedure *procedure)
{
	const char *name = atomic_load_explicit(&procedure->readable, memory_order_acquire);
	if (name)
		return name;
	if (procedure->target) {
		name = trampoline_name(pdb, procedure);
		atomic_store_explicit(&procedure->readable, name, memory_order_release);
		return name;
	}
	struct namer *n = procedure->type && procedure->name[0] ? begin(pdb) : NULL;
	if (!n)
		return procedure->name;
	uint32_t index = procedure->type;
	struct type type = { 0 };
	if (procedure->id_type && fetch(n, &pdb->ids, index, &type)) {
		sp_cursor_skip(&type.body, 4);
		index = sp_cursor_u32(&type.body);
	}
	put(n, procedure->name);
	put_signature(n, index);
	name = finish(n, procedure->name);
	atomic_store_explicit(&procedure->readable, name, memory_order_release);
	return name;
}

static bool is_anonymous_namespace(const char *name)
{
	return strncmp(name, "?A0x", 4) == 0 && strspn(name + 4, "0123456789abcdefABCDEF") == strlen(name + 4);
}

/* A scope (string) or function of the IPI stream. */
static void put_id(struct namer *n, uint32_t index, bool with_signature)
{
	struct type type = { 0 };
	if (n->depth == DEPTH_MAX || !fetch(n, &n->pdb->ids, index, &type)) {
		n->failed = true;
		return;
	}
	uint32_t scope = sp_cursor_u32(&type.body);
	uint32_t function = type.kind == LF_STRING_ID ? 0 : sp_cursor_u32(&type.body);
	char *name = strdup(sp_cursor_string(&type.body)); /* the record's bytes do not last */
	if (!name || type.body.bad) {
		free(name);
		n->failed = true;
		return;
	}
	n->depth++;
	if (type.kind == LF_STRING_ID) {
		put(n, is_anonymous_namespace(name) ? "`anonymous namespace'" : name);
	} else if (type.kind == LF_FUNC_ID || type.kind == LF_MFUNC_ID) {
		if (type.kind == LF_MFUNC_ID)
			put_type(n, scope);
		else if (scope)
			put_id(n, scope, false);
		if (type.kind == LF_MFUNC_ID || scope)
			put(n, "::");
		put(n, name);
		if (with_signature)
			put_signature(n, function);
	} else {
		n->failed = true;
	}
	n->depth--;
	free(name);
}

/* An index of another module: the top bit is set, then come the module's number among the imports, and the number in
 * its list. The exporting module has a table from its own indexes to those of the whole. */
static uint32_t resolve(struct sp_pdb *pdb, const struct pdb_module_data *data, uint32_t id)
{
	if (!(id >> 31))
		return id;
	struct sp_cursor c = data->imports;
	uint32_t number = id >> 20 & 0x7ff, at = id & 0xfffff;
	if (!c.start)
		return 0;
	c.at = c.start;
	uint32_t name_at = 0, count = 0;
	for (uint32_t i = 0; i <= number && !c.bad; i++) {
		if (i)
			sp_cursor_skip(&c, (uint64_t)count * 4);
		name_at = sp_cursor_u32(&c);
		count = sp_cursor_u32(&c);
	}
	sp_cursor_skip(&c, (uint64_t)at * 4);
	uint32_t local = sp_cursor_u32(&c);
	if (c.bad || at >= count || name_at >= pdb->names_size)
		return 0;
	const char *name = pdb_stream_string(pdb, pdb->names_stream, pdb->names_at + name_at,
	                                     pdb->names_at + pdb->names_size);
	struct pdb_module_data *other = NULL;
	struct sp_error *error = name ? pdb_need_module(pdb, pdb_module_by_name(pdb, name), &other) : NULL;
	sp_error_destroy(error);
	struct sp_cursor exports = other ? other->exports : sp_cursor_init(NULL, 0);
	exports.at = exports.start;
	while (exports.start && sp_cursor_left(&exports) >= 8) {
		uint32_t from = sp_cursor_u32(&exports), to = sp_cursor_u32(&exports);
		if (from == local)
			return to;
	}
	return 0;
}

const char *pdb_inlinee_name(struct sp_pdb *pdb, const struct pdb_module_data *data, uint32_t id)
{
	struct pdb_inlinee *inlinee = pdb_find_inlinee(data, id);
	const char *name = inlinee ? atomic_load_explicit(&inlinee->name, memory_order_acquire) : NULL;
	if (name)
		return name;
	struct namer *n = begin(pdb);
	if (!n)
		return NULL;
	put_id(n, resolve(pdb, data, id), true);
	name = finish(n, NULL);
	if (name && inlinee)
		atomic_store_explicit(&inlinee->name, name, memory_order_release);
	return name;
}
