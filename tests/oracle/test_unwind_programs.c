/* Whole programs stopped at the bottom of a recursion of known depth: on the main stack, in threads and in fibers, made
 * by gcc, clang and for musl, with and without frame pointers. Each stack must reach the root and show the recursion as
 * often as it is deep. */
#include "unwind_target.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if defined(__x86_64__)

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (1 << 20)

static struct sp_frame frames[4096];
static uint8_t stack_bytes[STACK_BYTES];

/* Runs a program to its breakpoint; *ret_tid is the thread that met it. */
static pid_t start(const char *path, const char *mode, int depth, pid_t *ret_tid)
{
	char text[16];
	int status;
	snprintf(text, sizeof(text), "%d", depth);
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(path, path, mode, text, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE);
	ptrace(PTRACE_CONT, pid, NULL, 0);
	for (;;) {
		pid_t tid = waitpid(-1, &status, __WALL);
		assert_true(tid > 0 && WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0) {
			*ret_tid = tid;
			return pid;
		}
		ptrace(PTRACE_CONT, tid, NULL, 0); /* a new thread, on both sides */
	}
}

static size_t count_most_frequent(size_t count)
{
	size_t most = 0;
	for (size_t i = 0; i < count; i++) {
		size_t same = 0;
		for (size_t j = 0; j < count; j++)
			same += frames[i].address == frames[j].address;
		most = same > most ? same : most;
	}
	return most;
}

static void check(const char *path, const char *what, const char *mode, int depth, bool musl)
{
	struct user_regs_struct r;
	struct target target;
	struct sp_unwinder *unwinder;
	pid_t tid, pid = start(path, mode, depth, &tid);
	ptrace(PTRACE_GETREGS, tid, NULL, &r);
	struct sp_regs regs = { .arch = SP_ARCH_X86_64, .known = 0x1ffff };
	const uint64_t values[] = { r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
		                    r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip };
	memcpy(regs.value, values, sizeof(values));
	size_t size = STACK_BYTES, count;
	while (size && !target_read(pid, r.rsp, stack_bytes, size))
		size -= 512;
	target_init(&target, pid);
	assert_null(sp_unwinder_create(&unwinder));
	struct sp_stack_slice slice = { r.rsp, stack_bytes, size };
	struct sp_code_map map = target_map(&target);
	enum sp_unwind_end end = sp_unwind(unwinder, &map, &regs, &slice, 1, frames, 4096, &count);
	size_t most = count_most_frequent(count);
	/* musl's start code has neither tables nor frame pointers: the recursion is whole, the way out unknown. */
	bool is_end = end == SP_UNWIND_ROOT || (musl && end == SP_UNWIND_NO_TABLES);
	if (!is_end || most != (size_t)depth)
		printf("%s, %s, depth %d: end %d, %zu frames, %zu of them the recursion\n", what, mode, depth, end,
		       count, most);
	assert_true(is_end);
	assert_int_equal(most, depth);
	sp_unwinder_destroy(unwinder);
	target_deinit(&target);
	kill(pid, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
}

static void test_programs(void **state)
{
	(void)state;
	static const struct {
		const char *compiler, *flags;
		bool musl;
	} builds[] = {
		{ "gcc", "-O2 -fno-optimize-sibling-calls -fno-inline -fomit-frame-pointer", false },
		{ "gcc", "-O0 -fno-omit-frame-pointer", false },
		{ "gcc", "-O2 -fno-inline -fno-ipa-pure-const -static", false },
		{ "clang", "-O2 -fno-inline -fomit-frame-pointer", false },
		{ "clang", "-O1 -fno-inline -fno-omit-frame-pointer", false },
		{ "musl-gcc", "-O1 -fno-inline -static", true },
		{ "musl-gcc", "-O1 -fno-inline -static -fno-omit-frame-pointer", true },
	};
	static const char *const modes[] = { "main", "thread", "fiber" };
	static const int depths[] = { 30, 400, 1200 };
	for (size_t b = 0; b < sizeof(builds) / sizeof(builds[0]); b++) {
		char path[] = "/tmp/sp-deep-XXXXXX", command[1024], what[256];
		snprintf(command, sizeof(command), "command -v %s >/dev/null", builds[b].compiler);
		snprintf(what, sizeof(what), "%s %s", builds[b].compiler, builds[b].flags);
		if (system(command) != 0) {
			printf("SKIPPED %s: no %s here\n", what, builds[b].compiler);
			continue;
		}
		close(mkstemp(path));
		snprintf(command, sizeof(command), "%s -o %s %s/unwind/deep.c -pthread", what, path, TEST_DATA);
		assert_int_equal(system(command), 0);
		for (size_t m = 0; m < (builds[b].musl ? 2 : 3); m++)
			for (size_t d = 0; d < 3; d++)
				check(path, what, modes[m], depths[d], builds[b].musl);
		unlink(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	printf("SKIPPED: the stopped programs are for x86-64\n");
	return 0;
}

#endif
