/* Reads and keeps the kernel's own symbol list. Its lines are "address type name" with "\t[module]" behind symbols of
 * modules; types t and w (either case) are code. Sizes are not given: a symbol ends where the next one starts. */
#include "symbolication/kallsyms.h"

#include "common/cursor.h"
#include "common/json.h"
#include "common/vector.h"
#include "symbolication/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "# sp-kallsyms 1 "
enum { PAGE = 4096, NAME_LIMIT = 1024, FIELD_LIMIT = 160 };

/* One line, its parts still inside the text. */
struct line {
	uint64_t address;
	char type;
	const char *name, *module; /* module without brackets; NULL = the kernel */
	size_t name_length, module_length;
};

static int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes up to 16 hex digits; false when there is none. */
static bool take_hex(struct sp_cursor *c, uint64_t *ret)
{
	unsigned digits = 0;
	*ret = 0;
	while (sp_cursor_left(c) && hex_digit(*c->at) >= 0 && digits < 16) {
		*ret = *ret << 4 | (uint64_t)hex_digit(*c->at++);
		digits++;
	}
	return digits > 0;
}

/* The bytes of the next line without its newline; false at the end. */
static bool next_line(struct sp_cursor *text, struct sp_cursor *ret)
{
	if (!sp_cursor_left(text))
		return false;
	const uint8_t *newline = memchr(text->at, '\n', sp_cursor_left(text));
	size_t length = newline ? (size_t)(newline - text->at) : sp_cursor_left(text);
	*ret = sp_cursor_init(text->at, length);
	sp_cursor_skip(text, length + (newline != NULL));
	return true;
}

static bool parse_line(struct sp_cursor c, struct line *ret)
{
	*ret = (struct line){ 0 };
	if (!take_hex(&c, &ret->address) || sp_cursor_u8(&c) != ' ')
		return false;
	ret->type = (char)sp_cursor_u8(&c);
	if (sp_cursor_u8(&c) != ' ' || c.bad)
		return false;
	ret->name = (const char *)c.at;
	while (sp_cursor_left(&c) && *c.at != '\t' && *c.at != ' ' && *c.at)
		c.at++;
	ret->name_length = (size_t)((const char *)c.at - ret->name);
	while (sp_cursor_left(&c) && (*c.at == '\t' || *c.at == ' '))
		c.at++;
	const uint8_t *close = sp_cursor_left(&c) ? memchr(c.at, ']', sp_cursor_left(&c)) : NULL;
	if (close && *c.at == '[') {
		ret->module = (const char *)c.at + 1;
		ret->module_length = (size_t)(close - c.at) - 1;
	}
	return ret->name_length > 0 && ret->name_length <= NAME_LIMIT;
}

static bool is_code(const struct line *line)
{
	return line->type == 't' || line->type == 'T' || line->type == 'w' || line->type == 'W';
}

static bool named(const struct line *line, const char *name)
{
	return line->name_length == strlen(name) && memcmp(line->name, name, line->name_length) == 0;
}

/* Labels of the linker script end the code in front of them and name nothing. */
static bool is_end_label(const struct line *line)
{
	return named(line, "_etext") || named(line, "_einittext") || named(line, "__init_end") ||
	       named(line, "__entry_text_end") || named(line, "__irqentry_text_end");
}

static bool is_start_label(const struct line *line)
{
	return named(line, "_text") || named(line, "_stext") || named(line, "_sinittext") || named(line, "_head");
}

static bool of_image(const struct line *line, const char *module)
{
	if (!module || !line->module)
		return !module && !line->module;
	return line->module_length == strlen(module) && memcmp(line->module, module, line->module_length) == 0;
}

/* The base of the kernel, 0 when there is none; *ret_hidden when every address is zero. */
static uint64_t find_base(const void *text, size_t size, bool *ret_hidden)
{
	struct sp_cursor all = sp_cursor_init(text, size), bytes;
	uint64_t text_address = 0, stext_address = 0;
	struct line line;
	bool hidden = true, any = false;
	while (next_line(&all, &bytes)) {
		if (!parse_line(bytes, &line))
			continue;
		any = true;
		hidden = hidden && !line.address;
		if (!line.module && !text_address && named(&line, "_text"))
			text_address = line.address;
		else if (!line.module && !stext_address && named(&line, "_stext"))
			stext_address = line.address;
	}
	*ret_hidden = any && hidden;
	return text_address ? text_address : stext_address;
}

static struct sp_error *write_header(struct sp_buffer *out, const struct sp_kallsyms_image *image, uint64_t base)
{
	char text[64 + 2 * SPSYM_ID_MAX];
	int used = snprintf(text, sizeof(text), HEADER "base=%llx build-id=", (unsigned long long)base);
	for (size_t i = 0; i < image->build_id_size && i < SPSYM_ID_MAX / 2; i++)
		used += snprintf(text + used, sizeof(text) - (size_t)used, "%02x", image->build_id[i]);
	used += snprintf(text + used, sizeof(text) - (size_t)used, " arch=%s%s\n", image->arch ? image->arch : "",
	                 image->big_endian ? " big-endian" : "");
	return sp_buffer_write(out, text, (size_t)used);
}

struct sp_error *sp_kallsyms_make(const char *text, size_t size, const struct sp_kallsyms_image *image, char **ret,
                                  size_t *ret_size, uint64_t *ret_base)
{
	bool hidden;
	uint64_t base = find_base(text, size, &hidden);
	if (hidden)
		return sp_error_create(SP_ERROR_PERMISSION, "the kernel hides the addresses of its symbols "
		                                            "(kernel.kptr_restrict, kernel.perf_event_paranoid)");
	if (image->base)
		base = image->base;
	if (!base)
		return sp_error_create(SP_ERROR_NOT_FOUND, "no _text or _stext among the kernel's symbols");
	struct sp_buffer out = { 0 };
	struct sp_error *error = write_header(&out, image, base);
	struct sp_cursor all = sp_cursor_init(text, size), bytes;
	struct line line;
	size_t header_size = out.size;
	while (!error && next_line(&all, &bytes)) {
		if (!parse_line(bytes, &line) || !of_image(&line, image->module) ||
		    !(is_code(&line) || is_end_label(&line)))
			continue;
		/* Without the "[module]". */
		size_t length = (size_t)(line.name + line.name_length - (const char *)bytes.start);
		error = sp_buffer_write(&out, bytes.start, length);
		if (!error)
			error = sp_buffer_write(&out, "\n", 1);
	}
	if (!error && out.size == header_size)
		error = sp_error_create(SP_ERROR_NOT_FOUND, "the kernel lists no symbols of %s",
		                        image->module ? image->module : "itself");
	if (error) {
		free(out.bytes);
		return error;
	}
	*ret = out.bytes;
	*ret_size = out.size;
	if (ret_base)
		*ret_base = base;
	return NULL;
}

bool sp_kallsyms_probe(const void *bytes, size_t size)
{
	struct sp_cursor all = sp_cursor_init(bytes, size < 4096 ? size : 4096), first;
	struct line line;
	if (size >= sizeof(HEADER) - 1 && memcmp(bytes, HEADER, sizeof(HEADER) - 1) == 0)
		return true;
	/* "0000000000000000 A fixed_percpu_data": the address has 8 or 16 digits. */
	if (!next_line(&all, &first) || !parse_line(first, &line))
		return false;
	size_t digits = (size_t)(line.name - (const char *)first.start) - 3;
	return digits == 8 || digits == 16;
}

/* The value behind "key=" in the header line, cut at a blank. */
static bool header_field(const char *header, const char *key, char *ret, size_t size)
{
	const char *at = strstr(header, key);
	if (!at)
		return false;
	at += strlen(key);
	size_t length = strcspn(at, " ");
	if (length >= size)
		return false;
	memcpy(ret, at, length);
	ret[length] = 0;
	return true;
}

static void parse_header(struct sp_cursor bytes, struct spsym_file_info *info)
{
	char header[4 * FIELD_LIMIT] = "", field[FIELD_LIMIT];
	size_t length = sp_cursor_left(&bytes) < sizeof(header) - 1 ? sp_cursor_left(&bytes) : sizeof(header) - 1;
	memcpy(header, bytes.start, length);
	if (header_field(header, " base=", field, sizeof(field)))
		info->base = strtoull(field, NULL, 16);
	if (header_field(header, " arch=", field, sizeof(info->arch)))
		memcpy(info->arch, field, sizeof(info->arch));
	if (!header_field(header, " build-id=", field, sizeof(info->code_id)) || !field[0])
		return;
	uint8_t id[SPSYM_ID_MAX / 2];
	size_t size = 0;
	while (size < sizeof(id) && field[2 * size] && field[2 * size + 1]) {
		int high = hex_digit((uint8_t)field[2 * size]), low = hex_digit((uint8_t)field[2 * size + 1]);
		if (high < 0 || low < 0)
			return;
		id[size++] = (uint8_t)(high << 4 | low);
	}
	memcpy(info->code_id, field, sizeof(info->code_id));
	spsym_debug_id_from_build_id(id, size, strstr(header, " big-endian") != NULL, info->debug_id);
}

/* What is collected before sorting: a name, or NULL for an end. */
typedef SP_VECTOR(struct sp_symbol) symbol_vector;

static struct sp_error *collect(struct sp_cursor text, struct sp_arena *names, symbol_vector *symbols)
{
	struct sp_cursor bytes;
	struct line line;
	while (next_line(&text, &bytes)) {
		if (!parse_line(bytes, &line) || !line.address || !(is_code(&line) || is_end_label(&line)))
			continue;
		struct sp_symbol symbol = { .address = line.address, .binding = line.type < 'a' };
		if (is_start_label(&line))
			symbol.binding = UINT8_MAX; /* only for want of another name */
		if (!is_end_label(&line)) {
			size_t length = line.name_length + (line.module ? line.module_length + 3 : 0);
			char *name = sp_arena_alloc(names, length + 1);
			if (!name)
				return sp_error_no_memory();
			memcpy(name, line.name, line.name_length);
			if (line.module)
				snprintf(name + line.name_length, line.module_length + 4, " [%.*s]",
				         (int)line.module_length, line.module);
			else
				name[length] = 0;
			symbol.name = name;
		}
		if (!sp_vector_push(symbols, symbol))
			return sp_error_no_memory();
	}
	return NULL;
}

/* Sorts by address and gives each symbol the size up to the next address. */
static struct sp_error *arrange(const symbol_vector *symbols, struct sp_symbols *ret)
{
	struct sp_keyed *order = malloc((symbols->count + 1) * sizeof(*order));
	ret->items = malloc((symbols->count + 1) * sizeof(*ret->items));
	if (!order || !ret->items) {
		free(order);
		return sp_error_no_memory();
	}
	for (size_t i = 0; i < symbols->count; i++)
		order[i] = (struct sp_keyed){ symbols->items[i].address, i };
	if (!sp_sort_keyed(order, symbols->count)) {
		free(order);
		return sp_error_no_memory();
	}
	for (size_t i = 0; i < symbols->count;) {
		size_t next = i;
		while (next < symbols->count && order[next].key == order[i].key)
			next++;
		uint64_t address = order[i].key;
		uint64_t end = next < symbols->count ? order[next].key : (address + PAGE) & -(uint64_t)PAGE;
		for (unsigned pass = 0; pass < 2; pass++) { /* start labels behind the others */
			for (size_t j = i; j < next; j++) {
				struct sp_symbol symbol = symbols->items[order[j].value];
				bool label = symbol.binding == UINT8_MAX;
				if (!symbol.name || label != (pass == 1))
					continue;
				symbol.size = end - address;
				symbol.binding = label ? 1 : symbol.binding;
				ret->items[ret->count++] = symbol;
			}
		}
		i = next;
	}
	free(order);
	return NULL;
}

struct sp_error *sp_kallsyms_read(const void *bytes, size_t size, struct sp_symbols *ret, struct spsym_file_info *info)
{
	*ret = (struct sp_symbols){ 0 };
	*info = (struct spsym_file_info){ .kind = SPSYM_KIND_KALLSYMS, .has_symbols = true };
	struct sp_cursor text = sp_cursor_init(bytes, size), first;
	bool hidden = false;
	if (size >= sizeof(HEADER) - 1 && memcmp(bytes, HEADER, sizeof(HEADER) - 1) == 0) {
		next_line(&text, &first);
		parse_header(first, info);
	} else {
		info->base = find_base(bytes, size, &hidden);
	}
	if (hidden)
		return sp_error_create(SP_ERROR_PERMISSION, "the kernel hid the addresses of its symbols");
	symbol_vector symbols = { 0 };
	struct sp_error *error = collect(text, &ret->names, &symbols);
	if (!error)
		error = arrange(&symbols, ret);
	sp_vector_deinit(&symbols);
	if (error)
		sp_symbols_deinit(ret);
	return error;
}
