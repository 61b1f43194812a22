/* Traces inside of zips, by minizip: PerfView's .etl.zip and Visual Studio's .diagsession. Each *.etl is unpacked into
 * a nameless temporary file, as reading a trace needs seeks. */
#include "platform/windows/etl_reader.h"
#include "platform/windows/etl_source.h"

#include <errno.h>
#include <minizip/unzip.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 65536
#define TRACES_MAX 256
#define NAME_SIZE 512
#define CHUNK ((size_t)1 << 18)
#define RATIO_MAX 1100 /* what deflate can do at best is 1032 */

#ifdef _WIN32
static FILE *open_nameless(void)
{
	return tmpfile();
}
#else
#include <unistd.h>

static FILE *open_nameless(void)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];
	if (!folder || !*folder)
		folder = "/tmp";
	if ((size_t)snprintf(path, sizeof(path), "%s/sp-trace-XXXXXX", folder) >= sizeof(path))
		return tmpfile();
	int fd = mkstemp(path);
	if (fd < 0)
		return NULL;
	unlink(path);
	FILE *file = fdopen(fd, "w+b");
	if (!file)
		close(fd);
	return file;
}
#endif

static bool is_trace(const char *name)
{
	size_t length = strlen(name);
	return length > 4 && !strcasecmp(name + length - 4, ".etl");
}

/* Copies the open entry to `file`. */
static struct sp_error *unpack(unzFile zip, const char *name, uint64_t limit, FILE *file, uint64_t *ret_size)
{
	uint8_t *chunk = malloc(CHUNK);
	if (!chunk)
		return sp_error_no_memory();
	struct sp_error *error = NULL;
	uint64_t total = 0;
	int got;
	while (!error && (got = unzReadCurrentFile(zip, chunk, (unsigned)CHUNK)) > 0) {
		/* Before gigabytes of something else are unpacked. */
		if (!total && !sp_etl_probe(chunk, (size_t)got))
			error = sp_error_create(SP_ERROR_FORMAT, "%s: not a trace", name);
		total += (uint64_t)got;
		if (error)
			break;
		if (total > limit)
			error = sp_error_create(SP_ERROR_FORMAT, "%s: more bytes than the zip can hold", name);
		else if (fwrite(chunk, 1, (size_t)got, file) != (size_t)got)
			error = sp_error_from_errno(errno, "cannot unpack %s", name);
	}
	free(chunk);
	if (!error && got < 0)
		error = sp_error_create(SP_ERROR_FORMAT, "%s: the zip is damaged", name);
	if (!error && (fflush(file) || ferror(file)))
		error = sp_error_from_errno(errno, "cannot unpack %s", name);
	*ret_size = total;
	return error;
}

static struct sp_error *add_entry(struct sp_etl_sources *sources, unzFile zip, const char *name, uint64_t packed)
{
	if (unzOpenCurrentFile(zip) != UNZ_OK)
		return sp_error_create(SP_ERROR_FORMAT,
		                       "%s: cannot be unpacked (damaged, or packed in a way that sp "
		                       "does not know)",
		                       name);
	struct sp_etl_source source = { .name = strdup(name), .file = open_nameless() };
	struct sp_error *error = NULL;
	if (!source.name) {
		error = sp_error_no_memory();
	} else if (!source.file) {
		error = sp_error_from_errno(errno, "cannot create a temporary file to unpack %s", name);
	} else {
		setvbuf(source.file, NULL, _IONBF, 0);
		error = unpack(zip, name, (packed + 64) * RATIO_MAX, source.file, &source.size);
	}
	int closed = unzCloseCurrentFile(zip);
	if (!error && closed != UNZ_OK)
		error = sp_error_create(SP_ERROR_FORMAT, "%s: the zip's checksum does not fit", name);
	if (!error) {
		if (sp_vector_push(&sources->list, source))
			return NULL;
		error = sp_error_no_memory();
	}
	if (source.file)
		fclose(source.file);
	free(source.name);
	return error;
}

static struct sp_error *add_all(struct sp_etl_sources *sources, unzFile zip, const char *path)
{
	char name[NAME_SIZE], full[2 * NAME_SIZE];
	unsigned traces = 0;
	int status = unzGoToFirstFile(zip);
	for (unsigned i = 0; status == UNZ_OK && i < ENTRIES_MAX; i++, status = unzGoToNextFile(zip)) {
		unz_file_info64 info;
		if (unzGetCurrentFileInfo64(zip, &info, name, sizeof(name), NULL, 0, NULL, 0) != UNZ_OK)
			break;
		name[sizeof(name) - 1] = '\0';
		if (!is_trace(name))
			continue;
		if (++traces > TRACES_MAX)
			return sp_error_create(SP_ERROR_LIMIT, "%s: more than %d traces", path, TRACES_MAX);
		snprintf(full, sizeof(full), "%s: %s", path, name);
		struct sp_error *error = add_entry(sources, zip, full, info.compressed_size);
		if (error)
			return error;
	}
	if (!traces)
		return sp_error_create(SP_ERROR_FORMAT, "%s: a zip without an .etl file in it", path);
	return NULL;
}

struct sp_error *sp_etl_sources_add_zip(struct sp_etl_sources *sources, const char *path)
{
	unzFile zip = unzOpen64(path);
	if (!zip)
		return sp_error_create(SP_ERROR_FORMAT, "%s: not a readable zip", path);
	struct sp_error *error = add_all(sources, zip, path);
	unzClose(zip);
	return error;
}
