/* The "function" and "file" of a frame as JSON text, kept. They are most of a reply and the same few again and again;
 * their strings live as long as the module, so a text is made once and found by the addresses of its strings. */
#include "common/map.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SLOTS 4096

struct api_place {
	const char *function, *file; /* as in the debug information; both NULL = the slot is free */
	const char *text;            /* in the arena */
	size_t size;
};

bool api_places_init(struct api_places *places, size_t frames)
{
	size_t slots = 16;
	while (slots < frames * 2 && slots < MOST_SLOTS)
		slots *= 2;
	memset(places, 0, sizeof(*places));
	places->slots = calloc(slots, sizeof(*places->slots));
	places->mask = slots - 1;
	return places->slots;
}

void api_places_deinit(struct api_places *places)
{
	free(places->slots);
	free(places->text.bytes);
	sp_arena_deinit(&places->arena);
	memset(places, 0, sizeof(*places));
}

/* Makes the text of a slot, without the braces of the object that it is written as. */
static bool make(struct api_places *places, struct api_place *place)
{
	struct sp_json json;
	places->text.size = 0;
	sp_json_init(&json, sp_buffer_write, &places->text);
	sp_json_object_begin(&json);
	if (place->function)
		sp_json_member_string(&json, "function", place->function);
	if (place->file)
		sp_json_member_string(&json, "file", api_shown_path(&places->arena, place->file));
	sp_json_object_end(&json);
	struct sp_error *error = sp_json_finish(&json);
	sp_error_destroy(error);
	char *text = error ? NULL : sp_arena_alloc(&places->arena, places->text.size);
	if (!text)
		return false;
	place->size = places->text.size - 2;
	memcpy(text, places->text.bytes + 1, place->size);
	place->text = text;
	return true;
}

bool api_places_write(struct api_places *places, struct sp_json *json, const char *function, const char *file)
{
	if (!function && !file)
		return true;
	struct api_place
	    *place = &places->slots[sp_hash_u64((uintptr_t)function ^ (uint64_t)(uintptr_t)file << 20) & places->mask];
	if (place->function != function || place->file != file) {
		*place = (struct api_place){ .function = function, .file = file };
		if (!make(places, place)) {
			*place = (struct api_place){ 0 };
			return false;
		}
	}
	sp_json_raw(json, place->text, place->size);
	return true;
}
