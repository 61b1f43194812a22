/* Address spaces as sorted arrays of mappings; see address_space.h. */
#include "sampler/record/address_space.h"

#include "common/vector.h"

#include <stdlib.h>
#include <string.h>

/* More mappings of code than any real process has. */
#define MAX_MAPPINGS 65536

struct sp_code_ranges {
	struct sp_code_map map;
	struct sp_code_range ranges[];
};

struct sp_space *sp_space_create(void)
{
	struct sp_space *space = calloc(1, sizeof(*space));
	if (space)
		space->references = 1;
	return space;
}

struct sp_space *sp_space_reference(struct sp_space *space)
{
	space->references++;
	return space;
}

void sp_space_release(struct sp_space *space)
{
	if (!space || --space->references)
		return;
	for (size_t i = 0; i < space->count; i++)
		sp_module_drop_user(space->mappings[i].module);
	free(space->mappings);
	free(atomic_load(&space->code));
	free(space);
}

/* The first mapping that ends after `address`. */
static size_t find(const struct sp_space *space, uint64_t address)
{
	size_t low = 0, high = space->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (space->mappings[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* A space that nobody else sees, with room for `extra` more mappings. */
static bool make_own(struct sp_space **space, size_t extra)
{
	struct sp_space *old = *space;
	if (old->references > 1) {
		struct sp_space *copy = sp_space_create();
		if (!copy)
			return false;
		if (!sp_vector_grow((void **)&copy->mappings, &copy->capacity, 0, old->count + extra,
		                    sizeof(*copy->mappings))) {
			free(copy);
			return false;
		}
		if (old->count)
			memcpy(copy->mappings, old->mappings, old->count * sizeof(*copy->mappings));
		copy->count = old->count;
		for (size_t i = 0; i < copy->count; i++)
			sp_module_add_user(copy->mappings[i].module);
		old->references--;
		*space = copy;
		return true;
	}
	free(atomic_exchange(&old->code, NULL));
	return sp_vector_grow((void **)&old->mappings, &old->capacity, old->count, extra, sizeof(*old->mappings));
}

/* Takes [start, end) out of a space that is our own and has room for one more mapping. Returns where a mapping of that
 * range goes. */
static size_t cut(struct sp_space *space, uint64_t start, uint64_t end)
{
	size_t first = find(space, start);
	if (first < space->count && space->mappings[first].start < start) {
		struct sp_mapping *left = &space->mappings[first];
		if (left->end > end) {
			/* A hole in the middle: the mapping becomes two. */
			memmove(left + 1, left, (space->count - first) * sizeof(*left));
			space->count++;
			sp_module_add_user(left->module);
			left[1].file_offset += end - left[1].start;
			left[1].start = end;
			left->end = start;
			return first + 1;
		}
		left->end = start;
		first++;
	}
	size_t last = first;
	while (last < space->count && space->mappings[last].end <= end)
		sp_module_drop_user(space->mappings[last++].module);
	if (last < space->count && space->mappings[last].start < end) {
		space->mappings[last].file_offset += end - space->mappings[last].start;
		space->mappings[last].start = end;
	}
	memmove(&space->mappings[first], &space->mappings[last], (space->count - last) * sizeof(*space->mappings));
	space->count -= last - first;
	return first;
}

bool sp_space_map(struct sp_space **space, const struct sp_mapping *mapping)
{
	bool full = (*space)->count >= MAX_MAPPINGS;
	if (mapping->start >= mapping->end || full || !make_own(space, 2)) {
		sp_module_drop_user(mapping->module);
		return full || mapping->start >= mapping->end;
	}
	size_t at = cut(*space, mapping->start, mapping->end);
	struct sp_mapping *place = &(*space)->mappings[at];
	memmove(place + 1, place, ((*space)->count - at) * sizeof(*place));
	(*space)->count++;
	*place = *mapping;
	return true;
}

bool sp_space_unmap(struct sp_space **space, uint64_t start, uint64_t end, bool *ret_any)
{
	size_t first = find(*space, start);
	*ret_any = start < end && first < (*space)->count && (*space)->mappings[first].start < end;
	if (!*ret_any)
		return true;
	if (!make_own(space, 1))
		return false;
	cut(*space, start, end);
	return true;
}

static void fill_range(const struct sp_mapping *mapping, struct sp_code_range *ret)
{
	*ret = (struct sp_code_range){ .start = mapping->start, .end = mapping->end };
	if (!mapping->module)
		return;
	sp_module_wait(mapping->module);
	struct sp_module *module = sp_module_resolve(mapping->module);
	ret->bias = sp_module_bias(module, mapping->start, mapping->end - mapping->start, mapping->file_offset);
	ret->module = module->unwind;
}

const struct sp_code_map *sp_space_code(struct sp_space *space)
{
	struct sp_code_ranges *code = atomic_load(&space->code);
	if (code)
		return &code->map;
	code = malloc(sizeof(*code) + space->count * sizeof(code->ranges[0]));
	if (!code)
		return NULL;
	for (size_t i = 0; i < space->count; i++)
		fill_range(&space->mappings[i], &code->ranges[i]);
	code->map = (struct sp_code_map){ .ranges = code->ranges, .count = space->count };
	/* Another worker may have been faster. */
	struct sp_code_ranges *other = NULL;
	if (!atomic_compare_exchange_strong(&space->code, &other, code)) {
		free(code);
		code = other;
	}
	return &code->map;
}
