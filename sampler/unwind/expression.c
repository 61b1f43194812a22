/* DWARF expressions as call frame information uses them (DWARF 5 sections 2.5 and 6.4.2).
 *
 * A stack machine over 64-bit words. Operations that need a debugging entry, a frame base or a location description
 * have no place in CFI and are refused. Both the stack and the number of steps are bounded, since branches can loop. */
#include "internal.h"

enum {
	OP_ADDR = 0x03,
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S,
	OP_CONST2U,
	OP_CONST2S,
	OP_CONST4U,
	OP_CONST4S,
	OP_CONST8U,
	OP_CONST8S,
	OP_CONSTU,
	OP_CONSTS,
	OP_DUP,
	OP_DROP,
	OP_OVER,
	OP_PICK,
	OP_SWAP,
	OP_ROT,
	OP_ABS = 0x19,
	OP_AND,
	OP_DIV,
	OP_MINUS,
	OP_MOD,
	OP_MUL,
	OP_NEG,
	OP_NOT,
	OP_OR,
	OP_PLUS,
	OP_PLUS_UCONST,
	OP_SHL,
	OP_SHR,
	OP_SHRA,
	OP_XOR,
	OP_BRA,
	OP_EQ,
	OP_GE,
	OP_GT,
	OP_LE,
	OP_LT,
	OP_NE,
	OP_SKIP,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
	OP_DEREF_SIZE = 0x94,
	OP_NOP = 0x96,
};

struct evaluation {
	const struct expression_context *context;
	struct sp_cursor cursor;
	uint64_t stack[EXPRESSION_STACK];
	size_t depth;
	bool failed;
};

static void push(struct evaluation *e, uint64_t value)
{
	if (e->depth == EXPRESSION_STACK)
		e->failed = true;
	else
		e->stack[e->depth++] = value;
}

static uint64_t pop(struct evaluation *e)
{
	if (e->depth == 0) {
		e->failed = true;
		return 0;
	}
	return e->stack[--e->depth];
}

/* The value `index` below the top. */
static uint64_t peek(struct evaluation *e, size_t index)
{
	if (index >= e->depth) {
		e->failed = true;
		return 0;
	}
	return e->stack[e->depth - 1 - index];
}

static void push_register(struct evaluation *e, uint64_t reg, int64_t offset)
{
	uint64_t value = 0;
	if (reg >= SP_REGS_MAX || !e->context->read_register(e->context->walk, (unsigned)reg, &value))
		e->failed = true;
	push(e, value + (uint64_t)offset);
}

static void dereference(struct evaluation *e, unsigned size)
{
	uint64_t value = 0, address = pop(e);
	if (!size || size > 8 || e->failed || !e->context->read_memory(e->context->walk, address, &value))
		e->failed = true;
	push(e, size < 8 ? value & (((uint64_t)1 << 8 * size) - 1) : value);
}

static void branch(struct evaluation *e, bool taken)
{
	int64_t distance = (int16_t)sp_cursor_u16(&e->cursor);
	int64_t target = (int64_t)sp_cursor_offset(&e->cursor) + distance;
	if (target < 0)
		e->failed = true;
	else if (taken)
		sp_cursor_seek(&e->cursor, (uint64_t)target);
}

static bool run_constant(struct evaluation *e, uint8_t operation)
{
	struct sp_cursor *c = &e->cursor;
	if (operation >= OP_LIT0 && operation <= OP_LIT31) {
		push(e, operation - OP_LIT0);
		return true;
	}
	switch (operation) {
	case OP_CONST1U:
		push(e, sp_cursor_u8(c));
		return true;
	case OP_CONST1S:
		push(e, (uint64_t)(int8_t)sp_cursor_u8(c));
		return true;
	case OP_CONST2U:
		push(e, sp_cursor_u16(c));
		return true;
	case OP_CONST2S:
		push(e, (uint64_t)(int16_t)sp_cursor_u16(c));
		return true;
	case OP_CONST4U:
		push(e, sp_cursor_u32(c));
		return true;
	case OP_CONST4S:
		push(e, (uint64_t)(int32_t)sp_cursor_u32(c));
		return true;
	case OP_ADDR:
	case OP_CONST8U:
	case OP_CONST8S:
		push(e, sp_cursor_u64(c));
		return true;
	case OP_CONSTU:
		push(e, sp_cursor_uleb(c));
		return true;
	case OP_CONSTS:
		push(e, (uint64_t)sp_cursor_sleb(c));
		return true;
	default:
		return false;
	}
}

static bool run_stack(struct evaluation *e, uint8_t operation)
{
	uint64_t a, b, c;
	switch (operation) {
	case OP_DUP:
		push(e, peek(e, 0));
		return true;
	case OP_DROP:
		(void)pop(e);
		return true;
	case OP_OVER:
		push(e, peek(e, 1));
		return true;
	case OP_PICK:
		push(e, peek(e, sp_cursor_u8(&e->cursor)));
		return true;
	case OP_SWAP:
		a = pop(e);
		b = pop(e);
		push(e, a);
		push(e, b);
		return true;
	case OP_ROT:
		a = pop(e);
		b = pop(e);
		c = pop(e);
		push(e, a);
		push(e, c);
		push(e, b);
		return true;
	default:
		return false;
	}
}

static bool run_unary(struct evaluation *e, uint8_t operation)
{
	switch (operation) {
	case OP_ABS: {
		int64_t value = (int64_t)pop(e);
		push(e, value < 0 ? -(uint64_t)value : (uint64_t)value);
		return true;
	}
	case OP_NEG:
		push(e, -pop(e));
		return true;
	case OP_NOT:
		push(e, ~pop(e));
		return true;
	case OP_PLUS_UCONST: {
		uint64_t addend = sp_cursor_uleb(&e->cursor);
		push(e, pop(e) + addend);
		return true;
	}
	case OP_DEREF:
		dereference(e, 8);
		return true;
	case OP_DEREF_SIZE:
		dereference(e, sp_cursor_u8(&e->cursor));
		return true;
	default:
		return false;
	}
}

/* left OP right. False for an unknown operation or a division by zero. */
static bool combine(uint8_t operation, uint64_t left, uint64_t right, uint64_t *ret)
{
	int64_t sleft = (int64_t)left, sright = (int64_t)right;
	switch (operation) {
	case OP_AND:
		*ret = left & right;
		return true;
	case OP_DIV:
		if (right == 0 || (right == UINT64_MAX && sleft == INT64_MIN))
			return false;
		*ret = (uint64_t)(sleft / sright);
		return true;
	case OP_MINUS:
		*ret = left - right;
		return true;
	case OP_MOD:
		if (right == 0)
			return false;
		*ret = left % right;
		return true;
	case OP_MUL:
		*ret = left * right;
		return true;
	case OP_OR:
		*ret = left | right;
		return true;
	case OP_PLUS:
		*ret = left + right;
		return true;
	case OP_SHL:
		*ret = right < 64 ? left << right : 0;
		return true;
	case OP_SHR:
		*ret = right < 64 ? left >> right : 0;
		return true;
	case OP_SHRA:
		*ret = (uint64_t)(sleft >> (right < 64 ? right : 63));
		return true;
	case OP_XOR:
		*ret = left ^ right;
		return true;
	case OP_EQ:
		*ret = left == right;
		return true;
	case OP_GE:
		*ret = sleft >= sright;
		return true;
	case OP_GT:
		*ret = sleft > sright;
		return true;
	case OP_LE:
		*ret = sleft <= sright;
		return true;
	case OP_LT:
		*ret = sleft < sright;
		return true;
	case OP_NE:
		*ret = left != right;
		return true;
	default:
		return false;
	}
}

static void run_operation(struct evaluation *e, uint8_t operation)
{
	if (operation >= OP_BREG0 && operation <= OP_BREG31) {
		push_register(e, operation - OP_BREG0, sp_cursor_sleb(&e->cursor));
	} else if (operation == OP_BREGX) {
		uint64_t reg = sp_cursor_uleb(&e->cursor);
		push_register(e, reg, sp_cursor_sleb(&e->cursor));
	} else if (operation == OP_SKIP) {
		branch(e, true);
	} else if (operation == OP_BRA) {
		branch(e, pop(e) != 0);
	} else if (operation != OP_NOP && !run_constant(e, operation) && !run_stack(e, operation) &&
	           !run_unary(e, operation)) {
		uint64_t right = pop(e), left = pop(e), result = 0;
		if (!combine(operation, left, right, &result))
			e->failed = true;
		push(e, result);
	}
}

bool expression_evaluate(const struct expression_context *context, const uint8_t *bytes, size_t size, bool has_initial,
                         uint64_t initial, uint64_t *ret)
{
	struct evaluation e = { .context = context, .cursor = sp_cursor_init(bytes, size) };
	if (has_initial)
		push(&e, initial);
	for (unsigned steps = 0; e.cursor.at < e.cursor.end; steps++) {
		if (steps == EXPRESSION_MAX_STEPS)
			return false;
		run_operation(&e, sp_cursor_u8(&e.cursor));
		if (e.failed || e.cursor.bad)
			return false;
	}
	*ret = pop(&e);
	return !e.failed && !e.cursor.bad;
}
