/* Fuzz target: request bodies of the symbolication API, and code for the disassembler. The first byte chooses; the
 * symbol library is faked, so that only the api is on trial. Every reply must be JSON again. */
#include "common/json_read.h"
#include "symbolication/api/internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct spsym_module {
	struct spsym_file_info info;
};

static struct spsym_module the_module = { .info = { .arch = "x86_64" } };
static const struct spsym_frame frames[] = { { "inner \"<int>\"\n\xff", "/nonexistent/a.c", 1, 2 },
	                                     { NULL, "/rustc/0123456789/library/a.rs", 3, 0 },
	                                     { "outer", NULL, 0, 0 } };

spsym_error *spsym_module_find(spsym_context *context, const struct spsym_identity *identity, spsym_module **ret)
{
	(void)context;
	if (identity->debug_id && (identity->debug_id[0] & 1))
		return sp_error_create(SP_ERROR_NOT_FOUND, "no %s \"here\"", identity->debug_name);
	*ret = &the_module;
	return NULL;
}

void spsym_module_release(spsym_module *module)
{
	(void)module;
}

const struct spsym_file_info *spsym_module_info(const spsym_module *module)
{
	return &module->info;
}

bool spsym_module_is_downloaded(const spsym_module *module)
{
	(void)module;
	return false;
}

spsym_error *spsym_module_fetch_source(spsym_module *module, const char *file, char **ret)
{
	(void)module;
	(void)ret;
	return sp_error_create(SP_ERROR_NOT_FOUND, "no server has %s", file);
}

spsym_error *spsym_lookup(spsym_module *module, const uint64_t *addresses, size_t count, struct spsym_result *ret)
{
	(void)module;
	ret->locations = calloc(count + 1, sizeof(*ret->locations));
	if (!ret->locations)
		return sp_error_no_memory();
	ret->count = count;
	for (size_t i = 0; i < count; i++) {
		ret->locations[i] = (struct spsym_location){ .frames = frames, .frame_count = addresses[i] % 4 };
		if (addresses[i] & 4)
			ret->locations[i].symbol = (struct spsym_symbol){ "symbol", addresses[i] & ~15u,
				                                          addresses[i] & 16 };
	}
	return NULL;
}

spsym_error *spsym_lookup_symbols(spsym_module *module, const uint64_t *addresses, size_t count,
                                  struct spsym_result *ret)
{
	return spsym_lookup(module, addresses, count, ret);
}

void spsym_result_deinit(struct spsym_result *result)
{
	free(result->locations);
	memset(result, 0, sizeof(*result));
}

spsym_error *spsym_code(spsym_module *module, uint64_t address, void *buffer, size_t size, size_t *ret_size)
{
	(void)module;
	*ret_size = size < 64 ? size : 64;
	for (size_t i = 0; i < *ret_size; i++)
		((uint8_t *)buffer)[i] = (uint8_t)(address >> i % 53);
	return NULL;
}

static void check_reply(const struct sp_buffer *reply)
{
	struct sp_json_reader r;
	sp_json_read_init(&r, reply->bytes, reply->size);
	if (sp_json_peek(&r) != SP_JSON_KIND_OBJECT || !sp_json_skip(&r) || sp_json_read_finish(&r))
		abort();
	sp_json_read_deinit(&r);
}

static void ask(const char *path, const uint8_t *body, size_t size)
{
	struct sp_api_options options = { .local_sources = true };
	struct sp_buffer reply = { .limit = 16u << 20 };
	enum sp_api_status status;
	struct sp_api *api;
	if (sp_api_create(&options, &api))
		return;
	struct sp_error *error = sp_api_handle(api, path, (const char *)body, size, &reply, &status);
	if (error)
		sp_error_destroy(error);
	else
		check_reply(&reply);
	free(reply.bytes);
	sp_api_destroy(api);
}

static void disassemble(const char *arch, const uint8_t *code, size_t size)
{
	struct api_disassembly d;
	struct sp_error *error = api_disassemble(arch, api_align_code(arch, 0x1001), code, size, &d);
	if (error)
		abort();
	/* The lines follow each other and end with the code. */
	uint32_t last = 0;
	for (size_t i = 0; i < d.instructions.count; i++) {
		const struct api_instruction *instruction = &d.instructions.items[i];
		if (instruction->offset >= size || (i ? instruction->offset <= last : instruction->offset != 0))
			abort();
		last = instruction->offset;
		for (unsigned s = 0; s < d.syntaxes; s++) {
			if (instruction->text[s] >= d.texts.count)
				abort();
		}
	}
	if (size && !d.instructions.count)
		abort();
	api_disassembly_deinit(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const paths[] = { "/symbolicate/v5", "/source/v1", "/asm/v1" };
	static const char *const archs[] = { "x86_64", "x86", "arm64", "arm" };
	if (!size)
		return 0;
	if (data[0] % 8 < 3)
		ask(paths[data[0] % 8], data + 1, size - 1);
	else if (data[0] % 8 >= 4)
		disassemble(archs[data[0] % 8 - 4], data + 1, size - 1);
	return 0;
}
