/* Look-ups, module by module; see lookup.h. */
#include "sampler/output/lookup.h"

#include <stdlib.h>

#define INLINE_DEPTH_MAX 255 /* what the format holds */

static int compare_queries(const void *left, const void *right)
{
	const struct sp_lookup_query *a = left, *b = right;
	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	return a->address < b->address ? -1 : a->address > b->address;
}

size_t sp_lookup_depth(const struct spsym_location *location)
{
	size_t count = location->frame_count ? location->frame_count : 1;
	return count > INLINE_DEPTH_MAX + 1 ? INLINE_DEPTH_MAX + 1 : count;
}

struct spsym_frame sp_lookup_frame(const struct spsym_location *location, size_t depth)
{
	struct spsym_frame frame = { 0 };
	if (location->frame_count)
		frame = location->frames[location->frame_count - 1 - depth];
	if (!frame.function && !depth) /* the outermost function is what the symbol names */
		frame.function = location->symbol.name;
	return frame;
}

static void note(const struct sp_lookup_requests *requests, const char *name, const char *what, const char *why)
{
	if (requests->log)
		sp_log(requests->log, SP_LOG_WARNING, "%s for %s: %s", what, name ? name : "(unnamed)", why);
}

/* Looks up the addresses of one module. */
static struct sp_error *look_up(const struct sp_lookup_requests *requests, const struct spsym_identity *identity,
                                const struct sp_lookup_query *queries, size_t count)
{
	spsym_module *module;
	struct spsym_result result = { 0 };
	uint64_t *addresses = malloc(count * sizeof(*addresses));
	if (!addresses)
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++)
		addresses[i] = queries[i].address;
	struct sp_error *failed = NULL, *error = spsym_module_find(requests->symbols, identity, &module);
	if (!error) {
		error = spsym_lookup(module, addresses, count, &result);
		if (!error && result.debug_error)
			note(requests, identity->name, "no lines", result.debug_error);
		for (size_t i = 0; i < count && !error && !failed; i++)
			failed = requests->answer(requests->context, queries[i].entry, &result.locations[i]);
		spsym_result_deinit(&result);
		spsym_module_release(module);
	}
	free(addresses);
	if (!error || error->code == SP_ERROR_NO_MEMORY)
		return error ? error : failed;
	note(requests, identity->name, "no symbols", error->message);
	sp_error_destroy(error);
	return NULL;
}

struct sp_error *sp_lookup(const struct sp_lookup_requests *requests, struct sp_lookup_query *queries, size_t count)
{
	struct sp_error *error = NULL;
	qsort(queries, count, sizeof(*queries), compare_queries);
	for (size_t first = 0, end; first < count && !error; first = end) {
		for (end = first + 1; end < count && queries[end].module == queries[first].module;)
			end++;
		struct spsym_identity identity = { 0 };
		requests->identity(requests->context, queries[first].module, &identity);
		error = look_up(requests, &identity, queries + first, end - first);
	}
	return error;
}
