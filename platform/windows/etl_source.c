/* Bytes of a trace. Files are read piece by piece, never mapped: a trace of several GB must not fill memory, and one
 * that another program cuts short must not end sp. */
#include "platform/windows/etl_source.h"

#include "common/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#define seek_to(file, offset) _fseeki64(file, (long long)(offset), SEEK_SET)
#define seek_end(file) _fseeki64(file, 0, SEEK_END)
#define tell(file) _ftelli64(file)
#else
#define seek_to(file, offset) fseeko(file, (off_t)(offset), SEEK_SET)
#define seek_end(file) fseeko(file, 0, SEEK_END)
#define tell(file) ftello(file)
#endif

static struct sp_error *push(struct sp_etl_sources *sources, struct sp_etl_source source)
{
	if (source.name && sp_vector_push(&sources->list, source))
		return NULL;
	if (source.file)
		fclose(source.file);
	free(source.name);
	return sp_error_no_memory();
}

struct sp_error *sp_etl_sources_add(struct sp_etl_sources *sources, const char *path)
{
	uint8_t head[4] = { 0 };
	FILE *file;
	struct sp_error *error = sp_file_open(path, &file);
	if (error)
		return error;
	setvbuf(file, NULL, _IONBF, 0);
	size_t got = fread(head, 1, sizeof(head), file);
	if (got == sizeof(head) && !memcmp(head, "PK\3\4", 4)) {
		fclose(file);
		return sp_etl_sources_add_zip(sources, path);
	}
	long long size = seek_end(file) ? -1 : (long long)tell(file);
	if (ferror(file) || size < 0) {
		error = sp_error_from_errno(errno, "cannot read %s", path);
		fclose(file);
		return error;
	}
	return push(sources, (struct sp_etl_source){ .name = strdup(path), .size = (uint64_t)size, .file = file });
}

struct sp_error *sp_etl_sources_add_bytes(struct sp_etl_sources *sources, const char *name, const void *bytes,
                                          size_t size)
{
	return push(sources, (struct sp_etl_source){ .name = strdup(name), .size = size, .bytes = bytes });
}

void sp_etl_sources_deinit(struct sp_etl_sources *sources)
{
	for (size_t i = 0; i < sources->list.count; i++) {
		free(sources->list.items[i].name);
		if (sources->list.items[i].file)
			fclose(sources->list.items[i].file);
	}
	sp_vector_deinit(&sources->list);
}

struct sp_error *sp_etl_source_read(struct sp_etl_source *source, uint64_t offset, void *buffer, size_t size,
                                    size_t *ret_size)
{
	*ret_size = 0;
	if (offset >= source->size || !size)
		return NULL;
	if (size > source->size - offset)
		size = (size_t)(source->size - offset);
	if (!source->file) {
		memcpy(buffer, source->bytes + offset, size);
		*ret_size = size;
		return NULL;
	}
	if (seek_to(source->file, offset))
		return sp_error_from_errno(errno, "cannot read %s", source->name);
	*ret_size = fread(buffer, 1, size, source->file);
	if (*ret_size == size || !ferror(source->file))
		return NULL; /* a file that became shorter ends there */
	int errnum = errno;
	clearerr(source->file);
	return sp_error_from_errno(errnum, "cannot read %s", source->name);
}
