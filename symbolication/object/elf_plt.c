/* Names for the stubs of the procedure linkage table: "foo@plt".
 *
 * A stub jumps through a slot of the GOT, and a relocation fills that slot with a symbol. The slot is found by
 * decoding the stub's own jump, never by counting: .plt, .plt.sec, .plt.got and .iplt differ in headers, entry sizes
 * and order, and linkers differ again. Sources: the processor supplements, and the stubs that GNU ld and lld emit. */
#include "symbolication/object/elf.h"
#include "symbolication/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A GOT slot and the relocation that fills it. */
struct slot {
	uint64_t address;
	uint32_t symbol;   /* index in .dynsym (or .symtab of a static file); 0 = IRELATIVE */
	uint64_t resolver; /* IRELATIVE: address of the function that chooses the target */
};

struct plt {
	struct sp_object *object;
	const struct sp_elf *elf;
	SP_VECTOR(struct slot) slots;
	struct sp_cursor dynamic_symbols;
	struct sp_elf_strings dynamic_strings;
	struct sp_arena *names;
	sp_symbol_vector *symbols;
	size_t named_before; /* symbols that were there before the first stub: candidates for resolvers' names */
	struct sp_keyed *by_address; /* owned; those sorted, made when the first resolver is met */
};

enum slot_kind { SLOT_NONE, SLOT_SYMBOL, SLOT_RESOLVER };

/* JUMP_SLOT, GLOB_DAT and IRELATIVE of each machine. */
static enum slot_kind slot_kind(uint16_t machine, uint32_t type)
{
	switch (machine) {
	case SP_EM_X86_64:
		return type == 6 || type == 7 ? SLOT_SYMBOL : type == 37 ? SLOT_RESOLVER : SLOT_NONE;
	case SP_EM_386:
		return type == 6 || type == 7 ? SLOT_SYMBOL : type == 42 ? SLOT_RESOLVER : SLOT_NONE;
	case SP_EM_AARCH64:
		return type == 1025 || type == 1026 ? SLOT_SYMBOL : type == 1032 ? SLOT_RESOLVER : SLOT_NONE;
	default:
		return SLOT_NONE;
	}
}

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address;
}

static struct sp_error *read_slots(struct plt *plt)
{
	struct sp_object *object = plt->object;
	for (size_t i = 0; i < object->section_count; i++) {
		uint32_t type = plt->elf->sections[i].type;
		if ((type != SP_SHT_RELA && type != SP_SHT_REL) || !object->sections[i].allocated)
			continue;
		struct sp_cursor table;
		struct sp_error *error = sp_object_stored_bytes(object, &object->sections[i], &table);
		if (error) { /* the stubs stay nameless, which costs nothing else */
			sp_error_destroy(error);
			continue;
		}
		table.big_endian = object->big_endian;
		size_t entry = sp_elf_relocation_size(plt->elf, type == SP_SHT_RELA);
		while (sp_cursor_left(&table) >= entry) {
			struct sp_elf_relocation r = sp_elf_relocation_next(plt->elf, &table, type == SP_SHT_RELA);
			enum slot_kind kind = slot_kind(plt->elf->machine, r.type);
			if (kind == SLOT_NONE || (kind == SLOT_SYMBOL && !r.symbol))
				continue;
			struct slot slot = { .address = r.offset,
				             .symbol = kind == SLOT_SYMBOL ? r.symbol : 0,
				             .resolver = (uint64_t)r.addend };
			if (!sp_vector_push(&plt->slots, slot))
				return sp_error_no_memory();
		}
	}
	if (plt->slots.count)
		qsort(plt->slots.items, plt->slots.count, sizeof(struct slot), compare_slots);
	return NULL;
}

enum { ALIAS_LIMIT = 64 }; /* symbols at one address that are looked at */

static bool sort_symbols(struct plt *plt)
{
	plt->by_address = malloc((plt->named_before + 1) * sizeof(*plt->by_address));
	for (size_t i = 0; plt->by_address && i < plt->named_before; i++)
		plt->by_address[i] = (struct sp_keyed){ plt->symbols->items[i].address, i };
	if (plt->by_address && sp_sort_keyed(plt->by_address, plt->named_before))
		return true;
	free(plt->by_address);
	plt->by_address = NULL;
	return false;
}

/* The name of the function that an IRELATIVE slot's resolver belongs to. The function and the resolver stand at the
 * same address; the function is the one that other files may see. */
static const char *resolver_name(struct plt *plt, uint64_t address)
{
	const struct sp_symbol *best = NULL;
	size_t low = 0, high = plt->named_before;
	if (!plt->by_address && !sort_symbols(plt))
		return NULL;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (plt->by_address[middle].key < address)
			low = middle + 1;
		else
			high = middle;
	}
	size_t end = low + ALIAS_LIMIT < plt->named_before ? low + ALIAS_LIMIT : plt->named_before;
	for (; low < end && plt->by_address[low].key == address; low++) {
		const struct sp_symbol *s = &plt->symbols->items[plt->by_address[low].value];
		if (!best || (!best->binding && s->binding))
			best = s;
		if (best->binding)
			break;
	}
	return best ? best->name : NULL;
}

static const char *slot_name(struct plt *plt, uint64_t address)
{
	struct slot key = { .address = address };
	const struct slot *slot = plt->slots.count ? bsearch(&key, plt->slots.items, plt->slots.count,
	                                                     sizeof(struct slot), compare_slots)
	                                           : NULL;
	if (!slot)
		return NULL;
	if (!slot->symbol)
		return resolver_name(plt, slot->resolver);
	struct sp_cursor none = { 0 };
	struct sp_elf_symbol symbol = sp_elf_symbol_at(plt->elf, &plt->dynamic_symbols, &none, slot->symbol);
	const char *name = sp_elf_string(&plt->dynamic_strings, symbol.name);
	return name && name[0] ? name : NULL;
}

/* Adds a symbol for the stub at `address` that jumps through the slot, if the slot has a name. */
static bool add_stub(struct plt *plt, uint64_t address, uint64_t size, uint64_t slot)
{
	const char *name = slot_name(plt, plt->elf->is64 ? slot : (uint32_t)slot);
	if (!name)
		return true;
	size_t length = strlen(name);
	char *text = sp_arena_alloc(plt->names, length + sizeof("@plt"));
	if (!text)
		return false;
	memcpy(text, name, length);
	memcpy(text + length, "@plt", sizeof("@plt"));
	struct sp_symbol symbol = { .name = text, .address = address, .size = size, .source = SP_SYMBOL_PLT };
	return sp_vector_push(plt->symbols, symbol);
}

/* The slot that an x86 stub at the cursor jumps through: [endbr] [bnd] jmp *slot. */
static bool decode_x86(const struct plt *plt, struct sp_cursor c, uint64_t address, uint64_t *ret_slot)
{
	size_t start = sp_cursor_offset(&c);
	if (sp_cursor_left(&c) >= 4 && memcmp(c.at, "\xf3\x0f\x1e", 3) == 0 && (c.at[3] == 0xfa || c.at[3] == 0xfb))
		sp_cursor_skip(&c, 4);
	if (sp_cursor_left(&c) && *c.at == 0xf2)
		sp_cursor_skip(&c, 1);
	uint8_t opcode = sp_cursor_u8(&c), mode = sp_cursor_u8(&c);
	int32_t displacement = (int32_t)sp_cursor_u32(&c);
	if (c.bad || opcode != 0xff)
		return false;
	if (plt->elf->machine == SP_EM_X86_64 && mode == 0x25)
		*ret_slot = address + (sp_cursor_offset(&c) - start) + (uint64_t)(int64_t)displacement;
	else if (plt->elf->machine == SP_EM_386 && mode == 0x25)
		*ret_slot = (uint32_t)displacement;
	else if (plt->elf->machine == SP_EM_386 && mode == 0xa3 && plt->elf->plt_got)
		*ret_slot = plt->elf->plt_got + (uint64_t)(int64_t)displacement;
	else
		return false;
	return true;
}

/* x86 stubs stand at multiples of 8 (without endbr, in .plt.got and in static files) or 16. */
static bool scan_x86(struct plt *plt, const struct sp_section *section, struct sp_cursor bytes)
{
	enum { STEP = 8, LARGEST = 16 };
	size_t size = sp_cursor_left(&bytes), first = plt->symbols->count;
	for (size_t at = 0; at + STEP <= size; at += STEP) {
		struct sp_cursor c = bytes;
		uint64_t slot;
		sp_cursor_seek(&c, at);
		size_t length = size - at < LARGEST ? size - at : LARGEST;
		if (decode_x86(plt, c, section->address + at, &slot) &&
		    !add_stub(plt, section->address + at, length, slot))
			return false;
	}
	for (size_t i = first; i + 1 < plt->symbols->count; i++) {
		struct sp_symbol *stub = &plt->symbols->items[i];
		if (stub[1].address - stub->address < stub->size)
			stub->size = stub[1].address - stub->address;
	}
	return true;
}

static uint32_t instruction(const struct sp_cursor *bytes, size_t at)
{
	struct sp_cursor c = *bytes;
	c.big_endian = false; /* AArch64 code is little-endian always */
	sp_cursor_seek(&c, at);
	return sp_cursor_u32(&c);
}

/* AArch64: [bti c] adrp x16, page; ldr x17, [x16, #n]; ...; br x17. The header has the same pair behind a push of x16
 * and x30; its slot has no relocation. */
static bool scan_aarch64(struct plt *plt, const struct sp_section *section, struct sp_cursor bytes)
{
	const uint32_t bti_c = 0xd503245f, br_x17 = 0xd61f0220, nop = 0xd503201f;
	enum { LONGEST = 32 };
	size_t size = sp_cursor_left(&bytes);
	for (size_t at = 0; at + 8 <= size; at += 4) {
		uint32_t adrp = instruction(&bytes, at), ldr = instruction(&bytes, at + 4);
		if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
			continue;
		int32_t pages = (int32_t)(((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3)) << 11) >> 11;
		uint64_t slot = ((section->address + at) & ~UINT64_C(0xfff)) + (uint64_t)((int64_t)pages * 4096) +
		                ((ldr >> 10 & 0xfff) << 3);
		size_t start = at >= 4 && instruction(&bytes, at - 4) == bti_c ? at - 4 : at;
		size_t end = at + 8;
		while (end + 4 <= size && end - start < LONGEST && instruction(&bytes, end - 4) != br_x17)
			end += 4;
		while (end + 4 <= size && instruction(&bytes, end) == nop)
			end += 4;
		if (!add_stub(plt, section->address + start, end - start, slot))
			return false;
	}
	return true;
}

static bool is_plt(const struct sp_section *section)
{
	static const char *const names[] = { ".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (section->executable && !section->no_bits && strcmp(section->name, names[i]) == 0)
			return true;
	}
	return false;
}

static struct sp_error *scan(struct plt *plt)
{
	for (size_t i = 0; i < plt->object->section_count; i++) {
		const struct sp_section *section = &plt->object->sections[i];
		struct sp_cursor bytes;
		if (!is_plt(section))
			continue;
		struct sp_error *error = sp_object_stored_bytes(plt->object, section, &bytes);
		if (error) {
			sp_error_destroy(error);
			continue;
		}
		bool ok = plt->elf->machine == SP_EM_AARCH64 ? scan_aarch64(plt, section, bytes)
		                                             : scan_x86(plt, section, bytes);
		if (!ok)
			return sp_error_no_memory();
	}
	return NULL;
}

/* Stubs' relocations count in .dynsym; its absence leaves only resolvers to name. */
static void open_dynamic_symbols(struct plt *plt)
{
	struct sp_object *object = plt->object;
	size_t at = sp_elf_find_type(object, SP_SHT_DYNSYM);
	size_t strings_at = at < object->section_count ? plt->elf->sections[at].link : object->section_count;
	if (strings_at >= object->section_count || object->sections[at].no_bits || object->sections[strings_at].no_bits)
		return;
	const struct sp_section *symbols = &object->sections[at], *strings = &object->sections[strings_at];
	plt->dynamic_symbols = sp_object_range(object, symbols->file_offset, symbols->size);
	struct sp_cursor bytes = sp_object_range(object, strings->file_offset, strings->size);
	plt->dynamic_strings = sp_elf_strings(&bytes);
}

struct sp_error *sp_elf_plt_symbols(struct sp_object *object, struct sp_arena *names, sp_symbol_vector *symbols)
{
	struct plt plt = { .object = object,
		           .elf = sp_elf(object),
		           .names = names,
		           .symbols = symbols,
		           .named_before = symbols->count };
	uint16_t machine = plt.elf->machine;
	if (object->relocatable || (machine != SP_EM_X86_64 && machine != SP_EM_386 && machine != SP_EM_AARCH64))
		return NULL;
	open_dynamic_symbols(&plt);
	struct sp_error *error = read_slots(&plt);
	if (!error && plt.slots.count)
		error = scan(&plt);
	sp_vector_deinit(&plt.slots);
	free(plt.by_address);
	return error;
}
