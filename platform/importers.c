/* The readers of trace files of this build, and which of them is for a file. */
#include "common/file.h"
#include "platform/windows/etl_import.h"

#include <errno.h>
#include <stdio.h>

#define HEAD_SIZE 512

const struct sp_importer_ops *const sp_importers[] = { &sp_etl_importer, NULL };

struct sp_error *sp_importer_for(const char *path, const struct sp_importer_ops **ret)
{
	uint8_t head[HEAD_SIZE];
	*ret = NULL;
	FILE *file;
	struct sp_error *error = sp_file_open(path, &file);
	if (error)
		return error;
	size_t got = fread(head, 1, sizeof(head), file);
	bool failed = ferror(file);
	int errnum = errno;
	fclose(file);
	if (failed)
		return sp_error_from_errno(errnum, "cannot read %s", path);
	for (size_t i = 0; sp_importers[i] && !*ret; i++)
		if (sp_importers[i]->probe(path, head, got))
			*ret = sp_importers[i];
	return NULL;
}
