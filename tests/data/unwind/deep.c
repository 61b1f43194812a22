/* Stopped by a breakpoint at the bottom of a recursion, for test_unwind_programs: on the main stack, in a thread, or in a
 * fiber. usage: deep main|thread|fiber DEPTH */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <ucontext.h>
#endif

volatile int sink;

__attribute__((noinline)) int recurse(int depth)
{
	volatile char local[24];
	local[0] = (char)depth;
	if (depth == 0)
		__asm__ volatile("int3");
	else
		sink += recurse(depth - 1);
	return local[0] + sink;
}

static void *in_thread(void *depth)
{
	recurse(*(int *)depth);
	return NULL;
}

#ifdef __GLIBC__
static ucontext_t outer, fiber;
static char fiber_stack[1 << 20];

static void in_fiber(int depth)
{
	recurse(depth);
}
#endif

int main(int argc, char **argv)
{
	int depth = argc > 2 ? atoi(argv[2]) : 0;
	pthread_t thread;
	if (strcmp(argv[1], "thread") == 0) {
		pthread_create(&thread, NULL, in_thread, &depth);
		pthread_join(thread, NULL);
	}
#ifdef __GLIBC__
	if (strcmp(argv[1], "fiber") == 0) {
		getcontext(&fiber);
		fiber.uc_stack.ss_sp = fiber_stack;
		fiber.uc_stack.ss_size = sizeof(fiber_stack);
		fiber.uc_link = &outer;
		makecontext(&fiber, (void (*)(void))in_fiber, 1, depth);
		swapcontext(&outer, &fiber);
	}
#endif
	recurse(depth);
	return 0;
}
