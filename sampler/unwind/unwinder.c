/* The unwinder's loop, its cache of rules, and modules.
 *
 * Most frames are in functions seen a moment ago at the same address, so a direct-mapped cache keyed on (module,
 * address in it) answers most look-ups with eight bytes that say how to step. It is shared by all processes that the
 * unwinder serves and survives exec. A miss interprets the one FDE concerned. */
#include "walk.h"

#include <stdlib.h>

#define CACHE_BITS 14
#define CACHE_SLOTS (1u << CACHE_BITS)

/* The tag names the module and the bits of the address that the slot number does not: together they are exact, so a
 * hit can't be wrong. 0 = empty. */
struct cache_slot {
	uint64_t tag;
	struct rule rule;
};

struct sp_unwinder {
	struct cache_slot cache[CACHE_SLOTS];
	struct cfi_scratch scratch;
	struct sp_unwind_stats stats;
	struct walk walk;
};

/* ---- Modules ---- */

struct sp_error *sp_unwind_module_create(const struct sp_unwind_input *input, struct sp_unwind_module **ret)
{
	const struct unwind_arch *arch = unwind_arch_get(input->arch);
	if (!arch || input->big_endian)
		return sp_error_create(SP_ERROR_UNSUPPORTED,
		                       "cannot unwind code other than x86-64 and little-endian AArch64");
	struct sp_unwind_module *module = calloc(1, sizeof(*module));
	if (!module)
		return sp_error_no_memory();
	module->input = *input;
	module->arch = arch;
	pthread_mutex_init(&module->index_lock, NULL);
	cfi_check_search_table(module);
	*ret = module;
	return NULL;
}

void sp_unwind_module_destroy(struct sp_unwind_module *module)
{
	if (!module)
		return;
	cfi_indexes_deinit(module);
	pthread_mutex_destroy(&module->index_lock);
	free(module);
}

/* ---- Unwinders ---- */

struct sp_error *sp_unwinder_create(struct sp_unwinder **ret)
{
	struct sp_unwinder *unwinder = calloc(1, sizeof(*unwinder));
	if (!unwinder)
		return sp_error_no_memory();
	*ret = unwinder;
	return NULL;
}

void sp_unwinder_destroy(struct sp_unwinder *unwinder)
{
	free(unwinder);
}

void sp_unwinder_stats(const struct sp_unwinder *unwinder, struct sp_unwind_stats *ret)
{
	*ret = unwinder->stats;
}

/* Addresses are cached when they are below 4 GiB in the file: 18 bits of them are in the tag. */
#define TAG_ADDRESS_BITS (32 - CACHE_BITS)

static inline uint64_t module_tag(const struct sp_unwind_module *module)
{
	return (uint64_t)(uintptr_t)module >> 4 << TAG_ADDRESS_BITS; /* allocations are 16-byte aligned */
}

void sp_unwinder_forget(struct sp_unwinder *unwinder, const struct sp_unwind_module *module)
{
	for (size_t i = 0; i < CACHE_SLOTS; i++)
		if (unwinder->cache[i].tag >> TAG_ADDRESS_BITS << TAG_ADDRESS_BITS == module_tag(module))
			unwinder->cache[i] = (struct cache_slot){ 0 };
	for (size_t i = 0; i < sizeof(unwinder->scratch.cies) / sizeof(unwinder->scratch.cies[0]); i++)
		if (unwinder->scratch.cies[i].module == module)
			unwinder->scratch.cies[i] = (struct cfi_cie){ 0 };
}

/* The rule at `address` of the module. */
static inline struct rule find_rule(struct sp_unwinder *unwinder, const struct sp_unwind_module *module,
                                    uint64_t address)
{
	uint64_t relative = address - module->input.image_base;
	uint64_t hash = (uint64_t)(uintptr_t)module * 0x9e3779b97f4a7c15u >> 32;
	struct cache_slot *slot = &unwinder->cache[(relative ^ hash) & (CACHE_SLOTS - 1)];
	uint64_t tag = module_tag(module) | relative >> CACHE_BITS;
	if (__builtin_expect(slot->tag == tag, 1)) {
		unwinder->stats.cache_hits++;
		return slot->rule;
	}
	unwinder->stats.cache_misses++;
	struct rule rule = rule_make(module, &unwinder->scratch, address);
	if (relative >> 32 == 0)
		*slot = (struct cache_slot){ .tag = tag, .rule = rule };
	return rule;
}

/* ---- The loop ---- */

static uint64_t eighths(int16_t value)
{
	return (uint64_t)(int64_t)value * 8;
}

/* The CFA by a rule of a kind that has one. */
static inline int rule_cfa(struct walk *walk, struct rule rule, uint64_t *ret)
{
	uint64_t index = 0, at = walk->sp + eighths(rule.cfa);
	switch (rule.kind) {
	case RULE_SP:
		*ret = at;
		return WALK_ON;
	case RULE_FP:
		*ret = walk->fp + eighths(rule.cfa);
		return walk->fp_known ? WALK_ON : SP_UNWIND_BAD_CFA;
	case RULE_FP_DEREF:
		if (!walk->fp_known)
			return SP_UNWIND_BAD_CFA;
		at = walk->fp + eighths(rule.cfa);
		break;
	case RULE_INDEXED:
		if (!walk_register(walk, walk->count - 1, rule.flags >> RULE_INDEX_SHIFT, &index))
			return SP_UNWIND_BAD_CFA;
		at += index * 8;
		break;
	default:
		break;
	}
	if (!walk_read(walk, at, ret))
		return walk_unreadable(walk, at, false);
	*ret += eighths(rule.ra);
	return WALK_ON;
}

/* The caller's frame pointer. */
static inline void rule_frame_pointer(struct walk *walk, struct rule rule, uint64_t cfa, struct step *step)
{
	uint64_t at = eighths(rule.fp);
	switch (rule.flags & RULE_FP_MASK) {
	case RULE_FP_SAME:
		step->fp = walk->fp;
		step->fp_known = walk->fp_known;
		return;
	case RULE_FP_AT_CFA:
		at += cfa;
		break;
	case RULE_FP_AT_FP:
		if (walk->exact && walk->fp >= cfa) { /* a frame's own frame pointer lies below: popped already */
			step->fp = walk->fp;
			step->fp_known = walk->fp_known;
			return;
		}
		at += walk->fp;
		break;
	default:
		at += walk->sp;
		break;
	}
	if (walk->exact && at < walk->sp) { /* popped already: epilogues don't say so */
		step->fp = walk->fp;
		step->fp_known = walk->fp_known;
		return;
	}
	step->fp_known = walk_read(walk, at, &step->fp);
}

/* Steps with a rule that has a CFA. */
static inline int step_by_rule(struct walk *walk, struct rule rule, struct step *ret)
{
	uint64_t ra_at;
	ret->cfa = 0;
	int result = rule_cfa(walk, rule, &ret->cfa);
	if (result != WALK_ON)
		return result;
	ret->sp = ret->cfa;
	ret->jumped = rule.kind > RULE_FP;
	ret->interrupted = rule.flags & RULE_INTERRUPTED && rule.kind != RULE_INDEXED;
	ret->origin = SP_FOUND_EXACT;
	if (rule.flags & RULE_RA_IN_LR && rule.kind != RULE_INDEXED) {
		if (!walk_register(walk, walk->count - 1, walk->arch->lr, &ret->pc))
			return SP_UNWIND_BAD_CFA;
	} else {
		ra_at = ret->cfa + (rule.kind > RULE_FP ? (uint64_t)-8 : eighths(rule.ra));
		if (__builtin_expect(!walk_read(walk, ra_at, &ret->pc), 0))
			return walk_unreadable(walk, ra_at, ret->jumped);
	}
	ret->pc = walk_strip(walk, ret->pc);
	rule_frame_pointer(walk, rule, ret->cfa, ret);
	return WALK_ON;
}

/* Out of a signal handler: all registers are in the signal frame. */
static int step_by_signal(struct walk *walk, struct rule rule, struct step *ret)
{
	*ret = (struct step){ .interrupted = true, .jumped = true, .origin = SP_FOUND_EXACT };
	uint64_t ra_at = walk->sp + eighths(rule.ra);
	if (!walk_read(walk, walk->sp + eighths(rule.cfa), &ret->cfa) || !walk_read(walk, ra_at, &ret->pc))
		return walk_unreadable(walk, ra_at, false);
	ret->sp = ret->cfa;
	ret->fp_known = walk_read(walk, walk->sp + eighths(rule.fp), &ret->fp);
	return WALK_ON;
}

static int step_once(struct sp_unwinder *unwinder, struct walk *walk, struct step *ret)
{
	uint64_t address = walk->pc - !walk->exact;
	const struct sp_code_range *range = walk->range;
	if (__builtin_expect(!range || address - range->start >= range->end - range->start, 0)) {
		range = walk_find_code(walk->map, walk->pc, walk->exact, &address);
		if (range)
			walk->range = range;
	}
	if (!range || !range->module || range->module->arch != walk->arch)
		return walk_step_without_tables(walk, ret);
	struct rule rule = find_rule(unwinder, range->module, address - range->bias);
	switch (rule.kind) {
	case RULE_NONE:
		return walk_step_without_tables(walk, ret);
	case RULE_END:
		return SP_UNWIND_ROOT;
	case RULE_SIGNAL:
		return step_by_signal(walk, rule, ret);
	case RULE_ROW:
		return walk_step_row(walk, ret);
	default:
		return step_by_rule(walk, rule, ret);
	}
}

static bool slice_holds(const struct sp_stack_slice *slice, uint64_t address)
{
	return address - slice->address < slice->size;
}

/* Moves to the caller's registers. A stack grows down, so callers are higher up, unless the stack pointer moved to
 * another stack by a signal frame or the like. */
static int take_step(struct walk *walk, const struct step *step)
{
	/* A leaf on AArch64 has no frame, and longjmp() has already taken its target's stack pointer. */
	if (__builtin_expect(step->sp < walk->sp || (step->sp == walk->sp && !walk->exact), 0)) {
		if (!step->jumped || slice_holds(walk->slice, step->sp))
			return SP_UNWIND_BAD_CFA;
	}
	if (step->jumped && !slice_holds(walk->slice, step->sp)) {
		for (size_t i = 0; i < walk->slice_count; i++) {
			if (!slice_holds(&walk->slices[i], step->sp))
				continue;
			if (walk->jump_budget-- == 0)
				return SP_UNWIND_BAD_CFA;
			walk->slice = &walk->slices[i];
			break;
		}
	}
	walk->pc = step->pc;
	walk->sp = step->sp;
	walk->fp = step->fp;
	walk->fp_known = step->fp_known;
	walk->exact = step->interrupted;
	walk->jumped = step->jumped || (walk->jumped && !slice_holds(walk->slice, step->sp));
	return WALK_ON;
}

static enum sp_unwind_end run(struct sp_unwinder *unwinder, struct walk *walk, size_t capacity)
{
	struct step step;
	for (;;) {
		int result = step_once(unwinder, walk, &step);
		struct sp_frame *frame = &walk->frames[walk->count - 1];
		if (__builtin_expect(result != WALK_ON, 0)) {
			if (result == SP_UNWIND_DUMP_END)
				frame->cfa = step.cfa;
			return (enum sp_unwind_end)result;
		}
		frame->cfa = step.sp;
		if (step.interrupted) /* nothing called the trampoline: its pc is what runs next */
			frame->kind = SP_FRAME_IP;
		if (step.pc == 0)
			return SP_UNWIND_ROOT;
		result = take_step(walk, &step);
		if (result != WALK_ON)
			return (enum sp_unwind_end)result;
		if (walk->count == capacity)
			return SP_UNWIND_DEPTH;
		walk->frames[walk->count++] = (struct sp_frame){
			.address = walk->pc,
			.kind = walk->exact ? SP_FRAME_IP : SP_FRAME_RETURN_ADDRESS,
			.mode = SP_MODE_USER,
			.origin = step.origin,
		};
	}
}

/* Sets up a walk; false when the registers don't suffice. */
static bool start_walk(struct walk *walk, const struct sp_regs *regs, const struct sp_stack_slice *slices,
                       size_t slice_count)
{
	const struct unwind_arch *arch = unwind_arch_get(regs->arch);
	uint64_t needed = arch ? (uint64_t)1 << arch->pc | (uint64_t)1 << arch->sp : 0;
	if (!arch || (regs->known & needed) != needed)
		return false;
	walk->regs = regs;
	walk->arch = arch;
	walk->slices = slices;
	walk->slice_count = slice_count;
	walk->slice = &slices[0];
	walk->pc = regs->value[arch->pc];
	walk->sp = regs->value[arch->sp];
	walk->fp = regs->value[arch->fp];
	walk->fp_known = regs->known >> arch->fp & 1;
	walk->exact = true;
	walk->jumped = false;
	walk->memo_set = 0;
	walk->row_budget = WALK_ROW_BUDGET;
	walk->jump_budget = WALK_JUMP_BUDGET;
	walk->nesting = 0;
	for (size_t i = 0; i < slice_count; i++)
		if (slice_holds(&slices[i], walk->sp))
			walk->slice = &slices[i];
	return true;
}

enum sp_unwind_end sp_unwind(struct sp_unwinder *unwinder, const struct sp_code_map *map, const struct sp_regs *regs,
                             const struct sp_stack_slice *slices, size_t slice_count, struct sp_frame *frames,
                             size_t capacity, size_t *ret_count)
{
	static const struct sp_stack_slice nothing = { 0 };
	struct walk *walk = &unwinder->walk;
	*ret_count = 0;
	unwinder->stats.stacks++;
	if (!capacity || !start_walk(walk, regs, slice_count ? slices : &nothing, slice_count)) {
		unwinder->stats.ends[SP_UNWIND_NO_REGS]++;
		return SP_UNWIND_NO_REGS;
	}
	walk->map = map;
	walk->scratch = &unwinder->scratch;
	walk->frames = frames;
	walk->count = 1;
	walk->range = map->count ? &map->ranges[0] : NULL;
	frames[0] = (struct sp_frame){
		.address = walk->pc, .kind = SP_FRAME_IP, .mode = SP_MODE_USER, .origin = SP_FOUND_EXACT
	};
	size_t most = capacity < SP_UNWIND_MAX_FRAMES ? capacity : SP_UNWIND_MAX_FRAMES;
	enum sp_unwind_end end = run(unwinder, walk, most);
	*ret_count = walk->count;
	unwinder->stats.frames += walk->count;
	unwinder->stats.ends[end]++;
	return end;
}
