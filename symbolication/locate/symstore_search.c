/* What symbol stores are asked for in the search for a module's files: its PDB by name and debug ID, its binary by name
 * and code ID. */
#include "symbolication/locate/private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PE_ID_MIN = 9, PE_ID_MAX = 16, DEBUG_ID_MIN = 33 };

static void trace(void *context, const char *line)
{
	sp_search_trace(context, "%s", line);
}

/* sp_symstore_query.accept */
static bool accept(void *context, const char *place, const char *path, enum sp_symstore_offer offer)
{
	struct sp_search *search = context;
	if (offer == SP_SYMSTORE_CHECK) {
		struct spsym_file_info info;
		struct sp_error *error = spsym_identify_path(path, &info);
		bool fits = !error && sp_search_fits(search, &info);
		if (error)
			sp_search_trace(search, "%s: %s", place, error->message);
		else if (!fits)
			sp_search_trace(search, "%s: not used: it is of another build (ID %s, wanted %s)", place,
			                info.debug_id[0] ? info.debug_id : info.code_id,
			                search->debug_id[0] ? search->debug_id : search->identity->code_id);
		sp_error_destroy(error);
		return fits;
	}
	const struct sp_symbol_file *debug = search->found->debug, *binary = search->found->binary;
	search->downloading = offer == SP_SYMSTORE_STORE;
	sp_search_try(search, place, path, SP_CHECK_ID, 0);
	search->downloading = false;
	return search->error || debug != search->found->debug || binary != search->found->binary;
}

static void ask(struct sp_search *search, const char *name, const char *id)
{
	struct sp_symstore_query query = {
		.name = name, .id = id, .flat = true, .accept = accept, .trace = trace, .context = search
	};
	struct sp_error *error = sp_symstore_search(search->options->symstore, &query);
	if (error && !search->error && error->code == SP_ERROR_NO_MEMORY)
		search->error = error;
	else
		sp_error_destroy(error);
}

static bool ends_with(const char *name, const char *suffix)
{
	size_t length = strlen(name), size = strlen(suffix);
	return length > size && strcasecmp(name + length - size, suffix) == 0;
}

/* Time stamp and size; the build IDs of other systems are longer. */
static bool is_pe_id(const char *name, const char *id)
{
	size_t length = id ? strlen(id) : 0;
	if (length < PE_ID_MIN || length > PE_ID_MAX || strspn(id, "0123456789abcdefABCDEF") != length)
		return false;
	return length < PE_ID_MAX || ends_with(name, ".dll") || ends_with(name, ".exe") || ends_with(name, ".sys");
}

static bool is_pdb_name(const struct sp_search *search)
{
	return search->debug_name && (ends_with(search->debug_name, ".pdb") ||
	                              (search->found->binary && search->found->binary->info.kind == SPSYM_KIND_PE));
}

static void ask_for_pdb(struct sp_search *search)
{
	if (is_pdb_name(search) && strlen(search->debug_id) >= DEBUG_ID_MIN && !sp_search_done(search))
		ask(search, search->debug_name, search->debug_id);
}

void sp_search_symstore(struct sp_search *search)
{
	if (!search->options->symstore || sp_search_done(search))
		return;
	const char *code_id = search->identity->code_id;
	bool pe = search->name && is_pe_id(search->name, code_id) && !search->found->binary;
	bool named = is_pdb_name(search) && search->debug_id[0];
	if (named)
		ask_for_pdb(search);
	if (sp_search_done(search) || !pe)
		return;
	/* Without its PDB the binary has exported names and the bounds of functions, and it may name another PDB. */
	ask(search, search->name, code_id);
	if (!named)
		ask_for_pdb(search);
}

/* The search for a binary alone. */
struct binary_search {
	const struct sp_found *found;
	struct sp_symbol_file *file;
	struct sp_error *error;
};

static bool accept_binary(void *context, const char *place, const char *path, enum sp_symstore_offer offer)
{
	struct binary_search *search = context;
	struct sp_symbol_file *file;
	(void)place;
	struct sp_error *error = sp_symbol_file_open_path(path, &file);
	if (error) {
		sp_error_destroy(search->error);
		search->error = error;
		return false;
	}
	bool right = file->info.has_code && strcasecmp(file->info.code_id, search->found->binary_id) == 0;
	if (!right || offer == SP_SYMSTORE_CHECK) {
		sp_symbol_file_destroy(file);
		return right;
	}
	file->downloaded = offer == SP_SYMSTORE_STORE;
	search->file = file;
	return true;
}

static void ignore(void *context, const char *line)
{
	(void)context;
	(void)line;
}

struct sp_error *sp_symstore_binary(const struct sp_locate_options *options, const struct sp_found *found,
                                    struct sp_symbol_file **ret)
{
	struct binary_search search = { .found = found };
	struct sp_symstore_query query = { .name = found->binary_name,
		                           .id = found->binary_id,
		                           .flat = true,
		                           .accept = accept_binary,
		                           .trace = ignore,
		                           .context = &search };
	struct sp_error *error = sp_symstore_search(options->symstore, &query);
	if (search.file) {
		sp_error_destroy(search.error);
		sp_error_destroy(error);
		*ret = search.file;
		return NULL;
	}
	if (!error)
		error = search.error ? search.error
		                     : sp_error_create(SP_ERROR_NOT_FOUND, "no symbol store has %s (%s)",
		                                       found->binary_name, found->binary_id);
	else
		sp_error_destroy(search.error);
	return error;
}
