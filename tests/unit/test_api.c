/* The three requests of the symbolication API against a symbol library whose every answer is known: it is faked here.
 * Replies are read back with cJSON, which no code under test uses. */
#include "spsym.h"
#include "symbolication/api/internal.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The fake library ----
 * It has one good module, "libgood.so" of GOOD_ID: outer() covers 0x1000-0x2000 and has two functions inlined from
 * 0x1100 on, bare() covers 0x2000-0x2100 without debug information, code without symbol but with a frame is at 0x3000;
 * nothing is elsewhere. */

#define GOOD_ID "00112233445566778899AABBCCDDEEFF0"

struct spsym_module {
	struct spsym_file_info info;
	const uint8_t *code; /* at 0x1000 */
	size_t code_size;
	const char *debug_error;
};
static struct spsym_module good;
static char source_path[256];
static unsigned open_modules;
static size_t found_addresses;

spsym_error *spsym_module_find(spsym_context *context, const struct spsym_identity *identity, spsym_module **ret)
{
	(void)context;
	if (!identity->debug_id || strcmp(identity->debug_id, GOOD_ID) != 0)
		return sp_error_create(SP_ERROR_NOT_FOUND, "no symbols for %s", identity->debug_name);
	open_modules++;
	*ret = &good;
	return NULL;
}

void spsym_module_release(spsym_module *module)
{
	assert_ptr_equal(module, &good);
	open_modules--;
}

const struct spsym_file_info *spsym_module_info(const spsym_module *module)
{
	return &module->info;
}

static bool downloaded;

bool spsym_module_is_downloaded(const spsym_module *module)
{
	(void)module;
	return downloaded;
}

spsym_error *spsym_module_fetch_source(spsym_module *module, const char *file, char **ret)
{
	(void)module;
	(void)ret;
	return sp_error_create(SP_ERROR_NOT_FOUND, "no server has %s", file);
}

static const struct spsym_frame inline_frames[] = {
	{ "innermost", source_path, 11, 3 },
	{ "middle", "/rustc/53cb7b09b00cbea8754ffb78e7e3cb521cb8af4b/library/core/src/x.rs", 22, 0 },
	{ "outer(int)", "/src/outer.cpp", 33, 1 },
};
static const struct spsym_frame plain_frame = { "outer(int)", "/src/outer.cpp", 0, 0 };
static const struct spsym_frame lonely_frame = { "lonely", NULL, 0, 0 };
static const struct spsym_frame file_only_frame = { NULL, "/src/asm.S", 5, 0 };

static void fake_location(uint64_t address, bool symbols_only, struct spsym_location *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (address >= 0x1000 && address < 0x2000) {
		ret->symbol = (struct spsym_symbol){ "outer(int)", 0x1000, 0x1000 };
		ret->frames = address >= 0x1100 ? inline_frames : &plain_frame;
		ret->frame_count = address >= 0x1100 ? 3 : 1;
	} else if (address >= 0x2000 && address < 0x2100) {
		ret->symbol = (struct spsym_symbol){ "bare", 0x2000, 0 };
	} else if (address == 0x3000) {
		ret->frames = &lonely_frame;
		ret->frame_count = 1;
	} else if (address == 0x3001) {
		ret->frames = &file_only_frame;
		ret->frame_count = 1;
	}
	if (symbols_only) {
		ret->frames = NULL;
		ret->frame_count = 0;
	}
}

static spsym_error *fake_lookup(spsym_module *module, const uint64_t *addresses, size_t count, bool symbols_only,
                                struct spsym_result *ret)
{
	ret->locations = calloc(count + 1, sizeof(*ret->locations));
	ret->count = count;
	ret->debug_error = module->debug_error;
	found_addresses += count;
	for (size_t i = 0; i < count; i++)
		fake_location(addresses[i], symbols_only, &ret->locations[i]);
	return NULL;
}

spsym_error *spsym_lookup(spsym_module *module, const uint64_t *addresses, size_t count, struct spsym_result *ret)
{
	return fake_lookup(module, addresses, count, false, ret);
}

spsym_error *spsym_lookup_symbols(spsym_module *module, const uint64_t *addresses, size_t count,
                                  struct spsym_result *ret)
{
	return fake_lookup(module, addresses, count, true, ret);
}

void spsym_result_deinit(struct spsym_result *result)
{
	free(result->locations);
	memset(result, 0, sizeof(*result));
}

spsym_error *spsym_code(spsym_module *module, uint64_t address, void *buffer, size_t size, size_t *ret_size)
{
	if (!module->code || address < 0x1000 || address >= 0x1000 + module->code_size)
		return sp_error_create(SP_ERROR_NOT_FOUND, "no code there");
	size_t left = module->code_size - (size_t)(address - 0x1000);
	*ret_size = size < left ? size : left;
	memcpy(buffer, module->code + (address - 0x1000), *ret_size);
	return NULL;
}

/* ---- Asking ---- */

static bool known_odd_name(void *context, const char *debug_name, const char *debug_id, struct spsym_identity *ret)
{
	(void)context;
	(void)debug_id;
	if (strcmp(debug_name, "odd,name(1).so") != 0)
		return false;
	ret->path = "/odd";
	return true;
}

static const char *const map_paths[] = { "/nowhere/src=/mapped", NULL };

static cJSON *ask(const char *path, const char *body, enum sp_api_status expected)
{
	struct sp_api_options options = { .local_sources = true, .resolve = known_odd_name, .map_paths = map_paths };
	struct sp_api *api;
	struct sp_buffer reply = { 0 };
	enum sp_api_status status;
	struct sp_error *error = sp_api_create(&options, &api);
	assert_null(error);
	error = sp_api_handle(api, path, body, strlen(body), &reply, &status);
	assert_null(error);
	assert_int_equal(status, expected);
	cJSON *json = cJSON_ParseWithLength(reply.bytes, reply.size);
	assert_non_null(json);
	free(reply.bytes);
	sp_api_destroy(api);
	assert_int_equal(open_modules, 0);
	return json;
}

static void assert_reply(const char *path, const char *body, const char *expected)
{
	cJSON *json = ask(path, body, SP_API_OK);
	char *text = cJSON_PrintUnformatted(json);
	assert_string_equal(text, expected);
	cJSON_free(text);
	cJSON_Delete(json);
}

static void assert_error(const char *path, const char *body, enum sp_api_status status, const char *part)
{
	cJSON *json = ask(path, body, status);
	const char *message = cJSON_GetStringValue(cJSON_GetObjectItem(json, "error"));
	assert_non_null(message);
	if (!strstr(message, part))
		fail_msg("\"%s\" is not in \"%s\"", part, message);
	cJSON_Delete(json);
}

/* ---- symbolicate/v5 ---- */

#define FRAME(offset) "\"module_offset\":\"" offset "\",\"module\":\"libgood.so\""
#define RUST_PATH "git:github.com/rust-lang/rust:library/core/src/x.rs:53cb7b09b00cbea8754ffb78e7e3cb521cb8af4b"

/* clang-format off */
static void test_every_kind_of_frame(void **state)
{
	(void)state;
	snprintf(source_path, sizeof(source_path), "/src/inner.h");
	assert_reply(
	    "/symbolicate/v5",
	    "{\"jobs\":[{\"memoryMap\":[[\"libgood.so\",\"" GOOD_ID "\"]],"
	    "\"stacks\":[[[0,4352],[0,4096],[0,8193]],[],[[0,12288],[0,12289],[0,16384]]]}]}",
	    "{\"results\":[{\"stacks\":[["
	    "{\"frame\":0," FRAME("0x1100") ",\"function\":\"outer(int)\",\"file\":\"/src/outer.cpp\","
	    "\"function_offset\":\"0x100\",\"function_size\":\"0x1000\",\"line\":33,\"inlines\":["
	    "{\"function\":\"innermost\",\"file\":\"/src/inner.h\",\"line\":11},"
	    "{\"function\":\"middle\",\"file\":\"" RUST_PATH "\",\"line\":22}]},"
	    "{\"frame\":1," FRAME("0x1000") ",\"function\":\"outer(int)\",\"file\":\"/src/outer.cpp\","
	    "\"function_offset\":\"0x0\",\"function_size\":\"0x1000\"},"
	    "{\"frame\":2," FRAME("0x2001") ",\"function\":\"bare\",\"function_offset\":\"0x1\"}],[],["
	    "{\"frame\":0," FRAME("0x3000") ",\"function\":\"lonely\",\"function_offset\":\"0x0\"},"
	    "{\"frame\":1," FRAME("0x3001") ",\"file\":\"/src/asm.S\",\"line\":5},"
	    "{\"frame\":2," FRAME("0x4000") "}]],"
	    "\"found_modules\":{\"libgood.so/" GOOD_ID "\":true}}]}");
}
/* clang-format on */

static void test_both_body_forms_and_any_key_order(void **state)
{
	(void)state;
	static const char expected[] = "{\"results\":[{\"stacks\":[[{\"frame\":0," FRAME(
	    "0x2000") ",\"function\":\"bare\","
	              "\"function_offset\":\"0x0\"}]],\"found_modules\":{\"libgood.so/" GOOD_ID "\":true}}]}";
	static const char *const bodies[] = {
		"{\"memoryMap\":[[\"libgood.so\",\"" GOOD_ID "\"]],\"stacks\":[[[0,8192]]],\"version\":5}",
		"{\"stacks\":[[[0,8192]]],\"x\":{\"y\":[1,null]},\"memoryMap\":[[\"libgood.so\",\"" GOOD_ID "\"]]}",
		" { \"jobs\" : [ { \"stacks\" : [ [ [ 0 , 8192 ] ] ] , \"memoryMap\" : [ [ \"libgood.so\" , \"" GOOD_ID
		"\" ] ] } ] } \n",
	};
	for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++)
		assert_reply("/symbolicate/v5", bodies[i], expected);
	assert_reply("/symbolicate/v5", "{\"jobs\":[]}", "{\"results\":[]}");
}

static void test_modules_that_are_not_found(void **state)
{
	(void)state;
	/* libgood.so has frames on both sides of the missing one's; an unused module is not in the reply. */
	assert_reply(
	    "/symbolicate/v5",
	    "{\"memoryMap\":[[\"gone.so\",\"11112233445566778899AABBCCDDEEFF0\"],[\"libgood.so\",\"" GOOD_ID
	    "\"],[\"unused.so\",\"11112233445566778899AABBCCDDEEFF0\"],[\"nil.so\","
	    "\"000000000000000000000000000000000\"]],"
	    "\"stacks\":[[[1,8192],[0,1],[1,8193],[3,2]]]}",
	    "{\"results\":[{\"stacks\":[[{\"frame\":0," FRAME(
	        "0x2000") ",\"function\":\"bare\",\"function_offset\":"
	                  "\"0x0\"},{\"frame\":1,\"module_offset\":\"0x1\",\"module\":\"gone.so\"},"
	                  "{\"frame\":2," FRAME(
	                      "0x2001") ",\"function\":\"bare\",\"function_offset\":\"0x1\"},"
	                                "{\"frame\":3,\"module_offset\":\"0x2\",\"module\":\"nil.so\"}]],"
	                                "\"found_modules\":{\"gone.so/"
	                                "11112233445566778899AABBCCDDEEFF0\":false,\"libgood.so/" GOOD_ID "\":true,"
	                                "\"nil.so/000000000000000000000000000000000\":false},"
	                                "\"module_errors\":{\"gone.so/11112233445566778899AABBCCDDEEFF0\":"
	                                "[{\"name\":\"NotFound\",\"message\":\"no symbols for gone.so\"}],"
	                                "\"nil.so/000000000000000000000000000000000\":[{\"name\":\"InvalidInput\","
	                                "\"message\":\"\\\"000000000000000000000000000000000\\\" is not a debug "
	                                "ID\"}]}}]}");
}

static void test_unreadable_debug_information_is_said(void **state)
{
	(void)state;
	good.debug_error = ".debug_info is cut";
	assert_reply("/symbolicate/v5", "{\"memoryMap\":[[\"libgood.so\",\"" GOOD_ID "\"]],\"stacks\":[[[0,8192]]]}",
	             "{\"results\":[{\"stacks\":[[{\"frame\":0," FRAME(
	                 "0x2000") ",\"function\":\"bare\",\"function_offset\":"
	                           "\"0x0\"}]],\"found_modules\":{\"libgood.so/" GOOD_ID
	                           "\":true},\"module_errors\":{\"libgood.so/" GOOD_ID
	                           "\":[{\"name\":\"InvalidInput\",\"message\":\".debug_info is cut\"}]}}]}");
	good.debug_error = NULL;
}

static void test_bad_symbolicate_bodies(void **state)
{
	(void)state;
	static const struct {
		const char *body, *part;
	} cases[] = {
		{ "", "JSON" },
		{ "[]", "not an object" },
		{ "{}", "no memoryMap" },
		{ "{\"memoryMap\":[]}", "no stacks" },
		{ "{\"memoryMap\":[],\"stacks\":[[[0,1]]]}", "past the end of memoryMap" },
		{ "{\"jobs\":[{\"memoryMap\":[]}]}", "no stacks" },
		{ "{\"jobs\":{}}", "not an array" },
		{ "{\"jobs\":[]} x", "more text" },
		{ "{\"memoryMap\":[[\"a\"]],\"stacks\":[]}", "not [debugName, debugId]" },
		{ "{\"memoryMap\":[[\"a\",\"b\",\"c\"]],\"stacks\":[]}", "not [debugName, debugId]" },
		{ "{\"memoryMap\":[[\"a\",\"xyz\"]],\"stacks\":[]}", "not hexadecimal" },
		{ "{\"memoryMap\":[[\"../a\",\"00\"]],\"stacks\":[]}", "not allowed" },
		{ "{\"memoryMap\":[[\"a\\u0000b\",\"00\"]],\"stacks\":[]}", "NUL" },
		{ "{\"memoryMap\":[[\"\",\"00\"]],\"stacks\":[]}", "not allowed" },
		{ "{\"memoryMap\":[[\"a\",\"00\"]],\"stacks\":[[[0,-1]]]}", "not a whole number" },
		{ "{\"memoryMap\":[[\"a\",\"00\"]],\"stacks\":[[[0,1.5]]]}", "not a whole number" },
		{ "{\"memoryMap\":[[\"a\",\"00\"]],\"stacks\":[[[0]]]}", "not [moduleIndex, address]" },
		{ "{\"memoryMap\":[[\"a\",\"00\"]],\"stacks\":[[[0,1,2]]]}", "not [moduleIndex, address]" },
		{ "{\"memoryMap\":[[\"a\",\"00\"]],\"stacks\":[[[0,9007199254740993]]]}", "too large" },
		{ "{\"memoryMap\":[],\"memoryMap\":[],\"stacks\":[]}", "twice" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_error("/symbolicate/v5", cases[i].body, SP_API_BAD_REQUEST, cases[i].part);
	assert_error("/symbolicate/v6", "{}", SP_API_NOT_FOUND, "no such API");
}

static void test_odd_names_only_when_known(void **state)
{
	(void)state;
	cJSON *json = ask("/symbolicate/v5",
	                  "{\"memoryMap\":[[\"odd,name(1).so\",\"" GOOD_ID "\"]],\"stacks\":[[[0,8192]]]}", SP_API_OK);
	cJSON_Delete(json);
	assert_error("/symbolicate/v5",
	             "{\"memoryMap\":[[\"odd,name(2).so\",\"" GOOD_ID "\"]],\"stacks\":[[[0,8192]]]}",
	             SP_API_BAD_REQUEST, "not allowed");
}

/* Many frames over three modules: each keeps its place. */
static void test_many_frames_keep_their_order(void **state)
{
	(void)state;
	SP_VECTOR(char) body = { 0 };
	static const char head[] =
	    "{\"memoryMap\":[[\"gone.so\",\"11112233445566778899AABBCCDDEEFF0\"],[\"libgood.so\","
	    "\"" GOOD_ID "\"],[\"libgood.so\",\"" GOOD_ID "\"]],\"stacks\":[";
	assert_true(sp_vector_reserve(&body, sizeof(head) + 100000));
	body.count = (size_t)sprintf(body.items, "%s", head);
	unsigned seed = 7;
	unsigned modules[3000], addresses[3000];
	for (unsigned i = 0; i < 3000; i++) {
		seed = seed * 1103515245 + 12345;
		modules[i] = seed >> 16 & 1 ? 1 + (seed >> 17 & 1) : 0;
		addresses[i] = 0x1000 + (seed >> 8) % 0x1100;
		body.count += (size_t)sprintf(body.items + body.count, "%s[%u,%u]",
		                              i % 50 ? ","
		                              : i    ? "],["
		                                     : "[",
		                              modules[i], addresses[i]);
	}
	strcpy(body.items + body.count, "]]}");
	cJSON *json = ask("/symbolicate/v5", body.items, SP_API_OK);
	cJSON *result = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "results"), 0), *stack, *frame;
	unsigned i = 0;
	cJSON_ArrayForEach(stack, cJSON_GetObjectItem(result, "stacks"))
	{
		cJSON_ArrayForEach(frame, stack)
		{
			char offset[32];
			snprintf(offset, sizeof(offset), "0x%x",
			         addresses[i] < 0x2000 ? addresses[i] - 0x1000 : addresses[i] - 0x2000);
			const char *function_offset = cJSON_GetStringValue(
			    cJSON_GetObjectItem(frame, "function_offset"));
			if (modules[i])
				assert_string_equal(function_offset, offset);
			else
				assert_null(function_offset);
			assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(frame, "frame")), i % 50);
			i++;
		}
	}
	assert_int_equal(i, 3000);
	cJSON_Delete(json);
	sp_vector_deinit(&body);
}

static void test_real_bodies(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		size_t addresses, modules;
	} files[] = { { "linux64-ci-xul.json", 10251, 1 }, { "win64-ci-nonxul.json", 4021, 21 } };
	for (size_t i = 0; i < 2; i++) {
		char path[1024];
		snprintf(path, sizeof(path), "%s/api/%s", TEST_SHARED_DATA, files[i].name);
		FILE *file = fopen(path, "rb");
		if (!file) {
			printf("SKIPPED: no shared data (%s)\n", files[i].name);
			skip();
		}
		char *text = calloc(1, 1 << 20);
		size_t size = fread(text, 1, (1 << 20) - 1, file);
		fclose(file);
		struct api_symbolicate_request request;
		struct sp_api api = { 0 };
		struct sp_error *error = api_read_symbolicate(&api, text, size, &request);
		assert_null(error);
		/* The same numbers by another parser. */
		cJSON *json = cJSON_Parse(text), *stack, *frame;
		size_t at = 0;
		cJSON_ArrayForEach(stack, cJSON_GetObjectItem(json, "stacks"))
		{
			cJSON_ArrayForEach(frame, stack)
			{
				assert_int_equal(request.frames.items[at].module,
				                 cJSON_GetArrayItem(frame, 0)->valueint);
				assert_true((double)request.frames.items[at].address ==
				            cJSON_GetArrayItem(frame, 1)->valuedouble);
				at++;
			}
		}
		assert_int_equal(at, request.frames.count);
		assert_int_equal(request.modules.count, cJSON_GetArraySize(cJSON_GetObjectItem(json, "memoryMap")));
		assert_int_equal(request.frames.count, files[i].addresses);
		cJSON_Delete(json);
		api_symbolicate_request_deinit(&request);
		free(text);
	}
}

/* ---- Paths ---- */

static void test_shown_paths(void **state)
{
	(void)state;
	static const struct {
		const char *path, *shown; /* NULL = unchanged */
	} cases[] = {
		{ "/usr/src/x.c", NULL },
		{ "", NULL },
		{ "/rustc/53cb7b09b00cbea8754ffb78e7e3cb521cb8af4b/library/std/src/sys/unix/thread.rs",
		  "git:github.com/rust-lang/rust:library/std/src/sys/unix/"
		  "thread.rs:53cb7b09b00cbea8754ffb78e7e3cb521cb8af4b" },
		{ "/rustc/53cb7b09b00cbea8754ffb78e7e3cb521cb8af4b\\/library\\std\\src\\thread.rs",
		  "git:github.com/rust-lang/rust:/library/std/src/thread.rs:53cb7b09b00cbea8754ffb78e7e3cb521cb8af4b" },
		{ "/rustc/main/library/x.rs", NULL },
		{ "/home/me/.cargo/registry/src/github.com-1ecc6299db9ec823/tokio-1.6.1/src/runtime/task/mod.rs",
		  "cargo:github.com-1ecc6299db9ec823:tokio-1.6.1:src/runtime/task/mod.rs" },
		{ "C:\\Users\\me\\.cargo\\registry\\src\\index.crates.io-6f17d22bba15001f\\serde-json-1.0.9\\src\\de."
		  "rs",
		  "cargo:index.crates.io-6f17d22bba15001f:serde-json-1.0.9:src/de.rs" },
		{ "/home/me/.cargo/registry/src/x/nodash/src/a.rs", NULL },
		{ "/home/me/.cargo/registry/src/x/crate-1.0.0/src/a:b.rs", NULL },
		{ "https://raw.githubusercontent.com/owner/name/0123abcd/src/a.c",
		  "git:github.com/owner/name:src/a.c:0123abcd" },
		{ "https://hg.mozilla.org/mozilla-central/raw-file/997f00815e6b/widget/cocoa/nsAppShell.mm",
		  "hg:hg.mozilla.org/mozilla-central:widget/cocoa/nsAppShell.mm:997f00815e6b" },
		{ "https://chromium.googlesource.com/chromium/src.git/+/4dac2548d4812df2/content/gpu/"
		  "gpu_main.cc?format=TEXT",
		  "git:chromium.googlesource.com/chromium/src:content/gpu/gpu_main.cc:4dac2548d4812df2" },
		{ "https://gecko-generated-sources.s3.amazonaws.com/"
		  "a5d3747707d6877b0e5cb0a364e3cb9f/ipc/ipdl/PBackgroundChild.cpp",
		  "s3:gecko-generated-sources:a5d3747707d6877b0e5cb0a364e3cb9f/ipc/ipdl/PBackgroundChild.cpp:" },
		{ "https://example.com/a.c", NULL },
		{ "https://", NULL },
	};
	struct sp_arena arena = { 0 };
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *shown = api_shown_path(&arena, cases[i].path);
		assert_string_equal(shown, cases[i].shown ? cases[i].shown : cases[i].path);
	}
	sp_arena_deinit(&arena);
}

/* ---- source/v1 ---- */

static char folder[] = "/tmp/sp-test-api-XXXXXX";

static int make_files(void **state)
{
	(void)state;
	if (!mkdtemp(folder) || chdir(folder))
		return -1;
	FILE *file = fopen("inner.h", "w");
	fputs("int one;\n\"two\"\t\xc3\xa9\n", file);
	fclose(file);
	file = fopen("binary", "w");
	fwrite("a\0b", 1, 3, file);
	fclose(file);
	file = fopen("big", "w");
	if (ftruncate(fileno(file), (off_t)SP_API_MAX_SOURCE + 1))
		return -1;
	fclose(file);
	return symlink("inner.h", "link.h") || mkfifo("fifo", 0600) || mkdir("dir", 0700) || symlink(".", "loop") ||
	       symlink("/proc/self", "proc");
}

static int remove_files(void **state)
{
	(void)state;
	static const char *const names[] = { "inner.h", "binary", "big", "link.h", "fifo", "loop", "proc" };
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlink(names[i]);
	rmdir("dir");
	return rmdir(folder);
}

static const char *source_body(const char *offset, const char *file)
{
	static char body[1024];
	snprintf(body, sizeof(body),
	         "{\"debugName\":\"libgood.so\",\"debugId\":\"" GOOD_ID "\",\"moduleOffset\":\"%s\",\"file\":\"%s\"}",
	         offset, file);
	return body;
}

static void test_source_of_an_inlined_function(void **state)
{
	(void)state;
	snprintf(source_path, sizeof(source_path), "%s/loop/inner.h", folder);
	char expected[1024];
	snprintf(expected, sizeof(expected),
	         "{\"symbolsLastModified\":null,\"sourceLastModified\":null,\"file\":\"%s\","
	         "\"source\":\"int one;\\n\\\"two\\\"\\t\xc3\xa9\\n\"}",
	         source_path);
	assert_reply("/source/v1", source_body("0x1100", source_path), expected);
	/* That file is not at this address, nor is another file at the right one. */
	assert_error("/source/v1", source_body("0x1000", source_path), SP_API_OK, "is not a source file of");
	assert_error("/source/v1", source_body("0x1100", "/etc/passwd"), SP_API_OK, "is not a source file of");
	assert_error("/source/v1", source_body("0x9999", "/etc/passwd"), SP_API_OK, "is not a source file of");
}

/* What a server's debug information names is no file of this machine, even if one of that name is here. */
static void test_source_of_a_downloaded_file(void **state)
{
	(void)state;
	downloaded = true;
	snprintf(source_path, sizeof(source_path), "%s/loop/inner.h", folder);
	assert_error("/source/v1", source_body("0x1100", source_path), SP_API_OK, "no server has");
	snprintf(source_path, sizeof(source_path), "/nowhere/src/a.c"); /* the user mapped this one */
	assert_error("/source/v1", source_body("0x1100", source_path), SP_API_OK, "/mapped/a.c");
	downloaded = false;
}

static void test_source_files_that_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *name, *part;
	} cases[] = {
		{ "link.h", "symbolic link" },
		{ "fifo", "not a regular file" },
		{ "dir", "not a regular file" },
		{ "binary", "not a text file" },
		{ "big", "larger than" },
		{ "gone.h", "gone.h" },
		{ "dir/..", "not a regular file" },
		{ "", "not a regular file" },
		{ "proc/status", "not a source file" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(source_path, sizeof(source_path), "%s/%s", folder, cases[i].name);
		assert_error("/source/v1", source_body("0x1100", source_path), SP_API_OK, cases[i].part);
	}
	static const char *const special[] = { "/proc/self/environ", "/proc/../proc/self/maps", "/dev/zero",
		                               "/sys/kernel/mm/transparent_hugepage/enabled" };
	for (size_t i = 0; i < sizeof(special) / sizeof(*special); i++) {
		snprintf(source_path, sizeof(source_path), "%s", special[i]);
		assert_error("/source/v1", source_body("0x1100", source_path), SP_API_OK, "is not a source file");
	}
	snprintf(source_path, sizeof(source_path), "inner.h");
	assert_error("/source/v1", source_body("0x1100", source_path), SP_API_OK, "not an absolute path");
}

static void test_source_through_a_path_map(void **state)
{
	(void)state;
	snprintf(source_path, sizeof(source_path), "/nowhere/src/a.c");
	assert_error("/source/v1", source_body("0x1100", source_path), SP_API_OK, "/mapped/a.c");
	snprintf(source_path, sizeof(source_path), "/nowhere/srcs/a.c");
	assert_error("/source/v1", source_body("0x1100", source_path), SP_API_OK, "/nowhere/srcs/a.c");
}

static void test_bad_code_bodies(void **state)
{
	(void)state;
	assert_error("/source/v1", "", SP_API_BAD_REQUEST, "JSON");
	assert_error("/source/v1", "{}", SP_API_BAD_REQUEST, "moduleOffset");
	assert_error("/source/v1", "{\"moduleOffset\":12}", SP_API_BAD_REQUEST, "not a string");
	assert_error("/source/v1", "{\"moduleOffset\":\"12\"}", SP_API_BAD_REQUEST, "hexadecimal");
	assert_error("/source/v1", "{\"moduleOffset\":\"0x\"}", SP_API_BAD_REQUEST, "hexadecimal");
	assert_error("/source/v1", "{\"moduleOffset\":\"0xfffffffffffffffff\"}", SP_API_BAD_REQUEST, "hexadecimal");
	assert_error("/source/v1", "{\"moduleOffset\":\"0x1\"}", SP_API_OK, "are needed");
	assert_error("/asm/v1", "{\"startAddress\":\"0x1\"}", SP_API_OK, "is needed");
	assert_error("/asm/v1", "{\"startAddress\":\"0x1\",\"debugId\":\"12\"}", SP_API_BAD_REQUEST, "debugId");
	assert_error("/asm/v1", "{\"startAddress\":\"0x1\",\"debugId\":\"11112233445566778899AABBCCDDEEFF0\"}",
	             SP_API_OK, "no symbols");
}

/* ---- asm/v1 ---- */

static void use_code(const char *arch, const void *code, size_t size)
{
	strcpy(good.info.arch, arch);
	good.code = code;
	good.code_size = size;
}

#define ASM_BODY(start, more)                                                                                \
	"{\"debugName\":\"libgood.so\",\"debugId\":\"" GOOD_ID "\",\"name\":\"libgood.so\",\"codeId\":null," \
	"\"startAddress\":\"" start "\"" more "}"

static void test_asm_x86_64(void **state)
{
	(void)state;
	/* push rbp; call 0x2000; jmp 0x1000; (invalid) 06; mov eax, [rip+1]; ret */
	static const uint8_t code[] = { 0x55, 0xe8, 0xfa, 0x0f, 0, 0, 0xeb, 0xf8, 0x06, 0x8b, 0x05, 1, 0, 0, 0, 0xc3 };
	use_code("x86_64", code, sizeof(code));
	assert_reply(
	    "/asm/v1", ASM_BODY("0x1000", ",\"size\":\"0x10\",\"continueUntilFunctionEnd\":false"),
	    "{\"startAddress\":\"0x1000\",\"size\":\"0x10\",\"arch\":\"x86_64\",\"syntax\":[\"Intel\",\"AT&T\"],"
	    "\"instructions\":[[0,\"push rbp\",\"pushq %rbp\"],"
	    "[1,\"call 0x2000 <bare>\",\"callq 0x2000 <bare>\"],"
	    "[6,\"jmp 0x1000 <outer(int)>\",\"jmp 0x1000 <outer(int)>\"],"
	    "[8,\".byte 0x06 # invalid instruction\",\".byte 0x06 # invalid instruction\"],"
	    "[9,\"mov eax, dword ptr [rip + 1]\",\"movl 1(%rip), %eax\"],[15,\"ret\",\"retq\"]]}");
	/* Clipped to the bytes that there are, then to what was asked. */
	cJSON *json = ask("/asm/v1", ASM_BODY("0x1008", ",\"continueUntilFunctionEnd\":true"), SP_API_OK);
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(json, "size")), "0x8");
	cJSON_Delete(json);
	json = ask("/asm/v1", ASM_BODY("0x1000", ",\"size\":\"0x2\""), SP_API_OK);
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(json, "size")), "0x2");
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "instructions")), 2);
	cJSON_Delete(json);
	assert_error("/asm/v1", ASM_BODY("0x9000", ",\"size\":\"0x10\""), SP_API_OK, "no code there");
	assert_error("/asm/v1", ASM_BODY("0x9000", ""), SP_API_OK, "no function begins at 0x9000");
}

static void test_asm_of_other_architectures(void **state)
{
	(void)state;
	static const uint8_t x86[] = { 0x55, 0xe8, 0xfa, 0x0f, 0, 0, 0xc3 };
	use_code("x86", x86, sizeof(x86));
	assert_reply(
	    "/asm/v1", ASM_BODY("0x1000", ",\"size\":\"0x7\""),
	    "{\"startAddress\":\"0x1000\",\"size\":\"0x7\",\"arch\":\"i686\",\"syntax\":[\"Intel\",\"AT&T\"],"
	    "\"instructions\":[[0,\"push ebp\",\"pushl %ebp\"],[1,\"call 0x2000 <bare>\",\"calll 0x2000 <bare>\"],"
	    "[6,\"ret\",\"retl\"]]}");
	/* bl 0x2000; cbz x20, 0x1018; tbnz w0, #3, 0x1000; b.eq 0x1010; udf; ret; the start is not aligned */
	static const uint32_t arm64[] = { 0x94000400, 0xb40000b4, 0x371fffc0, 0x54000020, 0xffffffff, 0xd65f03c0 };
	use_code("arm64", arm64, sizeof(arm64));
	assert_reply("/asm/v1", ASM_BODY("0x1001", ",\"size\":\"0x17\""),
	             "{\"startAddress\":\"0x1000\",\"size\":\"0x18\",\"arch\":\"aarch64\",\"syntax\":[\"ARM\"],"
	             "\"instructions\":[[0,\"bl #0x2000 <bare>\"],[4,\"cbz x20, #0x1018 <outer(int)+0x18>\"],"
	             "[8,\"tbnz w0, #3, #0x1000 <outer(int)>\"],[12,\"b.eq #0x1010 <outer(int)+0x10>\"],"
	             "[16,\".byte 0xff, 0xff, 0xff, 0xff # invalid instruction\"],[20,\"ret\"]]}");
	/* push {r7, lr}; bl 0x2000; cbz r0, 0x1000+10; pop {r7, pc} */
	static const uint8_t thumb[] = { 0x80, 0xb5, 0x00, 0xf0, 0xfd, 0xff, 0x00, 0xb1, 0x80, 0xbd };
	use_code("arm", thumb, sizeof(thumb));
	assert_reply("/asm/v1", ASM_BODY("0x1001", ",\"size\":\"0x9\""),
	             "{\"startAddress\":\"0x1000\",\"size\":\"0xa\",\"arch\":\"arm\",\"syntax\":[\"ARM (Thumb)\"],"
	             "\"instructions\":[[0,\"push {r7, lr}\"],[2,\"bl #0x2000 <bare>\"],"
	             "[6,\"cbz r0, #0x100a <outer(int)+0xa>\"],[8,\"pop {r7, pc}\"]]}");
	/* push {r11, lr}; bl 0x2000; bx lr */
	static const uint32_t a32[] = { 0xe92d4800, 0xeb0003fd, 0xe12fff1e };
	use_code("arm", a32, sizeof(a32));
	assert_reply("/asm/v1", ASM_BODY("0x1000", ",\"size\":\"0xc\""),
	             "{\"startAddress\":\"0x1000\",\"size\":\"0xc\",\"arch\":\"arm\",\"syntax\":[\"ARM (A32)\"],"
	             "\"instructions\":[[0,\"push {fp, lr}\"],[4,\"bl #0x2000 <bare>\"],[8,\"bx lr\"]]}");
	use_code("", a32, sizeof(a32));
	assert_error("/asm/v1", ASM_BODY("0x1000", ",\"size\":\"0xc\""), SP_API_OK, "no disassembler");
}

/* The reply of another implementation for the same bytes: its offsets and branch targets. */
static void test_asm_against_a_stored_reply(void **state)
{
	(void)state;
	static const char *const names[] = { TEST_SHARED_DATA "/macho/libmozglue.dylib",
		                             TEST_SHARED_DATA "/api/asm_arm64.txt" };
	static uint8_t code[0xe8];
	static char text[8192];
	FILE *file = fopen(names[0], "rb");
	if (!file) {
		printf("SKIPPED: no shared data (%s)\n", names[0]);
		skip();
	}
	/* In this file the code's offset is its relative address. */
	assert_int_equal(fseek(file, 0x973c, SEEK_SET), 0);
	assert_int_equal(fread(code, 1, sizeof(code), file), sizeof(code));
	fclose(file);
	file = fopen(names[1], "rb");
	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	cJSON *json = cJSON_Parse(text), *expected = cJSON_GetObjectItem(json, "instructions");
	struct api_disassembly d;
	struct sp_error *error = api_disassemble("arm64", 0x973c, code, sizeof(code), &d);
	assert_null(error);
	assert_string_equal(d.arch, cJSON_GetStringValue(cJSON_GetObjectItem(json, "arch")));
	assert_int_equal(cJSON_GetArraySize(expected), d.instructions.count);
	unsigned targets = 0;
	for (size_t i = 0; i < d.instructions.count; i++) {
		const struct api_instruction *ours = &d.instructions.items[i];
		cJSON *theirs = cJSON_GetArrayItem(expected, (int)i);
		const char *line = cJSON_GetArrayItem(theirs, 1)->valuestring;
		const char *mnemonic = d.texts.items + ours->text[0];
		assert_int_equal(ours->offset, cJSON_GetArrayItem(theirs, 0)->valueint);
		assert_memory_equal(mnemonic, line, strcspn(line, " "));
		bool branch = line[0] == 'b' || !strncmp(line, "cb", 2);
		assert_int_equal(ours->has_target, branch);
		if (branch)
			assert_int_equal(ours->target, strtoull(strstr(line, "0x"), NULL, 16));
		targets += branch;
	}
	assert_int_equal(targets, 10);
	api_disassembly_deinit(&d);
	cJSON_Delete(json);
}

static void test_asm_of_a_huge_function_is_cut_visibly(void **state)
{
	(void)state;
	size_t size = SP_API_MAX_CODE + 4096;
	uint8_t *code = malloc(size);
	memset(code, 0x90, size);
	use_code("x86_64", code, size);
	cJSON *json = ask("/asm/v1", ASM_BODY("0x1000", ",\"size\":\"0xfffffffffffff\""), SP_API_OK);
	cJSON *instructions = cJSON_GetObjectItem(json, "instructions");
	assert_int_equal(cJSON_GetArraySize(instructions), SP_API_MAX_CODE + 1);
	cJSON *last = instructions->child->prev;
	assert_non_null(strstr(cJSON_GetArrayItem(last, 1)->valuestring, "cut here"));
	cJSON_Delete(json);
	free(code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_kind_of_frame),
		cmocka_unit_test(test_both_body_forms_and_any_key_order),
		cmocka_unit_test(test_modules_that_are_not_found),
		cmocka_unit_test(test_unreadable_debug_information_is_said),
		cmocka_unit_test(test_bad_symbolicate_bodies),
		cmocka_unit_test(test_odd_names_only_when_known),
		cmocka_unit_test(test_many_frames_keep_their_order),
		cmocka_unit_test(test_real_bodies),
		cmocka_unit_test(test_shown_paths),
		cmocka_unit_test(test_source_of_an_inlined_function),
		cmocka_unit_test(test_source_of_a_downloaded_file),
		cmocka_unit_test(test_source_files_that_are_refused),
		cmocka_unit_test(test_source_through_a_path_map),
		cmocka_unit_test(test_bad_code_bodies),
		cmocka_unit_test(test_asm_x86_64),
		cmocka_unit_test(test_asm_of_other_architectures),
		cmocka_unit_test(test_asm_against_a_stored_reply),
		cmocka_unit_test(test_asm_of_a_huge_function_is_cut_visibly),
	};
	return cmocka_run_group_tests(tests, make_files, remove_files);
}
