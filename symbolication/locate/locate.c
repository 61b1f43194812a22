/* The search: in which order places are tried, how a candidate is verified, and what is kept of it.
 *
 * The binary is wanted first: its full build ID and its links lead to the rest. Debug information ends the search;
 * until then the best file so far is kept. A file of another build is never used, whatever its name. */
#include "symbolication/locate/locate.h"
#include "common/hex.h"

#include "symbolication/locate/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

/* A hostile identity or a huge list of folders must not fill the memory with its trace. */
#define TRACE_LIMIT ((size_t)64 << 10)

char *sp_path_format(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	char *text = length < 0 ? NULL : malloc((size_t)length + 1);
	if (text) {
		va_start(args, format);
		vsnprintf(text, (size_t)length + 1, format, args);
		va_end(args);
	}
	return text;
}

void sp_search_trace(struct sp_search *search, const char *format, ...)
{
	char line[4096];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (length < 0 || search->found->trace.size > TRACE_LIMIT)
		return;
	size_t size = (size_t)length < sizeof(line) - 1 ? (size_t)length : sizeof(line) - 2;
	line[size++] = '\n';
	struct sp_error *error = sp_buffer_write(&search->found->trace, line, size);
	if (error && !search->error)
		search->error = error;
	else
		sp_error_destroy(error);
}

/* How good a file is as a source of symbols. */
static int quality(const struct sp_symbol_file *file)
{
	if (!file)
		return 0;
	return file->info.has_debug_info ? 3 : file->info.has_symbols ? 2 : 1;
}

bool sp_search_done(const struct sp_search *search)
{
	if (search->error)
		return true;
	return search->for_binary ? search->found->binary != NULL : quality(search->found->debug) == 3;
}

static bool is_set(const char *text)
{
	return text && text[0];
}

/* NULL when the IDs of a file fit the wanted ones, else why they do not. `*ret_unsure` when one side has none. */
static const char *compare_ids(const struct sp_search *search, const struct spsym_file_info *info, bool *ret_unsure)
{
	const struct spsym_identity *wanted = search->identity;
	bool by_code = is_set(wanted->code_id) && info->code_id[0];
	*ret_unsure = false;
	if (by_code && strcasecmp(wanted->code_id, info->code_id) != 0)
		return "of another build";
	if (search->debug_id[0] && info->debug_id[0])
		return strcasecmp(search->debug_id, info->debug_id) == 0 ? NULL : "of another build";
	if (by_code)
		return NULL;
	*ret_unsure = true;
	return info->debug_id[0] ? "the wanted ID is not known" : "it has no ID";
}

static bool crc_matches(const struct sp_symbol_file *file, uint32_t crc)
{
	size_t size;
	const uint8_t *bytes = file->object ? sp_object_file_bytes(file->object, &size) : NULL;
	return bytes && crc32_z(0, bytes, size) == crc;
}

/* NULL when the file may be used, else why not. */
static const char *verify(const struct sp_search *search, const struct sp_symbol_file *file, enum sp_check check,
                          uint32_t crc)
{
	bool unsure;
	const char *reason = compare_ids(search, &file->info, &unsure);
	if (!reason || !unsure)
		return reason;
	if (check == SP_CHECK_ID_OR_NONE && !is_set(search->identity->debug_id) && !is_set(search->identity->code_id))
		return NULL;
	if (check == SP_CHECK_CRC)
		return crc_matches(file, crc) ? NULL : "its checksum is not that of the debug link";
	return reason;
}

/* Learns the full build ID from a verified file. */
static void learn(struct sp_search *search, const struct sp_symbol_file *file)
{
	size_t size;
	const uint8_t *id = file->object ? sp_object_build_id(file->object, &size) : NULL;
	if (!id || search->build_id_size || size > sizeof(search->build_id))
		return;
	memcpy(search->build_id, id, size);
	search->build_id_size = size;
}

/* Learns from a verified PE file which PDB is its. */
static void learn_pdb(struct sp_search *search, const struct sp_symbol_file *file)
{
	const char *path = file->object ? sp_object_pdb_path(file->object) : NULL;
	if (!search->debug_id[0] && file->info.kind == SPSYM_KIND_PE)
		snprintf(search->debug_id, sizeof(search->debug_id), "%s", file->info.debug_id);
	if (!search->debug_name && path && sp_path_is_component(sp_path_name(path)))
		search->debug_name = sp_path_name(path); /* lives as long as the file, which is kept as the binary */
}

/* Keeps a verified file in the roles for which it is the best, or destroys it. */
static void take(struct sp_search *search, const char *place, struct sp_symbol_file *file)
{
	struct sp_found *found = search->found;
	bool better = quality(file) > quality(found->debug), code = file->info.has_code && !found->binary;
	sp_search_trace(search, "%s: %s: used%s", place, file->path,
	                file->info.has_debug_info ? ", has debug information"
	                : file->info.has_symbols  ? ", has symbols but no debug information"
	                                          : ", has neither symbols nor debug information");
	learn(search, file);
	if (code)
		learn_pdb(search, file);
	if (better) {
		if (found->debug != found->binary)
			sp_symbol_file_destroy(found->debug);
		found->debug = file;
	}
	if (code)
		found->binary = file;
	if (!better && !code)
		sp_symbol_file_destroy(file);
}

static bool same_file(const struct sp_symbol_file *file, const char *path)
{
	return file && strcmp(file->path, path) == 0;
}

static const char *wanted_id(const struct sp_search *search)
{
	return search->debug_id[0]                 ? search->debug_id
	       : is_set(search->identity->code_id) ? search->identity->code_id
	                                           : "none";
}

bool sp_search_fits(const struct sp_search *search, const struct spsym_file_info *info)
{
	bool unsure;
	return !compare_ids(search, info, &unsure) && !unsure;
}

void sp_search_try(struct sp_search *search, const char *place, const char *path, enum sp_check check, uint32_t crc)
{
	if (sp_search_done(search) || same_file(search->found->binary, path) || same_file(search->found->debug, path))
		return;
	struct sp_symbol_file *file;
	struct sp_error *error = sp_symbol_file_open_path(path, &file);
	if (error) {
		if (error->code == SP_ERROR_NO_MEMORY) {
			search->error = error;
			return;
		}
		if (error->code != SP_ERROR_NOT_FOUND)
			sp_search_trace(search, "%s: %s", place, error->message);
		else if (!search->for_binary)
			sp_search_trace(search, "%s: %s: not there", place, path);
		sp_error_destroy(error);
		return;
	}
	file->downloaded = search->downloading;
	const char *reason = verify(search, file, check, crc);
	if (reason) {
		const char *id = file->info.debug_id[0] ? file->info.debug_id : "none";
		sp_search_trace(search, "%s: %s: not used: %s (ID %s, wanted %s)", place, path, reason, id,
		                wanted_id(search));
		sp_symbol_file_destroy(file);
		return;
	}
	take(search, place, file);
}

void sp_search_tryf(struct sp_search *search, const char *place, const char *format, ...)
{
	char path[4096];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (length > 0 && (size_t)length < sizeof(path))
		sp_search_try(search, place, path, SP_CHECK_ID, 0);
}

/* An ELF code ID is the build ID in hex. */
static void build_id_from_code_id(struct sp_search *search)
{
	const char *code_id = search->identity->code_id;
	size_t length = code_id ? strlen(code_id) : 0;
	if (length < 4 || length % 2 || length / 2 > sizeof(search->build_id))
		return;
	for (size_t i = 0; i < length / 2; i++) {
		int high = sp_hex_digit(code_id[2 * i]), low = sp_hex_digit(code_id[2 * i + 1]);
		if (high < 0 || low < 0)
			return;
		search->build_id[i] = (uint8_t)(high << 4 | low);
	}
	search->build_id_size = length / 2;
}

const char *sp_path_name(const char *path)
{
	const char *name = path;
	for (const char *c = path; *c; c++) {
		if (*c == '/' || *c == '\\')
			name = c + 1;
	}
	return name;
}

bool sp_path_is_component(const char *name)
{
	return name && name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strpbrk(name, "/\\:");
}

char *sp_path_folder(const char *path)
{
	size_t length = (size_t)(sp_path_name(path) - path);
	char *folder = malloc(length + 1);
	if (!folder)
		return NULL;
	memcpy(folder, path, length);
	while (length > 1 && (folder[length - 1] == '/' || folder[length - 1] == '\\'))
		length--;
	folder[length] = 0;
	return folder;
}

/* A name for the folders: what the identity calls it, without folders. */
static const char *component(const char *name, const char *path)
{
	const char *plain = is_set(name) ? sp_path_name(name) : is_set(path) ? sp_path_name(path) : NULL;
	return sp_path_is_component(plain) ? plain : NULL;
}

static void search_registered(struct sp_search *search)
{
	const struct spsym_identity *identity = search->identity;
	if (search->options->no_local_paths)
		return;
	if (is_set(identity->path))
		sp_search_try(search, "registered path", identity->path, SP_CHECK_ID_OR_NONE, 0);
	if (is_set(identity->debug_path) && (!identity->path || strcmp(identity->path, identity->debug_path) != 0))
		sp_search_try(search, "registered debug path", identity->debug_path, SP_CHECK_ID, 0);
}

static void search_all(struct sp_search *search)
{
	search_registered(search);
	sp_search_folders(search);
	sp_search_build_id(search);
	if (!search->options->no_local_paths) {
		sp_search_beside(search);
		sp_search_debug_link(search);
		sp_search_pdb(search);
	}
	sp_search_symstore(search);
	sp_search_debuginfod(search);
}

/* A debug file came first: its binary has the code, the dynamic symbols and the stubs. */
static void search_for_binary(struct sp_search *search)
{
	search->for_binary = true;
	if (!search->options->no_local_paths)
		sp_search_binary(search);
	sp_search_folders(search);
	sp_search_build_id(search);
}

/* "<binary>.dwp" holds the split units; the engine checks that they belong. */
static struct sp_error *find_package(struct sp_search *search)
{
	struct sp_found *found = search->found;
	const struct sp_symbol_file *files[] = { found->binary, found->debug };
	for (size_t i = 0; i < 2 && !found->package; i++) {
		if (!files[i] || !files[i]->object || files[i]->downloaded)
			continue;
		char *path = sp_path_format("%s.dwp", files[i]->path);
		if (!path)
			return sp_error_no_memory();
		struct sp_error *error = sp_symbol_file_open_path(path, &found->package);
		if (error) {
			found->package = NULL;
			if (error->code != SP_ERROR_NOT_FOUND)
				sp_search_trace(search, "split DWARF package: %s", error->message);
			sp_error_destroy(error);
		} else {
			sp_search_trace(search, "split DWARF package: %s: used", path);
		}
		free(path);
	}
	return NULL;
}

/* "tried" in one line, for the message of a search without result. */
static struct sp_error *not_found(const struct sp_search *search)
{
	const struct spsym_identity *identity = search->identity;
	char tried[1500];
	size_t size = search->found->trace.size < sizeof(tried) - 1 ? search->found->trace.size : sizeof(tried) - 1;
	if (size)
		memcpy(tried, search->found->trace.bytes, size);
	while (size && tried[size - 1] == '\n')
		size--;
	tried[size] = 0;
	for (size_t i = 0; i < size; i++) {
		if (tried[i] == '\n')
			tried[i] = ';';
	}
	const char *name = is_set(identity->debug_name) ? identity->debug_name
	                   : is_set(identity->name)     ? identity->name
	                   : is_set(identity->path)     ? identity->path
	                                                : "a module without name";
	const char *id = is_set(identity->debug_id)  ? identity->debug_id
	                 : is_set(identity->code_id) ? identity->code_id
	                                             : "no ID";
	return sp_error_create(SP_ERROR_NOT_FOUND, "no symbol file found for %s (%s); tried: %s", name, id,
	                       size ? tried : "nothing, as no place is known");
}

struct sp_error *sp_locate(const struct sp_locate_options *options, const struct spsym_identity *identity,
                           struct sp_symbol_file *given, struct sp_found *ret)
{
	*ret = (struct sp_found){ 0 };
	struct sp_search search = { .options = options,
		                    .identity = identity,
		                    .found = ret,
		                    .name = component(identity->name, identity->path),
		                    .debug_name = component(identity->debug_name, identity->debug_path) };
	build_id_from_code_id(&search);
	if (is_set(identity->debug_id))
		snprintf(search.debug_id, sizeof(search.debug_id), "%s", identity->debug_id);
	if (search.name && is_set(identity->code_id) && sp_path_is_component(identity->code_id)) {
		ret->binary_name = strdup(search.name);
		snprintf(ret->binary_id, sizeof(ret->binary_id), "%s", identity->code_id);
	}
	if (given)
		take(&search, "given", given);
	search_all(&search);
	if (!search.error && !ret->debug)
		return not_found(&search);
	if (!search.error && !ret->binary && (ret->debug->object || ret->debug->pdb))
		search_for_binary(&search);
	if (!search.error)
		search.error = sp_find_supplementary(&search);
	if (!search.error && !options->no_local_paths)
		search.error = find_package(&search);
	return search.error;
}

void sp_located_deinit(struct sp_found *found)
{
	if (found->binary != found->debug)
		sp_symbol_file_destroy(found->binary);
	sp_symbol_file_destroy(found->debug);
	sp_symbol_file_destroy(found->supplementary);
	sp_symbol_file_destroy(found->package);
	free(found->trace.bytes);
	free(found->binary_name);
	*found = (struct sp_found){ 0 };
}

struct sp_error *sp_locate_executable(const struct sp_locate_options *options, const struct sp_found *found,
                                      struct sp_symbol_file **ret)
{
	size_t size = 0;
	const uint8_t *id = found->debug->object ? sp_object_build_id(found->debug->object, &size) : NULL;
	char *path;
	if (found->debug->pdb && options->symstore && found->binary_name)
		return sp_symstore_binary(options, found, ret);
	if (!options->debuginfod || !id)
		return sp_error_create(SP_ERROR_NOT_FOUND, "the binary of %s was not found", found->debug->path);
	struct sp_error *error = sp_debuginfod_get(options->debuginfod, id, size, SP_DEBUGINFOD_EXECUTABLE, NULL,
	                                           &path);
	if (error)
		return error;
	error = sp_symbol_file_open_path(path, ret);
	free(path);
	if (!error)
		(*ret)->downloaded = true;
	return error;
}

struct sp_error *sp_locate_dwo(const struct sp_locate_options *options, const struct sp_found *found, const char *path,
                               struct sp_symbol_file **ret)
{
	struct sp_error *error = sp_error_create(SP_ERROR_NOT_FOUND, "%s is not looked for", path);
	bool local = !options->no_local_paths && !found->debug->downloaded;
	if (local) {
		sp_error_destroy(error);
		error = sp_symbol_file_open_path(path, ret);
	}
	const char *name = sp_path_name(path);
	const struct sp_symbol_file *near = found->binary ? found->binary : found->debug;
	if (error && local && near && sp_path_is_component(name)) {
		char *folder = sp_path_folder(near->path);
		char *candidate = folder ? sp_path_format("%s%s%s", folder, folder[0] ? "/" : "", name) : NULL;
		struct sp_error *second = candidate ? sp_symbol_file_open_path(candidate, ret) : sp_error_no_memory();
		free(folder);
		free(candidate);
		sp_error_destroy(second ? second : error);
		error = second ? error : NULL;
	}
	for (size_t i = 0; error && options->symbol_folders && options->symbol_folders[i] && sp_path_is_component(name);
	     i++) {
		char *candidate = sp_path_format("%s/%s", options->symbol_folders[i], name);
		struct sp_error *second = candidate ? sp_symbol_file_open_path(candidate, ret) : sp_error_no_memory();
		free(candidate);
		sp_error_destroy(second ? second : error);
		error = second ? error : NULL;
	}
	return error;
}

struct sp_error *sp_kept_path(const char *cache_folder, const char *debug_id, char **ret)
{
	if (!sp_path_is_component(debug_id))
		return sp_error_create(SP_ERROR_USAGE, "not a debug ID: %s", debug_id ? debug_id : "none");
	*ret = sp_path_format("%s/kept/%s", cache_folder, debug_id);
	return *ret ? NULL : sp_error_no_memory();
}
