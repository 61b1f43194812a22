/* Executed one instruction at a time by test_unwind_steps (between the two breakpoints) and test_unwind_aarch64 (the
 * function everything()): code with every kind of frame that C compilers make. */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

volatile int sink;
static jmp_buf jump;
static char other_stack[65536] __attribute__((aligned(16)));

NOINLINE int leaf(int x)
{
	return x * 3 + sink;
}

NOINLINE int recurse(int depth)
{
	if (depth == 0)
		return leaf(depth);
	return recurse(depth - 1) + leaf(depth);
}

NOINLINE int many_registers(int a, int b, int c, int d, int e, int f, int g, int h)
{
	int x = leaf(a), y = leaf(b), z = leaf(c), w = leaf(d), v = leaf(e), u = leaf(f);
	int t = leaf(x + y) + leaf(z + w);
	return x + y + z + w + v + u + t + g + h + leaf(t);
}

NOINLINE int with_alloca(int size)
{
	char *p = alloca((size_t)size);
	memset(p, size, (size_t)size);
	sink += p[size / 2];
	return leaf(p[0]);
}

NOINLINE int over_aligned(int x)
{
	volatile char buffer[64] __attribute__((aligned(64)));
	buffer[x & 63] = (char)x;
	return leaf(buffer[x & 63]) + leaf(x);
}

NOINLINE int over_aligned_with_alloca(int x)
{
	volatile char buffer[64] __attribute__((aligned(64)));
	char *p = alloca((size_t)x);
	buffer[x & 63] = (char)x;
	memset(p, x, (size_t)x);
	return leaf(buffer[x & 63]) + leaf(p[x - 1]);
}

NOINLINE int large_frame(int x)
{
	volatile char buffer[9000];
	buffer[x] = 1;
	return leaf(buffer[x]);
}

NOINLINE int variadic(int count, ...)
{
	va_list list;
	int sum = 0;
	va_start(list, count);
	for (int i = 0; i < count; i++)
		sum += leaf(va_arg(list, int));
	va_end(list);
	return sum;
}

NOINLINE int tail_called(int x)
{
	return leaf(x) + 1;
}

NOINLINE int tail_caller(int x)
{
	return tail_called(x + 1);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

NOINLINE int through_libc(void)
{
	int numbers[6] = { 5, 3, 9, 1, 7, 2 };
	char text[64];
	qsort(numbers, 6, sizeof(int), compare);
	snprintf(text, sizeof(text), "%d %s %.3f", numbers[0], "text", numbers[1] / 7.0);
	char *copy = strdup(text);
	int length = (int)strlen(copy) + atoi(text);
	free(copy);
	return length;
}

NOINLINE void jump_out(int depth)
{
	if (depth == 0)
		longjmp(jump, 1);
	jump_out(depth - 1);
	sink++;
}

NOINLINE int with_setjmp(void)
{
	if (setjmp(jump) == 0)
		jump_out(3);
	return leaf(1);
}

static void handler(int signal)
{
	sink += recurse(2) + signal;
}

NOINLINE void with_signals(void)
{
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof(other_stack) };
	sigaltstack(&stack, NULL);
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
	raise(SIGUSR2);
}

NOINLINE double floating(double x, int n)
{
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += x / (i + leaf(i));
	return sum;
}

NOINLINE int switches(int x)
{
	switch (x) {
	case 0:
		return leaf(1);
	case 1:
		return recurse(1);
	case 2:
		return tail_caller(2);
	case 3:
		return variadic(2, 1, 2);
	case 4:
		return with_alloca(32);
	default:
		return x;
	}
}

NOINLINE void from_vdso(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	sink += (int)now.tv_nsec;
}

#ifdef __x86_64__
/* Written by hand: a leaf and a function with a frame pointer, both without tables, and one whose tables describe a
 * stack that grows by a number found at run time. */
int asm_leaf(int x);
int asm_with_frame_pointer(int x);
int asm_with_tables(int x);
__asm__(".text\n"
        "asm_leaf:\n"
        "	lea 1(%rdi), %eax\n"
        "	imul %edi, %eax\n"
        "	ret\n"
        "asm_with_frame_pointer:\n"
        "	push %rbp\n"
        "	mov %rsp, %rbp\n"
        "	sub $32, %rsp\n"
        "	call asm_leaf\n"
        "	mov %eax, -4(%rbp)\n"
        "	mov %eax, %edi\n"
        "	call asm_leaf\n"
        "	add -4(%rbp), %eax\n"
        "	leave\n"
        "	ret\n"
        "asm_with_tables:\n"
        "	.cfi_startproc\n"
        "	push %r12\n"
        "	.cfi_def_cfa_offset 16\n"
        "	.cfi_offset %r12, -16\n"
        "	mov %rsp, %r12\n"
        "	.cfi_def_cfa %r12, 16\n"
        "	and $63, %rdi\n"
        "	sub %rdi, %rsp\n"
        "	and $-16, %rsp\n"
        "	call asm_leaf\n"
        "	mov %r12, %rsp\n"
        "	.cfi_def_cfa %rsp, 16\n"
        "	pop %r12\n"
        "	.cfi_def_cfa_offset 8\n"
        "	.cfi_restore %r12\n"
        "	ret\n"
        "	.cfi_endproc\n");

NOINLINE int by_hand(int x)
{
	return asm_leaf(x) + asm_with_frame_pointer(x) + asm_with_tables(x);
}
#else
NOINLINE int by_hand(int x)
{
	return leaf(x);
}
#endif

NOINLINE void everything(void)
{
	sink += recurse(5) + many_registers(1, 2, 3, 4, 5, 6, 7, 8) + with_alloca(100);
	sink += over_aligned(5) + over_aligned_with_alloca(50) + large_frame(17);
	sink += variadic(3, 1, 2, 3) + tail_caller(4) + through_libc() + with_setjmp();
#ifndef WITHOUT_SIGNALS
	with_signals();
#endif
	sink += (int)floating(2.5, 3);
	for (int i = 0; i < 6; i++)
		sink += switches(i);
	sink += by_hand(7);
	from_vdso();
}

#ifdef __x86_64__
#define BREAKPOINT() __asm__ volatile("int3")
#else
#define BREAKPOINT() (void)0
#endif

int main(void)
{
	BREAKPOINT();
	everything();
	BREAKPOINT();
	return 0;
}
