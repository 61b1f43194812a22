/* Fuzz target: Breakpad .sym files, from the text and from the index made of it. The first 4 bytes choose addresses. */
#include "spsym.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spsym_options options = { .no_background = true, .debuginfod_urls = "" };
	uint64_t addresses[64];
	spsym_context *context;
	spsym_module *module;
	if (size < 4 || spsym_context_create(&options, &context))
		return 0;
	spsym_error *error = spsym_module_open_bytes(context, data + 4, size - 4, "fuzz.sym", &module);
	if (!error) {
		struct spsym_result result = { 0 };
		for (size_t i = 0; i < 64; i++)
			addresses[i] = ((uint64_t)data[i % 4] << (i / 8)) + i;
		for (int round = 0; round < 2; round++) {
			spsym_error_destroy(spsym_lookup(module, addresses, 64, &result));
			spsym_error_destroy(spsym_module_index(module));
		}
		spsym_result_deinit(&result);
		spsym_module_release(module);
	}
	spsym_error_destroy(error);
	spsym_context_destroy(context);
	return 0;
}
