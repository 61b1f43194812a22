/* The slow steps of an unwind: full rows, registers recovered from inner frames, code without tables. */
#include "walk.h"

bool walk_read_elsewhere(const struct walk *walk, uint64_t address, uint64_t *ret)
{
	for (size_t i = 0; i < walk->slice_count; i++) {
		const struct sp_stack_slice *slice = &walk->slices[i];
		uint64_t offset = address - slice->address;
		if (slice->size >= 8 && offset <= slice->size - 8) {
			memcpy(ret, slice->bytes + offset, 8);
			return true;
		}
	}
	return false;
}

const struct sp_code_range *walk_find_range(const struct sp_code_map *map, uint64_t address)
{
	if (!map->count)
		return NULL;
	const struct sp_code_range *low = map->ranges;
	size_t count = map->count;
	while (count > 1) {
		size_t half = count / 2;
		low += low[half].start <= address ? half : 0;
		count -= half;
	}
	return address >= low->start && address < low->end ? low : NULL;
}

const struct sp_code_range *walk_find_code(const struct sp_code_map *map, uint64_t pc, bool exact,
                                           uint64_t *ret_address)
{
	*ret_address = pc - !exact;
	const struct sp_code_range *range = walk_find_range(map, *ret_address);
	if (range || exact)
		return range;
	*ret_address = pc;
	return walk_find_range(map, pc);
}

enum sp_unwind_end walk_unreadable(const struct walk *walk, uint64_t address, bool jumped)
{
	jumped |= walk->jumped;
	/* A frame whose stack pointer followed the tables is on the dumped stack, be it ever so large; one whose stack
	 * pointer was read from memory may be anywhere, and a gap of more than the largest signal frame tells. */
	uint64_t largest_gap = jumped ? 1 << 16 : 1 << 24;
	uint64_t last_word = walk->slice->address + walk->slice->size - 7;
	if (address >= last_word && address - last_word < largest_gap)
		return SP_UNWIND_DUMP_END;
	return jumped ? SP_UNWIND_OTHER_STACK : SP_UNWIND_BAD_CFA;
}

/* ---- Registers ---- */

/* Whose registers an expression means. */
struct frame_of_walk {
	struct walk *walk;
	size_t frame;
};

static bool read_expression_register(void *context, unsigned reg, uint64_t *ret)
{
	struct frame_of_walk *at = context;
	return walk_register(at->walk, at->frame, reg, ret);
}

static bool read_expression_memory(void *context, uint64_t address, uint64_t *ret)
{
	struct frame_of_walk *at = context;
	return walk_read(at->walk, address, ret);
}

static bool evaluate(struct walk *walk, size_t frame, const struct cfi_register *rule, const uint64_t *cfa,
                     uint64_t *ret)
{
	struct frame_of_walk at = { .walk = walk, .frame = frame };
	const struct expression_context context = { .walk = &at,
		                                    .read_register = read_expression_register,
		                                    .read_memory = read_expression_memory };
	if (walk->nesting == WALK_MAX_NESTING)
		return false;
	walk->nesting++;
	bool done = expression_evaluate(&context, rule->bytes, rule->size, cfa != NULL, cfa ? *cfa : 0, ret);
	walk->nesting--;
	return done;
}

static bool is_exact(const struct walk *walk, size_t frame)
{
	return walk->frames[frame].kind == SP_FRAME_IP;
}

static uint64_t stack_pointer(const struct walk *walk, size_t frame)
{
	return frame == 0 ? walk->regs->value[walk->arch->sp] : walk->frames[frame - 1].cfa;
}

static bool find_row(struct walk *walk, size_t frame, struct cfi_fde *ret_fde)
{
	uint64_t address;
	const struct sp_code_range *range = walk_find_code(walk->map, walk->frames[frame].address,
	                                                   is_exact(walk, frame), &address);
	return range && range->module && rule_find_row(range->module, walk->scratch, address - range->bias, ret_fde);
}

/* The CFA of a frame that was stepped from, whose row is in scratch. A row with its own rule for sp has another CFA
 * than the caller's sp, which is what frames[] holds. */
static uint64_t frame_cfa(const struct walk *walk, size_t frame)
{
	const struct cfi_row *row = &walk->scratch->row;
	if (row->cfa.how == CFI_REGISTER && row->cfa_base == walk->arch->sp)
		return stack_pointer(walk, frame) + (uint64_t)row->cfa.offset;
	return walk->frames[frame].cfa;
}

/* What became of a register between a frame and its caller. */
enum passage { PASSED_ON, FOUND, LOST };

/* The register that the caller's `*reg` is in frames[frame] (PASSED_ON), or its value (FOUND). */
static enum passage pass_through(struct walk *walk, size_t frame, unsigned *reg, uint64_t *ret)
{
	bool callee_saved = walk->arch->callee_saved >> *reg & 1;
	struct cfi_fde fde;
	if (!find_row(walk, frame, &fde)) { /* stepped over without tables */
		if (*reg == walk->arch->fp && walk->frames[frame + 1].origin == SP_FOUND_FRAME_POINTER)
			return walk_read(walk, walk->frames[frame].cfa - 16, ret) ? FOUND : LOST;
		return callee_saved ? PASSED_ON : LOST;
	}
	const struct cfi_row *row = &walk->scratch->row;
	struct cfi_register rule = { .how = CFI_SAME };
	if (*reg < SP_REGS_MAX && (row->set >> *reg & 1))
		rule = row->registers[*reg];
	uint64_t cfa = frame_cfa(walk, frame), at;
	switch (rule.how) {
	case CFI_SAME:
		return callee_saved ? PASSED_ON : LOST;
	case CFI_OFFSET:
		at = cfa + (uint64_t)rule.offset;
		if (is_exact(walk, frame) && at < stack_pointer(walk, frame))
			return PASSED_ON; /* popped already: epilogues don't say so */
		return walk_read(walk, at, ret) ? FOUND : LOST;
	case CFI_VALUE_OFFSET:
		*ret = cfa + (uint64_t)rule.offset;
		return FOUND;
	case CFI_REGISTER:
		*reg = (unsigned)rule.reg;
		return rule.reg < SP_REGS_MAX ? PASSED_ON : LOST;
	case CFI_EXPRESSION:
		return evaluate(walk, frame, &rule, &cfa, &at) && walk_read(walk, at, ret) ? FOUND : LOST;
	case CFI_VALUE_EXPRESSION:
		return evaluate(walk, frame, &rule, &cfa, ret) ? FOUND : LOST;
	default:
		return LOST;
	}
}

/* Looks from the frame inwards for the one that saved the register. */
static bool recover_register(struct walk *walk, size_t frame, unsigned reg, uint64_t *ret)
{
	for (size_t i = frame; i > 0; i--) {
		if ((walk->memo_set >> reg & 1) && walk->memo[reg].frame == i) {
			*ret = walk->memo[reg].value;
			return true;
		}
		if (walk->row_budget == 0)
			return false;
		walk->row_budget--;
		enum passage passage = pass_through(walk, i - 1, &reg, ret);
		if (passage != PASSED_ON)
			return passage == FOUND;
		if (reg == walk->arch->sp || reg == walk->arch->pc)
			return walk_register(walk, i - 1, reg, ret);
	}
	*ret = walk->regs->value[reg];
	return walk->regs->known >> reg & 1;
}

bool walk_register(struct walk *walk, size_t frame, unsigned reg, uint64_t *ret)
{
	if (reg >= SP_REGS_MAX)
		return false;
	if (reg == walk->arch->sp) {
		*ret = stack_pointer(walk, frame);
		return true;
	}
	if (reg == walk->arch->pc) {
		*ret = walk->frames[frame].address;
		return true;
	}
	bool current = frame == walk->count - 1;
	if (current && reg == walk->arch->fp) {
		*ret = walk->fp;
		return walk->fp_known;
	}
	if (!recover_register(walk, frame, reg, ret))
		return false;
	if (current) {
		walk->memo_set |= (uint64_t)1 << reg;
		walk->memo[reg] = (struct walk_memo){ .frame = (uint32_t)frame, .value = *ret };
	}
	return true;
}

/* ---- Rows ---- */

/* The caller's value of a register by its rule. */
static bool apply_rule(struct walk *walk, unsigned reg, const struct cfi_register *rule, uint64_t cfa, uint64_t *ret)
{
	size_t frame = walk->count - 1;
	uint64_t at;
	switch (rule->how) {
	case CFI_SAME:
		return walk_register(walk, frame, reg, ret);
	case CFI_OFFSET:
		at = cfa + (uint64_t)rule->offset;
		if (walk->exact && at < walk->sp)
			return walk_register(walk, frame, reg, ret);
		return walk_read(walk, at, ret);
	case CFI_VALUE_OFFSET:
		*ret = cfa + (uint64_t)rule->offset;
		return true;
	case CFI_REGISTER:
		return rule->reg < SP_REGS_MAX && walk_register(walk, frame, (unsigned)rule->reg, ret);
	case CFI_EXPRESSION:
		return evaluate(walk, frame, rule, &cfa, &at) && walk_read(walk, at, ret);
	case CFI_VALUE_EXPRESSION:
		return evaluate(walk, frame, rule, &cfa, ret);
	default:
		return false;
	}
}

static struct cfi_register take_rule(const struct walk *walk, unsigned reg)
{
	const struct cfi_row *row = &walk->scratch->row;
	return row->set >> reg & 1 ? row->registers[reg] : (struct cfi_register){ .how = CFI_SAME };
}

static bool row_cfa(struct walk *walk, const struct cfi_register *cfa, unsigned base, uint64_t *ret)
{
	if (cfa->how == CFI_VALUE_EXPRESSION)
		return evaluate(walk, walk->count - 1, cfa, NULL, ret);
	if (!walk_register(walk, walk->count - 1, base, ret))
		return false;
	*ret += (uint64_t)cfa->offset;
	return true;
}

int walk_step_row(struct walk *walk, struct step *ret)
{
	*ret = (struct step){ .origin = SP_FOUND_EXACT };
	struct cfi_fde fde;
	if (!find_row(walk, walk->count - 1, &fde))
		return SP_UNWIND_NO_TABLES;
	/* Recovering registers looks up other rows: take from this one what is needed. */
	const struct unwind_arch *arch = walk->arch;
	unsigned ra_register = fde.cie.return_register;
	struct cfi_register cfa_rule = walk->scratch->row.cfa, ra_rule = take_rule(walk, ra_register);
	struct cfi_register fp_rule = take_rule(walk, arch->fp), sp_rule = take_rule(walk, arch->sp);
	unsigned base = walk->scratch->row.cfa_base;
	if (ra_rule.how == CFI_UNDEFINED)
		return SP_UNWIND_ROOT;
	ret->interrupted = fde.cie.signal_frame;
	ret->jumped = cfa_rule.how != CFI_REGISTER || base != arch->sp || sp_rule.how != CFI_SAME;

	uint64_t cfa;
	if (!row_cfa(walk, &cfa_rule, base, &cfa))
		return SP_UNWIND_BAD_CFA;
	ret->cfa = ret->sp = cfa;
	if (sp_rule.how != CFI_SAME && !apply_rule(walk, arch->sp, &sp_rule, cfa, &ret->sp))
		return SP_UNWIND_BAD_CFA;
	if (ra_rule.how == CFI_SAME && ra_register == arch->pc)
		return SP_UNWIND_BAD_CFA; /* would go on at the same place for ever */
	if (!apply_rule(walk, ra_register, &ra_rule, cfa, &ret->pc))
		return ra_rule.how == CFI_OFFSET
		           ? (int)walk_unreadable(walk, cfa + (uint64_t)ra_rule.offset, ret->jumped)
		           : SP_UNWIND_BAD_CFA;
	ret->pc = walk_strip(walk, ret->pc);
	bool popped = walk->exact && walk->fp_known && fp_rule.how == CFI_EXPRESSION && walk->fp >= cfa;
	if (popped) /* a frame's own frame pointer lies below its CFA */
		fp_rule.how = CFI_SAME;
	ret->fp_known = apply_rule(walk, arch->fp, &fp_rule, cfa, &ret->fp);
	return WALK_ON;
}

/* ---- Code without tables ---- */

/* True when the address can be one that a call left behind; *ret_verified when the code says so. */
static bool is_return_address(const struct walk *walk, uint64_t address, bool *ret_verified)
{
	const struct sp_code_range *range = walk_find_range(walk->map, address - 1);
	*ret_verified = false;
	if (!range)
		return false;
	if (!range->module || !code_is_known(range->module, address - 1 - range->bias))
		return true;
	*ret_verified = code_follows_call(range->module, address - range->bias);
	return *ret_verified;
}

/* By the chain of frame pointers: *fp is the caller's, the word above it the return address. */
static int step_by_frame_pointer(const struct walk *walk, struct step *ret)
{
	uint64_t caller_fp, ra;
	if (!walk->fp_known || walk->fp % 8 != 0 || walk->fp < walk->sp)
		return SP_UNWIND_NO_TABLES;
	if (!walk_read(walk, walk->fp, &caller_fp) || !walk_read(walk, walk->fp + 8, &ra))
		return walk_unreadable(walk, walk->fp + 8, false) == SP_UNWIND_DUMP_END ? SP_UNWIND_DUMP_END
		                                                                        : SP_UNWIND_NO_TABLES;
	ra = walk_strip(walk, ra);
	bool verified;
	if (ra != 0 && !is_return_address(walk, ra, &verified))
		return SP_UNWIND_NO_TABLES;
	/* A caller that uses tables may hold anything in the register; if the code can't vouch for the return address,
	 * a sound chain must. */
	if (ra != 0 && !verified && caller_fp != 0 && caller_fp <= walk->fp)
		return SP_UNWIND_NO_TABLES;
	*ret = (struct step){ .cfa = walk->fp + 16,
		              .sp = walk->fp + 16,
		              .pc = ra,
		              .fp = caller_fp,
		              .fp_known = true,
		              .origin = SP_FOUND_FRAME_POINTER };
	return WALK_ON;
}

/* The top frame may be before its prologue or have none: the return address is where the call left it. */
static bool guess_return_address(struct walk *walk, struct step *ret)
{
	uint64_t ra, cfa = walk->sp;
	if (walk->arch->lr == walk->arch->pc) {
		if (!walk_read(walk, walk->sp, &ra))
			return false;
		cfa += 8;
	} else if (!walk_register(walk, walk->count - 1, walk->arch->lr, &ra)) {
		return false;
	}
	ra = walk_strip(walk, ra);
	bool verified;
	if (!is_return_address(walk, ra, &verified) || !verified)
		return false;
	*ret = (struct step){
		.cfa = cfa, .sp = cfa, .pc = ra, .fp = walk->fp, .fp_known = walk->fp_known, .origin = SP_FOUND_GUESS
	};
	return true;
}

int walk_step_without_tables(struct walk *walk, struct step *ret)
{
	*ret = (struct step){ 0 };
	if (!walk->exact)
		return walk->fp_known && walk->fp == 0 ? (int)SP_UNWIND_ROOT : step_by_frame_pointer(walk, ret);
	/* Assembly in a file has seldom a frame of its own; code made at run time has, but for its first instructions,
	 * and leaves old return addresses lying about. */
	bool from_file = walk->range && walk->range->module &&
	                 walk->pc - walk->range->start < walk->range->end - walk->range->start;
	if (from_file && guess_return_address(walk, ret))
		return WALK_ON;
	int result = step_by_frame_pointer(walk, ret);
	if (result != WALK_ON && !from_file && guess_return_address(walk, ret))
		return WALK_ON;
	return result;
}
