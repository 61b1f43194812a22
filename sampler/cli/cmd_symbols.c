/* sp symbols: what a file is, which symbols it has, and where the symbols of a file were looked for. */
#include "sampler/cli/cli.h"

#include "common/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct symbols {
	struct sp_parsed parsed;
	spsym_context *context;
	struct sp_json *json; /* owned; NULL: text */
};

/* One object a line. */
static void end_line(struct sp_json *json)
{
	sp_json_object_end(json);
	sp_json_step_aside(json, false);
	putchar('\n');
	json->need_comma[0] = false;
}

static const char *kind_name(enum spsym_kind kind)
{
	static const char *const names[] = {
		[SPSYM_KIND_UNKNOWN] = "unknown",
		[SPSYM_KIND_ELF] = "ELF",
		[SPSYM_KIND_PE] = "PE",
		[SPSYM_KIND_MACHO] = "Mach-O",
		[SPSYM_KIND_PDB] = "PDB",
		[SPSYM_KIND_BREAKPAD] = "Breakpad",
		[SPSYM_KIND_KALLSYMS] = "kallsyms",
		[SPSYM_KIND_PORTABLE_PDB] = "portable PDB",
	};
	return (size_t)kind < sizeof(names) / sizeof(names[0]) && names[kind] ? names[kind] : "unknown";
}

static void member_or_null(struct sp_json *json, const char *key, const char *value)
{
	sp_json_member_string(json, key, *value ? value : NULL);
}

/* ---- identify ---- */

static void write_info(struct sp_json *json, const char *path, const struct spsym_file_info *info)
{
	sp_json_object_begin(json);
	sp_json_member_string(json, "file", path);
	sp_json_member_string(json, "kind", kind_name(info->kind));
	member_or_null(json, "arch", info->arch);
	member_or_null(json, "debugId", info->debug_id);
	member_or_null(json, "codeId", info->code_id);
	sp_json_key(json, "base");
	sp_json_hex(json, info->base);
	sp_json_member_bool(json, "hasSymbols", info->has_symbols);
	sp_json_member_bool(json, "hasDebugInfo", info->has_debug_info);
	sp_json_member_bool(json, "hasCode", info->has_code);
	end_line(json);
}

static const char *or_none(const char *text)
{
	return *text ? text : "none";
}

static struct sp_error *identify(struct symbols *s, const char *path)
{
	struct spsym_file_info info;
	struct sp_error *error = spsym_identify_path(path, &info);
	if (error)
		return error;
	if (s->json) {
		write_info(s->json, path, &info);
		return NULL;
	}
	sp_cli_print(stdout, path);
	printf(": %s%s%s, debug ID %s, code ID %s, base 0x%llx; %s, %s, %s\n", kind_name(info.kind),
	       *info.arch ? " " : "", info.arch, or_none(info.debug_id), or_none(info.code_id),
	       (unsigned long long)info.base, info.has_symbols ? "symbols" : "no symbols but dynamic ones",
	       info.has_debug_info ? "debug information" : "no debug information", info.has_code ? "code" : "no code");
	return NULL;
}

/* ---- list ---- */

/* A method of a portable PDB: its token, and where it begins in the source. Methods that the compiler made have no
 * place there. */
static struct sp_error *list_method(struct symbols *s, spsym_module *module, uint32_t token)
{
	struct spsym_method_place place;
	struct sp_error *error = spsym_method_place(module, token, 0, &place);
	if (error && error->code == SP_ERROR_NOT_FOUND) {
		sp_error_destroy(error);
		return NULL;
	}
	if (error)
		return error;
	if (s->json) {
		sp_json_object_begin(s->json);
		sp_json_key(s->json, "token");
		sp_json_hex(s->json, token);
		sp_json_member_string(s->json, "file", place.file);
		sp_json_key(s->json, "line");
		sp_json_uint(s->json, place.line);
		sp_json_key(s->json, "column");
		sp_json_uint(s->json, place.column);
		end_line(s->json);
	} else {
		printf("%08x %s:%u:%u\n", token, place.file ? place.file : "??", place.line, place.column);
	}
	free(place.file);
	return NULL;
}

static struct sp_error *list_methods(struct symbols *s, spsym_module *module)
{
	uint32_t count;
	struct sp_error *error = spsym_method_count(module, &count);
	for (uint32_t i = 1; i <= count && !error; i++)
		error = list_method(s, module, 0x06000000 | i);
	return error;
}

static struct sp_error *list(struct symbols *s, const char *path)
{
	const struct spsym_symbol *symbols;
	size_t count;
	spsym_module *module;
	struct sp_error *error = spsym_module_open_path(s->context, path, &module);
	if (error)
		return error;
	if (spsym_module_info(module)->kind == SPSYM_KIND_PORTABLE_PDB) {
		error = list_methods(s, module);
		spsym_module_release(module);
		return error;
	}
	uint64_t base = sp_option_given(&s->parsed, "relative") ? 0 : spsym_module_info(module)->base;
	error = spsym_symbols(module, &symbols, &count);
	for (size_t i = 0; !error && i < count; i++) {
		unsigned long long address = base + symbols[i].address;
		if (!s->json) {
			printf("%016llx %8llx ", address, (unsigned long long)symbols[i].size);
			sp_cli_print(stdout, symbols[i].name);
			putchar('\n');
			continue;
		}
		sp_json_object_begin(s->json);
		sp_json_key(s->json, "address");
		sp_json_hex(s->json, address);
		sp_json_key(s->json, "size");
		sp_json_uint(s->json, symbols[i].size);
		sp_json_member_string(s->json, "name", symbols[i].name);
		end_line(s->json);
	}
	spsym_module_release(module);
	return error;
}

/* ---- why ---- */

static void write_lines(struct sp_json *json, const char *path, const char *text)
{
	sp_json_object_begin(json);
	sp_json_member_string(json, "file", path);
	sp_json_key(json, "places");
	sp_json_array_begin(json);
	while (*text) {
		size_t length = strcspn(text, "\n");
		sp_json_string_n(json, text, length);
		text += length + (text[length] == '\n');
	}
	sp_json_array_end(json);
	end_line(json);
}

static void print_lines(const char *path, char *text)
{
	sp_cli_print(stdout, path);
	puts(":");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		sp_cli_print(stdout, line);
		putchar('\n');
	}
}

/* Makes the module read all that it would read for an answer: what is wrong with it is told, too. */
static struct sp_error *explain_file(struct symbols *s, const char *path, char **ret, bool *ret_missing)
{
	static const uint64_t address = 0;
	struct spsym_result result = { 0 };
	spsym_module *module;
	struct sp_error *error = spsym_module_open_path(s->context, path, &module);
	*ret_missing = error && error->code == SP_ERROR_NOT_FOUND;
	if (*ret_missing) {
		const char *slash = strrchr(path, '/');
		struct spsym_identity identity = { .path = path, .name = slash ? slash + 1 : path };
		sp_error_destroy(error);
		return spsym_explain(s->context, &identity, ret);
	}
	if (error)
		return error;
	error = spsym_lookup(module, &address, 1, &result);
	spsym_result_deinit(&result);
	if (!error)
		error = spsym_module_explain(module, ret);
	spsym_module_release(module);
	return error;
}

static struct sp_error *why(struct symbols *s, const char *path)
{
	char *text;
	bool missing;
	struct sp_error *error = explain_file(s, path, &text, &missing);
	if (error)
		return error;
	if (s->json)
		write_lines(s->json, path, text);
	else
		print_lines(path, text);
	free(text);
	return missing ? sp_error_create(SP_ERROR_NOT_FOUND, "%s is not there", path) : NULL;
}

/* ---- The command ---- */

typedef struct sp_error *(*action_fn)(struct symbols *s, const char *path);

static action_fn find_action(const char *name)
{
	static const struct {
		const char *name;
		action_fn run;
	} actions[] = { { "identify", identify }, { "list", list }, { "why", why } };
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (!strcmp(actions[i].name, name))
			return actions[i].run;
	}
	return NULL;
}

/* A file that cannot be read does not keep the others from being told of. */
static struct sp_error *run(struct symbols *s, int *ret_status)
{
	action_fn action = s->parsed.operand_count ? find_action(s->parsed.operands[0]) : NULL;
	if (!action || s->parsed.operand_count < 2)
		return sp_error_create(SP_ERROR_USAGE, "sp symbols takes identify, list or why, and files "
		                                       "(see 'sp symbols --help')");
	struct sp_error *error = sp_cli_symbols(&s->parsed, false, &s->context);
	if (error)
		return error;
	if (sp_option_given(&s->parsed, "json")) {
		s->json = malloc(sizeof(*s->json));
		if (!s->json)
			return sp_error_no_memory();
		sp_json_init(s->json, sp_cli_write_stdout, NULL);
	}
	for (size_t i = 1; i < s->parsed.operand_count; i++) {
		error = action(s, s->parsed.operands[i]);
		if (error)
			*ret_status = sp_cli_fail(error, SP_EXIT_FAILED);
	}
	return fflush(stdout) ? sp_error_from_errno(errno, "cannot write the output") : NULL;
}

int sp_cmd_symbols(int argc, char **argv)
{
	struct symbols s = { 0 };
	int status = 0;
	if (!sp_cli_parse("symbols", argc, argv, SP_EXIT_USAGE, &s.parsed, &status)) {
		struct sp_error *error = run(&s, &status);
		if (error)
			status = sp_cli_end(error);
	}
	free(s.json);
	spsym_context_destroy(s.context);
	sp_parsed_deinit(&s.parsed);
	return status;
}
