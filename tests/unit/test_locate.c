/* Where debug files are found, and that one of another build never is. */
#include "spsym.h"

#include "fixture_support.h"

static const char source[] =
    "#include <stdlib.h>\n"
    "static inline __attribute__((always_inline)) int square(int x) { return x * x; }\n"
    "static __attribute__((noinline)) int hidden(int n) { int s = BUILD; while (n--) s += square(n); return s; }\n"
    "int shown(int n) { return hidden(n) + abs(n); }\n"
    "int main(int argc, char **argv) { (void)argv; return shown(argc); }\n";

/* What a test searches with, and what it expects. */
static struct spsym_file_info info; /* of the stripped program */
static const char *roots[2], *folders[2];
static struct spsym_options options;

static void make_program(void)
{
	write_text("a.c", source);
	must_run(
	    "rm -rf bin root symbols cache && mkdir -p bin root symbols cache/kept && "
	    "gcc -g -O2 -DBUILD=1 a.c -o full && objcopy --only-keep-debug full right && strip -o bin/prog full && "
	    "gcc -g -O2 -DBUILD=2 a.c -o other && objcopy --only-keep-debug other wrong");
	spsym_error *error = spsym_identify_path(in_folder("bin/prog"), &info);
	assert_null(error);
	static char root[600], symbols[600], cache[600];
	snprintf(root, sizeof(root), "%s", in_folder("root"));
	snprintf(symbols, sizeof(symbols), "%s", in_folder("symbols"));
	snprintf(cache, sizeof(cache), "%s", in_folder("cache"));
	roots[0] = root;
	folders[0] = symbols;
	options = (struct spsym_options){ .debug_roots = roots, .symbol_folders = folders, .cache_folder = cache };
}

static struct spsym_identity full_identity(void)
{
	static char path[600];
	snprintf(path, sizeof(path), "%s", in_folder("bin/prog"));
	return (struct spsym_identity){ .name = "prog",
		                        .path = path,
		                        .debug_name = "prog",
		                        .debug_path = path,
		                        .debug_id = info.debug_id,
		                        .code_id = info.code_id,
		                        .arch = info.arch };
}

/* Looks `hidden` up in what is found: its name is in the symbol table of the debug file only. */
static unsigned frames_of_hidden(const struct spsym_identity *identity, char **ret_explanation)
{
	spsym_context *context;
	spsym_module *module;
	assert_null(spsym_context_create(&options, &context));
	spsym_error *error = spsym_module_find(context, identity, &module);
	if (ret_explanation)
		assert_null(spsym_explain(context, identity, ret_explanation));
	if (error) {
		spsym_error_destroy(error);
		spsym_context_destroy(context);
		return 0;
	}
	uint64_t address = hex_output("nm full | grep ' t hidden'");
	struct spsym_result result = { 0 };
	assert_null(spsym_lookup(module, &address, 1, &result));
	unsigned frames = (unsigned)result.locations[0].frame_count;
	if (frames) {
		assert_string_equal(result.locations[0].frames[frames - 1].function, "hidden");
		assert_string_equal(result.locations[0].symbol.name, "hidden");
		assert_int_equal(result.locations[0].symbol.address, address);
	}
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
	return frames;
}

/* The right file at a place is used, a wrong one is not, and the report says so. `command` puts $F there. */
static void check_place(const struct spsym_identity *identity, const char *command)
{
	must_run("F=right; %s", command);
	if (!frames_of_hidden(identity, NULL))
		fail_msg("not found: %s", command);
	must_run("F=wrong; %s", command);
	char *text;
	assert_int_equal(frames_of_hidden(identity, &text), 0);
	if (!strstr(text, "another build") && !strstr(text, "checksum"))
		fail_msg("%s: the report does not tell: %s", command, text);
	free(text);
	must_run("rm -rf root/* root/.build-id symbols/* symbols/.build-id bin/prog.* bin/.debug cache/kept/*");
	assert_int_equal(frames_of_hidden(identity, NULL), 0);
}

static void test_places(void **state)
{
	(void)state;
	make_program();
	struct spsym_identity identity = full_identity();
	char command[1000], id[SPSYM_ID_MAX];
	snprintf(id, sizeof(id), "%s", info.code_id);
	static const char *const by_build_id[] = { "root/.build-id", "symbols/.build-id", "symbols" };
	for (unsigned i = 0; i < 3; i++) {
		snprintf(command, sizeof(command), "mkdir -p %s/%.2s && cp $F %s/%.2s/%s.debug", by_build_id[i], id,
		         by_build_id[i], id, id + 2);
		check_place(&identity, command);
	}
	check_place(&identity, "cp $F bin/prog.debug");
	check_place(&identity, "cp $F bin/prog.dbg");
	check_place(&identity, "cp $F symbols/prog");
	check_place(&identity, "cp $F symbols/prog.debug");
	check_place(&identity, "cp $F symbols/prog.dbg");
	snprintf(command, sizeof(command), "mkdir -p symbols/prog/%s && cp $F symbols/prog/%s/prog.debug",
	         info.debug_id, info.debug_id);
	check_place(&identity, command);
	snprintf(command, sizeof(command), "cp $F cache/kept/%s", info.debug_id);
	check_place(&identity, command);
	snprintf(command, sizeof(command), "mkdir -p root%s/bin && cp $F root%s/bin/prog.debug", folder, folder);
	check_place(&identity, command);
	/* Compressed whole. */
	check_place(&identity, "xz -kc $F >symbols/prog.debug");
	check_place(&identity, "gzip -kc $F >symbols/prog.debug");
	check_place(&identity, "zstd -qc $F >symbols/prog.debug");
}

/* A request of a profiler front end: no path, no code ID, only 16 of the build ID's 20 bytes. */
static void test_debug_id_alone(void **state)
{
	(void)state;
	make_program();
	struct spsym_identity identity = { .debug_name = "prog", .debug_id = info.debug_id };
	char command[1000];
	snprintf(command, sizeof(command), "mkdir -p root/.build-id/%.2s && cp $F root/.build-id/%.2s/%s.debug",
	         info.code_id, info.code_id, info.code_id + 2);
	check_place(&identity, command);
	snprintf(command, sizeof(command), "mkdir -p symbols/.build-id/%.2s && cp $F symbols/.build-id/%.2s/%s.debug",
	         info.code_id, info.code_id, info.code_id + 2);
	check_place(&identity, command);
	check_place(&identity, "cp $F symbols/prog.debug");
	/* Names from outside are no paths. */
	identity.debug_name = "../bin/prog";
	must_run("cp full bin/prog");
	assert_int_equal(frames_of_hidden(&identity, NULL), 0);
	identity.debug_name = "..";
	assert_int_equal(frames_of_hidden(&identity, NULL), 0);
}

static void test_debug_link(void **state)
{
	(void)state;
	make_program();
	struct spsym_identity identity = full_identity();
	char root_place[1000];
	snprintf(root_place, sizeof(root_place), "mkdir -p root%s/bin && cp $F root%s/bin/linked", folder, folder);
	must_run("cp right linked && objcopy --add-gnu-debuglink=linked bin/prog");
	check_place(&identity, "cp $F bin/linked; rm -f bin/.debug");
	must_run("rm bin/linked");
	check_place(&identity, "mkdir -p bin/.debug && cp $F bin/.debug/linked");
	check_place(&identity, root_place);

	/* Without build IDs the checksum decides. */
	must_run("gcc -g -O2 -DBUILD=1 -Wl,--build-id=none a.c -o full && objcopy --only-keep-debug full right && "
	         "strip -o bin/prog full && gcc -g -O2 -DBUILD=2 -Wl,--build-id=none a.c -o other && "
	         "objcopy --only-keep-debug other wrong && cp right linked && "
	         "objcopy --add-gnu-debuglink=linked bin/prog");
	assert_null(spsym_identify_path(in_folder("bin/prog"), &info));
	assert_string_equal(info.code_id, "");
	identity.debug_id = info.debug_id;
	identity.code_id = NULL;
	check_place(&identity, "mkdir -p bin/.debug && cp $F bin/.debug/linked");
	check_place(&identity, root_place);
	/* A link that is a path is not followed. */
	must_run(
	    "mkdir -p x && cp right x/linked && cp right bin/linked && cd x && objcopy --remove-section=.gnu_debuglink "
	    "../bin/prog && printf '../x/linked\\0' >link && printf '\\0\\0\\0\\0' >>link && "
	    "objcopy --add-section .gnu_debuglink=link ../bin/prog");
	assert_int_equal(frames_of_hidden(&identity, NULL), 0);
}

static void test_no_local_paths(void **state)
{
	(void)state;
	make_program();
	struct spsym_identity identity = full_identity();
	must_run("cp full bin/prog");
	assert_true(frames_of_hidden(&identity, NULL) > 0);
	options.no_local_paths = true;
	assert_int_equal(frames_of_hidden(&identity, NULL), 0);
	must_run("cp right symbols/prog.debug");
	assert_true(frames_of_hidden(&identity, NULL) > 0);
}

/* A debug file opened by name finds its binary: code and stubs. */
static void test_binary_of_debug_file(void **state)
{
	(void)state;
	make_program();
	must_run("cp right bin/prog.debug");
	spsym_context *context;
	spsym_module *module;
	assert_null(spsym_context_create(&options, &context));
	assert_null(spsym_module_open_path(context, in_folder("bin/prog.debug"), &module));
	assert_true(spsym_module_info(module)->has_code && spsym_module_info(module)->has_debug_info);
	uint64_t address = hex_output("nm full | grep ' T main'");
	uint8_t code[8];
	size_t size, file_size;
	assert_null(spsym_code(module, address, code, sizeof(code), &size));
	assert_int_equal(size, sizeof(code));
	must_run("objcopy -O binary -j .text full text");
	uint8_t *text = read_bytes("text", &file_size);
	uint64_t text_address = hex_output(
	    "readelf -SW full | sed -n 's/.* \\.text *PROGBITS *\\([0-9a-f]*\\) .*/\\1/p'");
	assert_memory_equal(code, text + (address - text_address), sizeof(code));
	free(text);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

/* A stripped program with .gnu_debugdata: the mini file has the local functions, .dynsym the exported ones. */
static void test_mini_debug_file(void **state)
{
	(void)state;
	make_program();
	must_run("gcc -O2 -g -rdynamic -DBUILD=1 a.c -o full && nm -D full --format=posix --defined-only | "
	         "awk '{print $1}' | sort >dynamic && nm full --format=posix --defined-only | "
	         "awk '$2 ~ /[TtD]/ {print $1}' | sort >all && comm -13 dynamic all >keep && "
	         "objcopy --only-keep-debug full dbg && "
	         "objcopy -S --remove-section .comment --keep-symbols=keep dbg mini && rm -f mini.xz && xz mini && "
	         "strip -o bin/prog full && objcopy --add-section .gnu_debugdata=mini.xz bin/prog");
	static const char *const names[] = { "hidden", "shown" };
	for (unsigned i = 0; i < 2; i++) {
		spsym_context *context;
		spsym_module *module;
		assert_null(spsym_context_create(&options, &context));
		assert_null(spsym_module_open_path(context, in_folder("bin/prog"), &module));
		uint64_t address = hex_output("nm full | grep -i ' t %s'", names[i]) + 1;
		struct spsym_result result = { 0 };
		assert_null(spsym_lookup(module, &address, 1, &result));
		assert_non_null(result.locations[0].symbol.name);
		assert_string_equal(result.locations[0].symbol.name, names[i]);
		spsym_result_deinit(&result);
		spsym_module_release(module);
		spsym_context_destroy(context);
	}
}

/* The names of all frames of a function, outermost first, in one string. */
static void check_dwz_frames(const char *path, bool expected)
{
	spsym_context *context;
	spsym_module *module;
	assert_null(spsym_context_create(&options, &context));
	assert_null(spsym_module_open_path(context, path, &module));
	uint64_t start = hex_output("nm one | grep ' T use_one'");
	bool inlined = false;
	for (uint64_t address = start; address < start + 0x40; address++) {
		struct spsym_result result = { 0 };
		assert_null(spsym_lookup(module, &address, 1, &result));
		const struct spsym_location *l = &result.locations[0];
		for (size_t i = 0; i < l->frame_count; i++)
			inlined |= l->frames[i].function && strcmp(l->frames[i].function, "shared_inline") == 0;
		spsym_result_deinit(&result);
	}
	assert_int_equal(inlined, expected);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

static void test_supplementary(void **state)
{
	(void)state;
	make_program();
	if (!have("dwz")) {
		skip_part("supplementary files", "dwz is missing");
		return;
	}
	write_text("shared.h", "static inline __attribute__((always_inline)) int shared_inline(volatile int *p) {\n"
	                       "int s = 0; for (int i = 0; i < 10; i++) s += p[i] * p[i + 1]; return s; }\n"
	                       "struct shared_type { int a, b, c; struct shared_type *next; };\n"
	                       "static struct shared_type shared_variable __attribute__((used));\n");
	write_text("one.c", "#include \"shared.h\"\nint use_one(volatile int *p) { return shared_inline(p) + 1; }\n"
	                    "int main(void) { int x[20] = { 0 }; return use_one(x); }\n");
	write_text("two.c", "#include \"shared.h\"\nint use_two(volatile int *p) { return shared_inline(p) + 2; }\n"
	                    "int main(void) { int x[20] = { 0 }; return use_two(x); }\n");
	must_run("mkdir -p dwz && gcc -gdwarf-4 -O2 one.c -o dwz/one && gcc -gdwarf-4 -O2 two.c -o dwz/two && "
	         "cp dwz/one one && cd dwz && dwz -m common.dwz -r one two && "
	         "readelf --debug-dump=links one >../links && ls -l");
	must_run("readelf -SW dwz/one | grep -q gnu_debugaltlink");
	check_dwz_frames(in_folder("dwz/one"), true);

	/* Found by its build ID too; a file of another build in its place is not used. */
	char *id = output_of("readelf -n dwz/common.dwz | sed -n 's/.*Build ID: //p'");
	id[strcspn(id, "\n")] = 0;
	must_run("mkdir -p root/.build-id/%.2s && mv dwz/common.dwz root/.build-id/%.2s/%s.debug", id, id, id + 2);
	check_dwz_frames(in_folder("dwz/one"), true);
	must_run("mv root/.build-id/%.2s/%s.debug keep.dwz && cp two.c other.c && "
	         "gcc -gdwarf-4 -O1 one.c -o three && cp three four && dwz -m dwz/common.dwz -r three four",
	         id, id + 2);
	check_dwz_frames(in_folder("dwz/one"), false);
	free(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_debug_id_alone),
		cmocka_unit_test(test_debug_link),
		cmocka_unit_test(test_no_local_paths),
		cmocka_unit_test(test_binary_of_debug_file),
		cmocka_unit_test(test_mini_debug_file),
		cmocka_unit_test(test_supplementary),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
