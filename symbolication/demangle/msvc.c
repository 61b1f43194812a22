/* Names as Visual C++ decorates them, read into a tree within bounds. The grammar is not documented by Microsoft; this
 * follows what LLVM's and Wine's readers and "Visual C++ name mangling" (wikiversity) tell of it.
 *
 * Names and parameter types may be named again by a digit: the first ten of each, and anew inside of a template's
 * arguments. */
#include "symbolication/demangle/msvc.h"

#include "symbolication/demangle/private.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 100, NODES_MAX = 20000, REMEMBERED = 10, DIMENSIONS_MAX = 32, PART_MAX = 4096 };

struct memory {
	struct msvc_node *names[REMEMBERED], *types[REMEMBERED];
	unsigned name_count, type_count;
};

struct reader {
	const char *at, *end;
	struct sp_arena arena;
	struct memory memory;
	unsigned depth, nodes;
	bool failed;
	struct msvc_node nothing; /* what stands for a part that could not be read */
};

/* How qualifiers stand in front of a type. */
enum mode { PLAIN, QUALIFIED, RESULT };

static struct msvc_node *read_type(struct reader *r, enum mode mode);
static struct msvc_node *read_symbol(struct reader *r);
static struct msvc_node *read_name(struct reader *r, bool of_type);

static struct msvc_node *fail(struct reader *r)
{
	r->failed = true;
	r->at = r->end;
	r->nothing = (struct msvc_node){ .kind = MSVC_TEXT, .text = "?", .size = 1 };
	return &r->nothing;
}

static struct msvc_node *make(struct reader *r, enum msvc_kind kind)
{
	struct msvc_node *node = ++r->nodes > NODES_MAX ? NULL : sp_arena_alloc(&r->arena, sizeof(*node));
	if (!node)
		return fail(r);
	*node = (struct msvc_node){ .kind = (uint8_t)kind };
	return node;
}

static struct msvc_node *make_text(struct reader *r, const char *text, size_t size)
{
	struct msvc_node *node = make(r, MSVC_TEXT);
	if (!r->failed) {
		node->text = text;
		node->size = size;
	}
	return node;
}

static struct msvc_node *make_word(struct reader *r, const char *text)
{
	return make_text(r, text, strlen(text));
}

/* A number in readable form. */
static struct msvc_node *make_number(struct reader *r, uint64_t value, bool negative)
{
	char text[32];
	int size = snprintf(text, sizeof(text), "%s%llu", negative ? "-" : "", (unsigned long long)value);
	char *copy = sp_arena_strndup(&r->arena, text, (size_t)size);
	return copy ? make_text(r, copy, (size_t)size) : fail(r);
}

static bool append(struct reader *r, struct msvc_list ***tail, struct msvc_node *node)
{
	struct msvc_list *item = ++r->nodes > NODES_MAX ? NULL : sp_arena_alloc(&r->arena, sizeof(*item));
	if (!item) {
		fail(r);
		return false;
	}
	*item = (struct msvc_list){ .node = node };
	**tail = item;
	*tail = &item->next;
	return true;
}

static bool starts(const struct reader *r, const char *text)
{
	size_t size = strlen(text);
	return (size_t)(r->end - r->at) >= size && memcmp(r->at, text, size) == 0;
}

static bool take(struct reader *r, const char *text)
{
	bool there = starts(r, text);
	if (there)
		r->at += strlen(text);
	return there;
}

static char peek(const struct reader *r)
{
	return r->at < r->end ? *r->at : 0;
}

static char next(struct reader *r)
{
	if (r->at == r->end) {
		fail(r);
		return 0;
	}
	return *r->at++;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool enter(struct reader *r)
{
	if (++r->depth <= DEPTH_MAX)
		return true;
	fail(r);
	return false;
}

/* A digit is one more than it says; else hexadecimal in A to P up to '@'. */
static uint64_t read_number(struct reader *r, bool *ret_negative)
{
	*ret_negative = take(r, "?");
	char c = next(r);
	if (is_digit(c))
		return (uint64_t)(c - '0') + 1;
	uint64_t value = 0;
	for (unsigned i = 0; i < 17; i++, c = next(r)) {
		if (c == '@')
			return value;
		if (c < 'A' || c > 'P')
			break;
		value = value << 4 | (uint64_t)(c - 'A');
	}
	fail(r);
	return 0;
}

static unsigned read_count(struct reader *r, unsigned most)
{
	bool negative;
	uint64_t value = read_number(r, &negative);
	if (negative || value > most) {
		fail(r);
		return 0;
	}
	return (unsigned)value;
}

static void skip_numbers(struct reader *r, unsigned count)
{
	bool negative;
	for (unsigned i = 0; i < count; i++)
		(void)read_number(r, &negative);
}

static bool same_name(const struct msvc_node *a, const struct msvc_node *b)
{
	return a->kind == MSVC_TEXT && b->kind == MSVC_TEXT && a->size == b->size &&
	       memcmp(a->text, b->text, a->size) == 0;
}

static void remember_name(struct reader *r, struct msvc_node *name)
{
	struct memory *m = &r->memory;
	for (unsigned i = 0; i < m->name_count; i++) {
		if (same_name(m->names[i], name))
			return;
	}
	if (m->name_count < REMEMBERED)
		m->names[m->name_count++] = name;
}

static struct msvc_node *recall_name(struct reader *r)
{
	unsigned index = (unsigned)(next(r) - '0');
	return index < r->memory.name_count ? r->memory.names[index] : fail(r);
}

/* Characters up to '@'. */
static struct msvc_node *read_identifier(struct reader *r, bool remember)
{
	const char *end = memchr(r->at, '@', (size_t)(r->end - r->at));
	if (!end || end == r->at)
		return fail(r);
	struct msvc_node *name = make_text(r, r->at, (size_t)(end - r->at));
	r->at = end + 1;
	if (remember && !r->failed)
		remember_name(r, name);
	return name;
}

/* ---- Operators and special functions ---- */

struct code {
	char code;
	const char *name;
};
static const struct code operators[] = {
	{ '2', "operator new" }, { '3', "operator delete" }, { '4', "operator=" },  { '5', "operator>>" },
	{ '6', "operator<<" },   { '7', "operator!" },       { '8', "operator==" }, { '9', "operator!=" },
	{ 'A', "operator[]" },   { 'C', "operator->" },      { 'D', "operator*" },  { 'E', "operator++" },
	{ 'F', "operator--" },   { 'G', "operator-" },       { 'H', "operator+" },  { 'I', "operator&" },
	{ 'J', "operator->*" },  { 'K', "operator/" },       { 'L', "operator%" },  { 'M', "operator<" },
	{ 'N', "operator<=" },   { 'O', "operator>" },       { 'P', "operator>=" }, { 'Q', "operator," },
	{ 'R', "operator()" },   { 'S', "operator~" },       { 'T', "operator^" },  { 'U', "operator|" },
	{ 'V', "operator&&" },   { 'W', "operator||" },      { 'X', "operator*=" }, { 'Y', "operator+=" },
	{ 'Z', "operator-=" },
};
/* Behind an underscore. */
static const struct code special[] = {
	{ '0', "operator/=" },
	{ '1', "operator%=" },
	{ '2', "operator>>=" },
	{ '3', "operator<<=" },
	{ '4', "operator&=" },
	{ '5', "operator|=" },
	{ '6', "operator^=" },
	{ '7', "`vftable'" },
	{ '8', "`vbtable'" },
	{ '9', "`vcall'" },
	{ 'D', "`vbase destructor'" },
	{ 'E', "`vector deleting destructor'" },
	{ 'F', "`default constructor closure'" },
	{ 'G', "`scalar deleting destructor'" },
	{ 'H', "`vector constructor iterator'" },
	{ 'I', "`vector destructor iterator'" },
	{ 'J', "`vector vbase constructor iterator'" },
	{ 'L', "`eh vector constructor iterator'" },
	{ 'M', "`eh vector destructor iterator'" },
	{ 'N', "`eh vector vbase constructor iterator'" },
	{ 'O', "`copy constructor closure'" },
	{ 'S', "`local vftable'" },
	{ 'T', "`local vftable constructor closure'" },
	{ 'U', "operator new[]" },
	{ 'V', "operator delete[]" },
	{ 'X', "`placement delete closure'" },
	{ 'Y', "`placement delete[] closure'" },
};
/* Behind two. */
static const struct code rare[] = {
	{ 'A', "`managed vector constructor iterator'" },
	{ 'B', "`managed vector destructor iterator'" },
	{ 'C', "`eh vector copy constructor iterator'" },
	{ 'D', "`eh vector vbase copy constructor iterator'" },
	{ 'G', "`vector copy constructor iterator'" },
	{ 'H', "`vector vbase copy constructor iterator'" },
	{ 'I', "`managed vector copy constructor iterator'" },
	{ 'L', "operator co_await" },
	{ 'M', "operator<=>" },
};

static struct msvc_node *find_operator(struct reader *r, const struct code *table, size_t count)
{
	char code = next(r);
	for (size_t i = 0; i < count; i++) {
		if (table[i].code == code)
			return make_word(r, table[i].name);
	}
	return fail(r);
}
#define FIND_OPERATOR(r, table) find_operator(r, table, sizeof(table) / sizeof((table)[0]))

/* "`dynamic initializer for 'x''": x is a name, or a variable in full behind another '?'. */
static struct msvc_node *read_dynamic(struct reader *r, const char *what)
{
	struct msvc_node *node = make(r, MSVC_QUOTED), *name;
	if (starts(r, "?")) {
		name = read_symbol(r);
		if (!take(r, "@"))
			return fail(r);
	} else {
		name = read_name(r, true);
		r->at--; /* the name of what is initialized ends with the scope's '@' */
	}
	if (r->failed)
		return fail(r);
	node->text = what;
	node->size = strlen(what);
	node->a = name;
	return node;
}

static struct msvc_node *read_literal_operator(struct reader *r)
{
	static const char prefix[] = "operator \"\"";
	struct msvc_node *name = read_identifier(r, false);
	size_t size = sizeof(prefix) - 1 + name->size;
	char *text = r->failed ? NULL : sp_arena_alloc(&r->arena, size);
	if (!text)
		return fail(r);
	memcpy(text, prefix, sizeof(prefix) - 1);
	memcpy(text + sizeof(prefix) - 1, name->text, name->size);
	return make_text(r, text, size);
}

static struct msvc_node *read_operator(struct reader *r)
{
	if (take(r, "__E"))
		return read_dynamic(r, "`dynamic initializer for '");
	if (take(r, "__F"))
		return read_dynamic(r, "`dynamic atexit destructor for '");
	if (take(r, "__K"))
		return read_literal_operator(r);
	if (take(r, "__"))
		return FIND_OPERATOR(r, rare);
	if (take(r, "_"))
		return FIND_OPERATOR(r, special);
	if (take(r, "0"))
		return make(r, MSVC_CTOR);
	if (take(r, "1"))
		return make(r, MSVC_DTOR);
	if (take(r, "B"))
		return make(r, MSVC_CONVERSION);
	return FIND_OPERATOR(r, operators);
}

/* ---- Names ---- */

static struct msvc_node *read_template_arguments(struct reader *r, struct msvc_node *node);

/* Behind "?$": a name, its arguments, '@'. */
static struct msvc_node *read_template(struct reader *r, bool remember)
{
	struct memory outer = r->memory;
	memset(&r->memory, 0, sizeof(r->memory));
	struct msvc_node *node = make(r, MSVC_TEMPLATE);
	if (!enter(r))
		return node;
	struct msvc_node *name = take(r, "?") ? read_operator(r) : read_identifier(r, true);
	if (!r->failed) {
		node->a = name;
		read_template_arguments(r, node);
	}
	r->depth--;
	r->memory = outer;
	if (r->failed)
		return fail(r);
	if (remember)
		remember_name(r, node);
	return node;
}

/* "?1??f@@YAXXZ@": local to a function, behind the '?'. */
static struct msvc_node *read_local_scope(struct reader *r)
{
	struct msvc_node *node = make(r, MSVC_LOCAL);
	bool negative;
	struct msvc_node *number = make_number(r, read_number(r, &negative), false);
	if (negative || !take(r, "?"))
		return fail(r);
	struct msvc_node *function = read_symbol(r);
	if (r->failed)
		return fail(r);
	node->a = function;
	node->text = number->text;
	node->size = number->size;
	return node;
}

static bool is_local_scope(const struct reader *r)
{
	const char *c = r->at;
	if (c == r->end || *c++ != '?')
		return false;
	if (c < r->end && is_digit(*c))
		return c + 1 < r->end && c[1] == '?';
	/* A number in letters: the first of them is no zero. */
	if (c == r->end || *c < 'B' || *c > 'P')
		return false;
	while (c < r->end && *c >= 'A' && *c <= 'P')
		c++;
	return c + 1 < r->end && c[0] == '@' && c[1] == '?';
}

static struct msvc_node *read_anonymous(struct reader *r)
{
	const char *end = memchr(r->at, '@', (size_t)(r->end - r->at));
	if (!end)
		return fail(r);
	struct msvc_node *name = make_word(r, "`anonymous namespace'");
	r->at = end + 1;
	if (!r->failed)
		remember_name(r, name);
	return name;
}

/* One scope of a name. */
static struct msvc_node *read_scope(struct reader *r)
{
	if (is_digit(peek(r)))
		return recall_name(r);
	if (take(r, "?$"))
		return read_template(r, true);
	if (take(r, "?A"))
		return read_anonymous(r);
	if (is_local_scope(r)) {
		r->at++;
		return read_local_scope(r);
	}
	return read_identifier(r, true);
}

/* The first part of a symbol's name. */
static struct msvc_node *read_first(struct reader *r, bool of_type)
{
	if (is_digit(peek(r)))
		return recall_name(r);
	if (take(r, "?$"))
		return read_template(r, of_type);
	if (!of_type && take(r, "?"))
		return read_operator(r);
	return read_identifier(r, true);
}

/* A name with its scopes, up to the '@' behind the last. */
static struct msvc_node *read_name(struct reader *r, bool of_type)
{
	struct msvc_node *name = make(r, MSVC_NAME);
	if (!enter(r))
		return name;
	struct msvc_list *parts = NULL, **tail = &parts;
	append(r, &tail, read_first(r, of_type));
	for (unsigned i = 0; !r->failed && !take(r, "@"); i++) {
		if (i == PART_MAX || !append(r, &tail, read_scope(r)))
			return fail(r);
	}
	r->depth--;
	if (r->failed)
		return fail(r);
	name->list = parts;
	return name;
}

/* ---- Types ---- */

static const struct code simple_types[] = {
	{ 'X', "void" },        { 'C', "signed char" },    { 'D', "char" },  { 'E', "unsigned char" },
	{ 'F', "short" },       { 'G', "unsigned short" }, { 'H', "int" },   { 'I', "unsigned int" },
	{ 'J', "long" },        { 'K', "unsigned long" },  { 'M', "float" }, { 'N', "double" },
	{ 'O', "long double" },
};
static const struct code long_types[] = {
	{ 'D', "int8_t" },   { 'E', "uint8_t" }, { 'F', "int16_t" },  { 'G', "uint16_t" }, { 'H', "int32_t" },
	{ 'I', "uint32_t" }, { 'J', "int64_t" }, { 'K', "uint64_t" }, { 'L', "int128_t" }, { 'M', "uint128_t" },
	{ 'N', "bool" },     { 'P', "auto" },    { 'Q', "char8_t" },  { 'S', "char16_t" }, { 'T', "decltype(auto)" },
	{ 'U', "char32_t" }, { 'W', "wchar_t" },
};

/* A to D, and Q to T of members. */
static uint8_t read_qualifiers(struct reader *r)
{
	static const uint8_t values[] = { 0, MSVC_CONST, MSVC_VOLATILE, MSVC_CONST | MSVC_VOLATILE };
	char c = next(r);
	if (c >= 'A' && c <= 'D')
		return values[c - 'A'];
	if (c >= 'Q' && c <= 'T')
		return values[c - 'Q'];
	fail(r);
	return 0;
}

/* Of 64 bits, restrict, unaligned: not shown. */
static void skip_extensions(struct reader *r)
{
	while (peek(r) == 'E' || peek(r) == 'I' || peek(r) == 'F')
		r->at++;
}

/* Adds qualifiers; what may be named again stays as it is. */
static struct msvc_node *qualify(struct reader *r, struct msvc_node *type, uint8_t qualifiers)
{
	if (r->failed || !(qualifiers & ~type->qualifiers))
		return type;
	struct msvc_node *copy = make(r, type->kind);
	if (!r->failed) {
		*copy = *type;
		copy->qualifiers |= qualifiers;
	}
	return copy;
}

static struct msvc_node *recall_type(struct reader *r)
{
	unsigned index = (unsigned)(next(r) - '0');
	return index < r->memory.type_count ? r->memory.types[index] : fail(r);
}

/* Parameters up to '@', or 'Z' when more may follow; types of more than one letter are remembered. */
static void read_parameters(struct reader *r, struct msvc_node *function)
{
	struct msvc_list *list = NULL, **tail = &list;
	if (take(r, "X"))
		return;
	while (!r->failed && !take(r, "@")) {
		if (take(r, "Z")) {
			function->variadic = true;
			break;
		}
		struct msvc_node *type;
		if (is_digit(peek(r))) {
			type = recall_type(r);
		} else {
			const char *start = r->at;
			type = read_type(r, PLAIN);
			struct memory *m = &r->memory;
			if (!r->failed && r->at - start > 1 && m->type_count < REMEMBERED)
				m->types[m->type_count++] = type;
		}
		append(r, &tail, type);
	}
	if (!r->failed)
		function->list = list;
}

/* Qualifiers of "this" for methods, calling convention, result, parameters, exceptions. */
static struct msvc_node *read_function(struct reader *r, bool is_method)
{
	struct msvc_node *function = make(r, MSVC_FUNCTION);
	if (!enter(r))
		return function;
	if (is_method) {
		skip_extensions(r);
		if (peek(r) == 'G' || peek(r) == 'H') /* & and && */
			r->at++;
		uint8_t qualifiers = read_qualifiers(r);
		if (!r->failed)
			function->qualifiers = qualifiers;
	}
	char convention = next(r);
	if (!((convention >= 'A' && convention <= 'W') || convention == 'w'))
		return fail(r);
	struct msvc_node *result = take(r, "@") ? NULL : read_type(r, RESULT);
	if (r->failed)
		return fail(r);
	function->a = result;
	read_parameters(r, function);
	if (!take(r, "_E") && !take(r, "Z"))
		return fail(r);
	r->depth--;
	return r->failed ? fail(r) : function;
}

static struct msvc_node *read_class(struct reader *r)
{
	char kind = next(r);
	if (kind == 'W' && next(r) != '4')
		return fail(r);
	struct msvc_node *type = make(r, MSVC_CLASS), *name = read_name(r, true);
	if (r->failed)
		return fail(r);
	type->a = name;
	return type;
}

static struct msvc_node *read_array(struct reader *r)
{
	struct msvc_node *array = make(r, MSVC_ARRAY);
	struct msvc_list *list = NULL, **tail = &list;
	unsigned dimensions = read_count(r, DIMENSIONS_MAX);
	for (unsigned i = 0; i < dimensions && !r->failed; i++) {
		bool negative;
		uint64_t size = read_number(r, &negative);
		append(r, &tail, make_number(r, size, negative));
	}
	uint8_t qualifiers = take(r, "$$C") ? read_qualifiers(r) : 0;
	struct msvc_node *element = read_type(r, PLAIN);
	if (r->failed || !dimensions)
		return fail(r);
	array->list = list;
	array->a = qualify(r, element, qualifiers);
	return array;
}

/* Whether a pointer is one to a member: P8..., or with the qualifiers Q to T. */
static bool is_member_pointer(const struct reader *r)
{
	const char *c = r->at + 1;
	if (c < r->end && is_digit(*c))
		return *c == '8';
	while (c < r->end && (*c == 'E' || *c == 'I' || *c == 'F'))
		c++;
	return c < r->end && *c >= 'Q' && *c <= 'T';
}

static struct msvc_node *read_member_pointer(struct reader *r, struct msvc_node *pointer)
{
	struct msvc_node *class, *target;
	skip_extensions(r);
	if (take(r, "8")) {
		class = read_name(r, true);
		target = read_function(r, true);
	} else {
		uint8_t qualifiers = read_qualifiers(r);
		class = read_name(r, true);
		target = qualify(r, read_type(r, PLAIN), qualifiers);
	}
	if (r->failed)
		return fail(r);
	pointer->a = target;
	pointer->b = class;
	return pointer;
}

static struct msvc_node *read_pointer(struct reader *r)
{
	struct msvc_node *pointer = make(r, MSVC_POINTER);
	bool member = false;
	const char *sign = "*";
	uint8_t qualifiers = 0;
	if (take(r, "$$Q")) {
		sign = "&&";
	} else if (take(r, "$$R")) {
		sign = "&&";
		qualifiers = MSVC_VOLATILE;
	} else {
		member = peek(r) >= 'P' && is_member_pointer(r);
		switch (next(r)) {
		case 'A':
			sign = "&";
			break;
		case 'B':
			sign = "&";
			qualifiers = MSVC_VOLATILE;
			break;
		case 'Q':
			qualifiers = MSVC_CONST;
			break;
		case 'R':
			qualifiers = MSVC_VOLATILE;
			break;
		case 'S':
			qualifiers = MSVC_CONST | MSVC_VOLATILE;
			break;
		default:
			break;
		}
	}
	if (r->failed)
		return pointer;
	pointer->text = sign;
	pointer->qualifiers = qualifiers;
	if (member)
		return read_member_pointer(r, pointer);
	struct msvc_node *target;
	if (take(r, "6")) {
		target = read_function(r, false);
	} else {
		skip_extensions(r);
		target = read_type(r, QUALIFIED);
	}
	if (r->failed)
		return fail(r);
	pointer->a = target;
	return pointer;
}

static struct msvc_node *read_unqualified(struct reader *r)
{
	char c = peek(r);
	if (c >= 'T' && c <= 'W')
		return read_class(r);
	if ((c == 'A' || c == 'B' || (c >= 'P' && c <= 'S')) || starts(r, "$$Q") || starts(r, "$$R"))
		return read_pointer(r);
	if (take(r, "Y"))
		return read_array(r);
	if (take(r, "$$A6"))
		return read_function(r, false);
	if (take(r, "$$A8@@"))
		return read_function(r, true);
	if (take(r, "$$T"))
		return make_word(r, "std::nullptr_t");
	if (take(r, "?")) { /* made up by the compiler */
		struct msvc_node *name = read_identifier(r, true);
		return take(r, "@") ? name : fail(r);
	}
	return take(r, "_") ? FIND_OPERATOR(r, long_types) : FIND_OPERATOR(r, simple_types);
}

static struct msvc_node *read_type(struct reader *r, enum mode mode)
{
	uint8_t qualifiers = 0;
	if (!enter(r))
		return fail(r);
	if (mode == QUALIFIED || (mode == RESULT && take(r, "?")))
		qualifiers = read_qualifiers(r);
	struct msvc_node *type = read_unqualified(r);
	r->depth--;
	if (r->failed)
		return fail(r);
	return qualify(r, type, qualifiers);
}

/* ---- Template arguments ---- */

/* "$1?f@@YAXXZ", also with displacements behind: the address of something. */
static struct msvc_node *read_address(struct reader *r, const char *sign, unsigned numbers)
{
	struct msvc_node *symbol = starts(r, "?") ? read_symbol(r) : make_word(r, "0");
	skip_numbers(r, numbers);
	if (r->failed)
		return fail(r);
	if (symbol->kind == MSVC_SYMBOL) {
		symbol->text = sign;
		symbol->size = strlen(sign);
	}
	return symbol;
}

static struct msvc_node *read_tuple(struct reader *r, unsigned numbers)
{
	char text[128] = "{";
	size_t size = 1;
	for (unsigned i = 0; i < numbers && !r->failed; i++) {
		bool negative;
		uint64_t value = read_number(r, &negative);
		size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%s%llu", i ? ", " : "",
		                         negative ? "-" : "", (unsigned long long)value);
	}
	text[size++] = '}';
	char *copy = sp_arena_strndup(&r->arena, text, size);
	return copy && !r->failed ? make_text(r, copy, size) : fail(r);
}

static struct msvc_node *read_value(struct reader *r)
{
	bool negative;
	uint64_t value;
	switch (next(r)) {
	case '0':
		value = read_number(r, &negative);
		return r->failed ? fail(r) : make_number(r, value, negative);
	case '1':
		return read_address(r, "&", 0);
	case 'E':
		return read_address(r, "", 0);
	case 'F':
		return read_tuple(r, 2);
	case 'G':
		return read_tuple(r, 3);
	case 'H':
		return read_address(r, "&", 1);
	case 'I':
		return read_address(r, "&", 2);
	case 'J':
		return read_address(r, "&", 3);
	case 'M': /* the type of an "auto" parameter, then its value */
		(void)read_type(r, PLAIN);
		return enter(r) ? (r->depth--, read_value(r)) : fail(r);
	default:
		return fail(r);
	}
}

static struct msvc_node *read_argument(struct reader *r)
{
	if (take(r, "$$Y"))
		return read_name(r, true);
	if (take(r, "$$B"))
		return read_type(r, PLAIN);
	if (take(r, "$$C"))
		return read_type(r, QUALIFIED);
	if (starts(r, "$") && !starts(r, "$$")) {
		r->at++;
		return read_value(r);
	}
	return read_type(r, PLAIN);
}

static struct msvc_node *read_template_arguments(struct reader *r, struct msvc_node *node)
{
	struct msvc_list *list = NULL, **tail = &list;
	while (!r->failed && !take(r, "@")) {
		if (take(r, "$$$V") || take(r, "$$V") || take(r, "$$Z") || take(r, "$S"))
			continue; /* empty packs */
		append(r, &tail, read_argument(r));
	}
	node->list = list;
	return node;
}

/* ---- Symbols ---- */

/* The conversion that a symbol names converts to its function's result. */
static void settle_conversion(struct msvc_node *name, const struct msvc_node *function)
{
	struct msvc_node *first = name->list->node;
	if (first->kind == MSVC_TEMPLATE)
		first = first->a;
	if (first->kind == MSVC_CONVERSION)
		first->a = function->a;
}

/* A letter that says access, "static", "virtual" and kind of thunk, then the function's type. */
static struct msvc_node *read_function_symbol(struct reader *r, struct msvc_node *name)
{
	bool is_method = false;
	char kind = next(r);
	if (kind == '$') { /* thunks that adjust "this" through a table */
		bool extended = take(r, "R");
		char which = next(r);
		if (which < '0' || which > '5')
			return NULL;
		skip_numbers(r, extended ? 4 : 2);
		is_method = true;
	} else if (kind == '9') { /* extern "C": no type */
		return NULL;
	} else if (kind >= 'A' && kind <= 'X') {
		unsigned variant = (unsigned)(kind - 'A') % 8 /
		                   2; /* plain, static, virtual, virtual with adjusted "this" */
		is_method = variant != 1;
		if (variant == 3)
			skip_numbers(r, 1);
	} else if (kind != 'Y' && kind != 'Z') {
		fail(r);
		return NULL;
	}
	struct msvc_node *function = read_function(r, is_method);
	if (!r->failed)
		settle_conversion(name, function);
	return function;
}

static bool is_table(const struct msvc_node *name)
{
	const struct msvc_node *first = name->list->node;
	return first->kind == MSVC_TEXT && first->size > 3 && first->text[0] == '`' && first->text[1] == 'v' &&
	       (first->text[2] == 'f' || first->text[2] == 'b') && first->text[3] == 't';
}

/* What follows the name of a variable, a table or a thunk without type. */
static void skip_data(struct reader *r, const struct msvc_node *name)
{
	if (take(r, "$B")) { /* `vcall': displacement, near or far, calling convention */
		skip_numbers(r, 1);
		(void)next(r);
		(void)next(r);
		return;
	}
	if (is_table(name)) {
		char kind = next(r);
		if (kind != '6' && kind != '7')
			fail(r);
		(void)read_qualifiers(r);
		while (!r->failed && !take(r, "@"))
			(void)read_name(r, true);
		return;
	}
	char kind = next(r);
	if (kind >= '0' && kind <= '4') {
		(void)read_type(r, PLAIN);
		skip_extensions(r);
		(void)read_qualifiers(r);
		if (peek(r) != '@' && peek(r) != '.' && r->at < r->end) /* the class of a member pointer */
			(void)read_name(r, true);
	} else if (kind != '8' && kind != '9') {
		fail(r);
	}
}

/* A whole symbol, from its '?' on. */
static struct msvc_node *read_symbol(struct reader *r)
{
	struct msvc_node *symbol = make(r, MSVC_SYMBOL);
	if (!enter(r) || !take(r, "?"))
		return fail(r);
	struct msvc_node *name = read_name(r, false);
	if (r->failed)
		return fail(r);
	(void)take(r, "$$J0"); /* extern "C" */
	char c = peek(r);
	bool is_function = (c >= 'A' && c <= 'Z') || c == '9' || (c == '$' && !starts(r, "$B"));
	struct msvc_node *function = NULL;
	if (is_function)
		function = read_function_symbol(r, name);
	else
		skip_data(r, name);
	r->depth--;
	if (r->failed)
		return fail(r);
	symbol->a = name;
	symbol->b = function;
	return symbol;
}

bool sp_demangle_msvc(const char *name, size_t length, struct sp_buffer *out)
{
	struct reader r = { .at = name, .end = name + length };
	size_t before = out->size;
	if (length < 3 || name[0] != '?' || strncmp(name, "??@", 3) == 0 || strncmp(name, "??_C@", 5) == 0)
		return false; /* hashed names and strings say nothing */
	const struct msvc_node *symbol = read_symbol(&r);
	bool ok = !r.failed && (r.at == r.end || *r.at == '.') && msvc_print(symbol, out, SP_DEMANGLE_OUTPUT_LIMIT);
	if (ok && r.at < r.end) { /* a part that the compiler has split off */
		struct sp_error *error = sp_buffer_write(out, r.at, (size_t)(r.end - r.at));
		ok = !error;
		sp_error_destroy(error);
	}
	if (!ok)
		out->size = before;
	sp_arena_deinit(&r.arena);
	return ok;
}
