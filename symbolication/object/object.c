/* Object files, whatever their format: opening, dispatch to the format's reader, and bytes of sections. */
#include "symbolication/object/object.h"

#include "symbolication/object/private.h"

#include <stdlib.h>
#include <string.h>

static const struct sp_object_format *const formats[] = { &sp_elf_format, &sp_pe_format };

static void lazy_destroy(struct sp_lazy_bytes *lazy)
{
	if (!lazy)
		return;
	sp_stream_destroy(atomic_load(&lazy->stream));
	free(lazy->bytes);
	sp_error_destroy(lazy->error);
	pthread_mutex_destroy(&lazy->lock);
	free(lazy);
}

void sp_object_destroy(struct sp_object *object)
{
	if (!object)
		return;
	if (object->format)
		object->format->close(object);
	for (size_t i = 0; object->lazy && i < object->section_count; i++)
		lazy_destroy(object->lazy[i]);
	free(object->lazy);
	free(object->sections);
	free(object->segments);
	free(object->name);
	sp_arena_deinit(&object->arena);
	if (object->has_map)
		sp_file_unmap(&object->map);
	free(object->owned_bytes);
	sp_source_destroy(object->source);
	free(object);
}

/* Opens object->file, which is set; destroys the object when that fails. */
static struct sp_error *open_format(struct sp_object *object, struct sp_object **ret)
{
	size_t size = sp_cursor_left(&object->file);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]) && !object->format; i++) {
		if (formats[i]->probe(object->file.start, size))
			object->format = formats[i];
	}
	struct sp_error *error;
	if (!object->format)
		error = sp_error_create(SP_ERROR_UNSUPPORTED, "not an object file of a known format");
	else
		error = object->format->open(object);
	struct sp_error *unread = sp_object_read_failure(object);
	if (unread) { /* whatever was made of what is missing */
		sp_error_destroy(error);
		error = unread;
	}
	if (error) {
		error = sp_error_prefix(error, "cannot read %s", object->name);
		sp_object_destroy(object);
		return error;
	}
	*ret = object;
	return NULL;
}

static struct sp_object *object_create(const char *name)
{
	struct sp_object *object = calloc(1, sizeof(*object));
	if (object && !(object->name = strdup(name))) {
		free(object);
		object = NULL;
	}
	return object;
}

struct sp_error *sp_object_open_bytes(const void *bytes, size_t size, const char *name, struct sp_object **ret)
{
	struct sp_object *object = object_create(name);
	if (!object)
		return sp_error_no_memory();
	object->file = sp_cursor_init(bytes, size);
	return open_format(object, ret);
}

struct sp_error *sp_object_open_owned(void *bytes, size_t size, const char *name, struct sp_object **ret)
{
	struct sp_object *object = object_create(name);
	if (!object) {
		free(bytes);
		return sp_error_no_memory();
	}
	object->owned_bytes = bytes;
	object->file = sp_cursor_init(bytes, size);
	atomic_store(&object->memory, size);
	return open_format(object, ret);
}

struct sp_error *sp_object_open_map(struct sp_file_map *map, const char *name, struct sp_object **ret)
{
	struct sp_object *object = object_create(name);
	if (!object) {
		sp_file_unmap(map);
		return sp_error_no_memory();
	}
	object->map = *map;
	object->has_map = true;
	object->file = sp_cursor_init(map->bytes, map->size);
	return open_format(object, ret);
}

struct sp_error *sp_object_open_scattered(struct sp_file_map *map, const char *name, struct sp_object **ret)
{
	sp_file_expect(map->bytes, map->size, true);
	struct sp_error *error = sp_object_open_map(map, name, ret);
	if (!error)
		atomic_store(&(*ret)->scattered, true);
	return error;
}

/* Whether bytes are the file's, and read only where they are touched. */
static bool is_scattered(const struct sp_object *object, const uint8_t *bytes, size_t size)
{
	return atomic_load_explicit(&object->scattered, memory_order_relaxed) && bytes >= object->map.bytes &&
	       bytes < object->map.bytes + object->map.size &&
	       size <= (size_t)(object->map.bytes + object->map.size - bytes);
}

void sp_object_want(const struct sp_object *object, const uint8_t *bytes, size_t size)
{
	if (is_scattered(object, bytes, size))
		sp_file_want(bytes, size);
}

void sp_object_want_all(struct sp_object *object)
{
	if (atomic_exchange(&object->scattered, false))
		sp_file_expect(object->map.bytes, object->map.size, false);
}

struct sp_error *sp_object_open_source(struct sp_source *source, const char *name, struct sp_object **ret)
{
	struct sp_object *object = object_create(name);
	size_t size;
	if (!object) {
		sp_source_destroy(source);
		return sp_error_no_memory();
	}
	object->source = source;
	const uint8_t *bytes = sp_source_bytes(source, &size);
	object->file = sp_cursor_init(bytes, size);
	return open_format(object, ret);
}

struct sp_error *sp_object_open_path(const char *path, struct sp_object **ret)
{
	struct sp_file_map map;
	struct sp_error *error = sp_file_map_path(path, &map);
	return error ? error : sp_object_open_map(&map, path, ret);
}

struct sp_error *sp_object_open_fd(int fd, const char *name, struct sp_object **ret)
{
	struct sp_file_map map;
	struct sp_error *error = sp_file_map_fd(fd, name, &map);
	return error ? error : sp_object_open_map(&map, name, ret);
}

const struct spsym_file_info *sp_object_info(const struct sp_object *object)
{
	return &object->info;
}

const char *sp_object_name(const struct sp_object *object)
{
	return object->name;
}

bool sp_object_is_relocatable(const struct sp_object *object)
{
	return object->relocatable;
}

bool sp_object_big_endian(const struct sp_object *object)
{
	return object->big_endian;
}

unsigned sp_object_address_size(const struct sp_object *object)
{
	return object->address_size;
}

uint64_t sp_object_entry(const struct sp_object *object)
{
	return object->entry;
}

const char *sp_object_note(const struct sp_object *object)
{
	return object->note;
}

struct sp_error *sp_object_read_failure(const struct sp_object *object)
{
	return object->source ? sp_source_failure(object->source) : NULL;
}

size_t sp_object_memory(const struct sp_object *object)
{
	size_t read = object->source ? sp_source_memory(object->source) : 0;
	return read + atomic_load(&object->memory) + object->arena.total +
	       object->section_count * sizeof(*object->sections);
}

const uint8_t *sp_object_file_bytes(const struct sp_object *object, size_t *ret_size)
{
	*ret_size = sp_object_file_size(object);
	struct sp_cursor all = sp_object_range(object, 0, *ret_size);
	return all.bad ? NULL : all.start;
}

size_t sp_object_file_size(const struct sp_object *object)
{
	return (size_t)(object->file.end - object->file.start);
}

struct sp_cursor sp_object_range(const struct sp_object *object, uint64_t offset, uint64_t size)
{
	struct sp_cursor bytes = sp_cursor_sub(&object->file, offset, size);
	struct sp_error *error = object->source && !bytes.bad ? sp_source_need(object->source, offset, size) : NULL;
	if (!error)
		return bytes;
	sp_error_destroy(error); /* the source keeps it */
	bytes = sp_cursor_init(NULL, 0);
	bytes.big_endian = object->big_endian;
	bytes.bad = true;
	return bytes;
}

void sp_object_file_identity(const struct sp_object *object, uint64_t *ret_device, uint64_t *ret_inode,
                             int64_t *ret_mtime_ns)
{
	*ret_device = object->map.device;
	*ret_inode = object->map.inode;
	*ret_mtime_ns = object->map.mtime_ns;
}

const struct sp_segment *sp_object_segments(const struct sp_object *object, size_t *ret_count)
{
	*ret_count = object->segment_count;
	return object->segments;
}

const struct sp_section *sp_object_sections(const struct sp_object *object, size_t *ret_count)
{
	*ret_count = object->section_count;
	return object->sections;
}

const uint8_t *sp_object_build_id(const struct sp_object *object, size_t *ret_size)
{
	*ret_size = object->build_id_size;
	return object->build_id;
}

/* ".debug_info" is also written ".zdebug_info" and "__debug_info". */
static bool same_section_name(const char *name, const char *wanted)
{
	if (strcmp(name, wanted) == 0)
		return true;
	if (strncmp(wanted, ".debug_", 7) != 0)
		return false;
	if (strncmp(name, ".zdebug_", 8) == 0)
		return strcmp(name + 8, wanted + 7) == 0;
	/* Mach-O cuts names to 16 characters. */
	return strncmp(name, "__debug_", 8) == 0 &&
	       (strcmp(name + 8, wanted + 7) == 0 || (strlen(name) == 16 && strncmp(name + 8, wanted + 7, 8) == 0));
}

const struct sp_section *sp_object_find_section(const struct sp_object *object, const char *name)
{
	for (size_t i = 0; i < object->section_count; i++) {
		if (same_section_name(object->sections[i].name, name))
			return &object->sections[i];
	}
	return NULL;
}

bool sp_object_make_lazy(struct sp_object *object, size_t at)
{
	struct sp_lazy_bytes *lazy = calloc(1, sizeof(*lazy));
	if (!lazy)
		return false;
	pthread_mutex_init(&lazy->lock, NULL);
	object->lazy[at] = lazy;
	return true;
}

struct sp_error *sp_object_stored_bytes(const struct sp_object *object, const struct sp_section *section,
                                        struct sp_cursor *ret)
{
	if (section->no_bits)
		return sp_error_create(SP_ERROR_NOT_FOUND, "%s: section %s has no bytes in this file", object->name,
		                       section->name);
	*ret = sp_object_range(object, section->file_offset, section->size);
	struct sp_error *unread = ret->bad ? sp_object_read_failure(object) : NULL;
	if (unread)
		return sp_error_prefix(unread, "cannot read %s: section %s", object->name, section->name);
	if (ret->bad)
		return sp_error_create(
		    SP_ERROR_FORMAT, "cannot read %s: section %s: offset 0x%llx, size 0x%llx is past the end (0x%zx)",
		    object->name, section->name, (unsigned long long)section->file_offset,
		    (unsigned long long)section->size, (size_t)(object->file.end - object->file.start));
	return NULL;
}

static struct sp_error *prefix(const struct sp_object *object, size_t at, struct sp_error *error)
{
	return error ? sp_error_prefix(error, "cannot read %s: section %s", object->name, object->sections[at].name)
	             : NULL;
}

/* The bytes that a section is stored in will be read from end to end. */
static void expect_all_of(const struct sp_object *object, const struct sp_section *section)
{
	struct sp_cursor bytes = sp_cursor_sub(&object->file, section->file_offset, section->size);
	if (!bytes.bad && is_scattered(object, bytes.start, sp_cursor_left(&bytes)))
		sp_file_expect(bytes.start, sp_cursor_left(&bytes), false);
}

/* The first caller makes the bytes, others wait for it. A lack of memory is not kept: the next caller tries again. */
static struct sp_error *lazy_get(struct sp_object *object, size_t at, const uint8_t **ret, size_t *ret_size)
{
	struct sp_lazy_bytes *lazy = object->lazy[at];
	struct sp_stream *stream = atomic_load_explicit(&lazy->stream, memory_order_acquire);
	if (stream) {
		*ret = sp_stream_bytes(stream, ret_size);
		return prefix(object, at, sp_stream_wait(stream, *ret_size));
	}
	if (!atomic_load_explicit(&lazy->ready, memory_order_acquire)) {
		pthread_mutex_lock(&lazy->lock);
		if (!atomic_load_explicit(&lazy->ready, memory_order_relaxed)) {
			expect_all_of(object, &object->sections[at]);
			struct sp_error *error = object->format->make_bytes(object, at, &lazy->bytes, &lazy->size);
			if (error && error->code == SP_ERROR_NO_MEMORY) {
				pthread_mutex_unlock(&lazy->lock);
				return error;
			}
			lazy->error = error;
			if (!error)
				atomic_fetch_add(&object->memory, lazy->size);
			atomic_store_explicit(&lazy->ready, true, memory_order_release);
		}
		pthread_mutex_unlock(&lazy->lock);
	}
	if (lazy->error)
		return sp_error_create(lazy->error->code, "%s", lazy->error->message);
	*ret = lazy->bytes;
	*ret_size = lazy->size;
	return NULL;
}

struct sp_error *sp_object_section_bytes(struct sp_object *object, const struct sp_section *section,
                                         const uint8_t **ret, size_t *ret_size)
{
	size_t at = (size_t)(section - object->sections);
	if (object->lazy[at])
		return lazy_get(object, at, ret, ret_size);
	struct sp_cursor bytes;
	struct sp_error *error = sp_object_stored_bytes(object, section, &bytes);
	if (error)
		return error;
	*ret = bytes.start;
	*ret_size = sp_cursor_left(&bytes);
	return NULL;
}

/* Begins to inflate a section in the background when that is worth it; NULL = it is not, or cannot be. */
static struct sp_stream *get_stream(struct sp_object *object, size_t at)
{
	struct sp_lazy_bytes *lazy = object->lazy[at];
	struct sp_stream *stream = atomic_load_explicit(&lazy->stream, memory_order_acquire);
	struct sp_cursor in;
	size_t size;
	if (stream || atomic_load_explicit(&lazy->ready, memory_order_acquire) || !object->format->find_stream)
		return stream;
	pthread_mutex_lock(&lazy->lock);
	stream = atomic_load_explicit(&lazy->stream, memory_order_relaxed);
	if (!stream && !atomic_load_explicit(&lazy->ready, memory_order_relaxed) &&
	    object->format->find_stream(object, at, &in, &size) && size >= SP_STREAM_LEAST) {
		expect_all_of(object, &object->sections[at]);
		struct sp_error *error = sp_stream_create(in.at, sp_cursor_left(&in), size, &stream);
		if (!error) {
			atomic_fetch_add(&object->memory, size);
			atomic_store_explicit(&lazy->stream, stream, memory_order_release);
		}
		sp_error_destroy(error);
	}
	pthread_mutex_unlock(&lazy->lock);
	return stream;
}

struct sp_error *sp_object_section_begin(struct sp_object *object, const struct sp_section *section,
                                         const uint8_t **ret, size_t *ret_size)
{
	size_t at = (size_t)(section - object->sections);
	struct sp_stream *stream = object->lazy[at] ? get_stream(object, at) : NULL;
	if (!stream)
		return sp_object_section_bytes(object, section, ret, ret_size);
	*ret = sp_stream_bytes(stream, ret_size);
	return NULL;
}

struct sp_error *sp_object_section_wait(struct sp_object *object, const struct sp_section *section, size_t end)
{
	size_t at = (size_t)(section - object->sections);
	struct sp_lazy_bytes *lazy = object->lazy[at];
	struct sp_stream *stream = lazy ? atomic_load_explicit(&lazy->stream, memory_order_acquire) : NULL;
	return stream ? prefix(object, at, sp_stream_wait(stream, end)) : NULL;
}

/* Clips [address, address + *size) to a range that is loaded from `file_size` bytes at `file_offset`. */
static const uint8_t *range_bytes(const struct sp_object *object, uint64_t range_address, uint64_t file_offset,
                                  uint64_t file_size, uint64_t address, size_t *size)
{
	if (address < range_address || address - range_address >= file_size)
		return NULL;
	uint64_t skip = address - range_address, left = file_size - skip;
	uint64_t total = (uint64_t)(object->file.end - object->file.start);
	if (file_offset > total || skip >= total - file_offset)
		return NULL;
	if (left > total - file_offset - skip)
		left = total - file_offset - skip;
	if (*size > left)
		*size = (size_t)left;
	struct sp_cursor bytes = sp_object_range(object, file_offset + skip, *size);
	return bytes.bad ? NULL : bytes.start;
}

const uint8_t *sp_object_image_bytes(const struct sp_object *object, uint64_t address, size_t *size)
{
	const uint8_t *bytes = NULL;
	if (object->relocatable) {
		for (size_t i = 0; i < object->section_count && !bytes; i++) {
			const struct sp_section *s = &object->sections[i];
			if (s->allocated && !s->no_bits && !s->compressed)
				bytes = range_bytes(object, s->address, s->file_offset, s->size, address, size);
		}
	} else if (object->info.has_code) { /* the segments of a separate debug file name bytes that it lacks */
		for (size_t i = 0; i < object->segment_count && !bytes; i++) {
			const struct sp_segment *s = &object->segments[i];
			bytes = range_bytes(object, s->address, s->file_offset, s->file_size, address, size);
		}
	}
	if (!bytes)
		*size = 0;
	return bytes;
}

struct sp_error *sp_object_symbols(struct sp_object *object, struct sp_symbols *ret)
{
	*ret = (struct sp_symbols){ 0 };
	struct sp_error *error = object->format->symbols(object, ret);
	if (error)
		sp_symbols_deinit(ret);
	return error;
}

struct sp_error *sp_object_raw_symbols(struct sp_object *object, struct sp_raw_symbol **ret, size_t *ret_count)
{
	*ret = NULL;
	*ret_count = 0;
	if (!object->format->raw_symbols)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "%s: the symbol table of such files is not listed raw",
		                       object->name);
	return object->format->raw_symbols(object, ret, ret_count);
}

void sp_symbols_deinit(struct sp_symbols *symbols)
{
	free(symbols->items);
	sp_arena_deinit(&symbols->names);
	*symbols = (struct sp_symbols){ 0 };
}

struct sp_error *sp_object_functions(struct sp_object *object, struct sp_function_range **ret, size_t *ret_count)
{
	const struct sp_section *unwind = sp_object_find_section(object, ".eh_frame");
	if (unwind)
		expect_all_of(object, unwind);
	return object->format->functions(object, ret, ret_count);
}

bool sp_object_text_hash(const uint8_t *text, size_t size, uint8_t ret[16])
{
	memset(ret, 0, 16);
	for (size_t i = 0; i < size && i < 4096; i++)
		ret[i % 16] ^= text[i];
	for (unsigned i = 0; i < 16; i++) {
		if (ret[i])
			return true;
	}
	return false;
}
