/* Fuzzes what is read of /proc and /sys: the first byte says which (a line of maps, modules, notes). File names in maps
 * are the target's choice. */
#include "platform/linux/kernel.h"
#include "platform/linux/proc.h"

#include <stdlib.h>
#include <string.h>

static struct sp_error *check_module(void *context, const struct sp_event_map *module)
{
	(void)context;
	if (!module->start || !module->size || strlen(module->path) < 3)
		abort();
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	unsigned which = data[0] % 3;
	data++;
	size--;
	if (which == 2) {
		uint8_t id[SP_BUILD_ID_MAX], id_size;
		if (sp_kernel_parse_notes(data, size, id, &id_size) && (!id_size || id_size > SP_BUILD_ID_MAX))
			abort();
		return 0;
	}
	char *text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	struct sp_event_map map;
	if (which == 1)
		sp_error_destroy(sp_kernel_parse_modules(text, check_module, NULL));
	else if (sp_proc_parse_map(text, &map) && (strlen(map.path) > size + 6 || map.start + map.size < map.start))
		abort();
	free(text);
	return 0;
}
