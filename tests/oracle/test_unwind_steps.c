/* The single-step oracle: programs made by gcc and clang at each level of optimisation are executed one instruction at
 * a time, the calls and returns seen are kept in a shadow stack, and at every instruction the unwinder must give
 * exactly that stack. */
#include "unwind_target.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if defined(__x86_64__)

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_DEPTH 512
#define MAX_STEPS 3000000
#define STACK_BYTES 65536
#define SHOWN 16 /* wrong instructions printed a program */

/* A call that has not returned. */
struct call {
	uint64_t address; /* return address, or the interrupted pc */
	uint64_t slot;    /* where it is on the stack; 0 for a frame that a signal interrupted */
};

struct oracle {
	pid_t pid;
	struct target target;
	struct sp_unwinder *unwinder;
	struct call calls[MAX_DEPTH];
	size_t depth;
	uint64_t base[64]; /* frames outside main, leaf first */
	size_t base_count;
	uint64_t steps, wrong;
	uint8_t main_stack[STACK_BYTES], other_stack[STACK_BYTES];
};

static struct sp_regs take_registers(const struct user_regs_struct *r)
{
	struct sp_regs regs = { .arch = SP_ARCH_X86_64, .known = 0x1ffff };
	const uint64_t values[] = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp, r->rsp, r->r8,
		                    r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->rip };
	memcpy(regs.value, values, sizeof(values));
	return regs;
}

/* Reads what there is of the stack at sp, and of the main thread's stack when sp is elsewhere. */
static size_t read_stacks(struct oracle *o, uint64_t sp, struct sp_stack_slice slices[2])
{
	uint64_t end = o->target.stack_end;
	if (sp < end && end - sp <= STACK_BYTES) {
		assert_true(target_read(o->pid, sp, o->main_stack, end - sp));
		slices[0] = (struct sp_stack_slice){ sp, o->main_stack, end - sp };
		return 1;
	}
	uint64_t size = 16384; /* of the program's other stack, which is 64 KiB */
	while (size && !target_read(o->pid, sp, o->other_stack, size))
		size /= 2;
	slices[0] = (struct sp_stack_slice){ sp, o->other_stack, size };
	size = 16384;
	assert_true(target_read(o->pid, end - size, o->main_stack, size));
	slices[1] = (struct sp_stack_slice){ end - size, o->main_stack, size };
	return 2;
}

static enum sp_unwind_end unwind(struct oracle *o, const struct user_regs_struct *registers, struct sp_frame *frames,
                                 size_t *count)
{
	struct sp_regs regs = take_registers(registers);
	struct sp_code_map map = target_map(&o->target);
	struct sp_stack_slice slices[2];
	size_t slice_count = read_stacks(o, registers->rsp, slices);
	return sp_unwind(o->unwinder, &map, &regs, slices, slice_count, frames, MAX_DEPTH, count);
}

static bool is_expected(const struct oracle *o, uint64_t pc, enum sp_unwind_end end, const struct sp_frame *frames,
                        size_t count)
{
	if (end != SP_UNWIND_ROOT || count != 1 + o->depth + o->base_count || frames[0].address != pc)
		return false;
	for (size_t i = 0; i < o->depth; i++)
		if (frames[1 + i].address != o->calls[o->depth - 1 - i].address)
			return false;
	for (size_t i = 0; i < o->base_count; i++)
		if (frames[1 + o->depth + i].address != o->base[i])
			return false;
	return true;
}

static void print_wrong(const struct oracle *o, uint64_t pc, enum sp_unwind_end end, const struct sp_frame *frames,
                        size_t count)
{
	char name[256];
	printf("  wrong at %s: end %d, %zu frames, %zu expected", target_name(&o->target, pc, name, sizeof(name)), end,
	       count, 1 + o->depth + o->base_count);
	for (size_t i = 0; i < o->depth && i + 1 < count; i++) {
		uint64_t expected = o->calls[o->depth - 1 - i].address;
		if (frames[1 + i].address == expected)
			continue;
		printf("; frame %zu is %s", 1 + i, target_name(&o->target, frames[1 + i].address, name, sizeof(name)));
		printf(", not %s", target_name(&o->target, expected, name, sizeof(name)));
		break;
	}
	printf("\n");
}

/* ---- The shadow stack ---- */

static bool is_call(const uint8_t *code)
{
	size_t at = 0;
	while (at < 6 && (code[at] == 0x66 || code[at] == 0x3e || code[at] == 0xf2 || (code[at] & 0xf0) == 0x40))
		at++;
	return code[at] == 0xe8 || (code[at] == 0xff && (code[at + 1] & 0x38) == 0x10);
}

static bool is_syscall(const uint8_t *code)
{
	return code[0] == 0x0f && code[1] == 0x05;
}

static void push_call(struct oracle *o, uint64_t address, uint64_t slot)
{
	assert_true(o->depth < MAX_DEPTH);
	o->calls[o->depth++] = (struct call){ address, slot };
}

static bool is_same_stack(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) < 1 << 20;
}

/* Frames whose return address lies below the stack pointer have returned or were jumped out of. */
static void pop_returned(struct oracle *o, uint64_t sp)
{
	while (o->depth) {
		const struct call *top = &o->calls[o->depth - 1];
		if (!top->slot || !is_same_stack(top->slot, sp) || top->slot >= sp)
			return;
		o->depth--;
	}
}

static void follow_step(struct oracle *o, const struct user_regs_struct *before, const struct user_regs_struct *after,
                        const uint8_t *code)
{
	if (is_call(code) && after->rsp == before->rsp - 8) {
		uint64_t address;
		assert_true(target_read(o->pid, after->rsp, &address, sizeof(address)));
		push_call(o, address, after->rsp);
	} else if (is_syscall(code) && before->rax == 15) { /* rt_sigreturn */
		assert_true(o->depth && !o->calls[o->depth - 1].slot);
		o->depth--;
	} else {
		pop_returned(o, after->rsp);
	}
}

static void follow_signal(struct oracle *o, const struct user_regs_struct *before, const struct user_regs_struct *after)
{
	uint64_t restorer;
	push_call(o, before->rip, 0);
	assert_true(target_read(o->pid, after->rsp, &restorer, sizeof(restorer)));
	push_call(o, restorer, after->rsp);
}

/* ---- Running a program ---- */

static int wait_for_stop(pid_t pid)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return status;
}

static pid_t start_program(const char *path)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char *const arguments[] = { (char *)path, NULL }, *const environment[] = { NULL };
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execve(path, arguments, environment);
		_exit(127);
	}
	int status = wait_for_stop(pid);
	assert_true(WIFSTOPPED(status));
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL);
	ptrace(PTRACE_CONT, pid, NULL, 0);
	status = wait_for_stop(pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	return pid;
}

/* The stack outside main is taken from the unwinder, but must be the C library's way from the entry point. */
static void take_base(struct oracle *o, const struct user_regs_struct *registers)
{
	struct sp_frame frames[MAX_DEPTH];
	size_t count;
	assert_int_equal(unwind(o, registers, frames, &count), SP_UNWIND_ROOT);
	assert_in_range(count, 3, 5);
	o->base_count = count - 1;
	for (size_t i = 0; i < o->base_count; i++)
		o->base[i] = frames[1 + i].address;
}

/* Steps until the second breakpoint. */
static void step_program(struct oracle *o)
{
	struct user_regs_struct before, after;
	struct sp_frame frames[MAX_DEPTH];
	int signal = 0;
	ptrace(PTRACE_GETREGS, o->pid, NULL, &before);
	take_base(o, &before);
	for (o->steps = 0; o->steps < MAX_STEPS; o->steps++) {
		uint8_t code[16] = { 0 };
		(void)target_read(o->pid, before.rip, code, sizeof(code));
		if (code[0] == 0xcc)
			return;
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, o->pid, NULL, signal), 0);
		int status = wait_for_stop(o->pid);
		assert_true(WIFSTOPPED(status));
		ptrace(PTRACE_GETREGS, o->pid, NULL, &after);
		if (signal)
			follow_signal(o, &before, &after);
		else
			follow_step(o, &before, &after, code);
		signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		size_t count;
		enum sp_unwind_end end = unwind(o, &after, frames, &count);
		if (!is_expected(o, after.rip, end, frames, count) && o->wrong++ < SHOWN)
			print_wrong(o, after.rip, end, frames, count);
		before = after;
	}
	fail_msg("the program did not end");
}

struct totals {
	uint64_t steps, wrong;
	size_t programs, skipped;
};

static void run_program(const char *path, const char *what, struct totals *totals)
{
	struct oracle *o = calloc(1, sizeof(*o));
	assert_non_null(o);
	assert_null(sp_unwinder_create(&o->unwinder));
	o->pid = start_program(path);
	target_init(&o->target, o->pid);
	step_program(o);
	kill(o->pid, SIGKILL);
	waitpid(o->pid, NULL, 0);
	printf("%s: %" PRIu64 " instructions, %" PRIu64 " wrong\n", what, o->steps, o->wrong);
	totals->steps += o->steps;
	totals->wrong += o->wrong;
	totals->programs++;
	target_deinit(&o->target);
	sp_unwinder_destroy(o->unwinder);
	free(o);
}

/* Compiles a source of tests/data/unwind and steps through it. */
static void try_program(const char *compiler, const char *flags, const char *source, struct totals *totals)
{
	char command[1024], what[256], path[] = "/tmp/sp-steps-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	snprintf(what, sizeof(what), "%s %s %s", compiler, flags, source);
	snprintf(command, sizeof(command), "command -v %s >/dev/null", compiler);
	if (system(command) != 0) {
		printf("SKIPPED %s: no %s here\n", what, compiler);
		totals->skipped++;
	} else {
		snprintf(command, sizeof(command), "%s %s -Wl,-z,lazy -o %s %s/unwind/%s", compiler, flags, path,
		         TEST_DATA, source);
		assert_int_equal(system(command), 0);
		run_program(path, what, totals);
	}
	unlink(path);
}

static void check_totals(const struct totals *totals, uint64_t one_in)
{
	printf("%zu programs, %" PRIu64 " instructions, %" PRIu64 " with a wrong stack (%.4f %%)\n", totals->programs,
	       totals->steps, totals->wrong, totals->steps ? 100.0 * (double)totals->wrong / (double)totals->steps : 0);
	assert_true(totals->wrong * one_in <= totals->steps);
}

static void test_c_programs(void **state)
{
	(void)state;
	static const char *const compilers[] = { "gcc", "clang" };
	static const char *const levels[] = { "-O0", "-O1", "-O2", "-O3", "-Os" };
	static const char *const pointers[] = { "-fomit-frame-pointer", "-fno-omit-frame-pointer" };
	struct totals totals = { 0 };
	for (size_t c = 0; c < 2; c++)
		for (size_t l = 0; l < 5; l++)
			for (size_t p = 0; p < 2; p++) {
				char flags[128];
				snprintf(flags, sizeof(flags), "%s %s", levels[l], pointers[p]);
				try_program(compilers[c], flags, "steps.c", &totals);
			}
	/* What is left is longjmp(), whose tables say that it is where it goes to, before it is, and the instruction
	 * after the push of a frame pointer in code without tables. */
	check_totals(&totals, 1000);
}

static void test_exceptions(void **state)
{
	(void)state;
	struct totals totals = { 0 };
	try_program("g++", "-O2", "steps-exceptions.cc", &totals);
	try_program("clang++", "-O2", "steps-exceptions.cc", &totals);
	/* The run-time library writes the catcher's registers over those that its own frame saved, before it returns
	 * into the catcher: for 100 instructions a throw (200 where it was itself compiled with
	 * a frame pointer, as on Ubuntu 24.04) the stack on the way out does not exist any more. */
	check_totals(&totals, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c_programs),
		cmocka_unit_test(test_exceptions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	printf("SKIPPED: the stepped programs are for x86-64\n");
	return 0;
}

#endif
