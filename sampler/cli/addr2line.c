/* What GNU addr2line (2.40) does, with sp's look-ups.
 *
 * Its answers have two sources: debug information, and where that knows nothing the nearest function in front of the
 * address in the same section, whatever its size. */
#include "sampler/cli/lines.h"
#include "sampler/cli/peers.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_READ 99 /* what it reads of a line at a time; the rest is the next line */

struct addr2line {
	const char *tool, *path, *section;
	bool addresses, demangle, functions, inlines, pretty, base_names;
	struct sp_peer_files files;
	struct sp_peer_file *file;
	uint64_t section_address; /* of `section`, relative */
	int width;                /* hexadecimal digits of an address */
	SP_VECTOR(uint64_t) asked;
};

/* ---- The nearest function ---- */

/* Whether `symbol` fits an address better than `best` (NULL = none yet). */
static bool fits_better(const struct spsym_raw_symbol *symbol, const struct spsym_raw_symbol *best, uint64_t address)
{
	if (!best)
		return true;
	if (symbol->address != best->address)
		return symbol->address > best->address;
	uint64_t offset = address - symbol->address, size = symbol->size ? symbol->size : 1;
	uint64_t best_size = best->size ? best->size : 1;
	if (best_size <= offset)
		return size > best_size;
	if (size < offset)
		return false;
	bool function = symbol->type == 2, best_function = best->type == 2;
	if (function != best_function)
		return function;
	return size < best_size;
}

static bool may_be_function(const struct spsym_raw_symbol *symbol)
{
	return symbol->type != 1 && symbol->type != 6;
}

static int compare_numbers(const void *left, const void *right, void *context)
{
	const struct spsym_raw_symbol *symbols = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	if (symbols[a].address != symbols[b].address)
		return symbols[a].address < symbols[b].address ? -1 : 1;
	return a < b ? -1 : a > b;
}

/* Sorts the numbers of what may be functions by address, in the table's order where that is the same. */
static bool sort_symbols(struct sp_peer_file *file)
{
	if (file->sorted)
		return true;
	file->sorted = malloc((file->symbol_count + 1) * sizeof(*file->sorted));
	if (!file->sorted)
		return false;
	for (size_t i = 0; i < file->symbol_count; i++) {
		if (may_be_function(&file->symbols[i]) && file->symbols[i].section < file->section_count)
			file->sorted[file->sorted_count++] = (uint32_t)i;
	}
	qsort_r(file->sorted, file->sorted_count, sizeof(*file->sorted), compare_numbers, (void *)file->symbols);
	return true;
}

static const struct spsym_raw_symbol *nearest(struct sp_peer_file *file, uint32_t section, uint64_t address)
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
	/* Back to the first one of the section; then all that start where it does, in the table's order. */
	while (low && file->symbols[file->sorted[low - 1]].section != section)
		low--;
	if (!low)
		return NULL;
	uint64_t start = file->symbols[file->sorted[low - 1]].address;
	const struct spsym_raw_symbol *best = NULL;
	size_t first = low;
	while (first && file->symbols[file->sorted[first - 1]].address == start)
		first--;
	for (size_t i = first; i < low; i++) {
		const struct spsym_raw_symbol *symbol = &file->symbols[file->sorted[i]];
		if (symbol->section == section && fits_better(symbol, best, address))
			best = symbol;
	}
	return best;
}

/* ---- Output ---- */

static void print_function(const struct addr2line *tool, const char *name)
{
	if (!tool->functions)
		return;
	if (!name || !*name)
		fputs("??", stdout);
	else
		sp_peer_print_name(name, tool->demangle, SPSYM_DEMANGLE_BINUTILS);
	fputs(tool->pretty ? " at " : "\n", stdout);
}

static void print_place(const struct addr2line *tool, const char *path, uint32_t line, uint32_t discriminator)
{
	if (path && tool->base_names)
		path = sp_peer_base_name(path);
	printf("%s:", path ? path : "??");
	if (line && discriminator)
		printf("%u (discriminator %u)\n", line, discriminator);
	else if (line)
		printf("%u\n", line);
	else
		puts("?");
}

/* A function's own name when that is what the linker sees, else that of the symbol there. */
static const char *linker_name(const struct spsym_location *location, size_t frame,
                               const struct spsym_raw_symbol *symbol)
{
	const char *name = location->frames[frame].function,
	           *outer = location->frames[location->frame_count - 1].function;
	if (name && sp_peer_is_mangled(name))
		return name;
	bool mangling = location->frame_count > 1 && outer && (sp_peer_is_mangled(outer) || strstr(outer, "::"));
	if (name && !mangling && !strstr(name, "::"))
		return name;
	return symbol ? symbol->name : name ? sp_peer_last_part(name) : NULL;
}

static void print_frames(const struct addr2line *tool, const struct spsym_location *location,
                         const struct spsym_raw_symbol *symbol, uint32_t discriminator)
{
	for (size_t i = 0; i < location->frame_count && (!i || tool->inlines); i++) {
		const struct spsym_frame *frame = &location->frames[i];
		const char *name;
		name = linker_name(location, i, symbol);
		if (i && tool->pretty)
			fputs(" (inlined by) ", stdout);
		print_function(tool, name);
		print_place(tool, frame->file, frame->line, discriminator);
	}
}

static bool print_answer(const struct addr2line *tool, uint32_t section, const struct spsym_location *location,
                         uint64_t address, uint32_t discriminator)
{
	const struct spsym_raw_symbol *symbol = nearest(tool->file, section, address);
	if (location->frame_count)
		print_frames(tool, location, symbol, discriminator);
	else if (symbol) {
		print_function(tool, symbol->name);
		print_place(tool, symbol->file, 0, 0);
	}
	return location->frame_count || symbol;
}

/* The section that holds a relative address; a file that is not linked has them all at 0. UINT32_MAX = none. */
static uint32_t find_section(const struct addr2line *tool, uint64_t address)
{
	for (size_t i = 0; i < tool->file->section_count; i++) {
		const struct spsym_section *s = &tool->file->sections[i];
		if (!s->allocated || (tool->section && strcmp(s->name, tool->section) != 0))
			continue;
		if (address - s->address < s->size)
			return (uint32_t)i;
	}
	return UINT32_MAX;
}

static void print_one(const struct addr2line *tool, uint64_t asked, uint64_t address,
                      const struct spsym_location *location, uint32_t discriminator)
{
	if (tool->addresses)
		printf("0x%0*llx%s", tool->width, (unsigned long long)asked, tool->pretty ? ": " : "\n");
	uint32_t section = find_section(tool, address);
	if (section != UINT32_MAX && print_answer(tool, section, location, address, discriminator))
		return;
	if (tool->functions)
		fputs(tool->pretty ? "?? " : "??\n", stdout);
	puts("??:0");
}

/* ---- Input ---- */

static bool ask(struct addr2line *tool, const char *text)
{
	const char *digits = text + strspn(text, " \t\r\n");
	uint64_t asked = *digits == '-' || *digits == '+' ? 0 : strtoull(digits, NULL, 16); /* no signs */
	uint64_t address = tool->section ? asked + tool->section_address : asked - tool->file->base;
	return sp_vector_push(&tool->asked, asked) && sp_vector_push(&tool->file->addresses, address);
}

static struct sp_error *answer(void *context)
{
	struct addr2line *tool = context;
	struct sp_error *error = sp_peer_file_look_up(tool->file, true);
	for (size_t i = 0; i < tool->asked.count && !error; i++)
		print_one(tool, tool->asked.items[i], tool->file->addresses.items[i], &tool->file->result.locations[i],
		          tool->file->discriminators[i]);
	tool->asked.count = tool->file->addresses.count = 0;
	fflush(stdout);
	return error;
}

/* A line is read in pieces. */
static struct sp_error *ask_line(void *context, char *line)
{
	size_t length = strlen(line);
	do {
		char piece[LINE_MAX_READ + 1] = "";
		size_t size = length < LINE_MAX_READ ? length : LINE_MAX_READ;
		memcpy(piece, line, size);
		if (!ask(context, piece))
			return sp_error_no_memory();
		line += size;
		length -= size;
	} while (length);
	return NULL;
}

/* ---- The tool ---- */

static const struct option long_options[] = { { "addresses", no_argument, NULL, 'a' },
	                                      { "basenames", no_argument, NULL, 's' },
	                                      { "demangle", optional_argument, NULL, 'C' },
	                                      { "exe", required_argument, NULL, 'e' },
	                                      { "functions", no_argument, NULL, 'f' },
	                                      { "inlines", no_argument, NULL, 'i' },
	                                      { "pretty-print", no_argument, NULL, 'p' },
	                                      { "recurse-limit", no_argument, NULL, 'R' },
	                                      { "recursion-limit", no_argument, NULL, 'R' },
	                                      { "no-recurse-limit", no_argument, NULL, 'r' },
	                                      { "no-recursion-limit", no_argument, NULL, 'r' },
	                                      { "section", required_argument, NULL, 'j' },
	                                      { "target", required_argument, NULL, 'b' },
	                                      { "help", no_argument, NULL, 'H' },
	                                      { "version", no_argument, NULL, 'V' },
	                                      { NULL, no_argument, NULL, 0 } };

static void usage(const char *tool, FILE *out)
{
	fprintf(out,
	        "Usage: %s [-aCfips] [-e FILE] [-j SECTION] [ADDRESS...]\n"
	        "sp in the place of GNU addr2line: see 'man sp', sp symbolicate.\n",
	        tool);
}

/* False when the tool must end with *ret_status. */
static bool parse(struct addr2line *tool, int argc, char **argv, int *ret_status)
{
	int c;
	*ret_status = 0;
	while ((c = getopt_long(argc, argv, "ab:Ce:rRsfHhij:pVv", long_options, NULL)) != -1) {
		switch (c) {
		case 'a':
			tool->addresses = true;
			break;
		case 'C':
			tool->demangle = !optarg || strcmp(optarg, "none") != 0;
			break;
		case 'e':
			tool->path = optarg;
			break;
		case 'f':
			tool->functions = true;
			break;
		case 'i':
			tool->inlines = true;
			break;
		case 'j':
			tool->section = optarg;
			break;
		case 'p':
			tool->pretty = true;
			break;
		case 's':
			tool->base_names = true;
			break;
		case 'b': /* the format is told from the file; names are demangled within limits */
		case 'r':
		case 'R':
			break;
		case 'v':
		case 'V':
			printf("%s: sp %s\n", tool->tool, SP_VERSION);
			return false;
		case 'h':
		case 'H':
			usage(tool->tool, stdout);
			return false;
		default:
			usage(tool->tool, stderr);
			*ret_status = 1;
			return false;
		}
	}
	return true;
}

/* Says why the file cannot be used; true when it can. */
static bool check_file(const struct addr2line *tool)
{
	struct stat status;
	fflush(stdout);
	if (stat(tool->path, &status))
		fprintf(stderr, "%s: '%s': No such file\n", tool->tool, tool->path);
	else if (S_ISDIR(status.st_mode))
		fprintf(stderr, "%s: Warning: '%s' is a directory\n", tool->tool, tool->path);
	else if (tool->file->error && tool->file->error->code == SP_ERROR_UNSUPPORTED)
		fprintf(stderr, "%s: %s: file format not recognized\n", tool->tool, tool->path);
	else if (tool->file->error)
		fprintf(stderr, "%s: %s\n", tool->tool, tool->file->error->message);
	else
		return true;
	return false;
}

static bool check_section(struct addr2line *tool)
{
	if (!tool->section)
		return true;
	struct sp_error *error = spsym_section_address(tool->file->module, tool->section, 0, &tool->section_address);
	if (!error)
		return true;
	sp_error_destroy(error);
	fprintf(stderr, "%s: %s: cannot find section %s\n", tool->tool, tool->path, tool->section);
	return false;
}

static struct sp_error *run(struct addr2line *tool, int argc, char **argv, int *ret_status)
{
	struct sp_error *error = sp_peer_files_init(&tool->files);
	if (error)
		return error;
	tool->file = sp_peer_file_get(&tool->files, tool->path);
	if (!tool->file)
		return sp_error_no_memory();
	*ret_status = 1;
	if (!check_file(tool) || !check_section(tool))
		return NULL;
	*ret_status = 0;
	const char *arch = spsym_module_info(tool->file->module)->arch;
	tool->width = !strcmp(arch, "x86") || !strcmp(arch, "arm") ? 8 : 16;
	if (optind >= argc)
		return sp_lines_answer(STDIN_FILENO, ask_line, answer, tool);
	for (int i = optind; i < argc && !error; i++)
		error = ask(tool, argv[i]) ? NULL : sp_error_no_memory();
	return error ? error : answer(tool);
}

int sp_peer_addr2line(int argc, char **argv)
{
	struct addr2line tool = { .tool = argv[0], .path = "a.out" };
	int status;
	if (!parse(&tool, argc, argv, &status))
		return status;
	struct sp_error *error = run(&tool, argc, argv, &status);
	if (error) {
		fprintf(stderr, "%s: %s\n", tool.tool, error->message);
		sp_error_destroy(error);
		status = 1;
	}
	sp_vector_deinit(&tool.asked);
	sp_peer_files_deinit(&tool.files);
	return status;
}
