/* sp symbolicate: addresses of one file to functions, lines and inline chains, as text or JSON; a whole profile to a
 * symbolicated one; and, asked so or called so, what addr2line and llvm-symbolizer would print. */
#include "sampler/cli/cli.h"
#include "sampler/cli/lines.h"
#include "sampler/cli/peers.h"

#include "common/json.h"
#include "common/vector.h"
#include "sampler/output/output.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOME_TEXT ((size_t)64 << 10) /* bytes that are printed together */

/* One address asked for; `text` is what stood there when it is none. */
struct asked {
	const char *text; /* NULL: an address */
	uint64_t address; /* as it was given */
};

struct symbolicate {
	struct sp_parsed parsed;
	spsym_context *symbols;
	spsym_module *module;
	uint64_t base;       /* what is taken off an address to make it relative */
	bool json, bad_line; /* bad_line: something in the input was no address */
	SP_VECTOR(struct asked) asked;
	SP_VECTOR(uint64_t) addresses; /* relative, of those that are addresses */
	struct spsym_result result;
	struct sp_json *writer; /* owned; with --json */
	struct sp_buffer text;  /* without: what will be printed */
	struct sp_error *error; /* of printing */
};

/* ---- Reading addresses ---- */

/* Hexadecimal, with or without 0x. */
static bool parse_address(const char *text, uint64_t *ret)
{
	char *end;
	if (!isxdigit((unsigned char)*text))
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 16);
	return !*end && !errno;
}

/* ".init.text+0x10", which is how places in kernel modules are told. */
static bool parse_place(const struct symbolicate *s, const char *text, uint64_t *ret)
{
	char name[256];
	const char *plus = strrchr(text, '+');
	uint64_t offset, relative;
	if (*text != '.' || !plus || (size_t)(plus - text) >= sizeof(name) || !parse_address(plus + 1, &offset))
		return false;
	memcpy(name, text, (size_t)(plus - text));
	name[plus - text] = '\0';
	struct sp_error *error = spsym_section_address(s->module, name, offset, &relative);
	bool found = !error;
	sp_error_destroy(error);
	*ret = found ? s->base + relative : 0;
	return found;
}

static struct sp_error *ask(struct symbolicate *s, const char *text)
{
	struct asked asked = { 0 };
	if (!parse_address(text, &asked.address) && !parse_place(s, text, &asked.address))
		asked.text = text;
	/* Below the base there is nothing, which the largest address finds, too. */
	uint64_t relative = asked.address < s->base ? UINT64_MAX : asked.address - s->base;
	if (!sp_vector_push(&s->asked, asked) || (!asked.text && !sp_vector_push(&s->addresses, relative)))
		return sp_error_no_memory();
	return NULL;
}

/* ---- Writing answers ---- */

/* A hundred thousand addresses are a million pieces of text: printf() would take as long as the look-ups. */
static void put_n(struct symbolicate *s, const char *text, size_t size)
{
	if (!s->error)
		s->error = sp_buffer_write(&s->text, text, size);
}

static void put(struct symbolicate *s, const char *text)
{
	put_n(s, text, strlen(text));
}

/* What comes from a file. */
static void put_foreign(struct symbolicate *s, const char *text)
{
	if (!s->error)
		s->error = sp_cli_escape(text, sp_buffer_write, &s->text);
}

static void put_number(struct symbolicate *s, const char *before, uint64_t value, unsigned base)
{
	char text[24], *at = text + sizeof(text);
	do {
		*--at = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	put(s, before);
	put_n(s, at, (size_t)(text + sizeof(text) - at));
}

/* Prints what was put; unless there is little. */
static struct sp_error *flush_text(struct symbolicate *s, size_t little)
{
	struct sp_error *error = s->error;
	s->error = NULL;
	if (!error && s->text.size > little) {
		error = sp_cli_write_stdout(NULL, s->text.bytes, s->text.size);
		s->text.size = 0;
	}
	return error;
}

static void put_place(struct symbolicate *s, const struct spsym_frame *frame)
{
	if (!frame->file)
		return;
	put_n(s, " at ", 4);
	put_foreign(s, frame->file);
	if (frame->line)
		put_number(s, ":", frame->line, 10);
	if (frame->line && frame->column)
		put_number(s, ":", frame->column, 10);
}

static void put_text(struct symbolicate *s, const struct asked *asked, const struct spsym_location *location,
                     uint64_t relative)
{
	put_number(s, "0x", asked->address, 16);
	put_n(s, ": ", 2);
	const struct spsym_symbol *symbol = &location->symbol;
	for (size_t i = 0; i < location->frame_count; i++) {
		const struct spsym_frame *frame = &location->frames[i];
		const char *name = frame->function;
		if (!name && i + 1 == location->frame_count)
			name = symbol->name;
		put(s, i ? "    inlined into " : "");
		put_foreign(s, name ? name : "??");
		put_place(s, frame);
		put_n(s, "\n", 1);
	}
	if (!location->frame_count && symbol->name) {
		put_foreign(s, symbol->name);
		put_number(s, "+0x", relative - symbol->address, 16);
		put_n(s, "\n", 1);
	} else if (!location->frame_count) {
		put_n(s, "??\n", 3);
	}
}

static void put_no_address(struct symbolicate *s, const char *text)
{
	put_foreign(s, text);
	put(s, ": ?? (not an address)\n");
}

static void write_frames(struct sp_json *json, const struct spsym_location *location)
{
	sp_json_key(json, "frames");
	sp_json_array_begin(json);
	for (size_t i = 0; i < location->frame_count; i++) {
		const struct spsym_frame *frame = &location->frames[i];
		sp_json_object_begin(json);
		sp_json_member_string(json, "function", frame->function);
		sp_json_member_string(json, "file", frame->file);
		sp_json_key(json, "line");
		frame->line ? sp_json_uint(json, frame->line) : sp_json_null(json);
		sp_json_key(json, "column");
		frame->column ? sp_json_uint(json, frame->column) : sp_json_null(json);
		sp_json_object_end(json);
	}
	sp_json_array_end(json);
}

static void write_symbol(struct sp_json *json, const struct spsym_symbol *symbol, uint64_t base)
{
	sp_json_key(json, "symbol");
	if (!symbol->name) {
		sp_json_null(json);
		return;
	}
	sp_json_object_begin(json);
	sp_json_member_string(json, "name", symbol->name);
	sp_json_key(json, "address");
	sp_json_hex(json, base + symbol->address);
	sp_json_key(json, "size");
	symbol->size ? sp_json_uint(json, symbol->size) : sp_json_null(json);
	sp_json_object_end(json);
}

/* One object a line. `location` NULL: the text was no address. */
static void print_json(struct symbolicate *s, const struct asked *asked, const struct spsym_location *location)
{
	struct sp_json *json = s->writer;
	sp_json_object_begin(json);
	if (location) {
		sp_json_key(json, "address");
		sp_json_hex(json, asked->address);
		write_symbol(json, &location->symbol, s->base);
		write_frames(json, location);
	} else {
		sp_json_member_string(json, "input", asked->text);
		sp_json_member_string(json, "error", "not an address");
	}
	sp_json_object_end(json);
	sp_json_step_aside(json, false);
	putchar('\n');
	json->need_comma[0] = false;
}

/* Answers what was asked and forgets it. */
static struct sp_error *answer(void *context)
{
	struct symbolicate *s = context;
	struct sp_error *error = spsym_lookup(s->module, s->addresses.items, s->addresses.count, &s->result);
	if (error)
		return error;
	size_t at = 0;
	for (size_t i = 0; i < s->asked.count; i++) {
		const struct asked *asked = &s->asked.items[i];
		const struct spsym_location *location = asked->text ? NULL : &s->result.locations[at];
		uint64_t relative = asked->text ? 0 : s->addresses.items[at++];
		s->bad_line |= !location;
		if (s->json)
			print_json(s, asked, location);
		else if (location)
			put_text(s, asked, location, relative);
		else
			put_no_address(s, asked->text);
		error = flush_text(s, SOME_TEXT);
		if (error)
			return error;
	}
	s->asked.count = s->addresses.count = 0;
	error = flush_text(s, 0);
	if (error)
		return error;
	return fflush(stdout) ? sp_error_from_errno(errno, "cannot write the output") : NULL;
}

/* ---- The command ---- */

static char *trim(char *line)
{
	while (isspace((unsigned char)*line))
		line++;
	size_t length = strlen(line);
	while (length && isspace((unsigned char)line[length - 1]))
		line[--length] = '\0';
	return line;
}

static struct sp_error *ask_line(void *context, char *line)
{
	line = trim(line);
	return *line ? ask(context, line) : NULL;
}

static struct sp_error *symbolicate_addresses(struct symbolicate *s, const char *path)
{
	struct sp_error *error = spsym_module_open_path(s->symbols, path, &s->module);
	if (error)
		return error;
	s->base = sp_option_given(&s->parsed, "relative") ? 0 : spsym_module_info(s->module)->base;
	if (s->json) {
		s->writer = malloc(sizeof(*s->writer));
		if (!s->writer)
			return sp_error_no_memory();
		sp_json_init(s->writer, sp_cli_write_stdout, NULL);
	}
	for (size_t i = 1; i < s->parsed.operand_count && !error; i++)
		error = ask(s, s->parsed.operands[i]);
	if (!error)
		error = s->parsed.operand_count > 1 ? answer(s) : sp_lines_answer(STDIN_FILENO, ask_line, answer, s);
	if (!error && s->result.debug_error && !s->json)
		fprintf(stderr, "sp: no lines or inlined functions: %s\n", s->result.debug_error);
	return error;
}

/* A profile instead of a file: a copy of it with names. */
static struct sp_error *symbolicate_profile(struct symbolicate *s, const char *path)
{
	const char *output = sp_option_value(&s->parsed, "output");
	if (s->parsed.operand_count > 1 || !output)
		return sp_error_create(SP_ERROR_USAGE,
		                       "%s is a profile: give where to write the copy with names, as in "
		                       "sp symbolicate -o NEW.json.gz PROFILE",
		                       path);
	struct sp_log log = sp_cli_log(false);
	struct sp_symbolicate_summary summary;
	struct sp_error *error = sp_profile_symbolicate(path, output, s->symbols, &log, &summary);
	if (!error)
		sp_log(&log, SP_LOG_INFO, "wrote %s: %llu of %llu frames were named, %llu inlined ones added", output,
		       (unsigned long long)summary.named, (unsigned long long)summary.frames,
		       (unsigned long long)summary.inlined);
	return error;
}

static struct sp_error *symbolicate(struct symbolicate *s)
{
	if (sp_option_given(&s->parsed, "addr2line") || sp_option_given(&s->parsed, "llvm-symbolizer"))
		return sp_error_create(SP_ERROR_USAGE,
		                       "--addr2line and --llvm-symbolizer stand right behind 'symbolicate'");
	if (!s->parsed.operand_count)
		return sp_error_create(SP_ERROR_USAGE, "sp symbolicate takes a file (see 'sp symbolicate --help')");
	s->json = sp_option_given(&s->parsed, "json");
	struct sp_error *error = sp_cli_symbols(&s->parsed, false, &s->symbols);
	if (error)
		return error;
	const char *path = s->parsed.operands[0];
	if (sp_profile_probe(path))
		return symbolicate_profile(s, path);
	if (sp_option_given(&s->parsed, "output"))
		return sp_error_create(SP_ERROR_USAGE, "%s is no profile; --output is for those", path);
	return symbolicate_addresses(s, path);
}

/* --addr2line and --llvm-symbolizer as the first word: what follows is in those tools' language. */
static bool run_peer(int argc, char **argv, int *ret_status)
{
	bool addr2line = !strcmp(argv[0], "--addr2line");
	if (!addr2line && strcmp(argv[0], "--llvm-symbolizer") != 0)
		return false;
	argv[0] += 2;
	*ret_status = addr2line ? sp_peer_addr2line(argc, argv) : sp_peer_llvm_symbolizer(argc, argv, false);
	return true;
}

int sp_cmd_symbolicate(int argc, char **argv)
{
	struct symbolicate s = { 0 };
	int status = 0;
	if (argc > 1 && run_peer(argc - 1, argv + 1, &status))
		return status;
	if (!sp_cli_parse("symbolicate", argc, argv, SP_EXIT_USAGE, &s.parsed, &status)) {
		struct sp_error *error = symbolicate(&s);
		if (error)
			status = sp_cli_end(error);
		else if (s.bad_line)
			status = SP_EXIT_FAILED;
	}
	free(s.writer);
	free(s.text.bytes);
	spsym_result_deinit(&s.result);
	sp_vector_deinit(&s.asked);
	sp_vector_deinit(&s.addresses);
	spsym_module_release(s.module);
	spsym_context_destroy(s.symbols);
	sp_parsed_deinit(&s.parsed);
	return status;
}
