/* The unwinder on AArch64, under qemu's user emulation: built for it and unwinding itself, and here, unwinding programs
 * that qemu's debugger interface executes one instruction at a time, against a shadow stack. */
#include "unwind_target.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_DEPTH 512
#define MAX_STEPS 400000
#define STACK_BYTES 32768
#define REGISTERS 33 /* x0 to x30, sp, pc: DWARF's numbers, too */
#define SHOWN 12

#define EMULATOR "qemu-aarch64"

static const char *const compilers[] = { "aarch64-linux-gnu-gcc", "clang --target=aarch64-linux-gnu" };
static const char *const flags[] = { "-O0", "-O2", "-O2 -fomit-frame-pointer", "-O2 -mbranch-protection=pac-ret+leaf" };

static bool have(const char *command)
{
	char line[256];
	snprintf(line, sizeof(line), "command -v %s >/dev/null", command);
	return system(line) == 0;
}

/* Says why when something that the tests need is missing. */
static bool can_run(const char *compiler)
{
	char first[64];
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(compiler, " "), compiler);
	const char *missing = !have(EMULATOR)                 ? EMULATOR
	                      : !have("aarch64-linux-gnu-ld") ? "aarch64-linux-gnu-ld"
	                                                      : NULL;
	if (!missing && !have(first))
		missing = first;
	if (missing)
		printf("SKIPPED AArch64 with %s: no %s here\n", compiler, missing);
	return !missing;
}

/* ---- The unwinder, built for AArch64, unwinds itself ---- */

static void test_self(void **state)
{
	(void)state;
	static const char *const sources =
	    "sampler/unwind/aarch64_code.c sampler/unwind/cfi.c sampler/unwind/code.c sampler/unwind/expression.c "
	    "sampler/unwind/find.c sampler/unwind/rule.c sampler/unwind/step.c "
	    "sampler/unwind/unwinder.c common/error.c common/vector.c "
	    "tests/unit/test_unwind_self.c";
	for (size_t c = 0; c < sizeof(compilers) / sizeof(compilers[0]); c++) {
		if (!can_run(compilers[c]))
			continue;
		for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
			char path[] = "/tmp/sp-self-XXXXXX", command[2048];
			close(mkstemp(path));
			snprintf(command, sizeof(command),
			         "cd '%s' && %s %s -static -Wl,--eh-frame-hdr -D_GNU_SOURCE -I. -o %s %s && " EMULATOR
			         " -cpu max %s",
			         SOURCE_ROOT, compilers[c], flags[f], path, sources, path);
			printf("%s %s: ", compilers[c], flags[f]);
			fflush(stdout);
			assert_int_equal(system(command), 0);
			unlink(path);
		}
	}
}

/* ---- The debugger interface ---- */

struct call {
	uint64_t address; /* return address */
	uint64_t sp;      /* of the caller */
};

struct oracle {
	pid_t pid;
	int fd;
	struct target target;
	struct sp_unwinder *unwinder;
	struct call calls[MAX_DEPTH];
	size_t depth;
	uint64_t base[64]; /* frames outside, leaf first */
	size_t base_count;
	uint64_t stack_end;
	uint64_t longjmp; /* where longjmp() starts */
	uint64_t steps, wrong, wrong_in_longjmp;
	uint8_t stack[STACK_BYTES];
	char packet[8192];
};

static void send_packet(struct oracle *o, const char *text)
{
	char packet[256];
	unsigned sum = 0;
	for (const char *c = text; *c; c++)
		sum += (uint8_t)*c;
	int length = snprintf(packet, sizeof(packet), "$%s#%02x", text, sum & 0xff);
	assert_int_equal(write(o->fd, packet, (size_t)length), length);
}

/* The next packet's text, in o->packet. */
static void receive_packet(struct oracle *o)
{
	char c = 0;
	size_t length = 0;
	while (c != '$')
		assert_int_equal(read(o->fd, &c, 1), 1);
	while (length + 1 < sizeof(o->packet)) {
		ssize_t got = read(o->fd, o->packet + length, sizeof(o->packet) - 1 - length);
		assert_true(got > 0);
		length += (size_t)got;
		o->packet[length] = 0;
		if (length >= 3 && o->packet[length - 3] == '#')
			break;
	}
	o->packet[length - 3] = 0;
	assert_int_equal(write(o->fd, "+", 1), 1);
}

static void ask(struct oracle *o, const char *text)
{
	send_packet(o, text);
	receive_packet(o);
}

static uint64_t hex_word(const char *text)
{
	uint64_t value = 0;
	for (int byte = 7; byte >= 0; byte--) {
		unsigned digits;
		assert_int_equal(sscanf(text + 2 * byte, "%2x", &digits), 1);
		value = value << 8 | digits;
	}
	return value;
}

static struct sp_regs read_registers(struct oracle *o)
{
	struct sp_regs regs = { .arch = SP_ARCH_AARCH64, .known = ((uint64_t)1 << REGISTERS) - 1 };
	ask(o, "g");
	assert_true(strlen(o->packet) >= 16 * REGISTERS);
	for (size_t i = 0; i < REGISTERS; i++)
		regs.value[i] = hex_word(o->packet + 16 * i);
	return regs;
}

static void connect_to(struct oracle *o, const char *socket_path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
	o->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (int tries = 0; connect(o->fd, (struct sockaddr *)&address, sizeof(address)) != 0; tries++) {
		assert_true(tries < 1000);
		usleep(10000);
	}
}

/* ---- Stepping ---- */

static uint64_t find_symbol(struct sp_object *object, const char *name)
{
	struct sp_symbols symbols;
	uint64_t address = 0;
	assert_null(sp_object_symbols(object, &symbols));
	for (size_t i = 0; i < symbols.count; i++)
		if (strcmp(symbols.items[i].name, name) == 0)
			address = symbols.items[i].address;
	sp_symbols_deinit(&symbols);
	return address;
}

static uint64_t find_stack_end(pid_t pid, uint64_t sp)
{
	char path[64], line[512];
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "r");
	uint64_t start, end, found = 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && sp >= start && sp < end)
			found = end;
	fclose(file);
	return found;
}

static enum sp_unwind_end unwind(struct oracle *o, const struct sp_regs *regs, struct sp_frame *frames, size_t *count)
{
	uint64_t sp = regs->value[SP_AARCH64_SP];
	size_t size = o->stack_end - sp < STACK_BYTES ? o->stack_end - sp : STACK_BYTES;
	assert_true(target_read(o->pid, sp, o->stack, size));
	struct sp_stack_slice slice = { sp, o->stack, size };
	struct sp_code_map map = target_map(&o->target);
	return sp_unwind(o->unwinder, &map, regs, &slice, 1, frames, MAX_DEPTH, count);
}

static bool is_expected(const struct oracle *o, enum sp_unwind_end end, const struct sp_frame *frames, size_t count)
{
	if (end != SP_UNWIND_ROOT || count != 1 + o->depth + o->base_count)
		return false;
	for (size_t i = 0; i < o->depth; i++)
		if (frames[1 + i].address != o->calls[o->depth - 1 - i].address)
			return false;
	for (size_t i = 0; i < o->base_count; i++)
		if (frames[1 + o->depth + i].address != o->base[i])
			return false;
	return true;
}

static bool is_call(uint32_t code)
{
	return (code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000;
}

static bool is_return(uint32_t code)
{
	return (code & 0xfffffc1f) == 0xd65f0000 || (code & 0xfffffbff) == 0xd65f0bff || /* ret, retaa, retab */
	       code == 0xd61f03c0;                                                       /* br x30: longjmp */
}

static void follow_step(struct oracle *o, uint32_t code, const struct sp_regs *before, const struct sp_regs *after)
{
	uint64_t sp = after->value[SP_AARCH64_SP];
	if (is_call(code)) {
		assert_true(o->depth < MAX_DEPTH);
		o->calls[o->depth++] = (struct call){ before->value[SP_AARCH64_PC] + 4, sp };
	} else if (is_return(code)) {
		while (o->depth && o->calls[o->depth - 1].sp <= sp)
			o->depth--;
	}
}

static void print_wrong(const struct oracle *o, enum sp_unwind_end end, const struct sp_frame *frames, size_t count)
{
	char name[256];
	printf("  wrong at %s: end %d, %zu frames, %zu expected\n",
	       target_name(&o->target, frames[0].address, name, sizeof(name)), end, count,
	       1 + o->depth + o->base_count);
}

/* Goes to the function everything() and steps through it. */
static void step_program(struct oracle *o, struct sp_object *object)
{
	struct sp_frame frames[MAX_DEPTH];
	size_t count;
	char breakpoint[64];
	uint64_t start = find_symbol(object, "everything");
	o->longjmp = find_symbol(object, "__longjmp");
	assert_true(start != 0 && o->longjmp != 0);
	snprintf(breakpoint, sizeof(breakpoint), "Z0,%" PRIx64 ",4", start);
	ask(o, breakpoint);
	assert_string_equal(o->packet, "OK");
	ask(o, "c");
	breakpoint[0] = 'z';
	ask(o, breakpoint);
	struct sp_regs before = read_registers(o), after;
	assert_int_equal(before.value[SP_AARCH64_PC], start);
	o->stack_end = find_stack_end(o->pid, before.value[SP_AARCH64_SP]);
	assert_int_equal(unwind(o, &before, frames, &count), SP_UNWIND_ROOT);
	assert_in_range(count, 4, 6); /* everything, main, the C library's two, _start */
	uint64_t outside = frames[1].address;
	for (size_t i = 1; i < count; i++)
		o->base[o->base_count++] = frames[i].address;
	for (; o->steps < MAX_STEPS; o->steps++) {
		uint32_t code = 0;
		assert_true(target_read(o->pid, before.value[SP_AARCH64_PC], &code, sizeof(code)));
		ask(o, "s");
		after = read_registers(o);
		if (after.value[SP_AARCH64_PC] == outside)
			return;
		follow_step(o, code, &before, &after);
		enum sp_unwind_end end = unwind(o, &after, frames, &count);
		if (is_expected(o, end, frames, count))
			; /* as it should be */
		else if (frames[0].address - o->longjmp < 256)
			o->wrong_in_longjmp++;
		else if (o->wrong++ < SHOWN)
			print_wrong(o, end, frames, count);
		before = after;
	}
	fail_msg("the program did not end");
}

static void run_program(const char *path, uint64_t *steps, uint64_t *wrong)
{
	struct oracle *o = calloc(1, sizeof(*o));
	char socket_path[64];
	assert_non_null(o);
	snprintf(socket_path, sizeof(socket_path), "%s.gdb", path);
	o->pid = fork();
	if (o->pid == 0) {
		execlp(EMULATOR, EMULATOR, "-cpu", "max", "-g", socket_path, path, (char *)NULL);
		_exit(127);
	}
	connect_to(o, socket_path);
	assert_null(sp_unwinder_create(&o->unwinder));
	struct target_mapping mapping = { 0 };
	snprintf(mapping.path, sizeof(mapping.path), "%s", path);
	struct sp_object *object;
	assert_null(sp_object_open_path(path, &object));
	size_t count;
	const struct sp_segment *segments = sp_object_segments(object, &count);
	for (size_t i = 0; i < count; i++)
		if (segments[i].executable)
			mapping = (struct target_mapping){ .start = segments[i].address,
				                           .end = segments[i].address + segments[i].size,
				                           .file_offset = segments[i].file_offset };
	snprintf(mapping.path, sizeof(mapping.path), "%s", path);
	target_add(&o->target, &mapping, 0);
	step_program(o, object);
	*steps += o->steps;
	*wrong += o->wrong;
	printf("%" PRIu64 " instructions, %" PRIu64 " wrong, and %" PRIu64 " in longjmp()\n", o->steps, o->wrong,
	       o->wrong_in_longjmp);
	/* Its tables say that it is where it goes to, before it is. */
	assert_true(o->wrong_in_longjmp < 40);
	kill(o->pid, SIGKILL);
	waitpid(o->pid, NULL, 0);
	close(o->fd);
	unlink(socket_path);
	sp_object_destroy(object);
	target_deinit(&o->target);
	sp_unwinder_destroy(o->unwinder);
	free(o);
}

static void test_steps(void **state)
{
	(void)state;
	uint64_t steps = 0, wrong = 0;
	for (size_t c = 0; c < sizeof(compilers) / sizeof(compilers[0]); c++) {
		if (!can_run(compilers[c]))
			continue;
		for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
			char path[] = "/tmp/sp-steps-XXXXXX", command[1024];
			close(mkstemp(path));
			snprintf(command, sizeof(command), "%s %s -DWITHOUT_SIGNALS -static -o %s %s/unwind/steps.c",
			         compilers[c], flags[f], path, TEST_DATA);
			assert_int_equal(system(command), 0);
			printf("%s %s: ", compilers[c], flags[f]);
			run_program(path, &steps, &wrong);
			unlink(path);
		}
	}
	printf("AArch64: %" PRIu64 " instructions, %" PRIu64 " with a wrong stack\n", steps, wrong);
	assert_true(wrong * 1000 <= steps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
