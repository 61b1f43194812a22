/* The stack table is most of a profile's text. Stacks never change once they are there, so its columns are formatted
 * and compressed in parts while the recording goes on; at the end the parts only have to be put together. */
#include "sampler/output/builder.h"

#include <stdlib.h>
#include <string.h>

void sp_write_stack_column(struct sp_json *json, const struct sp_profile_builder *builder, enum sp_stack_column column,
                           size_t first, size_t end)
{
	const struct sp_stack_entry *stacks = builder->tables.stacks.items;
	bool offsets = builder->options.version >= 66;
	for (size_t i = first; i < end; i++) {
		if (column == SP_COLUMN_FRAME)
			sp_json_uint(json, stacks[i].frame);
		else if (offsets) /* 0 at a root, else how far back the prefix is */
			sp_json_uint(json, stacks[i].prefix == SP_INDEX_NONE ? 0 : (uint32_t)i - stacks[i].prefix);
		else if (stacks[i].prefix == SP_INDEX_NONE)
			sp_json_null(json);
		else
			sp_json_uint(json, stacks[i].prefix);
	}
}

static struct sp_error *write_to_spool(void *context, const void *bytes, size_t size)
{
	struct sp_profile_builder *builder = context;
	if (!sp_spool_reserve(&builder->part_bytes, size))
		return sp_error_no_memory();
	memcpy(builder->part_bytes.items + builder->part_bytes.count, bytes, size);
	builder->part_bytes.count += size;
	return NULL;
}

/* Values with commas between them, and a comma in front when other parts come before. */
static struct sp_error *make_column(struct sp_profile_builder *builder, struct sp_json *json,
                                    enum sp_stack_column column, struct sp_stack_part *part)
{
	size_t first = builder->parts.count * SP_STACK_PART;
	struct sp_buffer text = { 0 };
	sp_json_init(json, sp_buffer_write, &text);
	sp_json_array_begin(json);
	sp_write_stack_column(json, builder, column, first, first + SP_STACK_PART);
	sp_json_array_end(json);
	struct sp_error *error = sp_json_finish(json);
	if (!error) {
		size_t skipped = first ? 0 : 1; /* the bracket; it becomes the comma */
		text.bytes[0] = ',';
		part->offsets[column] = builder->part_bytes.count;
		error = sp_gzip_part(SP_GZIP_LEVEL, text.bytes + skipped, text.size - skipped - 1, write_to_spool,
		                     builder, &part->columns[column]);
	}
	free(text.bytes);
	return error;
}

struct sp_error *sp_build_stack_parts(struct sp_profile_builder *builder)
{
	struct sp_error *error = NULL;
	if (builder->options.presymbolicate) /* stacks are yet to become more by inlined functions */
		return NULL;
	if (builder->tables.stacks.count / SP_STACK_PART <= builder->parts.count)
		return NULL;
	struct sp_json *json = malloc(sizeof(*json));
	if (!json)
		return sp_error_no_memory();
	while (!error && builder->tables.stacks.count / SP_STACK_PART > builder->parts.count) {
		struct sp_stack_part part;
		for (int column = 0; column < SP_STACK_COLUMNS && !error; column++)
			error = make_column(builder, json, (enum sp_stack_column)column, &part);
		if (!error && !sp_vector_push(&builder->parts, part))
			error = sp_error_no_memory();
	}
	free(json);
	return error;
}
