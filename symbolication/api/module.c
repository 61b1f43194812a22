/* From the names and IDs of requests to modules. */
#include "internal.h"

#include <string.h>

bool api_name_is_plain(const char *name)
{
	static const char others[] = "_.+{}[]:@<> ~-";
	for (const char *c = name; *c; c++) {
		bool alphanumeric = (*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z');
		if (!alphanumeric && !strchr(others, *c))
			return false;
	}
	return *name;
}

bool api_debug_id_is_valid(const char *id)
{
	size_t length = strspn(id, "0123456789abcdefABCDEF");
	/* 16 bytes, then the age: 1 to 8 digits. */
	return !id[length] && length >= 33 && length <= 40 && strspn(id, "0") < 32;
}

struct sp_error *api_find_module(const struct sp_api *api, const char *debug_name, const char *debug_id,
                                 const char *name, const char *code_id, bool code, spsym_module **ret)
{
	struct spsym_identity identity = { 0 };
	if (api->options.find_module)
		return api->options.find_module(api->options.context, debug_name, debug_id, code, ret);
	if (debug_name && debug_id && api->options.resolve)
		api->options.resolve(api->options.context, debug_name, debug_id, &identity);
	if (!identity.debug_name)
		identity.debug_name = debug_name;
	if (!identity.debug_id)
		identity.debug_id = debug_id;
	if (!identity.name)
		identity.name = name ? name : debug_name;
	if (!identity.code_id)
		identity.code_id = code_id;
	return spsym_module_find(api->options.symbols, &identity, ret);
}
