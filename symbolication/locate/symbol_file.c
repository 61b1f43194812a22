/* Opening of files by content: the name and suffix of a file decide nothing. */
#include "symbolication/locate/symbol_file.h"

#include "common/compress.h"
#include "symbolication/kallsyms.h"
#include "symbolication/locate/cabinet.h"

#include <stdlib.h>
#include <string.h>

/* The largest file that may come out of a compressed one. */
#define UNPACKED_LIMIT ((size_t)1 << 30)
/* The largest file that is read whole, and what its kind is told by. */
#define READ_LIMIT (UINT64_C(4) << 30)
#define FIRST_BYTES ((size_t)4096)

static bool packed_kind(const uint8_t *bytes, size_t size, enum sp_compression *ret)
{
	if (size >= 6 && memcmp(bytes,
	                        "\xfd"
	                        "7zXZ\0",
	                        6) == 0)
		*ret = SP_COMPRESSION_XZ;
	else if (size >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0)
		*ret = SP_COMPRESSION_ZSTD;
	else if (size >= 3 && memcmp(bytes, "\x1f\x8b\x08", 3) == 0)
		*ret = SP_COMPRESSION_GZIP;
	else
		return false;
	return true;
}

void sp_symbol_file_destroy(struct sp_symbol_file *file)
{
	if (!file)
		return;
	sp_object_destroy(file->object);
	sp_symbols_deinit(&file->kallsyms);
	sp_pdb_destroy(file->pdb);
	sp_portable_pdb_destroy(file->portable);
	sp_breakpad_destroy(file->breakpad);
	if (file->map.bytes)
		sp_file_unmap(&file->map);
	free(file->unpacked);
	sp_source_destroy(file->source);
	free(file->path);
	free(file);
}

static struct sp_symbol_file *file_create(const char *path)
{
	struct sp_symbol_file *file = calloc(1, sizeof(*file));
	if (file && !(file->path = strdup(path))) {
		free(file);
		file = NULL;
	}
	return file;
}

/* Wraps an opened object; takes it over. */
static struct sp_error *wrap_object(struct sp_object *object, const char *path, struct sp_symbol_file **ret)
{
	struct sp_symbol_file *file = file_create(path);
	if (!file) {
		sp_object_destroy(object);
		return sp_error_no_memory();
	}
	file->object = object;
	file->info = *sp_object_info(object);
	*ret = file;
	return NULL;
}

static struct sp_error *open_kallsyms(const void *bytes, size_t size, const char *path, struct sp_symbol_file **ret)
{
	struct sp_symbol_file *file = file_create(path);
	if (!file)
		return sp_error_no_memory();
	struct sp_error *error = sp_kallsyms_read(bytes, size, &file->kallsyms, &file->info);
	if (error) {
		sp_symbol_file_destroy(file);
		return sp_error_prefix(error, "cannot read %s", path);
	}
	*ret = file;
	return NULL;
}

/* Whether open_symbols() knows what it is. */
static bool is_symbols(const void *bytes, size_t size)
{
	return sp_pdb_probe(bytes, size) || sp_portable_pdb_probe(bytes, size) || sp_breakpad_probe(bytes, size);
}

/* A file of symbols only. The bytes must outlive the file. */
static struct sp_error *open_symbols(const void *bytes, size_t size, const char *path, struct sp_symbol_file **ret)
{
	struct sp_symbol_file *file = file_create(path);
	if (!file)
		return sp_error_no_memory();
	struct sp_error *error;
	if (sp_breakpad_probe(bytes, size))
		error = sp_breakpad_open(bytes, size, path, &file->breakpad);
	else if (sp_portable_pdb_probe(bytes, size))
		error = sp_portable_pdb_open(bytes, size, path, &file->portable);
	else
		error = sp_pdb_open(bytes, size, path, &file->pdb);
	if (error) {
		sp_symbol_file_destroy(file);
		return error;
	}
	file->info = file->pdb        ? *sp_pdb_info(file->pdb)
	             : file->portable ? *sp_portable_pdb_info(file->portable)
	                              : *sp_breakpad_info(file->breakpad);
	*ret = file;
	return NULL;
}

/* Opens what came out of a packed file; takes the buffer over. */
static struct sp_error *open_unpacked(uint8_t *unpacked, size_t unpacked_size, const char *path,
                                      struct sp_symbol_file **ret)
{
	struct sp_error *error;
	if (sp_kallsyms_probe(unpacked, unpacked_size)) {
		error = open_kallsyms(unpacked, unpacked_size, path, ret);
		free(unpacked);
		return error;
	}
	if (is_symbols(unpacked, unpacked_size)) {
		error = open_symbols(unpacked, unpacked_size, path, ret);
		if (error)
			free(unpacked);
		else
			(*ret)->unpacked = unpacked;
		return error;
	}
	struct sp_object *object;
	error = sp_object_open_owned(unpacked, unpacked_size, path, &object);
	return error ? error : wrap_object(object, path, ret);
}

static struct sp_error *open_packed(enum sp_compression kind, const void *bytes, size_t size, const char *path,
                                    struct sp_symbol_file **ret)
{
	uint8_t *unpacked;
	size_t unpacked_size;
	struct sp_error *error = sp_decompress(kind, bytes, size, UNPACKED_LIMIT, &unpacked, &unpacked_size);
	return error ? sp_error_prefix(error, "cannot read %s", path)
	             : open_unpacked(unpacked, unpacked_size, path, ret);
}

static struct sp_error *open_cabinet(const void *bytes, size_t size, const char *path, struct sp_symbol_file **ret)
{
	uint8_t *unpacked;
	size_t unpacked_size;
	struct sp_error *error = sp_cabinet_unpack(bytes, size, UNPACKED_LIMIT, &unpacked, &unpacked_size);
	return error ? sp_error_prefix(error, "cannot read %s", path)
	             : open_unpacked(unpacked, unpacked_size, path, ret);
}

/* Opens what is no plain object file; false when it is one, or unknown. */
static bool open_other(const void *bytes, size_t size, const char *path, struct sp_symbol_file **ret,
                       struct sp_error **ret_error)
{
	enum sp_compression kind;
	if (packed_kind(bytes, size, &kind))
		*ret_error = open_packed(kind, bytes, size, path, ret);
	else if (sp_cabinet_probe(bytes, size))
		*ret_error = open_cabinet(bytes, size, path, ret);
	else if (sp_kallsyms_probe(bytes, size))
		*ret_error = open_kallsyms(bytes, size, path, ret);
	else
		return false;
	return true;
}

struct sp_error *sp_symbol_file_open_bytes(const void *bytes, size_t size, const char *name,
                                           struct sp_symbol_file **ret)
{
	struct sp_error *error;
	struct sp_object *object;
	if (open_other(bytes, size, name, ret, &error))
		return error;
	if (is_symbols(bytes, size))
		return open_symbols(bytes, size, name, ret);
	error = sp_object_open_bytes(bytes, size, name, &object);
	return error ? error : wrap_object(object, name, ret);
}

/* Takes over `map`. */
static struct sp_error *open_map(struct sp_file_map *map, const char *path, struct sp_symbol_file **ret)
{
	struct sp_error *error;
	struct sp_object *object;
	sp_file_expect(map->bytes, map->size ? 1 : 0, true); /* a look at the beginning reads no more of the disk */
	if (open_other(map->bytes, map->size, path, ret, &error)) {
		sp_file_unmap(map);
		return error;
	}
	if (is_symbols(map->bytes, map->size)) {
		error = open_symbols(map->bytes, map->size, path, ret);
		if (error)
			sp_file_unmap(map);
		else
			(*ret)->map = *map;
		return error;
	}
	error = sp_object_open_scattered(map, path, &object);
	return error ? error : wrap_object(object, path, ret);
}

/* Whether the first bytes of a file say that it is of a kind which is read whole. */
static bool is_read_whole(const uint8_t *bytes, size_t size)
{
	enum sp_compression kind;
	return packed_kind(bytes, size, &kind) || sp_cabinet_probe(bytes, size) || sp_kallsyms_probe(bytes, size) ||
	       is_symbols(bytes, size) || (size >= 2 && bytes[0] == 'M' && bytes[1] == 'Z');
}

static struct sp_error *read_first(struct sp_source *source, const char *name)
{
	size_t size;
	const uint8_t *bytes = sp_source_bytes(source, &size);
	struct sp_error *error = sp_source_need(source, 0, FIRST_BYTES);
	if (error || !is_read_whole(bytes, size < FIRST_BYTES ? size : FIRST_BYTES))
		return error;
	return size > READ_LIMIT ? sp_error_create(SP_ERROR_LIMIT, "%s: %zu bytes are too many to read", name, size)
	                         : sp_source_need(source, 0, size);
}

struct sp_error *sp_symbol_file_open_reader(const struct spsym_reader *reader, const char *name,
                                            struct sp_symbol_file **ret)
{
	struct sp_source *source;
	struct sp_object *object;
	size_t size;
	struct sp_error *error = sp_source_create(reader, name, &source);
	if (error)
		return error;
	error = read_first(source, name);
	const uint8_t *bytes = sp_source_bytes(source, &size);
	if (error || open_other(bytes, size, name, ret, &error)) {
		sp_source_destroy(source);
		return error;
	}
	if (is_symbols(bytes, size)) {
		error = open_symbols(bytes, size, name, ret);
		if (error)
			sp_source_destroy(source);
		else
			(*ret)->source = source;
		return error;
	}
	error = sp_object_open_source(source, name, &object);
	return error ? error : wrap_object(object, name, ret);
}

struct sp_error *sp_symbol_file_open_path(const char *path, struct sp_symbol_file **ret)
{
	struct sp_file_map map;
	struct sp_error *error = sp_file_map_path(path, &map);
	return error ? error : open_map(&map, path, ret);
}

struct sp_error *sp_symbol_file_open_fd(int fd, const char *name, struct sp_symbol_file **ret)
{
	struct sp_file_map map;
	struct sp_error *error = sp_file_map_fd(fd, name, &map);
	return error ? error : open_map(&map, name, ret);
}
