/* The source files that a module's debug information names: the index has each once. */
#include "symbolication/module.h"

#include <stdlib.h>
#include <string.h>

struct sp_error *spsym_module_sources(struct spsym_module *module, bool (*emit)(void *context, const char *path),
                                      void *context)
{
	struct sp_indexed *indexed;
	struct sp_index_text text = { 0 };
	struct sp_error *error = spsym_module_index(module);
	if (!error)
		error = sp_module_indexed(module, &indexed);
	if (error)
		return error;
	uint32_t count = indexed ? sp_index_file_count(indexed->index) : 0;
	for (uint32_t i = 1; i <= count; i++) {
		const char *path;
		if (!sp_index_file(indexed->index, i, &text, &path)) {
			error = sp_error_create(SP_ERROR_FORMAT, "the index of %s is damaged",
			                        module->found.debug->path);
			break;
		}
		if (!emit(context, path))
			break;
	}
	sp_index_text_deinit(&text);
	return error;
}
