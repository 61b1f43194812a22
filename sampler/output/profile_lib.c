/* Libraries of saved profiles; see profile_lib.h. */
#include "sampler/output/profile_lib.h"

#include <string.h>

#define MEMORY_LIMIT (256u << 20) /* bytes of strings in the arena */

static const char *read_text(struct sp_json_reader *reader, struct sp_arena *arena)
{
	const char *text;
	size_t length;
	if (sp_json_peek(reader) != SP_JSON_KIND_STRING) {
		sp_json_skip(reader);
		return NULL;
	}
	if (!sp_json_read_string(reader, &text, &length) || !length || memchr(text, 0, length))
		return NULL;
	if (arena->total > MEMORY_LIMIT) {
		sp_json_read_fail(reader, "the list of libraries is too large");
		return NULL;
	}
	return sp_arena_strndup(arena, text, length);
}

void sp_profile_lib_read(struct sp_json_reader *reader, struct sp_arena *arena, struct spsym_identity *ret)
{
	*ret = (struct spsym_identity){ 0 };
	const struct {
		const char *key;
		const char **value;
	} strings[] = {
		{ "name", &ret->name },
		{ "path", &ret->path },
		{ "debugName", &ret->debug_name },
		{ "debugPath", &ret->debug_path },
		{ "breakpadId", &ret->debug_id },
		{ "codeId", &ret->code_id },
		{ "arch", &ret->arch },
	};
	const char *key;
	size_t length;
	if (sp_json_peek(reader) != SP_JSON_KIND_OBJECT) {
		sp_json_skip(reader);
		return;
	}
	sp_json_read_object(reader);
	while (sp_json_next_key(reader, &key, &length)) {
		size_t i = 0, count = sizeof(strings) / sizeof(*strings);
		while (i < count && (length != strlen(strings[i].key) || memcmp(key, strings[i].key, length) != 0))
			i++;
		if (i < count)
			*strings[i].value = read_text(reader, arena);
		else
			sp_json_skip(reader);
	}
}
