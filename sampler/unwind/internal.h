/* What the files of the unwinder share: modules, rows of call frame information, rules.
 *
 * A look-up goes: address -> FDE (find.c) -> CFI program run up to the address, giving a row (cfi.c) -> a rule of eight
 * bytes (rule.c), which the unwinder keeps in its cache (unwinder.c). Rows too strange for a rule are used as rows. */
#ifndef SP_SAMPLER_UNWIND_INTERNAL_H
#define SP_SAMPLER_UNWIND_INTERNAL_H

#include "common/cursor.h"
#include "sampler/unwind/unwind.h"

#include <pthread.h>
#include <stdatomic.h>

/* Limits on hostile input. */
#define CFI_MAX_OPERATIONS 65536 /* in the programs of one FDE */
#define CFI_MAX_STATES 16        /* nested DW_CFA_remember_state */
#define EXPRESSION_MAX_STEPS 1000
#define EXPRESSION_STACK 64

/* What differs between the architectures for the common code. */
struct unwind_arch {
	uint64_t callee_saved; /* bit n: register n keeps its value across calls */
	uint8_t registers;     /* columns kept; rules for higher ones (vector registers) are skipped */
	uint8_t pc, sp, fp;    /* DWARF numbers */
	uint8_t lr;            /* return address register; equals pc where the address is on the stack */
};
const struct unwind_arch *unwind_arch_get(enum sp_arch arch);

/* Which table an FDE is from. */
enum cfi_table { CFI_EH_FRAME, CFI_DEBUG_FRAME };

/* One function of a lazily made index, sorted by start. */
struct cfi_index_entry {
	uint64_t start;  /* svma */
	uint64_t offset; /* of the FDE in its section */
};
struct cfi_index {
	struct cfi_index_entry *entries; /* owned */
	size_t count;
};

struct sp_unwind_module {
	struct sp_unwind_input input;
	const struct unwind_arch *arch;
	/* The binary search table of .eh_frame_hdr; NULL when there is none or it is not sound. */
	const uint8_t *search_table;
	size_t search_count;
	/* Indexes by enum cfi_table, made on the first look-up that needs one. */
	pthread_mutex_t index_lock;
	_Atomic(struct cfi_index *) indexes[2];
};

/* A CIE, parsed. */
struct cfi_cie {
	const struct sp_unwind_module *module; /* NULL = empty slot of the cache */
	uint64_t offset;                       /* in its section */
	uint8_t table;                         /* enum cfi_table */
	uint8_t return_register;
	uint8_t pointer_encoding; /* DW_EH_PE_* of the FDE's addresses */
	uint8_t address_size;
	bool signal_frame;     /* augmentation 'S' */
	bool has_augmentation; /* 'z': FDEs carry a length */
	uint64_t code_align;
	int64_t data_align;
	const uint8_t *program; /* initial instructions */
	size_t program_size;
};

struct cfi_fde {
	struct cfi_cie cie;
	uint64_t start, end; /* svma */
	const uint8_t *program;
	size_t program_size;
};

enum cfi_how {
	CFI_SAME, /* also when nothing was said */
	CFI_UNDEFINED,
	CFI_OFFSET,           /* saved at CFA + offset */
	CFI_VALUE_OFFSET,     /* is CFA + offset */
	CFI_REGISTER,         /* is in another register */
	CFI_EXPRESSION,       /* saved at the expression's result */
	CFI_VALUE_EXPRESSION, /* is the expression's result */
};

/* One register's rule. For expressions, bytes and size of the DWARF expression. */
struct cfi_register {
	uint8_t how; /* enum cfi_how */
	uint32_t size;
	union {
		int64_t offset;
		uint64_t reg;
		const uint8_t *bytes;
	};
};

struct cfi_row {
	struct cfi_register cfa; /* how: CFI_REGISTER (cfa_base + offset) or CFI_VALUE_EXPRESSION */
	uint8_t cfa_base;
	uint64_t set; /* bit n: registers[n] holds a rule; else CFI_SAME */
	struct cfi_register registers[SP_REGS_MAX];
};

/* Working storage, so that a step allocates nothing. */
struct cfi_scratch {
	struct cfi_cie cies[32]; /* direct-mapped cache */
	struct cfi_row row, initial;
	struct cfi_row states[CFI_MAX_STATES];
};

/* find.c */

/* Checks the module's .eh_frame_hdr and notes its table. */
void cfi_check_search_table(struct sp_unwind_module *module);
/* Finds the FDE that covers `address` (svma). */
bool cfi_find(const struct sp_unwind_module *module, struct cfi_scratch *scratch, uint64_t address,
              struct cfi_fde *ret);
void cfi_indexes_deinit(struct sp_unwind_module *module);

/* cfi.c */

/* One entry of a table. *ret_next is where the following one starts; false at the end or on a malformed length. */
struct cfi_entry {
	bool is_cie;
	uint64_t cie;          /* offset of the CIE, for an FDE */
	struct sp_cursor body; /* after the CIE id; offsets are those of the section */
};
bool cfi_read_entry(const struct sp_unwind_module *module, enum cfi_table table, uint64_t offset, struct cfi_entry *ret,
                    uint64_t *ret_next);
bool cfi_parse_fde(const struct sp_unwind_module *module, struct cfi_scratch *scratch, enum cfi_table table,
                   uint64_t offset, struct cfi_fde *ret);
/* A DW_EH_PE-encoded address. Indirect ones and unknown encodings are malformed. */
uint64_t cfi_read_pointer(struct sp_cursor *cursor, uint8_t encoding, unsigned address_size,
                          const struct sp_unwind_section *section, uint64_t data_base);
/* Runs the programs up to `address`; the row is scratch->row. */
bool cfi_run(const struct cfi_fde *fde, const struct unwind_arch *arch, uint64_t address, struct cfi_scratch *scratch);

/* rule.c */

enum rule_kind {
	RULE_NONE,     /* no tables cover the address */
	RULE_END,      /* the outermost frame */
	RULE_SP,       /* CFA = sp + 8 * cfa */
	RULE_FP,       /* CFA = fp + 8 * cfa */
	RULE_SP_DEREF, /* CFA = *(sp + 8 * cfa) + 8 * ra; the return address is at CFA - 8 */
	RULE_FP_DEREF, /* CFA = *(fp + 8 * cfa) + 8 * ra; the same */
	RULE_INDEXED,  /* CFA = *(sp + 8 * index + 8 * cfa) + 8 * ra; the same; index: flags >> RULE_INDEX_SHIFT */
	RULE_SIGNAL,   /* CFA = *(sp + 8 * cfa), return address *(sp + 8 * ra), fp = *(sp + 8 * fp) */
	RULE_ROW,      /* anything else: look the row up again */
};
enum {
	RULE_FP_SAME = 0,
	RULE_FP_AT_CFA = 1, /* saved at CFA + 8 * fp */
	RULE_FP_AT_FP = 2,  /* saved at fp + 8 * fp */
	RULE_FP_AT_SP = 3,  /* saved at sp + 8 * fp */
	RULE_FP_MASK = 3,
	RULE_RA_IN_LR = 4,    /* not saved: in the link register */
	RULE_INTERRUPTED = 8, /* the caller was interrupted (signal frame): its pc is exact */
	RULE_INDEX_SHIFT = 4, /* RULE_INDEXED: the register; RULE_FP_* is then RULE_FP_SAME or _AT_CFA */
};

/* How to step from one frame to its caller. */
struct rule {
	uint8_t kind;  /* enum rule_kind */
	uint8_t flags; /* RULE_FP_* and following */
	int16_t cfa, ra, fp;
};

/* The rule for code at `address` (svma). */
struct rule rule_make(const struct sp_unwind_module *module, struct cfi_scratch *scratch, uint64_t address);
/* The row for code at `address`, in scratch->row; *ret_fde tells about its CIE. Rows are made up for signal
 * trampolines that are known by their code. */
bool rule_find_row(const struct sp_unwind_module *module, struct cfi_scratch *scratch, uint64_t address,
                   struct cfi_fde *ret_fde);

/* code.c: looks at instructions */

/* True when the bytes at `address` are the kernel's way back from a signal handler. */
bool code_is_signal_return(const struct sp_unwind_module *module, uint64_t address);
/* True when a return to `address` + 1 ends a fiber of makecontext(): glibc has no tables for it. */
bool code_is_fiber_start(const struct sp_unwind_module *module, uint64_t address);
/* True when the instruction that ends at `address` is a call. */
bool code_follows_call(const struct sp_unwind_module *module, uint64_t address);
/* True when the module has the code bytes around `address`, so that code_follows_call() can know. */
bool code_is_known(const struct sp_unwind_module *module, uint64_t address);

/* aarch64_code.c */

/* The rule for an interrupted instruction (not for a return address) in a prologue or epilogue, from the instructions.
 */
bool aarch64_follow_code(const struct sp_unwind_module *module, const struct cfi_fde *fde, struct cfi_scratch *scratch,
                         uint64_t address, struct rule *ret);

/* expression.c */

struct expression_context {
	void *walk;
	bool (*read_register)(void *walk, unsigned reg, uint64_t *ret);
	bool (*read_memory)(void *walk, uint64_t address, uint64_t *ret);
};
/* Evaluates a DWARF expression; `initial` (the CFA) is pushed first when has_initial. */
bool expression_evaluate(const struct expression_context *context, const uint8_t *bytes, size_t size, bool has_initial,
                         uint64_t initial, uint64_t *ret);

#endif
