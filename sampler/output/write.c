/* Writes the processed profile of the Firefox Profiler as a stream of JSON.
 *
 * The format is Mozilla's "processed profile"; its versions differ for us in: 61 (sources), 64 (source locations), 66
 * (stack prefixes as offsets) and 70 (the library stands on the frame). A front-end never checks a profile: a wrong
 * index shows up later as a wrong number or an endless loop, so tests/e2e/validate_profile.py does. */
#include "sampler/output/write.h"

#include "sampler/output/profile_file.h"

#include <stdlib.h>

/* `gzip`: the sink again, when it is one. */
static struct sp_error *write_json(void *context, sp_write_fn write, void *sink, struct sp_gzip *gzip)
{
	struct sp_layout *layout = context;
	struct sp_json *json = malloc(sizeof(*json));
	if (!json)
		return sp_error_no_memory();
	sp_json_init(json, write, sink);
	sp_json_object_begin(json);
	sp_write_meta(json, layout);
	sp_json_newline(json);
	sp_write_libs(json, layout);
	sp_json_key(json, "pages");
	sp_json_array_begin(json);
	sp_json_array_end(json);
	sp_json_newline(json);
	struct sp_error *error = sp_write_threads(json, layout);
	sp_json_newline(json);
	sp_write_counters(json, layout);
	sp_json_newline(json);
	sp_write_shared(json, layout, gzip);
	sp_json_object_end(json);
	sp_json_newline(json);
	struct sp_error *failed = sp_json_finish(json);
	free(json);
	if (error)
		sp_error_destroy(failed);
	return error ? error : failed;
}

static uint64_t count_processes(const struct sp_layout *layout)
{
	return layout->threads.items[0].member == SP_HANDLE_NONE ? 0 : layout->processes.count;
}

struct sp_error *sp_profile_builder_write(struct sp_profile_builder *builder, const char *path,
                                          struct sp_profile_summary *ret)
{
	struct sp_layout *layout;
	struct sp_error *error = sp_build_take_in(builder);
	if (!error)
		error = sp_layout_create(builder, &layout);
	if (error)
		return error;
	*ret = builder->summary;
	ret->processes = count_processes(layout);
	ret->threads = ret->processes ? layout->threads.count : 0;
	ret->kernel_unsampled_ns = builder->kernel_unsampled_weight * sp_build_interval(builder);
	error = sp_profile_file_write(path, write_json, layout);
	sp_layout_destroy(layout);
	return error;
}
