/* Disassembly with capstone (4 and 5): instruction texts in each syntax of the architecture, and branch targets. */
#include "internal.h"

#include "capstone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct machine {
	const char *arch;     /* as spsym_file_info names it */
	const char *api_arch; /* as asm/v1 names it */
	cs_arch cs;
	cs_mode mode;
	unsigned step;         /* where instructions may begin: multiples of this */
	const char *syntax[2]; /* names; the second NULL when there is one */
	size_t second;         /* CS_OPT_SYNTAX_ of the second */
};

static const struct machine machines[] = {
	{ "x86_64", "x86_64", CS_ARCH_X86, CS_MODE_64, 1, { "Intel", "AT&T" }, CS_OPT_SYNTAX_ATT },
	{ "x86", "i686", CS_ARCH_X86, CS_MODE_32, 1, { "Intel", "AT&T" }, CS_OPT_SYNTAX_ATT },
	{ "arm64", "aarch64", CS_ARCH_ARM64, CS_MODE_ARM, 4, { "ARM", NULL }, 0 },
	{ "arm", "arm", CS_ARCH_ARM, CS_MODE_THUMB, 2, { "ARM (Thumb)", NULL }, 0 },
};
/* The same architecture's other instruction set. */
static const struct machine machine_a32 = { "arm", "arm", CS_ARCH_ARM, CS_MODE_ARM, 4, { "ARM (A32)", NULL }, 0 };

static const struct machine *find_machine(const char *arch)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++) {
		if (!strcmp(machines[i].arch, arch))
			return &machines[i];
	}
	return NULL;
}

uint64_t api_align_code(const char *arch, uint64_t start)
{
	const struct machine *machine = find_machine(arch);
	return machine ? start & ~(uint64_t)(machine->step - 1) : start;
}

/* Nothing in a file says of each function whether it is Thumb or A32, but nearly every A32 instruction is
 * unconditional, that is 0xe in the top four bits of its word, and Thumb code has no such pattern. */
static bool looks_like_a32(uint64_t start, const uint8_t *code, size_t size)
{
	size_t words = size / 4, always = 0;
	if (start % 4 || !words)
		return false;
	for (size_t i = 0; i < words; i++)
		always += code[i * 4 + 3] >> 4 == 0xe;
	return always * 4 >= words * 3;
}

static bool is_branch(csh handle, const cs_insn *insn)
{
	return cs_insn_group(handle, insn, CS_GRP_JUMP) || cs_insn_group(handle, insn, CS_GRP_CALL) ||
	       cs_insn_group(handle, insn, CS_GRP_BRANCH_RELATIVE);
}

/* The address in the last operand of a direct branch. */
static bool branch_target(csh handle, const struct machine *machine, const cs_insn *insn, uint64_t *ret)
{
	const cs_detail *detail = insn->detail;
	if (!is_branch(handle, insn))
		return false;
	if (machine->cs == CS_ARCH_X86) {
		if (!detail->x86.op_count || detail->x86.operands[0].type != X86_OP_IMM)
			return false;
		*ret = (uint64_t)detail->x86.operands[0].imm;
		return true;
	}
	if (machine->cs == CS_ARCH_ARM64) {
		unsigned count = detail->arm64.op_count;
		if (!count || detail->arm64.operands[count - 1].type != ARM64_OP_IMM)
			return false;
		*ret = (uint64_t)detail->arm64.operands[count - 1].imm;
		return true;
	}
	unsigned count = detail->arm.op_count;
	if (!count || detail->arm.operands[count - 1].type != ARM_OP_IMM)
		return false;
	*ret = (uint32_t)detail->arm.operands[count - 1].imm;
	return true;
}

/* Adds a NUL-terminated text; its offset, UINT32_MAX without memory. */
static uint32_t add_text(struct api_disassembly *d, const char *a, const char *space, const char *b)
{
	size_t a_length = strlen(a), space_length = strlen(space), b_length = strlen(b);
	size_t at = d->texts.count;
	if (!sp_vector_reserve(&d->texts, a_length + space_length + b_length + 1))
		return UINT32_MAX;
	char *text = d->texts.items + at;
	memcpy(text, a, a_length);
	memcpy(text + a_length, space, space_length);
	memcpy(text + a_length + space_length, b, b_length + 1);
	d->texts.count = at + a_length + space_length + b_length + 1;
	return (uint32_t)at;
}

/* The `size` bytes that are no instruction. */
static bool add_invalid(struct api_disassembly *d, uint32_t offset, const uint8_t *code, size_t size)
{
	char text[64] = ".byte";
	for (size_t i = 0, at = 5; i < size && i < 4; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s 0x%02x", i ? "," : "", code[i]);
	struct api_instruction instruction = { .offset = offset };
	for (unsigned s = 0; s < d->syntaxes; s++) {
		instruction.text[s] = add_text(d, text, " ", "# invalid instruction");
		if (instruction.text[s] == UINT32_MAX)
			return false;
	}
	return sp_vector_push(&d->instructions, instruction);
}

/* One open engine a syntax. */
struct engines {
	csh handle[2];
	cs_insn *insn[2];
};

static struct sp_error *open_engines(const struct machine *machine, struct engines *e)
{
	for (unsigned s = 0; s < 2 && machine->syntax[s]; s++) {
		cs_err status = cs_open(machine->cs, machine->mode, &e->handle[s]);
		if (status != CS_ERR_OK) {
			e->handle[s] = 0;
			return sp_error_create(SP_ERROR_UNSUPPORTED, "cannot disassemble %s: %s", machine->api_arch,
			                       cs_strerror(status));
		}
		cs_option(e->handle[s], CS_OPT_DETAIL, CS_OPT_ON);
		if (s)
			cs_option(e->handle[s], CS_OPT_SYNTAX, machine->second);
		e->insn[s] = cs_malloc(e->handle[s]);
		if (!e->insn[s])
			return sp_error_no_memory();
	}
	return NULL;
}

static void close_engines(struct engines *e)
{
	for (unsigned s = 0; s < 2; s++) {
		if (e->insn[s])
			cs_free(e->insn[s], 1);
		if (e->handle[s])
			cs_close(&e->handle[s]);
	}
}

/* Decodes the instruction at `*offset` and moves behind it; false without memory. */
static bool decode_one(struct api_disassembly *d, const struct machine *machine, struct engines *e, const uint8_t *code,
                       size_t size, size_t *offset)
{
	struct api_instruction instruction = { .offset = (uint32_t)*offset };
	size_t length = 0;
	for (unsigned s = 0; s < d->syntaxes; s++) {
		const uint8_t *at = code + *offset;
		size_t left = size - *offset;
		uint64_t address = d->start + *offset;
		if (!cs_disasm_iter(e->handle[s], &at, &left, &address, e->insn[s])) {
			length = left < machine->step ? left : machine->step;
			*offset += length;
			return add_invalid(d, instruction.offset, at, length);
		}
		const cs_insn *insn = e->insn[s];
		if (!insn)
			return false;
		length = insn->size;
		instruction.text[s] = add_text(d, insn->mnemonic, insn->op_str[0] ? " " : "", insn->op_str);
		if (instruction.text[s] == UINT32_MAX)
			return false;
		if (!s)
			instruction.has_target = branch_target(e->handle[s], machine, insn, &instruction.target);
	}
	*offset += length;
	return sp_vector_push(&d->instructions, instruction);
}

struct sp_error *api_disassemble(const char *arch, uint64_t start, const uint8_t *code, size_t size,
                                 struct api_disassembly *ret)
{
	memset(ret, 0, sizeof(*ret));
	const struct machine *machine = find_machine(arch);
	if (!machine)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "no disassembler for the architecture \"%s\"", arch);
	if (machine->cs == CS_ARCH_ARM && looks_like_a32(start, code, size))
		machine = &machine_a32;
	ret->arch = machine->api_arch;
	ret->syntax[0] = machine->syntax[0];
	ret->syntax[1] = machine->syntax[1];
	ret->syntaxes = machine->syntax[1] ? 2 : 1;
	ret->start = start;

	struct engines engines = { 0 };
	struct sp_error *error = api_need_capstone();
	if (!error)
		error = open_engines(machine, &engines);
	for (size_t offset = 0; !error && offset < size;) {
		if (!decode_one(ret, machine, &engines, code, size, &offset))
			error = sp_error_no_memory();
	}
	close_engines(&engines);
	if (error)
		api_disassembly_deinit(ret);
	return error;
}

void api_disassembly_deinit(struct api_disassembly *disassembly)
{
	sp_vector_deinit(&disassembly->instructions);
	sp_vector_deinit(&disassembly->texts);
}
