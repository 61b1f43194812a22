/* Names for the frames of a saved profile: what is looked up, and the rows that the answers make. */
#include "sampler/output/lookup.h"
#include "sampler/output/saved.h"

#include <stdlib.h>
#include <string.h>

/* ---- New rows, each kept once ---- */

static uint32_t intern_string(struct saved_profile *profile, const char *string)
{
	size_t known = profile->intern.strings.count;
	uint32_t interned = sp_intern(&profile->intern, string, strlen(string));
	if (interned == SP_INTERN_NONE)
		return SAVED_NONE;
	if (interned == known) {
		uint32_t number = (uint32_t)(profile->strings.count + profile->new_strings);
		if (!sp_vector_push(&profile->string_numbers, number))
			return SAVED_NONE;
		profile->new_strings++;
	}
	return profile->string_numbers.items[interned];
}

static struct saved_func get_func(const struct saved_profile *profile, size_t index)
{
	if (index >= profile->funcs.length)
		return profile->new_funcs.items[index - profile->funcs.length];
	return (struct saved_func){
		.name = saved_index(saved_column(&profile->funcs, "name"), index, SAVED_NONE),
		.source = saved_index(saved_column(&profile->funcs, "source"), index, SAVED_NONE),
		.resource = saved_index(saved_column(&profile->funcs, "resource"), index, SAVED_NONE),
	};
}

/* The place of a function in the map: where it is, or where it would go. */
static uint64_t func_key(const struct saved_profile *profile, const struct saved_func *func, uint32_t *ret_known)
{
	uint64_t key = sp_hash_u64((uint64_t)func->name << 32 | func->source) ^ sp_hash_u64(func->resource);
	const uint64_t *known;
	*ret_known = SAVED_NONE;
	for (; (known = sp_map_get(&profile->func_by_key, key)); key++) {
		struct saved_func other = get_func(profile, (size_t)*known);
		if (other.name == func->name && other.source == func->source && other.resource == func->resource) {
			*ret_known = (uint32_t)*known;
			break;
		}
	}
	return key;
}

static uint32_t intern_func(struct saved_profile *profile, const struct saved_func *func)
{
	uint32_t known;
	uint64_t key = func_key(profile, func, &known);
	if (known != SAVED_NONE)
		return known;
	uint32_t number = (uint32_t)(profile->funcs.length + profile->new_funcs.count);
	return sp_vector_push(&profile->new_funcs, *func) && sp_map_put(&profile->func_by_key, key, number)
	           ? number
	           : SAVED_NONE;
}

static struct sp_error *intern_source(struct saved_profile *profile, const char *file, uint32_t *ret)
{
	*ret = SAVED_NONE;
	if (!file || !*file)
		return NULL;
	uint32_t name = intern_string(profile, file);
	const uint64_t *known = sp_map_get(&profile->source_by_name, name);
	if (known) {
		*ret = (uint32_t)*known;
		return NULL;
	}
	*ret = (uint32_t)(profile->sources.length + profile->new_sources.count);
	if (name == SAVED_NONE || !sp_vector_push(&profile->new_sources, name) ||
	    !sp_map_put(&profile->source_by_name, name, *ret))
		return sp_error_no_memory();
	return NULL;
}

static struct sp_error *intern_symbol(struct saved_profile *profile, uint32_t lib, const struct spsym_symbol *symbol,
                                      uint32_t *ret)
{
	*ret = SAVED_NONE;
	if (!symbol->name || symbol->address > INT32_MAX)
		return NULL;
	uint64_t key = (uint64_t)lib << 32 | symbol->address;
	const uint64_t *known = sp_map_get(&profile->symbol_by_key, key);
	if (known) {
		*ret = (uint32_t)*known;
		return NULL;
	}
	struct saved_symbol out = { .lib = lib,
		                    .address = (uint32_t)symbol->address,
		                    .name = intern_string(profile, symbol->name),
		                    .size = symbol->size <= INT32_MAX ? (uint32_t)symbol->size : 0 };
	*ret = (uint32_t)(profile->symbols.length + profile->new_symbols.count);
	if (out.name == SAVED_NONE || !sp_vector_push(&profile->new_symbols, out) ||
	    !sp_map_put(&profile->symbol_by_key, key, *ret))
		return sp_error_no_memory();
	return NULL;
}

/* Takes in the rows that the profile has, for new ones to be joined with. */
static struct sp_error *take_rows(struct saved_profile *profile)
{
	for (size_t i = 0; i < profile->funcs.length; i++) {
		struct saved_func func = get_func(profile, i);
		uint32_t known;
		uint64_t key = func_key(profile, &func, &known);
		if (known == SAVED_NONE && !sp_map_put(&profile->func_by_key, key, i))
			return sp_error_no_memory();
	}
	const struct saved_column *libs = saved_column(&profile->symbols, "libIndex");
	const struct saved_column *addresses = saved_column(&profile->symbols, "address");
	for (size_t i = 0; i < profile->symbols.length; i++) {
		uint32_t lib = saved_index(libs, i, SAVED_NONE), address = saved_index(addresses, i, SAVED_NONE);
		if (!sp_map_put(&profile->symbol_by_key, (uint64_t)lib << 32 | address, i))
			return sp_error_no_memory();
	}
	/* A source with an ID is a script's. */
	const struct saved_column *names = saved_column(&profile->sources, "filename");
	const struct saved_column *ids = saved_column(&profile->sources, profile->version >= 61 ? "id" : "uuid");
	for (size_t i = 0; i < profile->sources.length; i++) {
		uint32_t name = saved_index(names, i, profile->strings.count);
		bool native = !ids || (ids->values.items[i].size == 4 && !memcmp(ids->values.items[i].text, "null", 4));
		if (native && name != SAVED_NONE && !sp_map_get(&profile->source_by_name, name) &&
		    !sp_map_put(&profile->source_by_name, name, i))
			return sp_error_no_memory();
	}
	return NULL;
}

/* ---- What is asked ---- */

/* The library of a frame: on the frame, or by way of its function's resource. */
static uint32_t frame_lib(const struct saved_profile *profile, size_t frame)
{
	if (profile->version >= 70)
		return saved_index(saved_column(&profile->frames, "lib"), frame, profile->libs.count);
	uint32_t func = saved_index(saved_column(&profile->frames, "func"), frame, profile->funcs.length);
	if (func == SAVED_NONE)
		return SAVED_NONE;
	uint32_t resource = saved_index(saved_column(&profile->funcs, "resource"), func, profile->resources.length);
	if (resource == SAVED_NONE)
		return SAVED_NONE;
	return saved_index(saved_column(&profile->resources, "lib"), resource, profile->libs.count);
}

/* Whether the function's name is an address, as that of all functions in profiles without symbols. */
static bool is_nameless(const struct saved_profile *profile, uint32_t func)
{
	uint32_t name = saved_index(saved_column(&profile->funcs, "name"), func, profile->strings.count);
	return name != SAVED_NONE && profile->strings.items[name].size > 3 &&
	       !memcmp(profile->strings.items[name].text, "\"0x", 3);
}

static struct sp_error *collect(const struct saved_profile *profile, struct sp_lookup_query **ret, size_t *ret_count)
{
	const struct saved_column *addresses = saved_column(&profile->frames, "address");
	const struct saved_column *funcs = saved_column(&profile->frames, "func");
	const struct saved_column *depths = saved_column(&profile->frames, "inlineDepth");
	*ret = malloc((profile->frames.length + 1) * sizeof(**ret));
	*ret_count = 0;
	if (!*ret)
		return sp_error_no_memory();
	for (size_t i = 0; i < profile->frames.length; i++) {
		uint32_t address = saved_index(addresses, i, SAVED_NONE), lib = frame_lib(profile, i);
		uint32_t func = saved_index(funcs, i, profile->funcs.length);
		if (address == SAVED_NONE || lib == SAVED_NONE || func == SAVED_NONE ||
		    saved_index(depths, i, SAVED_NONE) != 0 || !is_nameless(profile, func))
			continue;
		(*ret)[(*ret_count)++] = (struct sp_lookup_query){ lib, (uint32_t)i, address };
	}
	return NULL;
}

/* sp_lookup_requests.identity */
static void identify(void *context, uint32_t lib, struct spsym_identity *ret)
{
	const struct saved_profile *profile = context;
	*ret = profile->libs.items[lib];
}

/* ---- What the answers make ---- */

/* The function of one frame; `plain` when it has no name. */
static struct sp_error *name_frame(struct saved_profile *profile, const struct spsym_frame *from, uint32_t plain,
                                   uint32_t resource, uint32_t *ret)
{
	struct saved_func func = { .resource = resource };
	*ret = plain;
	if (!from->function || !*from->function)
		return NULL;
	struct sp_error *error = intern_source(profile, from->file, &func.source);
	if (error)
		return error;
	func.name = intern_string(profile, from->function);
	*ret = func.name == SAVED_NONE ? SAVED_NONE : intern_func(profile, &func);
	return *ret == SAVED_NONE ? sp_error_no_memory() : NULL;
}

/* sp_lookup_requests.answer */
static struct sp_error *take_answer(void *context, uint32_t frame, const struct spsym_location *location)
{
	struct saved_profile *profile = context;
	struct saved_frame *change = &profile->frame_changes.items[frame];
	if (!location->frame_count && !location->symbol.name)
		return NULL;
	uint32_t plain = saved_index(saved_column(&profile->frames, "func"), frame, profile->funcs.length);
	uint32_t resource = get_func(profile, plain).resource;
	struct sp_error *error = intern_symbol(profile, frame_lib(profile, frame), &location->symbol,
	                                       &change->native_symbol);
	size_t depths = sp_lookup_depth(location);
	change->named = true;
	change->first_inlined = (uint32_t)profile->inlined.count;
	change->inlined_count = (uint32_t)depths - 1;
	for (size_t depth = 0; depth < depths && !error; depth++) {
		struct spsym_frame from = sp_lookup_frame(location, depth);
		uint32_t func;
		error = name_frame(profile, &from, plain, resource, &func);
		if (error)
			break;
		struct saved_inlined inlined = { frame, (uint32_t)depth, func, from.line, from.column };
		if (!depth) {
			change->func = func;
			change->line = from.line;
			change->column = from.column;
		} else if (!sp_vector_push(&profile->inlined, inlined)) {
			error = sp_error_no_memory();
		}
	}
	return error;
}

/* Numbers the stacks anew: a stack becomes as many as its frame. */
static struct sp_error *map_stacks(struct saved_profile *profile)
{
	const struct saved_column *frames = saved_column(&profile->stacks, "frame");
	uint64_t next = 0;
	if (!profile->inlined.count)
		return NULL;
	profile->stack_map = malloc((profile->stacks.length + 1) * sizeof(*profile->stack_map));
	if (!profile->stack_map)
		return sp_error_no_memory();
	for (size_t i = 0; i < profile->stacks.length; i++) {
		uint32_t frame = saved_index(frames, i, profile->frames.length);
		if (frame == SAVED_NONE)
			return sp_error_create(SP_ERROR_FORMAT, "stackTable: stack %zu has no frame", i);
		next += 1 + (uint64_t)profile->frame_changes.items[frame].inlined_count;
		if (next > INT32_MAX)
			return sp_error_create(SP_ERROR_LIMIT, "more than 2^31 stacks with inlined functions");
		profile->stack_map[i] = (uint32_t)next - 1;
	}
	return NULL;
}

struct sp_error *saved_symbolicate(struct saved_profile *profile, spsym_context *symbols, const struct sp_log *log)
{
	struct sp_lookup_query *queries = NULL;
	size_t count = 0;
	if (!sp_vector_reserve(&profile->frame_changes, profile->frames.length + 1))
		return sp_error_no_memory();
	for (size_t i = 0; i < profile->frames.length; i++)
		profile->frame_changes.items[i] = (struct saved_frame){ .func = SAVED_NONE,
			                                                .native_symbol = SAVED_NONE };
	profile->frame_changes.count = profile->frames.length;
	struct sp_error *error = take_rows(profile);
	if (!error)
		error = collect(profile, &queries, &count);
	struct sp_lookup_requests requests = {
		.symbols = symbols, .log = log, .identity = identify, .answer = take_answer, .context = profile
	};
	if (!error)
		error = sp_lookup(&requests, queries, count);
	if (!error)
		error = map_stacks(profile);
	free(queries);
	return error;
}
