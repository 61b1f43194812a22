/* asm/v1: the instructions of a range of code, with the names of what direct branches lead to. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many bytes to show from `start`: as asked, or to the end of the function that `start` is in. */
static struct sp_error *size_to_show(spsym_module *module, const struct api_code_request *request, uint64_t start,
                                     uint64_t *ret)
{
	*ret = request->has_size ? request->size + (request->offset - start) : 0;
	if (!request->continue_until_function_end && *ret)
		return NULL;
	struct spsym_result result = { 0 };
	struct sp_error *error = spsym_lookup_symbols(module, &start, 1, &result);
	if (error)
		return error;
	const struct spsym_symbol *symbol = result.count ? &result.locations[0].symbol : NULL;
	uint64_t offset = symbol && symbol->address <= start ? start - symbol->address : 0;
	if (symbol && symbol->size > offset && symbol->size - offset > *ret)
		*ret = symbol->size - offset;
	spsym_result_deinit(&result);
	return *ret ? NULL
	            : sp_error_create(SP_ERROR_NOT_FOUND, "no function begins at 0x%llx",
	                              (unsigned long long)request->offset);
}

/* The symbols of all branch targets, in the order of the instructions that have one. */
static struct sp_error *look_up_targets(spsym_module *module, const struct api_disassembly *d, struct spsym_result *ret)
{
	SP_VECTOR(uint64_t) targets = { 0 };
	struct sp_error *error = NULL;
	for (size_t i = 0; i < d->instructions.count && !error; i++) {
		if (d->instructions.items[i].has_target && !sp_vector_push(&targets, d->instructions.items[i].target))
			error = sp_error_no_memory();
	}
	if (!error && targets.count)
		error = spsym_lookup_symbols(module, targets.items, targets.count, ret);
	sp_vector_deinit(&targets);
	return error;
}

/* "jmp 0x1234 <name+0x10>" */
static void write_branch(struct sp_json *json, const char *text, uint64_t target, const struct spsym_symbol *symbol)
{
	char *line = NULL;
	uint64_t offset = target - symbol->address;
	int length = offset ? asprintf(&line, "%s <%s+0x%llx>", text, symbol->name, (unsigned long long)offset)
	                    : asprintf(&line, "%s <%s>", text, symbol->name);
	if (length < 0)
		sp_json_string(json, text);
	else
		sp_json_string_n(json, line, (size_t)length);
	if (length >= 0)
		free(line);
}

static void write_instructions(struct sp_json *json, const struct api_disassembly *d,
                               const struct spsym_result *targets)
{
	size_t target = 0;
	for (size_t i = 0; i < d->instructions.count; i++) {
		const struct api_instruction *instruction = &d->instructions.items[i];
		const struct spsym_symbol *symbol = NULL;
		if (instruction->has_target && target < targets->count)
			symbol = &targets->locations[target++].symbol;
		sp_json_array_begin(json);
		sp_json_uint(json, instruction->offset);
		for (unsigned s = 0; s < d->syntaxes; s++) {
			const char *text = d->texts.items + instruction->text[s];
			if (symbol && symbol->name)
				write_branch(json, text, instruction->target, symbol);
			else
				sp_json_string(json, text);
		}
		sp_json_array_end(json);
	}
}

static void write_reply(struct sp_json *json, const struct api_disassembly *d, const struct spsym_result *targets,
                        size_t size, bool cut)
{
	sp_json_object_begin(json);
	sp_json_key(json, "startAddress");
	sp_json_hex(json, d->start);
	sp_json_key(json, "size");
	sp_json_hex(json, size);
	sp_json_member_string(json, "arch", d->arch);
	sp_json_key(json, "syntax");
	sp_json_array_begin(json);
	for (unsigned s = 0; s < d->syntaxes; s++)
		sp_json_string(json, d->syntax[s]);
	sp_json_array_end(json);
	sp_json_key(json, "instructions");
	sp_json_array_begin(json);
	write_instructions(json, d, targets);
	if (cut) {
		sp_json_array_begin(json);
		sp_json_uint(json, size);
		for (unsigned s = 0; s < d->syntaxes; s++)
			sp_json_string(json, "# cut here: the function is longer");
		sp_json_array_end(json);
	}
	sp_json_array_end(json);
	sp_json_object_end(json);
}

static struct sp_error *disassemble_module(spsym_module *module, const struct api_code_request *request,
                                           struct sp_json *json)
{
	const char *arch = spsym_module_info(module)->arch;
	uint64_t start = api_align_code(arch, request->offset), size;
	struct sp_error *error = size_to_show(module, request, start, &size);
	if (error)
		return error;
	bool cut = size > SP_API_MAX_CODE;
	if (cut)
		size = SP_API_MAX_CODE;
	uint8_t *code = malloc((size_t)size);
	if (!code)
		return sp_error_no_memory();
	size_t code_size = 0;
	struct api_disassembly disassembly = { 0 };
	struct spsym_result targets = { 0 };
	error = spsym_code(module, start, code, (size_t)size, &code_size);
	if (!error && !code_size)
		error = sp_error_create(SP_ERROR_NOT_FOUND, "there is no code at 0x%llx", (unsigned long long)start);
	if (!error)
		error = api_disassemble(arch, start, code, code_size, &disassembly);
	free(code);
	if (error)
		return error;
	error = look_up_targets(module, &disassembly, &targets);
	if (!error)
		write_reply(json, &disassembly, &targets, code_size, cut && code_size == size);
	spsym_result_deinit(&targets);
	api_disassembly_deinit(&disassembly);
	return error;
}

struct sp_error *api_asm(const struct sp_api *api, const struct api_code_request *request, struct sp_json *json)
{
	spsym_module *module;
	if (!request->debug_id && !request->code_id)
		return sp_error_create(SP_ERROR_USAGE, "a debugId or codeId is needed");
	struct sp_error *error = api_find_module(api, request->debug_name, request->debug_id, request->name,
	                                         request->code_id, true, &module);
	if (error)
		return error;
	error = disassemble_module(module, request, json);
	spsym_module_release(module);
	return error;
}
