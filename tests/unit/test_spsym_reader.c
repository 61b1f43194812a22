/* Files that are read in parts by the caller's functions: what is read of them, that answers are those of the file
 * opened by its path, and that reads may fail at any time. */
#include "common/error.h"
#include "spsym.h"

#include "fixture_support.h"

static void ok(spsym_error *error)
{
	if (error)
		fail_msg("%s", spsym_error_message(error));
}

/* A file in memory that counts what is read of it. */
struct counted {
	uint8_t *bytes;
	size_t size;
	uint8_t *times; /* each byte was read */
	size_t read, calls, closed, failed_at;
	long until_failure; /* reads that still work; below 0 = all do */
};

static bool read_counted(void *context, uint64_t offset, void *buffer, size_t size)
{
	struct counted *c = context;
	assert_true(size && offset + size <= c->size && !c->closed);
	c->calls++;
	if (c->until_failure >= 0 && c->until_failure-- == 0) {
		c->failed_at = offset;
		return false;
	}
	memcpy(buffer, c->bytes + offset, size);
	c->read += size;
	for (size_t i = 0; i < size; i++)
		c->times[offset + i]++;
	return true;
}

static void close_counted(void *context)
{
	((struct counted *)context)->closed++;
}

static struct counted open_counted(const char *name)
{
	struct counted c = { .until_failure = -1 };
	c.bytes = read_bytes(name, &c.size);
	c.times = calloc(c.size + 1, 1);
	assert_non_null(c.times);
	return c;
}

static void free_counted(struct counted *c)
{
	assert_int_equal(c->closed, 1);
	free(c->bytes);
	free(c->times);
}

static struct spsym_reader reader_of(struct counted *c)
{
	return (struct spsym_reader){ c->size, read_counted, close_counted, c };
}

/* How many bytes of a section were read; each byte only once. */
static size_t read_of(const struct counted *c, spsym_module *module, const char *name)
{
	const struct spsym_section *sections;
	size_t count, read = 0;
	ok(spsym_sections(module, &sections, &count));
	for (size_t i = 0; i < count; i++) {
		if (strcmp(sections[i].name, name) != 0)
			continue;
		for (size_t k = 0; k < sections[i].size; k++) {
			assert_true(c->times[sections[i].file_offset + k] <= 1);
			read += c->times[sections[i].file_offset + k];
		}
		return read;
	}
	fail_msg("no section %s", name);
	return 0;
}

static uint64_t size_of(spsym_module *module, const char *name)
{
	const struct spsym_section *sections;
	size_t count;
	ok(spsym_sections(module, &sections, &count));
	for (size_t i = 0; i < count; i++)
		if (strcmp(sections[i].name, name) == 0)
			return sections[i].size;
	return 0;
}

static spsym_context *make_context(void)
{
	spsym_context *context;
	struct spsym_options options = { .debuginfod_urls = "", .no_background = true };
	ok(spsym_context_create(&options, &context));
	return context;
}

static const char source[] = "#include <vector>\n#include <algorithm>\n"
                             "static inline int square(int x) { return x * x; }\n"
                             "int main(int argc, char **) { std::vector<int> v; for (int i = 0; i < argc; i++)\n"
                             "v.push_back(square(i)); std::sort(v.begin(), v.end()); return v[0]; }\n";

/* 8 MB that nothing asks for are in the middle of it. */
static void make_program(void)
{
	write_text("a.cpp", source);
	must_run("g++ -O1 -g a.cpp -o plain && head -c 8000000 /dev/zero >zeros && "
	         "objcopy --add-section .zeros=zeros plain a");
}

enum { ADDRESSES = 400 };

static void fill(uint64_t addresses[ADDRESSES], uint64_t main_address)
{
	for (size_t i = 0; i < ADDRESSES; i++)
		addresses[i] = main_address + i - ADDRESSES / 2;
}

static void assert_same(const struct spsym_result *a, const struct spsym_result *b)
{
	size_t frames = 0;
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		const struct spsym_location *x = &a->locations[i], *y = &b->locations[i];
		assert_int_equal(x->frame_count, y->frame_count);
		assert_int_equal(!x->symbol.name, !y->symbol.name);
		if (x->symbol.name)
			assert_string_equal(x->symbol.name, y->symbol.name);
		for (size_t k = 0; k < x->frame_count; k++, frames++) {
			assert_string_equal(x->frames[k].function, y->frames[k].function);
			assert_int_equal(x->frames[k].line, y->frames[k].line);
		}
	}
	assert_true(frames > 50);
}

static void test_parts(void **state)
{
	(void)state;
	make_program();
	struct counted c = open_counted("a");
	struct spsym_reader reader = reader_of(&c);
	spsym_context *context = make_context();
	spsym_module *whole, *parts;
	struct spsym_result expected = { 0 }, got = { 0 };
	uint64_t addresses[ADDRESSES];
	fill(addresses, hex_output("nm a | grep ' T main'"));
	ok(spsym_module_open_path(context, in_folder("a"), &whole));
	ok(spsym_lookup(whole, addresses, ADDRESSES, &expected));

	ok(spsym_module_open_reader(context, &reader, "remote/a", &parts));
	assert_string_equal(spsym_module_info(parts)->debug_id, spsym_module_info(whole)->debug_id);
	printf("%zu bytes: %zu read in %zu calls to open it", c.size, c.read, c.calls);
	assert_true(c.read < 40000 && c.calls < 12);
	assert_true(read_of(&c, parts, ".debug_info") <= 4096);

	ok(spsym_lookup_symbols(parts, addresses, ADDRESSES, &got));
	printf(", %zu for symbols", c.read);
	assert_int_equal(read_of(&c, parts, ".symtab"), size_of(parts, ".symtab"));
	assert_true(read_of(&c, parts, ".debug_info") < size_of(parts, ".debug_info") / 2);
	assert_true(read_of(&c, parts, ".zeros") <= 2 * 4096);

	ok(spsym_lookup(parts, addresses, ADDRESSES, &got));
	assert_same(&expected, &got);
	printf(", %zu for frames, in %zu calls\n", c.read, c.calls);
	assert_int_equal(read_of(&c, parts, ".debug_info"), size_of(parts, ".debug_info"));
	assert_true(read_of(&c, parts, ".zeros") <= 2 * 4096);
	assert_true(c.read < c.size / 4);

	/* code is read by the page */
	uint8_t code[16];
	size_t size, before = c.read;
	ok(spsym_code(parts, addresses[ADDRESSES / 2], code, sizeof(code), &size));
	assert_int_equal(size, sizeof(code));
	assert_true(c.read - before <= 2 * 4096);

	/* nothing is read twice, and an index needs nothing that is not read by other means */
	ok(spsym_module_index(parts));
	ok(spsym_lookup(parts, addresses, ADDRESSES, &got));
	assert_same(&expected, &got);
	for (size_t i = 0; i < c.size; i++)
		assert_true(c.times[i] <= 1);
	const void *bytes;
	ok(spsym_section_bytes(parts, ".zeros", &bytes, &size));
	assert_int_equal(size, 8000000);
	assert_true(c.read >= 8000000);

	assert_int_equal(c.closed, 0);
	spsym_module_release(parts);
	spsym_module_release(whole);
	spsym_result_deinit(&expected);
	spsym_result_deinit(&got);
	spsym_context_destroy(context);
	free_counted(&c);
}

/* Each read fails once: an error or an answer with less in it, and the reader is closed. */
static void test_failures(void **state)
{
	(void)state;
	make_program();
	uint64_t addresses[ADDRESSES];
	fill(addresses, hex_output("nm a | grep ' T main'"));
	size_t errors = 0, at = 0;
	for (bool failed = true; failed; at++) {
		struct counted c = open_counted("plain");
		struct spsym_reader reader = reader_of(&c);
		spsym_context *context = make_context();
		spsym_module *module;
		c.until_failure = (long)at;
		spsym_error *error = spsym_module_open_reader(context, &reader, "a", &module);
		bool opened = !error;
		struct spsym_result result = { 0 };
		if (opened)
			error = spsym_lookup(module, addresses, ADDRESSES, &result);
		failed = c.until_failure == -1 && c.calls > at;
		if (error) {
			assert_non_null(strstr(spsym_error_message(error), "cannot read"));
			errors++;
		} else if (failed && !result.debug_error) {
			/* what failed is told in the report */
			char *text;
			ok(spsym_module_explain(module, &text));
			if (!strstr(text, "cannot read"))
				fail_msg("a failure of read %zu (at 0x%zx) is not told: %s", at, c.failed_at, text);
			free(text);
		}
		spsym_error_destroy(error);
		if (opened) { /* the next time it works */
			ok(spsym_lookup(module, addresses, ADDRESSES, &result));
			spsym_module_release(module);
		}
		spsym_result_deinit(&result);
		spsym_context_destroy(context);
		free_counted(&c);
		assert_true(at < 1000);
	}
	printf("%zu reads, %zu failures reported\n", at - 1, errors);
	assert_true(errors >= 3);
}

static void test_other_kinds(void **state)
{
	(void)state;
	static const uint64_t address = 0x1008;
	struct spsym_result result = { 0 };
	spsym_context *context = make_context();
	spsym_module *module;
	write_text("a.sym", "MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 a\nFILE 0 /src/a.c\n"
	                    "FUNC 1000 10 0 f\n1000 10 7 0\n");
	must_run("gzip -k a.sym");
	static const char *const names[] = { "a.sym", "a.sym.gz" };
	for (size_t i = 0; i < 2; i++) {
		struct counted c = open_counted(names[i]);
		struct spsym_reader reader = reader_of(&c);
		ok(spsym_module_open_reader(context, &reader, names[i], &module));
		assert_int_equal(c.read, c.size);
		ok(spsym_lookup(module, &address, 1, &result));
		assert_int_equal(result.locations[0].frame_count, 1);
		assert_int_equal(result.locations[0].frames[0].line, 7);
		spsym_module_release(module);
		free_counted(&c);
	}
	spsym_result_deinit(&result);
	/* unknown: told by its first bytes; too large: not read; empty */
	must_run("head -c 3000000 /dev/zero >zeros && : >nothing");
	struct counted c = open_counted("zeros");
	struct spsym_reader reader = reader_of(&c);
	spsym_error *error = spsym_module_open_reader(context, &reader, "zeros", &module);
	assert_int_equal(error->code, SP_ERROR_UNSUPPORTED);
	assert_true(c.read <= 4096);
	spsym_error_destroy(error);
	free_counted(&c);
	c = open_counted("zeros");
	c.bytes[0] = 'M';
	c.bytes[1] = 'Z';
	reader = reader_of(&c);
	reader.size = UINT64_C(5) << 30;
	c.size = SIZE_MAX; /* only the first bytes are asked for */
	error = spsym_module_open_reader(context, &reader, "zeros", &module);
	assert_int_equal(error->code, SP_ERROR_LIMIT);
	assert_true(c.read <= 4096);
	spsym_error_destroy(error);
	free_counted(&c);
	c = open_counted("nothing");
	reader = reader_of(&c);
	error = spsym_module_open_reader(context, &reader, "nothing", &module);
	assert_int_equal(error->code, SP_ERROR_UNSUPPORTED);
	assert_int_equal(c.calls, 0);
	spsym_error_destroy(error);
	free_counted(&c);
	spsym_context_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_other_kinds),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
