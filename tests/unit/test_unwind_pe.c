/* Unwinding by .pdata: functions are run by a small emulator, and at each of their instructions the unwinder must find
 * the caller's registers as they were at the call. By hand-written functions of every form, and by the prologues of
 * real files. */
#include "sampler/unwind/pe.h"
#include "symbolication/object/object.h"

#include "fixture_support.h"

enum { STACK = 0x10000, STACK_TOP = 0xf000 };
#define STACK_BASE UINT64_C(0x7ffe00000000)

struct machine {
	struct sp_regs regs;
	uint8_t stack[STACK];
};

static bool load(void *context, uint64_t address, uint64_t *ret)
{
	struct machine *m = context;
	uint64_t offset = address - STACK_BASE;
	if (offset > STACK - 8)
		return false;
	memcpy(ret, m->stack + offset, 8);
	return true;
}

static bool store(struct machine *m, uint64_t address, uint64_t value)
{
	uint64_t offset = address - STACK_BASE;
	if (offset > STACK - 8)
		return false;
	memcpy(m->stack + offset, &value, 8);
	return true;
}

static int32_t i32(const uint8_t *bytes)
{
	int32_t value;
	memcpy(&value, bytes, 4);
	return value;
}

/* ---- x64 ---- */

static const uint8_t numbers[16] = { 0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15 };

/* The address of a ModRM operand with a base register and a displacement; its size in *length, 0 when it is another. */
static uint64_t operand(const struct machine *m, const uint8_t *code, unsigned rex, unsigned *length)
{
	unsigned modrm = code[0], mod = modrm >> 6, base = modrm & 7, at = 1;
	*length = 0;
	if (mod == 3 || (mod == 0 && base == 5))
		return 0;
	if (base == 4) {
		if ((code[1] & 0x3f) != 0x24 || rex & 2)
			return 0; /* with an index */
		at = 2;
	}
	uint64_t address = m->regs.value[numbers[base | (rex & 1) << 3]];
	if (mod == 1)
		address += (uint64_t)(int64_t)(int8_t)code[at];
	else if (mod == 2)
		address += (uint64_t)(int64_t)i32(code + at);
	*length = at + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
	return address;
}

/* Runs an instruction of those that prologues and epilogues have; gives its length, 0 when it is another one. */
static unsigned run_x64(struct machine *m, const uint8_t *code)
{
	uint64_t *r = m->regs.value, *rsp = &r[SP_X86_64_RSP];
	unsigned at = 0, rex = 0, length;
	bool wide = false;
	if (code[at] == 0x66)
		at++;
	if ((code[at] & 0xf0) == 0x40) {
		rex = code[at++];
		wide = rex & 8;
	}
	uint8_t op = code[at++];
	unsigned reg = numbers[(code[at] >> 3 & 7) | (rex & 4) << 1], rm = numbers[(code[at] & 7) | (rex & 1) << 3];
	if ((op & 0xf8) == 0x50) {
		*rsp -= 8;
		return store(m, *rsp, r[numbers[(op & 7) | (rex & 1) << 3]]) ? at : 0;
	}
	if ((op & 0xf8) == 0x58) {
		load(m, *rsp, &r[numbers[(op & 7) | (rex & 1) << 3]]);
		*rsp += 8;
		return at;
	}
	if (op == 0x90)
		return at;
	if (wide && (op == 0x81 || op == 0x83) && (code[at] == 0xec || code[at] == 0xc4)) {
		uint64_t n = op == 0x83 ? (uint64_t)(int64_t)(int8_t)code[at + 1]
		                        : (uint64_t)(int64_t)i32(code + at + 1);
		*rsp += code[at] == 0xc4 ? n : 0 - n;
		return at + (op == 0x83 ? 2 : 5);
	}
	if (wide && op == 0x8d) {
		uint64_t address = operand(m, code + at, rex, &length);
		if (length)
			r[reg] = address;
		return length ? at + length : 0;
	}
	if (wide && (op == 0x89 || op == 0x8b) && code[at] >> 6 == 3) {
		*(op == 0x89 ? &r[rm] : &r[reg]) = op == 0x89 ? r[reg] : r[rm];
		return at + 1;
	}
	if (wide && (op == 0x89 || op == 0x8b)) {
		uint64_t address = operand(m, code + at, rex, &length);
		bool ok = length && (op == 0x89 ? store(m, address, r[reg]) : load(m, address, &r[reg]));
		return ok ? at + length : 0;
	}
	if (op == 0x0f && (code[at] == 0x29 || code[at] == 0x28)) { /* movaps: saves vector registers */
		operand(m, code + at + 1, rex, &length);
		return length ? at + 1 + length : 0;
	}
	return 0;
}

/* ---- ARM64 ---- */

static uint64_t arm_register(const struct machine *m, unsigned reg)
{
	return m->regs.value[reg]; /* 31 is sp in the instructions below */
}

static unsigned run_arm64(struct machine *m, const uint8_t *code)
{
	uint32_t op = (uint32_t)i32(code);
	uint64_t *r = m->regs.value;
	unsigned rd = op & 31, rn = op >> 5 & 31;
	if (op == 0xd503201f || op == 0xd503237f || op == 0xd503233f || op == 0xd50323ff || op == 0xd50323bf)
		return 4; /* nop; pacibsp, paciasp and their counterparts, without a key */
	if ((op & 0x7f800000) == 0x11000000 || (op & 0x7f800000) == 0x51000000) { /* add, sub with a constant */
		uint64_t n = (uint64_t)(op >> 10 & 0xfff) << (op >> 22 & 1) * 12;
		if (!(op >> 31))
			return 0;
		r[rd] = arm_register(m, rn) + (op & 0x40000000 ? 0 - n : n);
		return 4;
	}
	bool pair = (op & 0x3a000000) == 0x28000000, single = (op & 0x3a000000) == 0x38000000;
	bool vector = op >> 26 & 1, is_load = op >> 22 & 1;
	if (pair && (vector ? op >> 30 == 1 : op >> 30 == 2)) {
		unsigned mode = op >> 23 & 3, second = op >> 10 & 31;
		int64_t offset = (int64_t)(int32_t)(op << 10) >> 25;
		uint64_t address = r[rn] + (mode == 1 ? 0 : (uint64_t)(offset * 8)), both[2] = { 0, 0 };
		if (!mode)
			return 0;
		if (mode != 2)
			r[rn] += (uint64_t)(offset * 8);
		if (vector)
			return 4;
		for (unsigned i = 0; i < 2; i++) {
			unsigned reg = i ? second : rd;
			if (is_load ? !load(m, address + 8 * i, &both[i]) : !store(m, address + 8 * i, r[reg]))
				return 0;
			if (is_load)
				r[reg] = both[i];
		}
		return 4;
	}
	if (single && op >> 30 == 3 && !(op >> 23 & 1)) {
		bool scaled = op >> 24 & 1;
		unsigned mode = scaled ? 2 : op >> 10 & 3;
		int64_t offset = scaled ? (int64_t)(op >> 10 & 0xfff) * 8 : (int64_t)(int32_t)(op << 11) >> 23;
		if (!scaled && (mode == 2 || op >> 21 & 1))
			return 0;
		uint64_t address = r[rn] + (mode == 1 ? 0 : (uint64_t)offset);
		if (!scaled && mode)
			r[rn] += (uint64_t)offset;
		if (vector)
			return 4;
		return (is_load ? load(m, address, &r[rd]) : store(m, address, r[rd])) ? 4 : 0;
	}
	return 0;
}

/* ---- The comparison ---- */

struct arch {
	enum sp_arch arch;
	unsigned pc, sp;
	uint64_t saved; /* registers that a function must keep */
	unsigned (*run)(struct machine *m, const uint8_t *code);
};
static const struct arch x64 = { SP_ARCH_X86_64, SP_X86_64_RIP, SP_X86_64_RSP, 0xf078, run_x64 };
static const struct arch arm64 = { SP_ARCH_AARCH64, SP_AARCH64_PC, SP_AARCH64_SP, 0x3ff80000, run_arm64 };

/* The machine as it is at the first instruction of a function. */
static void begin(const struct arch *a, struct machine *m, struct sp_regs *caller, uint64_t pc)
{
	memset(m, 0x5a, sizeof(*m));
	m->regs = (struct sp_regs){ .arch = a->arch, .known = UINT64_MAX >> 31 };
	for (unsigned i = 0; i < SP_REGS_MAX; i++)
		m->regs.value[i] = UINT64_C(0x1111000000000000) + i;
	m->regs.value[a->sp] = STACK_BASE + STACK_TOP;
	*caller = m->regs;
	caller->value[a->pc] = UINT64_C(0x7ff612345678);
	m->regs.value[a->pc] = pc;
	if (a == &x64) {
		m->regs.value[a->sp] -= 8;
		store(m, m->regs.value[a->sp], caller->value[a->pc]);
	} else {
		m->regs.value[SP_AARCH64_LR] = caller->value[a->pc];
	}
}

static void check(const struct arch *a, const struct sp_pe_module *module, uint64_t base, const struct machine *m,
                  const struct sp_regs *caller, const char *name)
{
	struct sp_regs regs = m->regs;
	const struct sp_pe_memory memory = { load, (void *)(uintptr_t)m };
	enum sp_pe_step step = sp_pe_step(module, base, true, &regs, &memory);
	uint64_t at = m->regs.value[a->pc] - base;
	if (step != SP_PE_CALLER)
		fail_msg("%s: at 0x%llx the step ends with %d", name, (unsigned long long)at, step);
	for (unsigned i = 0; i < SP_REGS_MAX; i++) {
		bool matters = i == a->pc || i == a->sp || a->saved >> i & 1;
		if (i == SP_AARCH64_LR && a == &arm64)
			matters = false;
		if (matters && regs.value[i] != caller->value[i])
			fail_msg("%s: at 0x%llx register %u is 0x%llx, not 0x%llx", name, (unsigned long long)at, i,
			         (unsigned long long)regs.value[i], (unsigned long long)caller->value[i]);
	}
}

/* An instruction that only epilogues have: it loads from the stack pointer, adds to it, or
 * sets it from the frame pointer. */
static bool is_epilogue(uint32_t op)
{
	bool pair = (op & 0x3a400000) == 0x28400000, single = (op & 0x3ac00000) == 0x38400000;
	return ((pair || single) && (op >> 5 & 31) == 31) || (op & 0xff8003ff) == 0x910003ff ||
	       (op & 0xbf8003ff) == 0x910003bf || op == 0xd50323ff;
}

/* Runs what an ARM64 function ends with, after its prologue. */
static unsigned follow_epilogue(struct sp_object *object, const struct sp_pe_module *module, uint64_t base,
                                uint64_t end, struct machine *m, const struct sp_regs *caller, const char *name)
{
	unsigned count = 0;
	size_t size = 4 * 32;
	const uint8_t *bytes = sp_object_image_bytes(object, sp_object_info(object)->base + end - size, &size);
	if (!bytes || size != 4 * 32 || (uint32_t)i32(bytes + size - 4) != 0xd65f03c0)
		return 0;
	while (count < 30 && is_epilogue((uint32_t)i32(bytes + size - 8 - 4 * count)))
		count++;
	for (unsigned i = count; i > 0; i--) {
		m->regs.value[SP_AARCH64_PC] = base + end - 4 - 4 * i;
		check(&arm64, module, base, m, caller, name);
		assert_int_equal(run_arm64(m, bytes + size - 4 - 4 * i), 4);
	}
	return count;
}

/* Runs a function from its start, checking before each instruction; gives how many were run. */
static unsigned follow(const struct arch *a, struct sp_object *object, const struct sp_pe_module *module, uint64_t base,
                       uint64_t start, uint64_t end, bool with_epilogues, const char *name)
{
	static struct machine m;
	struct sp_regs caller;
	unsigned count = 0;
	begin(a, &m, &caller, base + start);
	for (uint64_t at = start; at < end; count++) {
		size_t size = 32;
		const uint8_t *bytes = sp_object_image_bytes(object, sp_object_info(object)->base + at, &size);
		uint8_t code[32] = { 0 };
		if (!bytes)
			break;
		memcpy(code, bytes, size);
		m.regs.value[a->pc] = base + at;
		check(a, module, base, &m, &caller, name);
		unsigned length = a->run(&m, code);
		if (!length)
			break; /* a return, or something that is no part of a prologue */
		at += length;
	}
	if (a == &arm64 && with_epilogues)
		count += follow_epilogue(object, module, base, end, &m, &caller, name);
	return count;
}

/* Whether a function is a part of another one, whose prologue has been run before. */
static bool is_part(const struct arch *a, const struct sp_object *object, size_t index)
{
	uint32_t address, size, unwind;
	size_t entry_size = a == &x64 ? 12 : 8, length = entry_size;
	uint64_t base = sp_object_info(object)->base;
	assert_true(sp_object_exception_table(object, &address, &size));
	const uint8_t *entry = sp_object_image_bytes(object, base + address + index * entry_size, &length);
	assert_non_null(entry);
	memcpy(&unwind, entry + entry_size - 4, 4);
	if (a == &arm64 && unwind & 3)
		return (unwind & 3) == 2;
	length = 64;
	const uint8_t *info = sp_object_image_bytes(object, base + unwind, &length);
	if (!info || a == &x64)
		return info && *info >> 3 & 4;
	uint32_t header = (uint32_t)i32(info), scopes = header >> 22 & 31, words = header >> 27;
	if (!words)
		return true; /* a long one: left out here */
	size_t at = 4 + (header >> 21 & 1 ? 0 : scopes * 4);
	return at < length && memchr(info + at, 0xe5, words * 4 < length - at ? words * 4 : length - at);
}

static unsigned follow_all(const struct arch *a, const char *path, bool with_epilogues, unsigned least_functions)
{
	struct sp_object *object;
	struct sp_pe_module *module;
	struct sp_function_range *ranges;
	size_t count;
	unsigned instructions = 0;
	assert_null(sp_object_open_path(path, &object));
	assert_null(sp_pe_module_create(object, &module));
	assert_null(sp_object_functions(object, &ranges, &count));
	assert_true(count >= least_functions);
	for (size_t i = 0; i < count; i++) {
		uint64_t start = ranges[i].address - sp_object_info(object)->base;
		if (is_part(a, object, i))
			continue;
		char name[600];
		snprintf(name, sizeof(name), "%s: function 0x%llx", path, (unsigned long long)start);
		instructions += follow(a, object, module, UINT64_C(0x7ff600000000), start, start + ranges[i].size,
		                       with_epilogues, name);
	}
	free(ranges);
	sp_pe_module_destroy(module);
	sp_object_destroy(object);
	return instructions;
}

static const char x64_source[] =
    ".intel_syntax noprefix\n"
    ".text\n"
    "plain: .seh_proc plain\n push rbx\n .seh_pushreg rbx\n push rsi\n .seh_pushreg rsi\n sub rsp, 0x28\n"
    " .seh_stackalloc 0x28\n .seh_endprologue\n nop\n nop\n add rsp, 0x28\n pop rsi\n pop rbx\n ret\n .seh_endproc\n"
    "large: .seh_proc large\n push rdi\n .seh_pushreg rdi\n sub rsp, 0x1230\n .seh_stackalloc 0x1230\n"
    " .seh_endprologue\n nop\n add rsp, 0x1230\n pop rdi\n ret\n .seh_endproc\n"
    "frame: .seh_proc frame\n push rbp\n .seh_pushreg rbp\n sub rsp, 0x60\n .seh_stackalloc 0x60\n"
    " lea rbp, [rsp+0x20]\n .seh_setframe rbp, 0x20\n mov [rbp+0x10], rbx\n .seh_savereg rbx, 0x30\n"
    " movaps [rbp+0x20], xmm6\n .seh_savexmm xmm6, 0x40\n .seh_endprologue\n nop\n sub rsp, 0x40\n nop\n"
    " mov rbx, [rbp+0x10]\n lea rsp, [rbp+0x40]\n pop rbp\n ret\n .seh_endproc\n"
    "high: .seh_proc high\n push r12\n .seh_pushreg r12\n push r15\n .seh_pushreg r15\n push r13\n .seh_pushreg r13\n"
    " sub rsp, 0x30\n .seh_stackalloc 0x30\n lea r13, [rsp+0x30]\n .seh_setframe r13, 0x30\n .seh_endprologue\n nop\n"
    " lea rsp, [r13+0x00]\n pop r13\n pop r15\n pop r12\n jmp plain\n .seh_endproc\n"
    "early: .seh_proc early\n mov [rsp+8], rbx\n sub rsp, 0x28\n .seh_stackalloc 0x28\n .seh_savereg rbx, 0x30\n"
    " .seh_endprologue\n nop\n mov rbx, [rsp+0x30]\n add rsp, 0x28\n ret\n .seh_endproc\n"
    /* Operations with operands of 32 bits. */
    "far: .seh_proc far\n push rsi\n .seh_pushreg rsi\n sub rsp, 0x90000\n .seh_stackalloc 0x90000\n"
    " mov [rsp+0x8fff0], rbx\n .seh_savereg rbx, 0x8fff0\n movaps [rsp+0x8ffe0], xmm7\n .seh_savexmm xmm7, 0x8ffe0\n"
    " .seh_endprologue\n nop\n mov rbx, [rsp+0x8fff0]\n add rsp, 0x90000\n pop rsi\n ret\n .seh_endproc\n"
    /* Version 2, which tells where epilogues are, by hand: the assembler knows it only from LLVM 20 on. */
    "second: push rbx\n sub rsp, 0x20\n nop\n nop\n add rsp, 0x20\n pop rbx\n ret\nsecond_end:\n"
    ".section .xdata,\"dr\"\nsecond_info: .byte 2, 5, 4, 0\n .byte 6, 0x16, 0, 0x06, 5, 0x32, 1, 0x30\n"
    ".section .pdata,\"dr\"\n .long second@IMGREL, second_end@IMGREL, second_info@IMGREL\n";

/* The first part has a prologue of its own, the second one saves another register and is chained to the first. */
static const char chained_source[] =
    ".intel_syntax noprefix\n"
    ".text\n"
    "chained: .seh_proc chained\n push rbx\n .seh_pushreg rbx\n sub rsp, 0x30\n .seh_stackalloc 0x30\n"
    " .seh_endprologue\n nop\n .seh_startchained\n mov [rsp+0x20], rsi\n .seh_savereg rsi, 0x20\n .seh_endprologue\n"
    " nop\n nop\n mov rsi, [rsp+0x20]\n .seh_endchained\n add rsp, 0x30\n pop rbx\n ret\n .seh_endproc\n";

/* What the processor pushes at an interrupt lies beyond what the prologues do. */
static const char interrupt_source[] =
    ".intel_syntax noprefix\n"
    ".text\n"
    "plain: .seh_proc plain\n .seh_pushframe\n push rbp\n .seh_pushreg rbp\n sub rsp, 0x20\n .seh_stackalloc 0x20\n"
    " .seh_endprologue\n nop\n nop\n ret\n .seh_endproc\n"
    "coded: .seh_proc coded\n .seh_pushframe @code\n push rbp\n .seh_pushreg rbp\n sub rsp, 0x20\n"
    " .seh_stackalloc 0x20\n .seh_endprologue\n nop\n nop\n ret\n .seh_endproc\n";

static const char arm64_source[] =
    ".text\n"
    "chain: .seh_proc chain\n stp x29, x30, [sp, #-32]!\n .seh_save_fplr_x 32\n mov x29, sp\n .seh_set_fp\n"
    " .seh_endprologue\n nop\n sub sp, sp, #64\n nop\n mov sp, x29\n .seh_startepilogue\n"
    " ldp x29, x30, [sp], #32\n .seh_save_fplr_x 32\n .seh_endepilogue\n ret\n .seh_endproc\n"
    "saves: .seh_proc saves\n sub sp, sp, #96\n .seh_stackalloc 96\n stp x19, x20, [sp, #16]\n"
    " .seh_save_regp x19, 16\n stp x21, x22, [sp, #32]\n .seh_save_next\n str x23, [sp, #48]\n .seh_save_reg x23, 48\n"
    " stp x29, x30, [sp, #64]\n .seh_save_fplr 64\n add x29, sp, #64\n .seh_add_fp 64\n .seh_endprologue\n nop\n"
    " .seh_startepilogue\n sub sp, x29, #64\n .seh_add_fp 64\n ldp x29, x30, [sp, #64]\n .seh_save_fplr 64\n"
    " ldr x23, [sp, #48]\n .seh_save_reg x23, 48\n ldp x21, x22, [sp, #32]\n .seh_save_next\n"
    " ldp x19, x20, [sp, #16]\n .seh_save_regp x19, 16\n add sp, sp, #96\n .seh_stackalloc 96\n .seh_endepilogue\n"
    " ret\n .seh_endproc\n"
    "link: .seh_proc link\n str x19, [sp, #-48]!\n .seh_save_reg_x x19, 48\n stp x21, x30, [sp, #16]\n"
    " .seh_save_lrpair x21, 16\n stp d8, d9, [sp, #32]\n .seh_save_fregp d8, 32\n .seh_endprologue\n nop\n"
    " .seh_startepilogue\n ldp d8, d9, [sp, #32]\n .seh_save_fregp d8, 32\n ldp x21, x30, [sp, #16]\n"
    " .seh_save_lrpair x21, 16\n ldr x19, [sp], #48\n .seh_save_reg_x x19, 48\n .seh_endepilogue\n ret\n .seh_endproc\n"
    "pairs: .seh_proc pairs\n stp x19, x20, [sp, #-64]!\n .seh_save_r19r20_x 64\n stp x21, x22, [sp, #16]\n"
    " .seh_save_regp x21, 16\n stp x23, x24, [sp, #32]\n .seh_save_next\n str x30, [sp, #48]\n .seh_save_reg x30, 48\n"
    " sub sp, sp, #4080\n .seh_stackalloc 4080\n .seh_endprologue\n nop\n .seh_startepilogue\n add sp, sp, #4080\n"
    " .seh_stackalloc 4080\n ldr x30, [sp, #48]\n .seh_save_reg x30, 48\n ldp x23, x24, [sp, #32]\n .seh_save_next\n"
    " ldp x21, x22, [sp, #16]\n .seh_save_regp x21, 16\n ldp x19, x20, [sp], #64\n .seh_save_r19r20_x 64\n"
    " .seh_endepilogue\n ret\n .seh_endproc\n"
    "vector: .seh_proc vector\n stp d8, d9, [sp, #-64]!\n .seh_save_fregp_x d8, 64\n str d10, [sp, #16]\n"
    " .seh_save_freg d10, 16\n str x19, [sp, #24]\n .seh_save_reg x19, 24\n stp x29, x30, [sp, #32]\n"
    " .seh_save_fplr 32\n str d11, [sp, #-16]!\n .seh_save_freg_x d11, 16\n .seh_nop\n nop\n .seh_endprologue\n nop\n"
    " .seh_startepilogue\n ldr d11, [sp], #16\n .seh_save_freg_x d11, 16\n ldp x29, x30, [sp, #32]\n"
    " .seh_save_fplr 32\n ldr x19, [sp, #24]\n .seh_save_reg x19, 24\n ldr d10, [sp, #16]\n .seh_save_freg d10, 16\n"
    " ldp d8, d9, [sp], #64\n .seh_save_fregp_x d8, 64\n .seh_endepilogue\n ret\n .seh_endproc\n";

static void make(const char *name, const char *target, const char *text)
{
	char file[100];
	snprintf(file, sizeof(file), "%s.s", name);
	write_text(file, text);
	must_run("clang --target=%s-pc-windows-msvc -c %s.s -o %s.obj && "
	         "lld-link /dll /noentry /nodefaultlib /out:%s.dll %s.obj",
	         target, name, name, name, name);
}

static void test_own(void **state)
{
	(void)state;
	if (!have("clang") || !have("lld-link")) {
		skip_part("functions by clang's assembler", "clang or lld is not installed");
		return;
	}
	make("x64", "x86_64", x64_source);
	make("arm64", "aarch64", arm64_source);
	assert_int_equal(follow_all(&x64, in_folder("x64.dll"), false, 7), 8 + 5 + 11 + 10 + 5 + 8 + 6);
	assert_int_equal(follow_all(&arm64, in_folder("arm64.dll"), false, 5), 7 + 13 + 7 + 11 + 12);
}

static uint64_t open_module(const char *name, struct sp_object **object, struct sp_pe_module **module)
{
	struct sp_function_range *functions;
	size_t count;
	assert_null(sp_object_open_path(in_folder("%s", name), object));
	assert_null(sp_pe_module_create(*object, module));
	assert_null(sp_object_functions(*object, &functions, &count));
	uint64_t start = functions[0].address - sp_object_info(*object)->base;
	free(functions);
	return start;
}

static void test_chained(void **state)
{
	(void)state;
	struct sp_object *object;
	struct sp_pe_module *module;
	if (!have("clang") || !have("lld-link")) {
		skip_part("chained unwind information", "clang or lld is not installed");
		return;
	}
	make("chained", "x86_64", chained_source);
	char *text = output_of("llvm-readobj --unwind chained.dll | grep -c Chain");
	assert_int_equal(strtoul(text, NULL, 10) > 0, 1);
	free(text);
	uint64_t start = open_module("chained.dll", &object, &module);
	/* push, sub, nop; mov, nop, nop, mov; add, pop, ret */
	assert_int_equal(follow(&x64, object, module, UINT64_C(0x7ff600000000), start, start + 1 + 4 + 1 + 5 + 2 + 5,
	                        false, "chained"),
	                 7);
	sp_pe_module_destroy(module);
	sp_object_destroy(object);
}

static void test_interrupts(void **state)
{
	(void)state;
	struct sp_object *object;
	struct sp_pe_module *module;
	if (!have("clang") || !have("lld-link")) {
		skip_part("machine frames", "clang or lld is not installed");
		return;
	}
	make("interrupt", "x86_64", interrupt_source);
	uint64_t start = open_module("interrupt.dll", &object, &module), base = UINT64_C(0x7ff600000000);
	for (unsigned coded = 0; coded < 2; coded++) {
		static struct machine m;
		uint64_t sp = STACK_BASE + 0x8000, frame = sp + 0x28 + 8 * coded;
		m.regs = (struct sp_regs){ .arch = SP_ARCH_X86_64, .known = UINT64_MAX >> 31 };
		m.regs.value[SP_X86_64_RSP] = sp;
		m.regs.value[SP_X86_64_RIP] = base + start + coded * 8 + 6; /* push, sub, nop, nop, ret */
		store(&m, sp + 0x20, 0x1234);
		store(&m, frame, 0x7ff6000abcde);
		store(&m, frame + 24, STACK_BASE + 0x9008);
		const struct sp_pe_memory memory = { load, &m };
		assert_int_equal(sp_pe_step(module, base, true, &m.regs, &memory), SP_PE_INTERRUPTED);
		assert_int_equal(m.regs.value[SP_X86_64_RIP], 0x7ff6000abcde);
		assert_int_equal(m.regs.value[SP_X86_64_RSP], STACK_BASE + 0x9008);
		assert_int_equal(m.regs.value[SP_X86_64_RBP], 0x1234);
	}
	sp_pe_module_destroy(module);
	sp_object_destroy(object);
}

/* Packed data as clang makes it for compiled code, and the prologues of programs. */
static const char c_source[] =
    "int callee(int *, ...); int many(int a, int b, int c, int d, int e, int f, int g, int h) {\n"
    "int x[4] = { a, b, c, d }; return callee(x, e, f) + callee(x, g, h) + callee(x, a, b) + callee(x, c, d); }\n"
    "int one(int a) { int x[700]; x[a] = a; return callee(x) + a; }\n"
    "double floats(double a, double b) { int x = 1; double s = a; while (callee(&x)) s += a * b; return s + b; }\n"
    "int tail(int *p) { return callee(p, 1); }\n"
    "int alloca_user(int n) { int *p = __builtin_alloca(n * 4); callee(p, n); return callee(p) + n; }\n";

static void test_compiled(void **state)
{
	(void)state;
	static const char *const levels[] = { "-O0", "-O1", "-O2", "-Os" };
	if (!have("clang") || !have("lld-link")) {
		skip_part("functions by clang", "clang or lld is not installed");
		return;
	}
	write_text("c.c", c_source);
	unsigned instructions = 0;
	for (unsigned i = 0; i < 8; i++) {
		const struct arch *a = i % 2 ? &arm64 : &x64;
		must_run("clang --target=%s-pc-windows-msvc %s -fasynchronous-unwind-tables -mno-stack-arg-probe -c "
		         "c.c -o c.obj && "
		         "lld-link /dll /noentry /nodefaultlib /force:unresolved /export:many /out:c%u.dll c.obj",
		         i % 2 ? "aarch64" : "x86_64", levels[i / 2], i);
		instructions += follow_all(a, in_folder("c%u.dll", i), true, 3);
	}
	assert_true(instructions > 100);
}

static void test_shared(void **state)
{
	(void)state;
	static const char *const names[] = { "softokn3.dll", "updater.exe", "WriteArgument.exe" };
	if (access(TEST_SHARED_DATA "/pdb/softokn3.dll", R_OK) != 0) {
		skip_part("prologues of files of others", "no shared data");
		return;
	}
	unsigned instructions = 0;
	for (size_t i = 0; i < 3; i++) {
		char path[600];
		snprintf(path, sizeof(path), "%s/pdb/%s", TEST_SHARED_DATA, names[i]);
		instructions += follow_all(&x64, path, true, 10);
	}
	printf("%u instructions of prologues\n", instructions);
	assert_true(instructions > 5000);
}

/* A whole stack: two frames of `plain` in a module, then the thread's start, where the return address is 0. */
static void test_stack(void **state)
{
	(void)state;
	if (!have("clang") || !have("lld-link")) {
		skip_part("a stack", "clang or lld is not installed");
		return;
	}
	make("walk", "x86_64", x64_source);
	struct sp_object *object;
	struct sp_pe_module *module;
	assert_null(sp_object_open_path(in_folder("walk.dll"), &object));
	assert_null(sp_pe_module_create(object, &module));
	struct sp_function_range *functions;
	size_t count;
	assert_null(sp_object_functions(object, &functions, &count));
	uint64_t base = UINT64_C(0x7ff600000000), body = base + functions[0].address - sp_object_info(object)->base + 7;
	free(functions);
	static struct machine m;
	memset(&m, 0, sizeof(m));
	uint64_t sp = STACK_BASE + 0x8000;
	store(&m, sp + 0x28 + 16, body); /* where the first returns to */
	store(&m, sp + 2 * 0x40 + 0x28 - 0x10 + 8 - 0x20, 0);
	m.regs = (struct sp_regs){ .arch = SP_ARCH_X86_64, .known = UINT64_MAX >> 31 };
	m.regs.value[SP_X86_64_RIP] = body;
	m.regs.value[SP_X86_64_RSP] = sp;
	const struct sp_pe_range range = { base, base + 0x10000, module };
	struct sp_stack_slice slice = { STACK_BASE, m.stack, sizeof(m.stack) };
	struct sp_frame frames[16];
	assert_int_equal(sp_pe_unwind(&range, 1, &m.regs, &slice, 1, frames, 16, &count), SP_UNWIND_ROOT);
	assert_int_equal(count, 2);
	assert_int_equal(frames[0].address, body);
	assert_int_equal(frames[0].kind, SP_FRAME_IP);
	assert_int_equal(frames[0].cfa, sp + 0x40);
	assert_int_equal(frames[1].kind, SP_FRAME_RETURN_ADDRESS);
	assert_int_equal(frames[1].cfa, sp + 0x80);
	/* The same with less of the stack, and with a return address outside. */
	slice.size = 0x8000 + 0x40;
	assert_int_equal(sp_pe_unwind(&range, 1, &m.regs, &slice, 1, frames, 16, &count), SP_UNWIND_DUMP_END);
	assert_int_equal(count, 2);
	slice.size = sizeof(m.stack);
	store(&m, sp + 0x28 + 16, 0x1234);
	assert_int_equal(sp_pe_unwind(&range, 1, &m.regs, &slice, 1, frames, 16, &count), SP_UNWIND_NO_TABLES);
	assert_int_equal(count, 2);
	sp_pe_module_destroy(module);
	sp_object_destroy(object);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),      cmocka_unit_test(test_chained), cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_compiled), cmocka_unit_test(test_shared),  cmocka_unit_test(test_stack),
	};
	make_folder(NULL);
	int failed = 0;
	for (int i = 2; i < argc; i++) /* x64|arm64 FILE...: by hand */
		printf("%s: %u instructions\n", argv[i],
		       follow_all(argv[1][0] == 'x' ? &x64 : &arm64, argv[i], true, 1));
	if (argc == 1)
		failed = cmocka_run_group_tests(tests, NULL, NULL);
	remove_folder(NULL);
	return failed;
}
