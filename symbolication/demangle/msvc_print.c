/* Writes names of Visual C++ as samply does: no result, access, "static", "virtual", calling convention or "class"; a
 * blank behind commas, none before '*' and '&'. */
#include "symbolication/demangle/msvc.h"

#include <string.h>

enum { DEPTH_MAX = 200, STEPS_MAX = 100000 };

struct printer {
	struct sp_buffer *out;
	size_t limit; /* of out->size */
	unsigned depth, steps;
	bool failed;
};

static void put_bytes(struct printer *p, const char *text, size_t size)
{
	if (p->failed || size > p->limit - p->out->size) {
		p->failed = true;
		return;
	}
	struct sp_error *error = sp_buffer_write(p->out, text, size);
	p->failed = error != NULL;
	sp_error_destroy(error);
}

static void put(struct printer *p, const char *text)
{
	put_bytes(p, text, strlen(text));
}

static void put_qualifiers(struct printer *p, const struct msvc_node *type)
{
	if (type->qualifiers & MSVC_CONST)
		put(p, " const");
	if (type->qualifiers & MSVC_VOLATILE)
		put(p, " volatile");
}

static void put_node(struct printer *p, const struct msvc_node *node);

static void put_list(struct printer *p, const struct msvc_list *list)
{
	for (const struct msvc_list *l = list; l && !p->failed; l = l->next) {
		if (l != list)
			put(p, ", ");
		put_node(p, l->node);
	}
}

static void put_template(struct printer *p, const struct msvc_node *node)
{
	put_node(p, node->a);
	put(p, "<");
	put_list(p, node->list);
	put(p, !p->failed && p->out->bytes[p->out->size - 1] == '>' ? " >" : ">");
}

static bool is_member_of_nothing(const struct msvc_list *part)
{
	return part->node->kind == MSVC_CTOR || part->node->kind == MSVC_DTOR;
}

/* The parts of a name, outermost first. */
static void put_parts(struct printer *p, const struct msvc_list *part)
{
	if (!part || p->failed)
		return;
	if (++p->depth > DEPTH_MAX) {
		p->failed = true;
		return;
	}
	if (part->next) {
		put_parts(p, part->next);
		put(p, "::");
	}
	if (is_member_of_nothing(part)) {
		if (part->node->kind == MSVC_DTOR)
			put(p, "~");
		if (part->next && !is_member_of_nothing(part->next))
			put_node(p, part->next->node);
	} else {
		put_node(p, part->node);
	}
	p->depth--;
}

static bool goes_around(const struct msvc_node *type)
{
	return type->kind == MSVC_FUNCTION || type->kind == MSVC_ARRAY;
}

static void put_parameters(struct printer *p, const struct msvc_node *function)
{
	put(p, "(");
	put_list(p, function->list);
	if (function->variadic)
		put(p, function->list ? ", ..." : "...");
	else if (!function->list)
		put(p, "void");
	put(p, ")");
}

/* A type is written in two parts, around what it is the type of. */
static void put_before(struct printer *p, const struct msvc_node *type)
{
	if (!type || p->failed)
		return;
	if (++p->depth > DEPTH_MAX || ++p->steps > STEPS_MAX) {
		p->failed = true;
		return;
	}
	switch (type->kind) {
	case MSVC_POINTER:
		put_before(p, type->a);
		if (goes_around(type->a))
			put(p, " (");
		if (type->b) {
			if (!goes_around(type->a))
				put(p, " ");
			put_node(p, type->b);
			put(p, "::");
		}
		put(p, type->text);
		put_qualifiers(p, type);
		break;
	case MSVC_FUNCTION:
	case MSVC_ARRAY:
		put_before(p, type->a);
		break;
	case MSVC_CLASS:
		put_node(p, type->a);
		put_qualifiers(p, type);
		break;
	default:
		put_bytes(p, type->text, type->size);
		put_qualifiers(p, type);
		break;
	}
	p->depth--;
}

static void put_after(struct printer *p, const struct msvc_node *type)
{
	if (!type || p->failed || ++p->depth > DEPTH_MAX) {
		p->failed |= p->depth > DEPTH_MAX;
		return;
	}
	if (type->kind == MSVC_POINTER) {
		if (goes_around(type->a))
			put(p, ")");
		put_after(p, type->a);
	} else if (type->kind == MSVC_FUNCTION) {
		put_parameters(p, type);
		put_qualifiers(p, type);
		put_after(p, type->a);
	} else if (type->kind == MSVC_ARRAY) {
		for (const struct msvc_list *l = type->list; l; l = l->next) {
			put(p, "[");
			put_node(p, l->node);
			put(p, "]");
		}
		put_after(p, type->a);
	}
	p->depth--;
}

static void put_type(struct printer *p, const struct msvc_node *type)
{
	put_before(p, type);
	if (type->kind == MSVC_FUNCTION)
		put(p, " ");
	put_after(p, type);
}

static void put_symbol(struct printer *p, const struct msvc_node *symbol)
{
	if (symbol->text) /* the '&' of a template's argument */
		put_bytes(p, symbol->text, symbol->size);
	put_node(p, symbol->a);
	if (symbol->b)
		put_parameters(p, symbol->b);
}

static void put_node(struct printer *p, const struct msvc_node *node)
{
	if (p->failed)
		return;
	if (++p->depth > DEPTH_MAX || ++p->steps > STEPS_MAX) {
		p->failed = true;
		return;
	}
	switch (node->kind) {
	case MSVC_TEXT:
		put_bytes(p, node->text, node->size);
		put_qualifiers(p, node);
		break;
	case MSVC_TEMPLATE:
		put_template(p, node);
		break;
	case MSVC_NAME:
		put_parts(p, node->list);
		break;
	case MSVC_CONVERSION:
		put(p, "operator ");
		if (node->a)
			put_type(p, node->a);
		break;
	case MSVC_QUOTED:
		put_bytes(p, node->text, node->size);
		put_node(p, node->a);
		put(p, "''");
		break;
	case MSVC_LOCAL:
		put(p, "`");
		put_node(p, node->a);
		put(p, "'::`");
		put_bytes(p, node->text, node->size);
		put(p, "'");
		break;
	case MSVC_SYMBOL:
		put_symbol(p, node);
		break;
	case MSVC_CTOR:
	case MSVC_DTOR:
		break; /* without a class around it */
	default:
		put_type(p, node);
		break;
	}
	p->depth--;
}

bool msvc_print(const struct msvc_node *symbol, struct sp_buffer *out, size_t limit)
{
	struct printer p = { .out = out, .limit = out->size + limit };
	put_node(&p, symbol);
	return !p.failed;
}
