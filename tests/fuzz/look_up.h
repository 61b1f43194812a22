/* What fuzz targets of debug information do with a file: the same addresses are looked up in it, and in the index made
 * of it. */
#ifndef SP_TESTS_LOOK_UP_H
#define SP_TESTS_LOOK_UP_H

#include "spsym.h"

static inline void look_up(const void *bytes, size_t size, const char *name, const uint64_t *addresses, size_t count)
{
	struct spsym_options options = { .no_background = true, .debuginfod_urls = "" };
	spsym_context *context;
	spsym_module *module;
	if (spsym_context_create(&options, &context))
		return;
	spsym_error *error = spsym_module_open_bytes(context, bytes, size, name, &module);
	if (!error) {
		struct spsym_result result = { 0 };
		for (int round = 0; round < 2; round++) {
			spsym_error_destroy(spsym_lookup(module, addresses, count, &result));
			spsym_error_destroy(spsym_module_index(module));
		}
		spsym_result_deinit(&result);
		spsym_module_release(module);
	}
	spsym_error_destroy(error);
	spsym_context_destroy(context);
}

#endif
