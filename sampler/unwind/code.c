/* What instructions tell where tables are silent: the way back from a signal handler, and whether an address can be a
 * return address. Reads only the code bytes that the module was given. */
#include "internal.h"

const struct unwind_arch *unwind_arch_get(enum sp_arch arch)
{
	static const struct unwind_arch x86_64 = {
		/* rbx, rbp, r12 to r15 (System V ABI) */
		.callee_saved = (uint64_t)1 << SP_X86_64_RBX | (uint64_t)1 << SP_X86_64_RBP | (uint64_t)0xf << 12,
		.registers = SP_X86_64_RIP + 1,
		.pc = SP_X86_64_RIP,
		.sp = SP_X86_64_RSP,
		.fp = SP_X86_64_RBP,
		.lr = SP_X86_64_RIP,
	};
	static const struct unwind_arch aarch64 = {
		/* x19 to x29 (AAPCS64) */
		.callee_saved = (uint64_t)0x7ff << 19,
		.registers = SP_AARCH64_SP + 1,
		.pc = SP_AARCH64_PC,
		.sp = SP_AARCH64_SP,
		.fp = SP_AARCH64_FP,
		.lr = SP_AARCH64_LR,
	};
	switch (arch) {
	case SP_ARCH_X86_64:
		return &x86_64;
	case SP_ARCH_AARCH64:
		return &aarch64;
	default:
		return NULL;
	}
}

/* Code bytes [address, address + size), or NULL. */
static const uint8_t *code_at(const struct sp_unwind_module *module, uint64_t address, size_t size)
{
	const struct sp_unwind_section *text = &module->input.text;
	if (!text->bytes || address < text->address || address - text->address > text->size ||
	    size > text->size - (address - text->address))
		return NULL;
	return text->bytes + (address - text->address);
}

bool code_is_known(const struct sp_unwind_module *module, uint64_t address)
{
	return code_at(module, address, 1) != NULL;
}

static bool code_equals(const struct sp_unwind_module *module, uint64_t address, const uint8_t *bytes, size_t size)
{
	const uint8_t *code = code_at(module, address, size);
	return code && memcmp(code, bytes, size) == 0;
}

bool code_is_signal_return(const struct sp_unwind_module *module, uint64_t address)
{
	static const uint8_t mov_rax[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 }; /* mov $15,%rax; syscall */
	static const uint8_t mov_eax[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };             /* mov $15,%eax; syscall */
	static const uint8_t mov_x8[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 };     /* mov x8, #139; svc #0 */
	/* The address may be one before the code (a return address less one), at it, or at its second instruction. */
	if (module->input.arch == SP_ARCH_AARCH64)
		return code_equals(module, address + 1, mov_x8, sizeof(mov_x8)) ||
		       code_equals(module, address, mov_x8, sizeof(mov_x8)) ||
		       code_equals(module, address - 4, mov_x8, sizeof(mov_x8));
	return code_equals(module, address + 1, mov_rax, sizeof(mov_rax)) ||
	       code_equals(module, address, mov_rax, sizeof(mov_rax)) ||
	       code_equals(module, address - 7, mov_rax, sizeof(mov_rax)) ||
	       code_equals(module, address + 1, mov_eax, sizeof(mov_eax)) ||
	       code_equals(module, address, mov_eax, sizeof(mov_eax)) ||
	       code_equals(module, address - 5, mov_eax, sizeof(mov_eax));
}

bool code_is_fiber_start(const struct sp_unwind_module *module, uint64_t address)
{
	static const uint8_t start_context[] = {
		0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24
	};                                                           /* mov %rbx,%rsp; mov (%rsp),%rdi */
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa }; /* of a C library made for CET */
	if (module->input.arch != SP_ARCH_X86_64)
		return false;
	uint64_t start = address + 1;
	if (code_equals(module, start, endbr64, sizeof(endbr64)))
		start += sizeof(endbr64);
	return code_equals(module, start, start_context, sizeof(start_context));
}

/* The length of "ff /2" (call through a register or memory) at `code`, 0 when it is something else. */
static size_t indirect_call_length(const uint8_t *code, size_t size)
{
	size_t at = size && (code[0] & 0xf0) == 0x40; /* REX */
	if (size < at + 2 || code[at] != 0xff || (code[at + 1] & 0x38) != 0x10)
		return 0;
	uint8_t mode = code[at + 1] >> 6, memory = code[at + 1] & 7;
	size_t length = at + 2;
	if (mode == 3)
		return length;
	bool sib = memory == 4;
	if (sib && size < length + 1)
		return 0;
	bool sib_without_base = sib && (code[length] & 7) == 5;
	length += sib;
	if (mode == 1)
		length += 1;
	else if (mode == 2 || memory == 5 || sib_without_base)
		length += 4;
	return length;
}

bool code_follows_call(const struct sp_unwind_module *module, uint64_t address)
{
	if (module->input.arch == SP_ARCH_AARCH64) {
		const uint8_t *code = code_at(module, address - 4, 4);
		if (!code || (address & 3))
			return false;
		uint32_t instruction;
		memcpy(&instruction, code, sizeof(instruction));
		return (instruction & 0xfc000000) == 0x94000000 || /* bl */
		       (instruction & 0xfffffc1f) == 0xd63f0000 || /* blr */
		       (instruction & 0xfefff800) == 0xd63f0800;   /* blraa, blrab and their kin */
	}
	const uint8_t *direct = code_at(module, address - 5, 5);
	if (direct && direct[0] == 0xe8)
		return true;
	for (size_t length = 2; length <= 8; length++) {
		const uint8_t *code = code_at(module, address - length, length);
		if (code && indirect_call_length(code, length) == length)
			return true;
	}
	return false;
}
