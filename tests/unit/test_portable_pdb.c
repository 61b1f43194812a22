/* Portable PDBs, by construction after the specification's encoding: two documents, and methods with every kind of
 * sequence point. */
#include "symbolication/pdb/portable.h"

#include "fixture_support.h"

static uint8_t image[1024];
static size_t image_size;

static void put(const void *bytes, size_t size)
{
	memcpy(image + image_size, bytes, size);
	image_size += size;
}
static void put16(unsigned value)
{
	put((uint8_t[]){ (uint8_t)value, (uint8_t)(value >> 8) }, 2);
}
static void put32(uint32_t value)
{
	put16(value & 0xffff);
	put16(value >> 16);
}
static void put_stream(const char *name, uint32_t offset, uint32_t size)
{
	put32(offset);
	put32(size);
	char padded[12] = { 0 };
	strcpy(padded, name);
	put(padded, (strlen(name) + 4) & ~(size_t)3);
}

/* Blobs: 1 "src", 5 "a.cs", 10 "b.cs", 15 and 20 the names of the documents, then sequence points. */
static const uint8_t blobs[] = {
	0, 3, 's', 'r', 'c', 4, 'a', '.', 'c', 's', 4, 'b', '.', 'c', 's', 3, '/', 1, 5, /* 15: src/a.cs */
	0,                                                                               /* 19: filler */
	3, '\\', 1, 10,                                                                  /* 20: src\b.cs */
	/* 24: one document. No locals; at 0 line 10 column 5; at 4 hidden; at 9 line 12; at 200 line 9. */
	20, 0, 0, 0, 3, 10, 5,       /* +0, same line, 3 columns, line 10, column 5 */
	4, 0, 0,                     /* +4, hidden */
	5, 1, 0x7f, 4, 0,            /* +5, one line, -1 column, +2 lines, +0 columns */
	0x80, 191, 0, 1, 0x7b, 0x79, /* +191, +1 column, -3 lines, -4 columns */
	/* 45: two documents. */
	15, 0, 2,              /* no locals, document 2 */
	0, 0, 1, 7, 1,         /* line 7 */
	0, 1,                  /* document 1 */
	2, 0, 1, 0x80, 200, 2, /* +2, line 7 + 100, column 2 */
};

static void build(void)
{
	image_size = 0;
	put("BSJB", 4);
	put16(1);
	put16(1);
	put32(0);
	put32(12);
	put("PDB v1.0\0\0\0", 12);
	put16(0);
	put16(3);
	put_stream("#Pdb", 112, 32);
	put_stream("#~", 144, 24 + 12 + 16 + 12);
	put_stream("#Blob", 144 + 64, sizeof(blobs));
	while (image_size < 112)
		put("", 1);
	for (unsigned i = 0; i < 20; i++)
		put((uint8_t[]){ (uint8_t)(i + 1) }, 1);
	put32(0);
	put32(0);
	put32(0);
	put32(0); /* version, */
	put("\x02\0\0\x01", 4);
	put32(0);
	put32(3u << 16); /* tables 0x30 and 0x31 */
	put32(0);
	put32(0);
	put32(2); /* documents */
	put32(3); /* methods */
	/* name, algorithm, hash, language */
	for (unsigned i = 0; i < 2; i++) {
		put16(i ? 20 : 15);
		put16(0);
		put16(0);
		put16(0);
	}
	put16(1);
	put16(24);
	put16(0);
	put16(0); /* no points */
	put16(0);
	put16(45);
	while (image_size < 144 + 64)
		put("", 1);
	put(blobs, sizeof(blobs));
}

static void write_image(const char *name)
{
	FILE *file = fopen(in_folder("%s", name), "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(image, 1, image_size, file), image_size);
	fclose(file);
}

static void expect(const struct sp_portable_pdb *pdb, uint32_t method, uint32_t offset, const char *file, uint32_t line,
                   uint32_t column)
{
	struct sp_portable_place place;
	struct sp_error *error = sp_portable_pdb_find(pdb, method, offset, &place);
	if (!file) {
		assert_non_null(error);
		assert_int_equal(error->code, SP_ERROR_NOT_FOUND);
		sp_error_destroy(error);
		return;
	}
	if (error)
		fail_msg("method %u, 0x%x: %s", method, offset, error->message);
	assert_string_equal(place.file, file);
	assert_int_equal(place.line, line);
	assert_int_equal(place.column, column);
	free(place.file);
}

static void test_places(void **state)
{
	(void)state;
	struct sp_portable_pdb *pdb;
	build();
	struct sp_error *error = sp_portable_pdb_open(image, image_size, "image", &pdb);
	if (error)
		fail_msg("%s", error->message);
	assert_int_equal(sp_portable_pdb_method_count(pdb), 3);
	assert_string_equal(sp_portable_pdb_info(pdb)->debug_id, "0403020106050807090A0B0C0D0E0F101");
	expect(pdb, 1, 0, "src/a.cs", 10, 5);
	expect(pdb, 1, 3, "src/a.cs", 10, 5);
	expect(pdb, 1, 4, NULL, 0, 0);
	expect(pdb, 1, 9, "src/a.cs", 12, 5);
	expect(pdb, 1, 199, "src/a.cs", 12, 5);
	expect(pdb, 1, 200, "src/a.cs", 9, 1);
	expect(pdb, 2, 0, NULL, 0, 0);
	expect(pdb, 3, 1, "src\\b.cs", 7, 1);
	expect(pdb, 3, 2, "src/a.cs", 107, 2);
	expect(pdb, 4, 0, NULL, 0, 0);
	expect(pdb, 0, 0, NULL, 0, 0);
	sp_portable_pdb_destroy(pdb);
	/* The library knows the file by its ID. */
	struct spsym_file_info info;
	assert_null(spsym_identify_bytes(image, image_size, &info));
	assert_int_equal(info.kind, SPSYM_KIND_PORTABLE_PDB);
	struct spsym_context *context;
	struct spsym_module *module;
	struct spsym_method_place place;
	uint32_t count;
	write_image("a.pdb");
	assert_null(spsym_context_create(NULL, &context));
	assert_null(spsym_module_open_path(context, in_folder("a.pdb"), &module));
	assert_null(spsym_method_count(module, &count));
	assert_int_equal(count, 3);
	assert_null(spsym_method_place(module, 0x06000003, 2, &place));
	assert_string_equal(place.file, "src/a.cs");
	assert_int_equal(place.line, 107);
	assert_int_equal(place.column, 2);
	assert_int_equal(place.il_offset, 2);
	free(place.file);
	/* No such method, a method without a place, another kind of token. */
	static const uint32_t none[] = { 0x06000004, 0x06000002, 0x02000001 };
	for (unsigned i = 0; i < 3; i++) {
		spsym_error *missing = spsym_method_place(module, none[i], 0, &place);
		assert_int_equal(missing->code, SP_ERROR_NOT_FOUND);
		spsym_error_destroy(missing);
	}
	spsym_module_release(module);
	write_text("b.sym", "MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 b\nFUNC 10 4 0 f\n");
	assert_null(spsym_module_open_path(context, in_folder("b.sym"), &module));
	spsym_error *other = spsym_method_count(module, &count);
	assert_int_equal(other->code, SP_ERROR_UNSUPPORTED);
	spsym_error_destroy(other);
	spsym_module_release(module);
	spsym_context_destroy(context);
	assert_string_equal(info.debug_id, "0403020106050807090A0B0C0D0E0F101");
}

/* Cut off and changed images are errors or other answers, nothing else. */
static void test_hostile(void **state)
{
	(void)state;
	build();
	for (size_t i = 0; i < image_size * 9; i++) {
		size_t size = i < image_size ? i : image_size;
		uint8_t *copy = malloc(size + 1);
		memcpy(copy, image, size);
		if (i >= image_size)
			copy[i % image_size] ^= (uint8_t)(1u << (i / image_size - 1));
		struct sp_portable_pdb *pdb;
		struct sp_error *error = sp_portable_pdb_open(copy, size, "image", &pdb);
		for (uint32_t m = 0; !error && m < 6; m++) {
			struct sp_portable_place place;
			struct sp_error *none = sp_portable_pdb_find(pdb, m, 100, &place);
			if (!none)
				free(place.file);
			sp_error_destroy(none);
		}
		if (!error)
			sp_portable_pdb_destroy(pdb);
		sp_error_destroy(error);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_places), cmocka_unit_test(test_hostile) };
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
