/* Methods of .NET: what a portable PDB says, by token and IL offset. */
#include "symbolication/module.h"

#include "symbolication/pdb/portable.h"

enum { METHOD_TABLE = 0x06 };

static struct sp_error *find_portable(const struct spsym_module *module, const struct sp_portable_pdb **ret)
{
	*ret = module->found.debug->portable;
	return *ret ? NULL : sp_error_create(SP_ERROR_UNSUPPORTED, "%s is no portable PDB", module->found.debug->path);
}

spsym_error *spsym_method_count(spsym_module *module, uint32_t *ret)
{
	const struct sp_portable_pdb *pdb;
	struct sp_error *error = find_portable(module, &pdb);
	*ret = error ? 0 : sp_portable_pdb_method_count(pdb);
	return error;
}

spsym_error *spsym_method_place(spsym_module *module, uint32_t token, uint32_t il_offset,
                                struct spsym_method_place *ret)
{
	const struct sp_portable_pdb *pdb;
	struct sp_portable_place place;
	struct sp_error *error = find_portable(module, &pdb);
	*ret = (struct spsym_method_place){ 0 };
	if (!error && token >> 24 != METHOD_TABLE)
		error = sp_error_create(SP_ERROR_NOT_FOUND, "0x%08x is no token of a method", token);
	if (!error)
		error = sp_portable_pdb_find(pdb, token & 0xffffff, il_offset, &place);
	if (!error)
		*ret = (struct spsym_method_place){ place.file, place.il_offset, place.line, place.column };
	return error;
}
