/* The object reader against libelf, on the libraries and programs of the machine it runs on. */
#include "symbolication/object/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <gelf.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_LIMIT = 200 };

struct oracle {
	int fd;
	Elf *elf;
	size_t names; /* section with section names */
};

static bool oracle_open(const char *path, struct oracle *ret)
{
	ret->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (ret->fd < 0)
		return false;
	ret->elf = elf_begin(ret->fd, ELF_C_READ_MMAP, NULL);
	if (ret->elf && elf_kind(ret->elf) == ELF_K_ELF && elf_getshdrstrndx(ret->elf, &ret->names) == 0)
		return true;
	elf_end(ret->elf);
	close(ret->fd);
	return false;
}

static void oracle_close(struct oracle *oracle)
{
	elf_end(oracle->elf);
	close(oracle->fd);
}

static GElf_Shdr oracle_section(const struct oracle *oracle, size_t index)
{
	GElf_Shdr header;
	assert_non_null(gelf_getshdr(elf_getscn(oracle->elf, index), &header));
	return header;
}

static void check_sections(const struct oracle *oracle, struct sp_object *object)
{
	size_t count, expected;
	const struct sp_section *sections = sp_object_sections(object, &count);
	assert_int_equal(elf_getshdrnum(oracle->elf, &expected), 0);
	assert_int_equal(count, expected);
	for (size_t i = 0; i < count; i++) {
		GElf_Shdr header = oracle_section(oracle, i);
		assert_string_equal(sections[i].name, elf_strptr(oracle->elf, oracle->names, header.sh_name));
		if (!sp_object_is_relocatable(object))
			assert_int_equal(sections[i].address, header.sh_addr);
		assert_int_equal(sections[i].size, header.sh_size);
		assert_int_equal(sections[i].file_offset, header.sh_offset);
		assert_int_equal(sections[i].executable, !!(header.sh_flags & SHF_EXECINSTR));
		assert_int_equal(sections[i].allocated, !!(header.sh_flags & SHF_ALLOC));
		assert_int_equal(sections[i].no_bits, header.sh_type == SHT_NOBITS);
	}
}

static void check_segments(const struct oracle *oracle, struct sp_object *object)
{
	size_t count, expected, loads = 0;
	const struct sp_segment *segments = sp_object_segments(object, &count);
	assert_int_equal(elf_getphdrnum(oracle->elf, &expected), 0);
	for (size_t i = 0; i < expected; i++) {
		GElf_Phdr header;
		assert_non_null(gelf_getphdr(oracle->elf, (int)i, &header));
		if (header.p_type != PT_LOAD)
			continue;
		if (loads == 0)
			assert_int_equal(sp_object_info(object)->base, header.p_vaddr);
		assert_true(loads < count);
		assert_int_equal(segments[loads].address, header.p_vaddr);
		assert_int_equal(segments[loads].size, header.p_memsz);
		assert_int_equal(segments[loads].file_offset, header.p_offset);
		assert_int_equal(segments[loads].file_size, header.p_filesz);
		assert_int_equal(segments[loads].executable, !!(header.p_flags & PF_X));
		loads++;
	}
	assert_int_equal(loads, count);
}

/* The code symbols of the tables of `type`, by libelf, compared with symbols[*at ...]. */
static void check_table(const struct oracle *oracle, struct sp_object *object, GElf_Word type,
                        const struct sp_symbols *symbols, size_t *at)
{
	size_t count;
	const struct sp_section *sections = sp_object_sections(object, &count);
	Elf_Scn *section = NULL;
	while ((section = elf_nextscn(oracle->elf, section))) {
		GElf_Shdr header;
		assert_non_null(gelf_getshdr(section, &header));
		if (header.sh_type != type || header.sh_entsize == 0)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (size_t i = 1; i < header.sh_size / header.sh_entsize; i++) {
			GElf_Sym symbol;
			assert_non_null(gelf_getsym(data, (int)i, &symbol));
			int kind = GELF_ST_TYPE(symbol.st_info);
			if (kind != STT_FUNC && kind != STT_GNU_IFUNC && !(kind == STT_NOTYPE && symbol.st_size))
				continue;
			if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= SHN_LORESERVE ||
			    (!symbol.st_value && !sp_object_is_relocatable(object)) ||
			    !(oracle_section(oracle, symbol.st_shndx).sh_flags & SHF_EXECINSTR))
				continue;
			assert_true(*at < symbols->count);
			const struct sp_symbol *own = &symbols->items[(*at)++];
			assert_string_equal(own->name, elf_strptr(oracle->elf, header.sh_link, symbol.st_name));
			uint64_t base = sp_object_is_relocatable(object) ? sections[symbol.st_shndx].address : 0;
			assert_int_equal(own->address, base + symbol.st_value);
			assert_int_equal(own->size, symbol.st_size);
		}
	}
}

static size_t check_symbols(const struct oracle *oracle, struct sp_object *object)
{
	struct sp_symbols symbols;
	assert_null(sp_object_symbols(object, &symbols));
	size_t at = 0;
	check_table(oracle, object, SHT_SYMTAB, &symbols, &at);
	check_table(oracle, object, SHT_DYNSYM, &symbols, &at);
	for (size_t i = at; i < symbols.count; i++)
		assert_int_equal(symbols.items[i].source, SP_SYMBOL_PLT);
	sp_symbols_deinit(&symbols);
	return at;
}

static void check_build_id(const struct oracle *oracle, struct sp_object *object)
{
	Elf_Scn *section = NULL;
	while ((section = elf_nextscn(oracle->elf, section))) {
		GElf_Shdr header;
		assert_non_null(gelf_getshdr(section, &header));
		if (strcmp(elf_strptr(oracle->elf, oracle->names, header.sh_name), ".note.gnu.build-id") != 0)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		GElf_Nhdr note;
		size_t name_at, desc_at, size;
		assert_true(gelf_getnote(data, 0, &note, &name_at, &desc_at));
		const uint8_t *id = sp_object_build_id(object, &size);
		assert_int_equal(size, note.n_descsz);
		assert_memory_equal(id, (char *)data->d_buf + desc_at, size);
		return;
	}
}

/* What was compared, so that a run which compared nothing fails. */
struct totals {
	size_t files, symbols;
};

static void check_path(const char *path, struct totals *totals)
{
	struct oracle oracle;
	if (!oracle_open(path, &oracle))
		return;
	struct sp_object *object;
	struct sp_error *error = sp_object_open_path(path, &object);
	if (error)
		fail_msg("%s", error->message);
	check_sections(&oracle, object);
	check_segments(&oracle, object);
	check_build_id(&oracle, object);
	totals->symbols += check_symbols(&oracle, object);
	totals->files++;
	sp_object_destroy(object);
	oracle_close(&oracle);
}

static void test_libraries(void **state)
{
	(void)state;
	static const char *const patterns[] = { "/usr/lib/*-linux-gnu/*.so*",
		                                "/lib/*-linux-gnu/*.so*",
		                                "/usr/bin/*",
		                                "/usr/lib/gcc/*/*/*.so",
		                                "/usr/lib/gcc/*/*/*.o",
		                                "/usr/*-linux-gnu/lib/*.so*",
		                                "/usr/lib/debug/.build-id/*/*.debug" };
	elf_version(EV_CURRENT);
	struct totals totals = { 0 };
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		glob_t found;
		if (glob(patterns[i], 0, NULL, &found) != 0)
			continue;
		for (size_t j = 0; j < found.gl_pathc && j < FILE_LIMIT; j++)
			check_path(found.gl_pathv[j], &totals);
		globfree(&found);
	}
	printf("compared %zu files, %zu symbols\n", totals.files, totals.symbols);
	assert_true(totals.files >= 10 && totals.symbols >= 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libraries),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
