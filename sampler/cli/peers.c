/* What sp shares between the tools that it can stand for; see peers.h. */
#include "sampler/cli/peers.h"

#include "common/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether `name` is `tool`, with a prefix "x86_64-linux-gnu-" or a suffix "-14", or both. */
static bool is_tool(const char *name, const char *tool)
{
	const char *at = strstr(name, tool);
	if (!at || (at != name && at[-1] != '-'))
		return false;
	at += strlen(tool);
	if (!strcmp(at, ".exe"))
		return true;
	return !*at || (*at == '-' && at[1] && !at[1 + strspn(at + 1, "0123456789.")]);
}

bool sp_peer_by_name(int argc, char **argv, int *ret_status)
{
	const char *name = argc ? sp_peer_base_name(argv[0]) : "";
	if (is_tool(name, "llvm-symbolizer"))
		*ret_status = sp_peer_llvm_symbolizer(argc, argv, false);
	else if (is_tool(name, "llvm-addr2line"))
		*ret_status = sp_peer_llvm_symbolizer(argc, argv, true);
	else if (is_tool(name, "addr2line"))
		*ret_status = sp_peer_addr2line(argc, argv);
	else
		return false;
	return true;
}

struct sp_error *sp_peer_files_init(struct sp_peer_files *files)
{
	char *cache = NULL;
	*files = (struct sp_peer_files){ 0 };
	/* Without a cache folder saved indexes are not found; everything else works. */
	sp_error_destroy(sp_file_cache_folder("symbols", &cache));
	struct spsym_options options = { .cache_folder = cache, .no_demangling = true, .no_background = true };
	struct sp_error *error = spsym_context_create(&options, &files->symbols);
	free(cache);
	return error;
}

static void file_destroy(struct sp_peer_file *file)
{
	spsym_result_deinit(&file->result);
	sp_vector_deinit(&file->addresses);
	free(file->sorted);
	free(file->discriminators);
	spsym_module_release(file->module);
	sp_error_destroy(file->error);
	free(file->name);
	free(file);
}

void sp_peer_files_deinit(struct sp_peer_files *files)
{
	for (size_t i = 0; i < files->files.count; i++)
		file_destroy(files->files.items[i]);
	sp_vector_deinit(&files->files);
	spsym_context_destroy(files->symbols);
}

static void open_file(struct sp_peer_files *files, struct sp_peer_file *file)
{
	file->error = spsym_module_open_path(files->symbols, file->name, &file->module);
	if (file->error)
		return;
	file->base = spsym_module_info(file->module)->base;
	/* What has none of these is still looked up. */
	sp_error_destroy(spsym_sections(file->module, &file->sections, &file->section_count));
	sp_error_destroy(spsym_raw_symbols(file->module, &file->symbols, &file->symbol_count));
}

struct sp_peer_file *sp_peer_file_get(struct sp_peer_files *files, const char *name)
{
	for (size_t i = 0; i < files->files.count; i++) {
		if (!strcmp(files->files.items[i]->name, name))
			return files->files.items[i];
	}
	struct sp_peer_file *file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->name = strdup(name);
	if (!file->name || !sp_vector_push(&files->files, file)) {
		file_destroy(file);
		return NULL;
	}
	open_file(files, file);
	return file;
}

struct sp_error *sp_peer_file_look_up(struct sp_peer_file *file, bool discriminators)
{
	const uint64_t *addresses = file->addresses.items;
	size_t count = file->addresses.count;
	struct sp_error *error = spsym_lookup(file->module, addresses, count, &file->result);
	if (error || !discriminators)
		return error;
	free(file->discriminators);
	file->discriminators = malloc((count + 1) * sizeof(*file->discriminators));
	return file->discriminators ? spsym_discriminators(file->module, addresses, count, file->discriminators)
	                            : sp_error_no_memory();
}

bool sp_peer_is_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

const char *sp_peer_last_part(const char *name)
{
	const char *last = name;
	size_t depth = 0;
	for (const char *c = name; *c; c++) {
		if (*c == '<' || *c == '(' || *c == '{')
			depth++;
		else if ((*c == '>' || *c == ')' || *c == '}') && depth)
			depth--;
		else if (!depth && !strncmp(c, "operator", 8))
			break; /* its brackets do not come in pairs, and nothing follows it */
		else if (c[0] == ':' && c[1] == ':' && !depth)
			last = ++c + 1;
	}
	return last;
}

void sp_peer_print_name(const char *name, bool demangle, enum spsym_demangle_style style)
{
	char *readable = NULL;
	if (demangle && sp_peer_is_mangled(name))
		sp_error_destroy(spsym_demangle(name, style, &readable));
	fputs(readable ? readable : name, stdout);
	free(readable);
}

const char *sp_peer_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}
