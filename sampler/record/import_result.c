/* What importers share: the lines that they have to say. */
#include "sampler/importer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sp_import_result_deinit(struct sp_import_result *result)
{
	for (size_t i = 0; i < result->lines.count; i++)
		free(result->lines.items[i].text);
	for (size_t i = 0; i < result->providers.count; i++)
		free(result->providers.items[i].name);
	for (size_t i = 0; i < result->process_list.count; i++)
		free(result->process_list.items[i].name);
	sp_vector_deinit(&result->process_list);
	sp_vector_deinit(&result->lines);
	sp_vector_deinit(&result->providers);
	free(result->empty);
	*result = (struct sp_import_result){ 0 };
}

void sp_import_say(struct sp_import_result *result, bool warning, const char *format, ...)
{
	va_list arguments;
	char text[1024];
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	struct sp_import_line line = { .warning = warning, .text = strdup(text) };
	if (!line.text || !sp_vector_push(&result->lines, line))
		free(line.text);
}
