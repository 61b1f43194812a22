/* Fuzz target: the pull reader of JSON. A walk that reads every value gives the same from memory as from pieces, whose
 * size the first byte sets. */
#include "common/json_read.h"
#include "common/map.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct pieces {
	const char *text;
	size_t left, step;
	char *last;
};

static struct sp_error *next_piece(void *context, const char **ret, size_t *ret_size)
{
	struct pieces *p = context;
	size_t size = p->left < p->step ? p->left : p->step;
	free(p->last);
	p->last = malloc(size + 1);
	if (!p->last)
		return sp_error_no_memory();
	memcpy(p->last, p->text, size);
	p->text += size;
	p->left -= size;
	*ret = p->last;
	*ret_size = size;
	return NULL;
}

/* Reads all, objects and arrays to the end; a hash of what was read and of whether it was in order. */
static uint64_t walk(struct sp_json_reader *r)
{
	uint64_t hash = 0, number;
	bool in_object[SP_JSON_READ_DEPTH + 1] = { false }, flag;
	unsigned depth = 0;
	const char *text;
	size_t length;
	do {
		if (depth && in_object[depth]) {
			if (!sp_json_next_key(r, &text, &length)) {
				depth--;
				continue;
			}
			hash = sp_hash_u64(hash ^ sp_hash_bytes(text, length));
		} else if (depth && !sp_json_next_item(r)) {
			depth--;
			continue;
		}
		enum sp_json_kind kind = sp_json_peek(r);
		hash = sp_hash_u64(hash + kind);
		if (kind == SP_JSON_KIND_OBJECT || kind == SP_JSON_KIND_ARRAY) {
			bool object = kind == SP_JSON_KIND_OBJECT;
			if (object ? sp_json_read_object(r) : sp_json_read_array(r))
				in_object[++depth] = object;
		} else if (kind == SP_JSON_KIND_STRING) {
			if (sp_json_read_string(r, &text, &length))
				hash = sp_hash_u64(hash ^ sp_hash_bytes(text, length));
		} else if (kind == SP_JSON_KIND_NUMBER) {
			if (hash & 1 ? sp_json_skip(r) : sp_json_read_u64(r, &number))
				hash++;
		} else if (kind == SP_JSON_KIND_BOOL) {
			hash += sp_json_read_bool(r, &flag) && flag;
		} else {
			sp_json_skip(r);
		}
	} while (depth && !sp_json_read_failed(r));
	struct sp_error *error = sp_json_read_finish(r);
	hash = sp_hash_u64(hash + !error);
	sp_error_destroy(error);
	sp_json_read_deinit(r);
	return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_json_reader r;
	if (!size)
		return 0;
	const char *text = (const char *)data + 1;
	size--;
	sp_json_read_init(&r, text, size);
	uint64_t whole = walk(&r);
	struct pieces p = { .text = text, .left = size, .step = (size_t)data[0] % 32 + 1 };
	sp_json_read_init_fill(&r, next_piece, &p);
	if (walk(&r) != whole)
		abort();
	free(p.last);
	/* Skipping never fails where reading does not... the other way round it may: it looks at less. */
	sp_json_read_init(&r, text, size);
	sp_json_skip(&r);
	sp_json_read_deinit(&r);
	return 0;
}
