/* What llvm-symbolizer and llvm-addr2line (14) do, with sp's look-ups: all but JSON, source context and FRAME.
 *
 * The outermost function is named by the symbol table where that has a symbol there, the others by the debug
 * information. */
#include "sampler/cli/lines.h"
#include "sampler/cli/peers.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum functions { FUNCTIONS_NONE, FUNCTIONS_SHORT, FUNCTIONS_LINKAGE };

/* One line of input. */
struct request {
	struct sp_peer_file *file; /* NULL: no request, the text is given back */
	size_t text;               /* offset into the texts */
	uint64_t asked, address;   /* as given; relative */
	size_t index;              /* of the answer in the file's result */
	bool data;
};

struct symbolizer {
	const char *path; /* NULL: each line names its file */
	bool addr2line, gnu, addresses, demangle, inlines, pretty, base_names;
	enum functions functions;
	uint64_t adjust;
	struct sp_peer_files files;
	SP_VECTOR(struct request) requests;
	SP_VECTOR(char) texts;
	SP_VECTOR(const char *) inputs; /* from the command line; borrowed */
};

/* ---- The symbol table ---- */

static bool is_listed(const struct sp_peer_file *file, const struct spsym_raw_symbol *symbol)
{
	return (symbol->type <= 2 || symbol->type == 10) && symbol->section < file->section_count;
}

static int compare_numbers(const void *left, const void *right, void *context)
{
	const struct spsym_raw_symbol *symbols = context;
	const struct spsym_raw_symbol *a = &symbols[*(const uint32_t *)left], *b = &symbols[*(const uint32_t *)right];
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	return a < b ? -1 : a > b;
}

/* By address, of those at one address the largest only. */
static bool sort_symbols(struct sp_peer_file *file)
{
	if (file->sorted)
		return true;
	file->sorted = malloc((file->symbol_count + 1) * sizeof(*file->sorted));
	if (!file->sorted)
		return false;
	size_t count = 0, kept = 0;
	for (size_t i = 0; i < file->symbol_count; i++) {
		if (is_listed(file, &file->symbols[i]))
			file->sorted[count++] = (uint32_t)i;
	}
	qsort_r(file->sorted, count, sizeof(*file->sorted), compare_numbers, (void *)file->symbols);
	for (size_t i = 0; i < count; i++) {
		if (i + 1 == count ||
		    file->symbols[file->sorted[i]].address != file->symbols[file->sorted[i + 1]].address)
			file->sorted[kept++] = file->sorted[i];
	}
	file->sorted_count = kept;
	return true;
}

/* The last symbol that starts at or before an address and, if it has a size, reaches it. */
static const struct spsym_raw_symbol *find_symbol(struct sp_peer_file *file, uint64_t address)
{
	if (!sort_symbols(file))
		return NULL;
	size_t low = 0, high = file->sorted_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (file->symbols[file->sorted[middle]].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	const struct spsym_raw_symbol *symbol = &file->symbols[file->sorted[low - 1]];
	return symbol->size && address - symbol->address >= symbol->size ? NULL : symbol;
}

/* ---- Names ---- */

/* Writes GNU's readable form as LLVM spells it, in place: it never gets longer. */
static void respell(char *name)
{
	char *to = name;
	bool clone = false;
	for (const char *at = name; *at;) {
		unsigned number;
		int length;
		if (!strncmp(at, "> >", 3) && to != name) {
			*to++ = '>';
			at += 2;
		} else if (!strncmp(at, " [clone ", 8) && strchr(at, ']')) {
			at += 8;
			if (!clone) {
				*to++ = ' ';
				*to++ = '(';
			}
			while (*at != ']')
				*to++ = *at++;
			at++;
			clone = true;
		} else if (sscanf(at, "{unnamed type#%u}%n", &number, &length) == 1 && number) {
			to += number == 1 ? sprintf(to, "'unnamed'") : sprintf(to, "'unnamed%u'", number - 2);
			at += length;
		} else {
			*to++ = *at++;
		}
	}
	if (clone)
		*to++ = ')';
	*to = '\0';
}

/* "{lambda(int)#2}" is "'lambda0'(int)". */
static void respell_lambdas(char *name)
{
	for (char *at = name; (at = strstr(at, "{lambda("));) {
		char *close = at + 8, *end, digits[24] = "";
		unsigned depth = 1;
		for (; *close && depth; close++)
			depth += *close == '{' ? 1 : *close == '}' ? -1u : 0;
		if (depth)
			return;
		for (end = close - 1; end > at && *end != '#'; end--)
			continue;
		unsigned long number = strtoul(end + 1, NULL, 10);
		if (end == at || !number || number > 1000000000)
			return;
		if (number > 1)
			snprintf(digits, sizeof(digits), "%lu", number - 2);
		/* "{lambda" + params + "#N}" becomes "'lambda" + N + "'" + params: at most as long. */
		size_t params = (size_t)(end - at) - 7, extra = strlen(digits), rest = strlen(close) + 1;
		memmove(at + 8 + extra, at + 7, params);
		at[0] = '\'';
		memcpy(at + 7, digits, extra);
		at[7 + extra] = '\'';
		memmove(at + 8 + extra + params, close, rest);
		at += 7;
	}
}

static void print_demangled(const char *name)
{
	char *readable = NULL;
	sp_error_destroy(spsym_demangle(name, SPSYM_DEMANGLE_LLVM, &readable));
	if (readable && name[1] == 'Z') {
		respell(readable);
		respell_lambdas(readable);
	}
	fputs(readable ? readable : name, stdout);
	free(readable);
}

/* The name in the source, without scopes and parameters. */
static void print_short(const char *name)
{
	char *readable = NULL;
	if (sp_peer_is_mangled(name))
		sp_error_destroy(spsym_demangle(name, SPSYM_DEMANGLE_PLAIN, &readable));
	if (!readable) {
		fputs(sp_peer_last_part(name), stdout);
		return;
	}
	unsigned depth = 0;
	for (char *c = readable; *c; c++) {
		depth += *c == '<' ? 1 : *c == '>' && depth ? -1u : 0;
		if (*c == '(' && !depth && c != readable && strncmp(c, "(anonymous", 10) != 0)
			*c-- = '\0';
	}
	fputs(sp_peer_last_part(readable), stdout);
	free(readable);
}

/* ---- Output ---- */

static void print_function(const struct symbolizer *s, const char *name)
{
	if (s->functions == FUNCTIONS_NONE)
		return;
	if (!name || !*name)
		fputs("??", stdout);
	else if (s->functions == FUNCTIONS_SHORT)
		print_short(name);
	else if (s->demangle && sp_peer_is_mangled(name))
		print_demangled(name);
	else
		fputs(sp_peer_is_mangled(name) ? name : sp_peer_last_part(name), stdout);
	fputs(s->pretty ? " at " : "\n", stdout);
}

static void print_place(const struct symbolizer *s, const char *path, uint32_t line, uint32_t column,
                        uint32_t discriminator)
{
	if (path && s->base_names)
		path = sp_peer_base_name(path);
	printf("%s:%u", path ? path : "??", line);
	if (!s->gnu)
		printf(":%u", column);
	else if (discriminator)
		printf(" (discriminator %u)", discriminator);
	putchar('\n');
}

static void print_code(const struct symbolizer *s, const struct request *request)
{
	static const struct spsym_location nothing;
	struct sp_peer_file *file = request->file;
	const struct spsym_location *location = file->module ? &file->result.locations[request->index] : &nothing;
	const struct spsym_raw_symbol *symbol = file->module && s->functions == FUNCTIONS_LINKAGE
	                                            ? find_symbol(file, request->address)
	                                            : NULL;
	size_t count = location->frame_count ? location->frame_count : 1, shown = s->inlines ? count : 1;
	for (size_t i = 0; i < shown; i++) {
		struct spsym_frame frame = { 0 };
		if (location->frame_count)
			frame = location->frames[i];
		/* One frame alone gets the symbol's name, too, but not in GNU's style. */
		bool outermost = i + 1 == count || (!s->inlines && !s->gnu);
		if (outermost && symbol) {
			frame.function = symbol->name;
			if (!frame.file && !symbol->binding && symbol->file && *symbol->file)
				frame.file = symbol->file;
		}
		if (i && s->pretty)
			fputs(" (inlined by) ", stdout);
		print_function(s, frame.function);
		print_place(s, frame.file, frame.line, frame.column,
		            i                      ? 0
		            : file->discriminators ? file->discriminators[request->index]
		                                   : 0);
	}
}

static void print_data(const struct symbolizer *s, const struct request *request)
{
	const struct spsym_raw_symbol *symbol = request->file->module ? find_symbol(request->file, request->address)
	                                                              : NULL;
	if (symbol && s->demangle && sp_peer_is_mangled(symbol->name))
		print_demangled(symbol->name);
	else
		fputs(symbol ? symbol->name : "??", stdout);
	printf("\n%llu %llu\n", symbol ? (unsigned long long)(request->file->base + symbol->address) : 0,
	       symbol ? (unsigned long long)symbol->size : 0);
}

/* Complaints come once a file, before its first answer. */
static void complain(struct sp_peer_file *file)
{
	if (!file->error)
		return;
	const char *why = file->error->message;
	if (file->error->code == SP_ERROR_NOT_FOUND)
		why = "No such file or directory";
	else if (file->error->code == SP_ERROR_UNSUPPORTED)
		why = "The file was not recognized as a valid object file";
	fflush(stdout);
	fprintf(stderr, "LLVMSymbolizer: error reading file: %s\n", why);
	sp_error_destroy(file->error);
	file->error = NULL;
}

static struct sp_error *answer(void *context)
{
	struct symbolizer *s = context;
	struct sp_error *error = NULL;
	for (size_t i = 0; i < s->files.files.count && !error; i++) {
		if (s->files.files.items[i]->module)
			error = sp_peer_file_look_up(s->files.files.items[i], s->gnu);
		s->files.files.items[i]->addresses.count = 0;
	}
	for (size_t i = 0; i < s->requests.count && !error; i++) {
		const struct request *request = &s->requests.items[i];
		if (!request->file) {
			puts(&s->texts.items[request->text]);
			continue;
		}
		complain(request->file);
		if (s->addresses)
			printf("0x%llx%s", (unsigned long long)request->asked, s->pretty ? ": " : "\n");
		if (request->data)
			print_data(s, request);
		else
			print_code(s, request);
		if (!s->gnu)
			putchar('\n');
	}
	s->requests.count = s->texts.count = 0;
	fflush(stdout);
	return error;
}

/* ---- Input ---- */

/* A whole number as LLVM reads it: 0x, 0b, 0o, or octal with a leading 0. */
static bool parse_number(const char *text, size_t length, unsigned base, uint64_t *ret)
{
	char digits[72], *end;
	const char *start = digits;
	if (!length || length >= sizeof(digits))
		return false;
	memcpy(digits, text, length);
	digits[length] = '\0';
	if (digits[0] == '0' && tolower((unsigned char)digits[1]) == 'x') {
		start += 2;
		base = 16;
	} else if (!base && digits[0] == '0' && tolower((unsigned char)digits[1]) == 'b') {
		start += 2;
		base = 2;
	} else if (!base && digits[0] == '0' && digits[1] == 'o') {
		start += 2;
		base = 8;
	} else if (!base) {
		base = digits[0] == '0' && digits[1] ? 8 : 10;
	}
	if (!isxdigit((unsigned char)*start))
		return false;
	errno = 0;
	*ret = strtoull(start, &end, (int)base);
	return !*end && !errno;
}

/* Takes "CODE " or "DATA ", a file where lines name it, and the address. False: it is no request. */
static bool parse_request(const struct symbolizer *s, const char *line, bool *ret_data, const char **ret_file,
                          size_t *ret_length, uint64_t *ret_address)
{
	*ret_data = !strncmp(line, "DATA ", 5);
	if (*ret_data || !strncmp(line, "CODE ", 5))
		line += 5;
	if (!s->path) {
		line += strspn(line, " \n\r");
		if (*line == '"' || *line == '\'') {
			const char *close = strchr(line + 1, *line);
			if (!close)
				return false;
			*ret_file = line + 1;
			*ret_length = (size_t)(close - line) - 1;
			line = close + 1;
		} else {
			*ret_file = line;
			*ret_length = strcspn(line, " \n\r");
			line += *ret_length;
		}
	}
	line += strspn(line, " \n\r");
	return parse_number(line, strcspn(line, " \n\r"), s->addr2line ? 16 : 0, ret_address);
}

static struct sp_error *ask(struct symbolizer *s, const char *line)
{
	struct request request = { .text = s->texts.count };
	const char *name = s->path;
	size_t length = name ? strlen(name) : 0, size = strlen(line) + 1;
	if (!parse_request(s, line, &request.data, &name, &length, &request.asked)) {
		if (!sp_vector_reserve(&s->texts, size) || !sp_vector_push(&s->requests, request))
			return sp_error_no_memory();
		memcpy(s->texts.items + s->texts.count, line, size);
		s->texts.count += size;
		return NULL;
	}
	char *copy = strndup(name, length);
	request.file = copy ? sp_peer_file_get(&s->files, copy) : NULL;
	free(copy);
	if (!request.file)
		return sp_error_no_memory();
	request.address = request.asked - s->adjust - request.file->base;
	request.index = request.file->addresses.count;
	if (!sp_vector_push(&request.file->addresses, request.address) || !sp_vector_push(&s->requests, request))
		return sp_error_no_memory();
	return NULL;
}

static struct sp_error *ask_line(void *context, char *line)
{
	return ask(context, line);
}

/* ---- Options ---- */

static bool take_functions(struct symbolizer *s, const char *value)
{
	static const char *const names[] = { "none", "short", "linkage" };
	for (size_t i = 0; i < 3; i++) {
		if (!strcmp(value, names[i])) {
			s->functions = (enum functions)i;
			return true;
		}
	}
	return false;
}

/* A flag without a value; false when there is none of the name. */
static bool take_flag(struct symbolizer *s, const char *name)
{
	const struct {
		const char *name;
		bool *flag, value;
	} flags[] = {
		{ "addresses", &s->addresses, true },      { "print-address", &s->addresses, true },
		{ "basenames", &s->base_names, true },     { "demangle", &s->demangle, true },
		{ "no-demangle", &s->demangle, false },    { "inlines", &s->inlines, true },
		{ "inlining", &s->inlines, true },         { "no-inlines", &s->inlines, false },
		{ "pretty-print", &s->pretty, true },      { "inlining=true", &s->inlines, true },
		{ "inlining=false", &s->inlines, false },  { "demangle=true", &s->demangle, true },
		{ "demangle=false", &s->demangle, false },
	};
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (!strcmp(name, flags[i].name)) {
			*flags[i].flag = flags[i].value;
			return true;
		}
	}
	if (!strcmp(name, "functions"))
		s->functions = FUNCTIONS_LINKAGE;
	/* Neither changes anything for ELF files. */
	return !strcmp(name, "functions") || !strcmp(name, "relative-address") || !strcmp(name, "no-untag-addresses");
}

static bool take_value(struct symbolizer *s, const char *name, size_t length, const char *value)
{
	char *end;
	if ((length == 3 && (!strncmp(name, "obj", 3) || !strncmp(name, "exe", 3))) || (length == 1 && *name == 'e'))
		s->path = value;
	else if (length == 9 && !strncmp(name, "functions", 9))
		return take_functions(s, value);
	else if (length == 12 && !strncmp(name, "output-style", 12) &&
	         (!strcmp(value, "GNU") || !strcmp(value, "LLVM")))
		s->gnu = value[0] == 'G';
	else if (length == 10 && !strncmp(name, "adjust-vma", 10)) {
		s->adjust = strtoull(value, &end, 0);
		return *value && !*end;
	} else
		return false;
	return true;
}

/* Letters, which may be grouped; 'e' takes the rest or the next word. */
static bool take_letters(struct symbolizer *s, const char *letters, char **argv, int argc, int *at)
{
	if (letters[0] == 'f' && letters[1] == '=')
		return take_functions(s, letters + 2);
	for (; *letters; letters++) {
		switch (*letters) {
		case 'a':
			s->addresses = true;
			break;
		case 'C':
			s->demangle = true;
			break;
		case 'f':
			s->functions = FUNCTIONS_LINKAGE;
			break;
		case 'i':
			s->inlines = true;
			break;
		case 'p':
			s->pretty = true;
			break;
		case 's':
			s->base_names = true;
			break;
		case 'e':
			letters += letters[1] == '=' ? 2 : 1;
			if (!*letters && *at + 1 >= argc)
				return false;
			s->path = *letters ? letters : argv[++*at];
			return true;
		default:
			return false;
		}
	}
	return true;
}

static bool take_word(struct symbolizer *s, char **argv, int argc, int *at)
{
	const char *name = argv[*at] + 2, *equals = strchr(name, '=');
	if (argv[*at][1] != '-')
		return take_letters(s, argv[*at] + 1, argv, argc, at);
	if (take_flag(s, name))
		return true;
	if (equals)
		return take_value(s, name, (size_t)(equals - name), equals + 1);
	if ((!strcmp(name, "obj") || !strcmp(name, "exe")) && *at + 1 < argc) {
		s->path = argv[++*at];
		return true;
	}
	return false;
}

/* False when the tool must end with *ret_status. */
static bool parse(struct symbolizer *s, int argc, char **argv, int *ret_status)
{
	*ret_status = 0;
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		if (word[0] != '-' || !word[1]) {
			if (*word && !sp_vector_push(&s->inputs, word))
				return false;
		} else if (!strcmp(word, "--version") || !strcmp(word, "-v")) {
			printf("%s: sp %s\n", argv[0], SP_VERSION);
			return false;
		} else if (!strcmp(word, "--help")) {
			printf("Usage: %s [options] [ADDRESS...]\nsp in the place of llvm-symbolizer: see 'man sp', "
			       "sp symbolicate.\n",
			       argv[0]);
			return false;
		} else if (!take_word(s, argv, argc, &i)) {
			fprintf(stderr, "error: unknown argument '%s'\n", word);
			*ret_status = 1;
			return false;
		}
	}
	return true;
}

static struct sp_error *run(struct symbolizer *s)
{
	struct sp_error *error = sp_peer_files_init(&s->files);
	if (!error && !s->inputs.count)
		return sp_lines_answer(STDIN_FILENO, ask_line, answer, s);
	for (size_t i = 0; i < s->inputs.count && !error; i++)
		error = ask(s, s->inputs.items[i]);
	return error ? error : answer(s);
}

int sp_peer_llvm_symbolizer(int argc, char **argv, bool addr2line)
{
	struct symbolizer s = { .addr2line = addr2line,
		                .gnu = addr2line,
		                .demangle = !addr2line,
		                .inlines = !addr2line,
		                .functions = addr2line ? FUNCTIONS_NONE : FUNCTIONS_LINKAGE,
		                .path = addr2line ? "a.out" : NULL };
	int status;
	if (parse(&s, argc, argv, &status)) {
		struct sp_error *error = run(&s);
		if (error) {
			fprintf(stderr, "%s: %s\n", argv[0], error->message);
			sp_error_destroy(error);
			status = 1;
		}
		sp_peer_files_deinit(&s.files);
	}
	sp_vector_deinit(&s.inputs);
	sp_vector_deinit(&s.requests);
	sp_vector_deinit(&s.texts);
	return status;
}
