/* Every allocation of the symbol library fails once, one after the other, while a context is made, modules are found or
 * opened in each way, addresses are looked up, an index is made, and a request of the API is answered: each call gives
 * the right answer or an error, and everything can be closed.
 *
 * The program is linked with --wrap for the allocation functions (see tests/CMakeLists.txt). */
#include "common/error.h"
#include "spsym.h"

#include "fixture_support.h"
#include "go_table.h"
#include "symbolication/api/api.h"

#include <stdatomic.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

static atomic_long until_failure = -1; /* allocations that still work; below 0 = all do */
static atomic_bool failed;

static bool may_allocate(void)
{
	if (atomic_load(&until_failure) < 0)
		return true;
	if (atomic_fetch_sub(&until_failure, 1) > 0)
		return true;
	atomic_store(&until_failure, -1);
	atomic_store(&failed, true);
	return false;
}

void *__wrap_malloc(size_t size)
{
	return may_allocate() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
	return may_allocate() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *old, size_t size)
{
	return may_allocate() ? __real_realloc(old, size) : NULL;
}

char *__wrap_strdup(const char *text)
{
	return may_allocate() ? __real_strdup(text) : NULL;
}

/* What a run looks up, and whether its answer is complete. */
struct subject {
	struct spsym_identity identity;
	struct spsym_options options;
	uint64_t addresses[64];
	size_t count;
	const char *name; /* of the symbol at the first address */
	bool index;       /* make the index first; without it look-ups go on */
	enum { FIND, BY_PATH, BY_DESCRIPTOR, BY_BYTES, BY_READER } how;
	const uint8_t *bytes; /* of the file, for the last two */
	size_t size;
	bool symbols_only; /* there are no frames */
};

static bool read_subject(void *context, uint64_t offset, void *buffer, size_t size)
{
	const struct subject *subject = context;
	memcpy(buffer, subject->bytes + offset, size);
	return true;
}

static spsym_error *open_subject(const struct subject *subject, spsym_context *context, spsym_module **ret)
{
	struct spsym_reader reader = { subject->size, read_subject, NULL, (void *)subject };
	FILE *file;
	spsym_error *error;
	switch (subject->how) {
	case BY_PATH:
		return spsym_module_open_path(context, subject->identity.path, ret);
	case BY_DESCRIPTOR:
		file = fopen(subject->identity.path, "rb");
		if (!file)
			return sp_error_no_memory();
		error = spsym_module_open_fd(context, fileno(file), subject->identity.path, ret);
		fclose(file);
		return error;
	case BY_BYTES:
		return spsym_module_open_bytes(context, subject->bytes, subject->size, "bytes", ret);
	case BY_READER:
		return spsym_module_open_reader(context, &reader, "reader", ret);
	default:
		return spsym_module_find(context, &subject->identity, ret);
	}
}

/* How much of the answer there was. */
enum answer { WHOLE, LESS, SILENTLY_LESS };

/* Gives the error that an operation met. */
static spsym_error *use(const struct subject *subject, enum answer *ret)
{
	spsym_context *context;
	spsym_module *module;
	*ret = SILENTLY_LESS;
	spsym_error *error = spsym_context_create(&subject->options, &context);
	if (error)
		return error;
	error = open_subject(subject, context, &module);
	if (error) {
		spsym_context_destroy(context);
		return error;
	}
	struct spsym_result result = { 0 };
	const struct spsym_symbol *symbols;
	size_t count;
	spsym_error *index_error = subject->index ? spsym_module_index(module) : NULL;
	error = spsym_lookup(module, subject->addresses, subject->count, &result);
	if (!error) {
		const struct spsym_location *first = &result.locations[0];
		if (result.count == subject->count && first->symbol.name &&
		    strcmp(first->symbol.name, subject->name) == 0)
			*ret = first->frame_count || subject->symbols_only ? WHOLE
			       : result.debug_error                        ? LESS
			                                                   : SILENTLY_LESS;
		error = spsym_symbols(module, &symbols, &count);
	}
	/* After the failure the module must be as good as new. */
	if (atomic_load(&failed)) {
		struct spsym_result again = { 0 };
		spsym_error *second = spsym_lookup(module, subject->addresses, subject->count, &again);
		if (second)
			fail_msg("still failing: %s", spsym_error_message(second));
		assert_non_null(again.locations[0].symbol.name);
		assert_int_equal(again.count, subject->count);
		spsym_result_deinit(&again);
	}
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
	if (!error)
		return index_error;
	spsym_error_destroy(index_error);
	return error;
}

/* Resolver of the API. */
static bool resolve(void *context, const char *debug_name, const char *debug_id, struct spsym_identity *ret)
{
	const struct subject *subject = context;
	(void)debug_name;
	(void)debug_id;
	ret->path = subject->identity.path;
	return true;
}

static char expected_reply[65536];

/* The same through a request of the API. The first reply is the right one. */
static spsym_error *request(const struct subject *subject, enum answer *ret)
{
	spsym_context *context;
	struct sp_api *api;
	struct sp_buffer reply = { 0 };
	enum sp_api_status status;
	char body[1024];
	*ret = SILENTLY_LESS;
	spsym_error *error = spsym_context_create(&subject->options, &context);
	if (error)
		return error;
	struct sp_api_options options = { .symbols = context, .resolve = resolve, .context = (void *)subject };
	error = sp_api_create(&options, &api);
	if (error) {
		spsym_context_destroy(context);
		return error;
	}
	int size = snprintf(body, sizeof(body), "{\"jobs\":[{\"memoryMap\":[[\"a\",\"%s\"]],\"stacks\":[[",
	                    subject->identity.debug_id);
	/* Some of these are of inlined functions, whatever compiler it was. */
	for (unsigned i = 0; i < 24; i++)
		size += snprintf(body + size, sizeof(body) - (size_t)size, "%s[0,%llu]", i ? "," : "",
		                 (unsigned long long)subject->addresses[0] + 8 * i);
	size += snprintf(body + size, sizeof(body) - (size_t)size, "]]}]}");
	error = sp_api_handle(api, "/symbolicate/v5", body, (size_t)size, &reply, &status);
	if (!error && reply.size < sizeof(expected_reply)) {
		if (!expected_reply[0])
			memcpy(expected_reply, reply.bytes, reply.size);
		if (status == SP_API_OK && strlen(expected_reply) == reply.size &&
		    memcmp(expected_reply, reply.bytes, reply.size) == 0)
			*ret = WHOLE;
		else if (reply.size &&
		         (memmem(reply.bytes, reply.size, "memory", 6) || memmem(reply.bytes, reply.size, "\"_Z", 3)))
			*ret = LESS; /* it says why; or a name is as it is in the file */
		if (*ret == SILENTLY_LESS)
			fprintf(stderr, "status %d: %.*s\n", (int)status, (int)reply.size, reply.bytes);
	}
	free(reply.bytes);
	sp_api_destroy(api);
	spsym_context_destroy(context);
	return error;
}

typedef spsym_error *operation(const struct subject *subject, enum answer *ret);

static void fail_everywhere_in(operation *call, const struct subject *subject)
{
	enum answer answer;
	size_t errors = 0, less = 0, at = 0;
	for (;; at++) {
		atomic_store(&failed, false);
		atomic_store(&until_failure, (long)at);
		spsym_error *error = call(subject, &answer);
		atomic_store(&until_failure, -1);
		if (!atomic_load(&failed)) {
			assert_null(error);
			assert_int_equal(answer, WHOLE);
			break;
		}
		errors += error != NULL;
		assert_true(error || answer != SILENTLY_LESS);
		less += !error && answer == LESS;
		spsym_error_destroy(error);
		assert_true(at < 100000);
	}
	printf("%zu allocations, %zu failures reported, %zu with a note and less in the answer\n", at, errors, less);
	assert_true(at > 20 && (errors + less) > at / 2);
}

static void fail_everywhere(const struct subject *subject)
{
	fail_everywhere_in(use, subject);
}

/* Where main() is, and every fourth byte behind it. */
static void set_addresses(struct subject *subject, const char *file)
{
	subject->name = "main";
	subject->count = 64;
	for (size_t i = 0; i < subject->count; i++)
		subject->addresses[i] = 4 * i;
	subject->addresses[0] = hex_output("nm %s | grep ' T main'", file);
}

static const char source[] = "#include <vector>\n#include <algorithm>\n"
                             "static inline int square(int x) { return x * x; }\n"
                             "int main(int argc, char **) { std::vector<int> v; for (int i = 0; i < argc; i++)\n"
                             "v.push_back(square(i)); std::sort(v.begin(), v.end()); return v[0]; }\n";

static void test_binary(void **state)
{
	(void)state;
	struct spsym_file_info info;
	write_text("a.cpp", source);
	must_run("g++ -O1 -g -gz=zlib a.cpp -o a");
	assert_null(spsym_identify_path(in_folder("a"), &info));
	struct subject subject = { .identity = { .name = "a", .path = in_folder("a"), .debug_id = info.debug_id } };
	set_addresses(&subject, "a");
	fail_everywhere(&subject);
}

static void test_separate_files(void **state)
{
	(void)state;
	static const char *folders[2];
	struct spsym_file_info info;
	write_text("a.cpp", source);
	must_run("mkdir -p bin symbols && g++ -O1 -g a.cpp -o a && objcopy --only-keep-debug a symbols/a.debug && "
	         "strip -o bin/a a && objcopy --add-gnu-debuglink=symbols/a.debug bin/a");
	assert_null(spsym_identify_path(in_folder("bin/a"), &info));
	char path[600], symbols[600];
	snprintf(path, sizeof(path), "%s", in_folder("bin/a"));
	snprintf(symbols, sizeof(symbols), "%s", in_folder("symbols"));
	folders[0] = symbols;
	struct subject subject = {
		.identity = { .name = "a", .path = path, .debug_id = info.debug_id, .code_id = info.code_id },
		.options = { .symbol_folders = folders, .cache_folder = symbols },
	};
	set_addresses(&subject, "a");
	fail_everywhere(&subject);
}

/* An index is made, saved and used: of the two answers, that of the index and that of the debug information, one is
 * given. */
static void test_index(void **state)
{
	(void)state;
	struct spsym_file_info info;
	write_text("a.cpp", source);
	must_run("g++ -O1 -g a.cpp -o indexed && mkdir -p cache && rm -rf cache/*");
	assert_null(spsym_identify_path(in_folder("indexed"), &info));
	char path[600], cache[600];
	snprintf(path, sizeof(path), "%s", in_folder("indexed"));
	snprintf(cache, sizeof(cache), "%s", in_folder("cache"));
	struct subject subject = { .identity = { .name = "indexed", .path = path, .debug_id = info.debug_id },
		                   .options = { .no_background = true },
		                   .index = true };
	set_addresses(&subject, "indexed");
	fail_everywhere(&subject);
	/* The first runs save one, the others find it. */
	subject.options.cache_folder = cache;
	fail_everywhere(&subject);
	must_run("ls cache/indexes/*.spindex");
}

static void test_ways_to_open(void **state)
{
	(void)state;
	struct spsym_file_info info;
	write_text("a.cpp", source);
	must_run("g++ -O1 -g a.cpp -o a");
	char path[600];
	snprintf(path, sizeof(path), "%s", in_folder("a"));
	assert_null(spsym_identify_path(path, &info));
	struct subject subject = { .identity = { .path = path, .debug_id = info.debug_id },
		                   .options = { .no_background = true } };
	set_addresses(&subject, "a");
	uint8_t *bytes = read_bytes("a", &subject.size);
	subject.bytes = bytes;
	for (int how = BY_PATH; how <= BY_READER; how++) {
		subject.how = how;
		fail_everywhere(&subject);
	}
	subject.how = FIND;
	enum answer answer;
	assert_null(request(&subject, &answer)); /* what it is when nothing fails */
	assert_int_equal(answer, WHOLE);
	assert_non_null(strstr(expected_reply, "\"inlines\""));
	fail_everywhere_in(request, &subject);
	free(bytes);
}

/* Sources of symbols that are no ELF file with debug information, from bytes and with an index. */
static void test_other_kinds(void **state)
{
	(void)state;
	static struct made go;
	static const char breakpad[] = "MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 a\nFILE 0 /src/a.c\n"
	                               "INLINE_ORIGIN 0 inner\nFUNC 400 40 0 main.f\nINLINE 0 3 0 0 410 10\n"
	                               "400 40 7 0\nPUBLIC 440 0 other\n";
	struct subject subject = { .how = BY_BYTES, .name = "main.f", .count = 64 };
	for (size_t i = 0; i < subject.count; i++)
		subject.addresses[i] = TEXT + i;
	for (int round = 0; round < 2; round++) {
		subject.index = round;
		subject.options.no_background = true;
		subject.bytes = (const uint8_t *)breakpad;
		subject.size = sizeof(breakpad) - 1;
		fail_everywhere(&subject);
		make(&go, 18, 8, false, ".gopclntab");
		subject.bytes = go.bytes;
		subject.size = SIZE;
		fail_everywhere(&subject);
	}
	char kallsyms[4096] = "", *end = kallsyms;
	for (int i = 0; i < 40; i++)
		end += sprintf(end, "ffffffff81%06x T %s\n", i * 0x100, i == 4 ? "main.f" : i ? "other" : "_text");
	subject.bytes = (const uint8_t *)kallsyms;
	subject.size = strlen(kallsyms);
	subject.index = false;
	subject.symbols_only = true;
	fail_everywhere(&subject);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_binary),      cmocka_unit_test(test_separate_files),
		cmocka_unit_test(test_index),       cmocka_unit_test(test_ways_to_open),
		cmocka_unit_test(test_other_kinds),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
