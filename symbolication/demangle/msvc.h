/* The parts of a name as Visual C++ decorates it: made by msvc.c, written out by msvc_print.c. */
#ifndef SP_SYMBOLICATION_DEMANGLE_MSVC_H
#define SP_SYMBOLICATION_DEMANGLE_MSVC_H

#include "common/arena.h"
#include "common/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum msvc_kind {
	MSVC_TEXT,     /* text: an identifier, an operator, a simple type, a number */
	MSVC_TEMPLATE, /* a: name, list: arguments */
	MSVC_NAME,     /* list: innermost part first */
	MSVC_CTOR,     /* named as the class that it is in */
	MSVC_DTOR,
	MSVC_CONVERSION, /* a: the type, once it is known */
	MSVC_QUOTED,     /* text, a, two quotes: "`dynamic initializer for 'x''" */
	MSVC_LOCAL,      /* a: the function that it is in, text: a number */
	MSVC_SYMBOL,     /* a: name, b: function type or NULL; text: what stands before it, or NULL */
	MSVC_CLASS,      /* a type; a: its name */
	MSVC_POINTER,    /* text: the sign; a: what it points to, b: class of a member pointer or NULL */
	MSVC_FUNCTION,   /* a: result or NULL, list: parameters */
	MSVC_ARRAY,      /* a: element, list: dimensions */
};

enum { MSVC_CONST = 1, MSVC_VOLATILE = 2 };

struct msvc_list;

struct msvc_node {
	uint8_t kind;       /* enum msvc_kind */
	uint8_t qualifiers; /* of types: MSVC_CONST, MSVC_VOLATILE */
	bool variadic;      /* of functions */
	const char *text;
	size_t size;
	struct msvc_node *a, *b;
	struct msvc_list *list;
};

/* Nodes that are named again stand in several lists. */
struct msvc_list {
	struct msvc_node *node;
	struct msvc_list *next;
};

/* Appends the readable form of a MSVC_SYMBOL; false when it is too large or without memory. */
bool msvc_print(const struct msvc_node *symbol, struct sp_buffer *out, size_t limit);

#endif
