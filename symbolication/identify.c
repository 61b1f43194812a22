/* What a file says of itself. */
#include "spsym.h"

#include "symbolication/locate/symbol_file.h"

static struct sp_error *take_info(struct sp_symbol_file *file, struct sp_error *error, struct spsym_file_info *ret)
{
	if (error)
		return error;
	*ret = file->info;
	sp_symbol_file_destroy(file);
	return NULL;
}

struct sp_error *spsym_identify_path(const char *path, struct spsym_file_info *ret)
{
	struct sp_symbol_file *file = NULL;
	struct sp_error *error = sp_symbol_file_open_path(path, &file);
	return take_info(file, error, ret);
}

struct sp_error *spsym_identify_bytes(const void *bytes, size_t size, struct spsym_file_info *ret)
{
	struct sp_symbol_file *file = NULL;
	struct sp_error *error = sp_symbol_file_open_bytes(bytes, size, "the given bytes", &file);
	return take_info(file, error, ret);
}
