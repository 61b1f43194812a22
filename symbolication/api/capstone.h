/* capstone, loaded when the first code is disassembled (common/library.h): its functions are called by their own names
 * after api_need_capstone(). */
#ifndef SP_SYMBOLICATION_API_CAPSTONE_H
#define SP_SYMBOLICATION_API_CAPSTONE_H

#include "common/library.h"

#include <capstone/capstone.h>

#define API_CAPSTONE_FUNCTIONS(X) \
	X(cs_close)               \
	X(cs_disasm_iter)         \
	X(cs_free)                \
	X(cs_insn_group)          \
	X(cs_malloc)              \
	X(cs_open)                \
	X(cs_option)              \
	X(cs_strerror)

struct api_capstone {
	API_CAPSTONE_FUNCTIONS(SP_LIBRARY_MEMBER)
};
extern struct api_capstone api_capstone;

/* Loads it unless it is there. In any thread. */
struct sp_error *api_need_capstone(void);

#define cs_close api_capstone.cs_close
#define cs_disasm_iter api_capstone.cs_disasm_iter
#define cs_free api_capstone.cs_free
#define cs_insn_group api_capstone.cs_insn_group
#define cs_malloc api_capstone.cs_malloc
#define cs_open api_capstone.cs_open
#define cs_option api_capstone.cs_option
#define cs_strerror api_capstone.cs_strerror

#endif
