/* Sections that are not usable as they stand in the file: compressed and relocated ones, and those of files without a
 * section table. binutils is the oracle. */
#include "symbolication/object/object.h"

#include "fixture_support.h"

static const char source[] = "static inline __attribute__((always_inline)) int sq(int x) { return x * x; }\n"
                             "int first(int n) { int s = 0; for (int i = 0; i < n; i++) s += sq(i); return s; }\n"
                             "int second(const char *text) { return text[0] + first(text[1]); }\n";

static const char *const debug_sections[] = { ".debug_info",     ".debug_abbrev",   ".debug_line",
	                                      ".debug_str",      ".debug_line_str", ".debug_aranges",
	                                      ".debug_rnglists", ".debug_ranges",   ".debug_str_offsets",
	                                      ".debug_addr",     ".debug_frame" };
enum { SECTIONS = sizeof(debug_sections) / sizeof(debug_sections[0]) };

static struct sp_object *open_fixture(const char *name)
{
	struct sp_object *object;
	struct sp_error *error = sp_object_open_path(in_folder("%s", name), &object);
	if (error)
		fail_msg("%s", error->message);
	return object;
}

static const uint8_t *bytes_of(struct sp_object *object, const char *name, size_t *size)
{
	const uint8_t *bytes;
	const struct sp_section *section = sp_object_find_section(object, name);
	if (!section)
		return NULL;
	struct sp_error *error = sp_object_section_bytes(object, section, &bytes, size);
	if (error)
		fail_msg("%s", error->message);
	return bytes;
}

/* All debug sections of `name` have the bytes of those in `plain`, a file that binutils decompressed. */
static void compare_sections(const char *name, const char *plain)
{
	struct sp_object *object = open_fixture(name), *oracle = open_fixture(plain);
	unsigned compressed = 0, compared = 0;
	for (unsigned i = 0; i < SECTIONS; i++) {
		size_t size, expected_size;
		const struct sp_section *section = sp_object_find_section(object, debug_sections[i]);
		const uint8_t *expected = bytes_of(oracle, debug_sections[i], &expected_size);
		assert_int_equal(section != NULL, expected != NULL);
		if (!section)
			continue;
		assert_false(sp_object_find_section(oracle, debug_sections[i])->compressed);
		compressed += section->compressed;
		const uint8_t *bytes = bytes_of(object, debug_sections[i], &size);
		assert_int_equal(size, expected_size);
		assert_memory_equal(bytes, expected, size);
		compared++;
	}
	assert_true(compared >= 5 && compressed >= 2);
	sp_object_destroy(object);
	sp_object_destroy(oracle);
}

static void test_compressed(void **state)
{
	(void)state;
	static const char *const kinds[] = { "zlib", "zlib-gnu", "zstd" };
	static const char *const compilers[] = { "gcc", "clang", "gcc -m32", "aarch64-linux-gnu-gcc" };
	write_text("a.c", source);
	for (unsigned i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		if (!run("%s -g -O1 -c a.c -o plain.o", compilers[i])) {
			skip_part("compressed sections", compilers[i]);
			continue;
		}
		const char *objcopy = i == 3 ? "aarch64-linux-gnu-objcopy" : "objcopy";
		/* An executable kind: there the bytes are not relocated. */
		must_run("%s -shared -nostdlib plain.o -o plain.so", compilers[i]);
		for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			if (!run("%s --compress-debug-sections=%s plain.so packed.so", objcopy, kinds[k])) {
				skip_part(kinds[k], "objcopy cannot make it");
				continue;
			}
			compare_sections("packed.so", "plain.so");
			/* What every reader must agree on afterwards. */
			must_run("%s --decompress-debug-sections packed.so again.so", objcopy);
			compare_sections("packed.so", "again.so");
		}
	}
}

/* Writes a copy of a relocatable file with our bytes in its debug sections and without their relocations. */
static void write_relocated(const char *name, const char *copy)
{
	struct sp_object *object = open_fixture(name);
	size_t size, file_size, count;
	uint8_t *file = read_bytes(name, &file_size);
	const struct sp_section *sections = sp_object_sections(object, &count);
	for (size_t i = 0; i < count; i++) {
		if (strncmp(sections[i].name, ".debug_", 7) == 0) {
			const uint8_t *bytes = bytes_of(object, sections[i].name, &size);
			assert_int_equal(size, sections[i].size);
			memcpy(file + sections[i].file_offset, bytes, size);
		}
		/* Relocations become plain bytes: section type PROGBITS. */
		uint64_t table;
		bool is64 = file[4] == 2;
		memcpy(&table, file + (is64 ? 0x28 : 0x20), 8);
		table = is64 ? table : (uint32_t)table;
		if (strncmp(sections[i].name, ".rela.debug", 11) == 0 ||
		    strncmp(sections[i].name, ".rel.debug", 10) == 0)
			memcpy(file + table + i * (is64 ? 64 : 40) + 4, "\1\0\0\0", 4);
	}
	FILE *out = fopen(in_folder("%s", copy), "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(file, 1, file_size, out), file_size);
	fclose(out);
	free(file);
	sp_object_destroy(object);
}

/* readelf applies relocations itself: it must print the same for a file to which we applied them. */
static void test_relocated(void **state)
{
	(void)state;
	static const char *const compilers[] = { "gcc -gdwarf-4",
		                                 "gcc -gdwarf-5",
		                                 "clang -gdwarf-4",
		                                 "clang -gdwarf-5",
		                                 "gcc -m32 -gdwarf-4",
		                                 "gcc -m32 -gdwarf-5",
		                                 "clang --target=i386-linux-gnu -gdwarf-5",
		                                 "aarch64-linux-gnu-gcc -gdwarf-4",
		                                 "aarch64-linux-gnu-gcc -gdwarf-5",
		                                 "clang --target=aarch64-linux-gnu -gdwarf-5",
		                                 "clang --target=armv7-linux-gnueabi -gdwarf-4" };
	write_text("a.c", source);
	for (unsigned i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		if (!run("%s -O2 -c a.c -o a.o", compilers[i])) {
			skip_part("relocations", compilers[i]);
			continue;
		}
		write_relocated("a.o", "b.o");
		must_run("readelf --debug-dump=info,aranges,decodedline,rawline,Ranges,str-offsets,addr a.o | "
		         "sed 's/a\\.o/X/;/relocation/d' >a.txt");
		must_run("readelf --debug-dump=info,aranges,decodedline,rawline,Ranges,str-offsets,addr b.o | "
		         "sed 's/b\\.o/X/;/relocation/d' >b.txt");
		must_run("grep -q DW_TAG_subprogram a.txt && ! cmp a.o b.o && diff a.txt b.txt");
	}
}

/* A module's sections: .text at 0, nothing overlaps, symbols and debug information agree on the addresses. */
static void test_layout(void **state)
{
	(void)state;
	write_text("m.c", "int counter = 3; const int table[4] = { 1, 2, 3, 4 };\n"
	                  "__attribute__((section(\".init.text\"))) int start(void) { return counter; }\n"
	                  "__attribute__((section(\".text.unlikely\"))) int cold(void) { return table[counter & 3]; }\n"
	                  "int hot(int n) { return n + counter; }\n");
	must_run("gcc -g -O2 -c m.c -o m.ko");
	struct sp_object *object = open_fixture("m.ko");
	assert_true(sp_object_is_relocatable(object));
	assert_int_equal(sp_object_info(object)->base, 0);
	size_t count;
	const struct sp_section *sections = sp_object_sections(object, &count);
	assert_int_equal(sp_object_find_section(object, ".text")->address, 0);
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < count; k++) {
			const struct sp_section *a = &sections[i], *b = &sections[k];
			if (i != k && a->allocated && b->allocated && a->size && b->size)
				assert_true(a->address + a->size <= b->address || b->address + b->size <= a->address);
		}
	}
	assert_true(sp_object_find_section(object, ".text.unlikely")->address <
	            sp_object_find_section(object, ".rodata")->address);
	assert_true(sp_object_find_section(object, ".data")->address <
	            sp_object_find_section(object, ".init.text")->address);
	struct sp_symbols symbols;
	assert_null(sp_object_symbols(object, &symbols));
	assert_int_equal(symbols.count, 3);
	for (size_t i = 0; i < symbols.count; i++) {
		const char *section = strcmp(symbols.items[i].name, "hot") == 0    ? ".text"
		                      : strcmp(symbols.items[i].name, "cold") == 0 ? ".text.unlikely"
		                                                                   : ".init.text";
		assert_int_equal(symbols.items[i].address, sp_object_find_section(object, section)->address);
	}
	sp_symbols_deinit(&symbols);
	sp_object_destroy(object);
}

/* The same file with and without its section table: dynamic symbols, unwind functions and identity stay. */
static void compare_stripped_table(const char *compiler, const char *objcopy)
{
	must_run("%s -O2 -shared -nostdlib -fasynchronous-unwind-tables -Wl,--build-id a.c -o full.so", compiler);
	if (!run("%s --strip-sections full.so bare.so", objcopy)) {
		skip_part("no section table", objcopy);
		return;
	}
	struct sp_object *full = open_fixture("full.so"), *bare = open_fixture("bare.so");
	assert_string_equal(sp_object_info(full)->debug_id, sp_object_info(bare)->debug_id);
	assert_string_not_equal(sp_object_info(full)->code_id, "");
	assert_true(sp_object_info(bare)->has_code);
	struct sp_symbols all, dynamic;
	assert_null(sp_object_symbols(full, &all));
	assert_null(sp_object_symbols(bare, &dynamic));
	size_t at = 0;
	for (size_t i = 0; i < all.count; i++) {
		if (all.items[i].source != SP_SYMBOL_DYNSYM)
			continue;
		assert_true(at < dynamic.count);
		assert_string_equal(dynamic.items[at].name, all.items[i].name);
		assert_int_equal(dynamic.items[at].address, all.items[i].address);
		at++;
	}
	assert_true(at >= 2 && at == dynamic.count);
	struct sp_function_range *a, *b;
	size_t a_count, b_count;
	assert_null(sp_object_functions(full, &a, &a_count));
	assert_null(sp_object_functions(bare, &b, &b_count));
	assert_true(a_count >= 2);
	assert_int_equal(a_count, b_count);
	assert_memory_equal(a, b, a_count * sizeof(*a));
	free(a);
	free(b);
	sp_symbols_deinit(&all);
	sp_symbols_deinit(&dynamic);
	sp_object_destroy(full);
	sp_object_destroy(bare);
}

static void test_no_section_table(void **state)
{
	(void)state;
	write_text("a.c", source);
	compare_stripped_table("gcc", "llvm-objcopy");
	compare_stripped_table("gcc -Wl,--hash-style=sysv", "llvm-objcopy");
	compare_stripped_table("gcc -Wl,--hash-style=gnu", "llvm-objcopy");
	compare_stripped_table("clang -fuse-ld=lld", "llvm-objcopy");
	if (have("aarch64-linux-gnu-gcc"))
		compare_stripped_table("aarch64-linux-gnu-gcc", "llvm-objcopy");
	else
		skip_part("no section table", "aarch64-linux-gnu-gcc");
}

/* Files that lie about sizes cost nothing and are refused by name. */
static void test_length_bombs(void **state)
{
	(void)state;
	write_text("a.c", source);
	must_run("gcc -g -gz=zlib -c a.c -o a.o && gcc -shared -g -gz=zlib a.o -o packed.so");
	struct sp_object *object = open_fixture("packed.so");
	uint64_t offset = sp_object_find_section(object, ".debug_info")->file_offset;
	sp_object_destroy(object);
	static const uint64_t sizes[] = { UINT64_MAX, UINT64_C(1) << 40, UINT64_C(5) << 30, 1 << 28, 0, 1 };
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t size;
		uint8_t *file = read_bytes("packed.so", &size);
		memcpy(file + offset + 8, &sizes[i], 8);
		assert_null(sp_object_open_bytes(file, size, "bomb", &object));
		const uint8_t *bytes;
		size_t bytes_size;
		struct sp_error *error = sp_object_section_bytes(object, sp_object_find_section(object, ".debug_info"),
		                                                 &bytes, &bytes_size);
		assert_non_null(error);
		assert_non_null(strstr(error->message, ".debug_info"));
		assert_true(i >= 4 || error->code == SP_ERROR_LIMIT);
		sp_error_destroy(error);
		sp_object_destroy(object);
		free(file);
	}
}

static void test_other_formats(void **state)
{
	(void)state;
	static const char *const texts[] = { "", "M", "hello\n", "\177EL", "MZ\0\0" };
	struct sp_object *object;
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct sp_error *error = sp_object_open_bytes(texts[i], strlen(texts[i]), "x", &object);
		assert_non_null(error);
		assert_int_equal(error->code, SP_ERROR_UNSUPPORTED);
		sp_error_destroy(error);
	}
	struct sp_error *error = sp_object_open_bytes("\177ELF\2\1\1", 7, "x", &object);
	assert_non_null(error);
	assert_int_equal(error->code, SP_ERROR_FORMAT);
	sp_error_destroy(error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compressed),   cmocka_unit_test(test_relocated),
		cmocka_unit_test(test_layout),       cmocka_unit_test(test_no_section_table),
		cmocka_unit_test(test_length_bombs), cmocka_unit_test(test_other_formats),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
