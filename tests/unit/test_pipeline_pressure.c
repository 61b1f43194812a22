/* Unit tests of the pipeline's back pressure: streams fill up while the workers stand still. */
#include "pipeline_setup.h"

#include <inttypes.h>

#define STACK_WORDS 64

/* A stack of frames linked by frame pointers, for code that nothing is known of: [rbp] = next rbp, [rbp + 8] = return
 * address. */
static void make_stack(uint64_t *words, uint64_t address, uint64_t salt)
{
	memset(words, 0, STACK_WORDS * 8);
	for (unsigned i = 0; i < 3; i++) {
		words[i * 4] = i < 2 ? address + (i + 1) * 32 : 0;
		words[i * 4 + 1] = 0x10100 + salt * 16 + i;
	}
}

#define STORE 64

/* The worker can't go on while a file does not open; meanwhile the stream `a`, which has room for STORE samples, fills
 * up. */
static struct setup *start_behind_gate(void)
{
	struct sp_pipeline_options options = { .ops = &fake_backend,
		                               .sources = &source,
		                               .source_count = 1,
		                               .interval_ns = MS,
		                               .kernel_sampled = true,
		                               .root_pid = ROOT };
	struct setup *s = start(&options);
	s->backend.closed_gate = true;
	s->a.stream.ops = &fake_full_ops;
	s->a.store = STORE;
	fake_fork(&s->b, 1, ROOT, ROOT, 1);
	fake_map(&s->b, 2, ROOT, "//anon", 0x10000, 0x10000);
	fake_map(&s->b, 3, ROOT, "/gate", 0x90000, 0x1000);
	return s;
}

#define STACK_ADDRESS 0x7fff0000

static struct sp_event *add_stack_sample(struct setup *s, unsigned number, const uint64_t *stack, size_t size)
{
	struct sp_event *event = fake_add(&s->a, SP_EVENT_SAMPLE, 10 + number, ROOT, ROOT);
	event->sample.regs.arch = SP_ARCH_X86_64;
	event->sample.regs.known = (1 << 17) - 1;
	event->sample.regs.value[SP_X86_64_RIP] = 0x10001;
	event->sample.regs.value[SP_X86_64_RSP] = STACK_ADDRESS;
	event->sample.regs.value[SP_X86_64_RBP] = STACK_ADDRESS;
	event->sample.stack = (struct sp_stack_slice){ .address = STACK_ADDRESS,
		                                       .bytes = (const uint8_t *)stack,
		                                       .size = size };
	return event;
}

/* Goes on after a sample now and then; the stream is never left full. */
static void advance_after(struct setup *s, unsigned number)
{
	if (number % 50 == 49)
		ok(sp_pipeline_advance(s->pipeline, 10 + number));
	assert_true(s->a.given - s->a.released <= STORE);
}

/* Bytes are spoiled when they are given back, so a stack that is right was copied in time, or was held. */
static void test_pressure(void **state)
{
	(void)state;
	enum { SAMPLES = 600 };
	static uint64_t stacks[SAMPLES][STACK_WORDS], chains[SAMPLES][2];
	struct setup *s = start_behind_gate();
	s->a.spoil = true;
	for (unsigned i = 0; i < SAMPLES; i++) {
		make_stack(stacks[i], STACK_ADDRESS, i);
		chains[i][0] = 0xffffffff81000000 + i;
		chains[i][1] = 0xffffffff81100000;
		struct sp_event *event = add_stack_sample(s, i, stacks[i], sizeof(stacks[i]));
		event->sample.in_kernel = true;
		event->sample.kernel_chain = chains[i];
		event->sample.kernel_chain_count = 2;
		advance_after(s, i);
	}
	assert_int_equal(counts(s).samples, 0);
	assert_true(s->a.released > SAMPLES - STORE);
	fake_open_gate(&s->backend);
	finish(s, 1000);
	assert_int_equal(counts(s).samples, SAMPLES);
	unsigned checked = 0;
	for (const char *at = s->text.bytes; (at = strstr(at, "\nsample")) && checked < SAMPLES; at++, checked++) {
		char expected[256];
		snprintf(expected, sizeof(expected), ": %x/0/1/0 ffffffff81100000/1/1/0 10001/0/0/0", 0);
		snprintf(expected, sizeof(expected),
		         ": %" PRIx64 "/0/1/0 ffffffff81100000/1/1/0 10001/0/0/0 %x/1/0/1 %x/1/0/1 %x/1/0/1\n",
		         0xffffffff81000000 + checked, 0x10100 + checked * 16, 0x10101 + checked * 16,
		         0x10102 + checked * 16);
		const char *frames = strstr(strstr(at, "weight 1"), ": ");
		assert_memory_equal(frames, expected, strlen(expected));
	}
	assert_int_equal(checked, SAMPLES);
	stop(s);
}

/* More stack bytes wait than may be copied whole: all samples are kept, the later ones with shorter stacks. */
static void test_long_pressure(void **state)
{
	(void)state;
	enum { SAMPLES = 2000, STACK_SIZE = 65528 };
	static uint64_t stack[STACK_SIZE / 8];
	struct setup *s = start_behind_gate();
	make_stack(stack, STACK_ADDRESS, 0);
	for (unsigned i = 0; i < SAMPLES; i++) {
		add_stack_sample(s, i, stack, STACK_SIZE);
		advance_after(s, i);
	}
	assert_int_equal(counts(s).samples, 0);
	fake_open_gate(&s->backend);
	finish(s, SAMPLES + 1000);
	assert_int_equal(counts(s).samples, SAMPLES);
	unsigned whole = 0;
	for (const char *at = s->text.bytes; (at = strstr(at, ": 10001/0/0/0 10100/1/0/1 10101/1/0/1 10102/1/0/1\n"));
	     at++)
		whole++;
	assert_int_equal(whole, SAMPLES);
	stop(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pressure),
		cmocka_unit_test(test_long_pressure),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
