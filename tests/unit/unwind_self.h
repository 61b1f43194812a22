/* For tests that unwind their own process: its loaded modules as an address space, and its registers and stack. */
#ifndef TESTS_UNIT_UNWIND_SELF_H
#define TESTS_UNIT_UNWIND_SELF_H

#include "sampler/unwind/unwind.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define SELF_MAX_RANGES 64

struct self_map {
	struct sp_code_range ranges[SELF_MAX_RANGES];
	struct sp_unwind_module *modules[SELF_MAX_RANGES];
	size_t count;
	bool without_search_tables;
};

#if defined(__x86_64__)
#define SELF_ARCH SP_ARCH_X86_64
#elif defined(__aarch64__)
#define SELF_ARCH SP_ARCH_AARCH64
#endif

static inline void self_add_range(struct self_map *self, const struct sp_unwind_input *input, uint64_t bias,
                                  uint64_t address, uint64_t size)
{
	struct sp_unwind_module *module;
	if (self->count == SELF_MAX_RANGES || sp_unwind_module_create(input, &module) != NULL)
		abort();
	size_t at = self->count++;
	while (at > 0 && self->ranges[at - 1].start > bias + address) {
		self->ranges[at] = self->ranges[at - 1];
		self->modules[at] = self->modules[at - 1];
		at--;
	}
	self->ranges[at] = (struct sp_code_range){ bias + address, bias + address + size, bias, module };
	self->modules[at] = module;
}

static inline int self_add_module(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	struct self_map *self = context;
	struct sp_unwind_input input = { .arch = SELF_ARCH };
	const ElfW(Phdr) *code = NULL;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const uint8_t *bytes = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr);
		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) {
			code = segment;
			input.text = (struct sp_unwind_section){ bytes, segment->p_filesz, segment->p_vaddr };
		} else if (segment->p_type == PT_GNU_EH_FRAME) {
			input.eh_frame_hdr = (struct sp_unwind_section){ bytes, segment->p_filesz, segment->p_vaddr };
		}
	}
	if (!code)
		return 0;
	if (input.eh_frame_hdr.bytes) { /* pc-relative in all that linkers write; .eh_frame goes to its segment's end */
		int32_t distance;
		memcpy(&distance, input.eh_frame_hdr.bytes + 4, sizeof(distance));
		uint64_t address = input.eh_frame_hdr.address + 4 + (uint64_t)(int64_t)distance;
		for (int i = 0; i < info->dlpi_phnum; i++) {
			const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
			if (segment->p_type == PT_LOAD && address - segment->p_vaddr < segment->p_filesz)
				input.eh_frame = (struct sp_unwind_section){
					(const uint8_t *)(info->dlpi_addr + address),
					segment->p_filesz - (address - segment->p_vaddr), address
				};
		}
	}
	if (self->without_search_tables)
		input.eh_frame_hdr.bytes = NULL;
	if (info->dlpi_name[0] == 0) /* the program itself */
		input.entry = getauxval(AT_ENTRY) - info->dlpi_addr;
	self_add_range(self, &input, info->dlpi_addr, code->p_vaddr, code->p_memsz);
	return 0;
}

static inline void self_map_init(struct self_map *self, bool without_search_tables)
{
	self->count = 0;
	self->without_search_tables = without_search_tables;
	dl_iterate_phdr(self_add_module, self);
}

/* Emulators put the way back from signal handlers on a page that is in no module. */
static inline void self_map_add_trampoline(struct self_map *self, uint64_t address)
{
	for (size_t i = 0; i < self->count; i++)
		if (address >= self->ranges[i].start && address < self->ranges[i].end)
			return;
	struct sp_unwind_input input = { .arch = SELF_ARCH };
	uint64_t page = address & ~(uint64_t)4095;
	input.text = (struct sp_unwind_section){ (const uint8_t *)page, 4096, page };
	self_add_range(self, &input, 0, page, 4096);
}

static inline void self_map_deinit(struct self_map *self)
{
	for (size_t i = 0; i < self->count; i++)
		sp_unwind_module_destroy(self->modules[i]);
}

/* The registers here. Must be expanded in the function whose frame is to be the top one. */
#if defined(__x86_64__)
#define SELF_REGISTERS(regs)                                                  \
	do {                                                                  \
		memset(regs, 0, sizeof(*(regs)));                             \
		(regs)->arch = SP_ARCH_X86_64;                                \
		(regs)->known = 0x1f0c8; /* rbx, rbp, rsp, r12 to r15, rip */ \
		__asm__ volatile("leaq 0f(%%rip), %%rax\n\t"                  \
		                 "movq %%rax, 128(%0)\n\t"                    \
		                 "movq %%rbx, 24(%0)\n\t"                     \
		                 "movq %%rbp, 48(%0)\n\t"                     \
		                 "movq %%rsp, 56(%0)\n\t"                     \
		                 "movq %%r12, 96(%0)\n\t"                     \
		                 "movq %%r13, 104(%0)\n\t"                    \
		                 "movq %%r14, 112(%0)\n\t"                    \
		                 "movq %%r15, 120(%0)\n"                      \
		                 "0:"                                         \
		                 :                                            \
		                 : "c"((regs)->value)                         \
		                 : "rax", "memory");                          \
	} while (0)
#elif defined(__aarch64__)
#define SELF_REGISTERS(regs)                                          \
	do {                                                          \
		memset(regs, 0, sizeof(*(regs)));                     \
		(regs)->arch = SP_ARCH_AARCH64;                       \
		(regs)->known = 0x1fff80000; /* x19 to x30, sp, pc */ \
		__asm__ volatile("adr x10, 0f\n\t"                    \
		                 "str x10, [%0, #256]\n\t"            \
		                 "mov x10, sp\n\t"                    \
		                 "stp x30, x10, [%0, #240]\n\t"       \
		                 "stp x19, x20, [%0, #152]\n\t"       \
		                 "stp x21, x22, [%0, #168]\n\t"       \
		                 "stp x23, x24, [%0, #184]\n\t"       \
		                 "stp x25, x26, [%0, #200]\n\t"       \
		                 "stp x27, x28, [%0, #216]\n\t"       \
		                 "str x29, [%0, #232]\n"              \
		                 "0:"                                 \
		                 :                                    \
		                 : "r"((regs)->value)                 \
		                 : "x10", "memory");                  \
	} while (0)
#endif

/* The main thread's stack from sp up. */
static inline struct sp_stack_slice self_stack(const struct sp_regs *regs)
{
	uint64_t sp = regs->value[regs->arch == SP_ARCH_X86_64 ? SP_X86_64_RSP : SP_AARCH64_SP];
	uint64_t end = getauxval(AT_RANDOM); /* lies above all frames */
	return (struct sp_stack_slice){ .address = sp, .bytes = (const uint8_t *)sp, .size = end - sp };
}

#endif
