/* The libdwarf engine: a child that crashes, stops or babbles is an error message, and nothing else. */
#include "dwarf_builder.h"

#include "symbolication/dwarf/libdwarf_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned count_descriptors(void)
{
	unsigned count = 0;
	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void write_nothing(void *context, size_t index, const struct sp_dwarf_answer *answer)
{
	(void)index;
	*(size_t *)context += answer->count;
}

/* One plain unit; the libdwarf engine gives the same answers as ours. */
static void test_answers(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_plain(&image, 4);
	put_function(&image, 2, "f", CODE, CODE + 32, DW_FORM_addr);
	end_plain(&image);
	open_object(&image);
	struct sp_dwarf_files files = { .main = image.object, .libdwarf = true };
	assert_null(sp_dwarf_create(&files, &image.dwarf));
	unsigned descriptors = count_descriptors();
	expect(&image, CODE, "f /src/a.c:100");
	expect(&image, CODE + 16, "f /src/a.c:101");
	expect(&image, CODE + 32, "? /src/a.c:102");
	expect(&image, CODE + 0x100, "");
	assert_int_equal(count_descriptors(), descriptors);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left over */
	free_image(&image);
}

/* Damaged input: whatever libdwarf makes of it, this process goes on and gets answers or one message. */
static void test_damage(void **state)
{
	(void)state;
	unsigned failures = 0;
	for (unsigned i = 0; i < 40; i++) {
		struct image image = { 0 };
		begin_plain(&image, 4);
		put_function(&image, 2, "f", CODE, CODE + 32, DW_FORM_addr);
		end_plain(&image);
		for (unsigned k = 0; k < PARTS; k++)
			if (image.parts[k].count)
				image.parts[k].items[(i * 7919 + k * 31) % image.parts[k].count] ^= (uint8_t)(1 + i);
		open_object(&image);
		struct sp_dwarf_files files = { .main = image.object, .libdwarf = true };
		assert_null(sp_dwarf_create(&files, &image.dwarf));
		uint64_t address = CODE;
		size_t frames = 0;
		struct sp_error *error = sp_dwarf_lookup(image.dwarf, &address, 1, write_nothing, &frames, &image.note);
		failures += !!error;
		sp_error_destroy(error);
		free_image(&image);
	}
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	printf("%u of 40 damaged files can't be read by libdwarf\n", failures);
}

/* Only the child reads the addresses: from where there are none it dies. */
static void test_crash(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_plain(&image, 4);
	put_function(&image, 2, "f", CODE, CODE + 32, DW_FORM_addr);
	end_plain(&image);
	open_object(&image);
	struct sp_dwarf_files files = { .main = image.object, .libdwarf = true };
	assert_null(sp_dwarf_create(&files, &image.dwarf));
	for (unsigned ignored = 0; ignored < 2; ignored++) {
		size_t frames = 0;
		unsigned descriptors = count_descriptors();
		signal(SIGCHLD, ignored ? SIG_IGN : SIG_DFL);
		struct sp_error *error = sp_dwarf_lookup(image.dwarf, (const uint64_t *)(uintptr_t)4096, 1,
		                                         write_nothing, &frames, &image.note);
		assert_non_null(error);
		assert_non_null(strstr(error->message, ignored ? "has no end" : "crashed"));
		sp_error_destroy(error);
		assert_int_equal(frames, 0);
		assert_int_equal(count_descriptors(), descriptors);
	}
	signal(SIGCHLD, SIG_DFL);
	expect(&image, CODE, "f /src/a.c:100");
	free_image(&image);
}

/* With SIGCHLD ignored the child's status is lost, its answers are not. */
static void test_ignored_signal(void **state)
{
	(void)state;
	struct image image = { 0 };
	signal(SIGCHLD, SIG_IGN);
	begin_plain(&image, 4);
	put_function(&image, 2, "f", CODE, CODE + 32, DW_FORM_addr);
	end_plain(&image);
	open_object(&image);
	struct sp_dwarf_files files = { .main = image.object, .libdwarf = true };
	assert_null(sp_dwarf_create(&files, &image.dwarf));
	expect(&image, CODE, "f /src/a.c:100");
	free_image(&image);
	signal(SIGCHLD, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_crash),
		cmocka_unit_test(test_ignored_signal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
