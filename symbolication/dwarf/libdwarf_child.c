/* Runs libdwarf on a file in a child process with limits.
 *
 * A child is forked for each batch. It inherits the sections, which we found, checked and decompressed, so it opens
 * nothing: it may not make descriptors, and on Linux only the system calls that memory and one pipe need. Its memory,
 * processor and wall-clock time are bounded. Whatever happens to it, a crash too, is an error message here. */
#include "libdwarf_child.h"

#include "common/arena.h"
#include "common/clock.h"
#include "common/cursor.h"

#include <stdlib.h>
#include <string.h>

#ifdef _WIN32

struct sp_error *dw_child_create(const struct sp_dwarf_files *files, struct dw_child **ret)
{
	(void)files;
	(void)ret;
	return sp_error_create(SP_ERROR_UNSUPPORTED, "the libdwarf engine is not available on Windows");
}

void dw_child_destroy(struct dw_child *child)
{
	(void)child;
}

struct sp_error *dw_child_lookup(struct dw_child *child, const uint64_t *addresses, size_t count,
                                 void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                 void *context)
{
	(void)child;
	(void)addresses;
	(void)count;
	(void)emit;
	(void)context;
	return sp_error_create(SP_ERROR_UNSUPPORTED, "the libdwarf engine is not available on Windows");
}

size_t dw_child_memory(struct dw_child *child)
{
	(void)child;
	return 0;
}

#else

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#define MEMORY_LIMIT ((uint64_t)4 << 30) /* bytes on top of what the process has */
#define CPU_SECONDS 120
#define WALL_SECONDS 180
#define OUTPUT_LIMIT ((size_t)1 << 30) /* bytes of answers */
#define FRAME_LIMIT 65536              /* of one answer */

struct dw_child {
	struct sp_object *main;
	struct dw_child_job job;
	pthread_mutex_t lock; /* for the arena */
	struct sp_arena strings;
};

/* ---- The child ---- */

static void flush(struct dw_child_output *out)
{
	size_t done = 0;
	while (done < out->used && !out->failed) {
		ssize_t size = write(out->fd, out->buffer + done, out->used - done);
		if (size > 0)
			done += (size_t)size;
		else if (errno != EINTR)
			out->failed = true;
	}
	out->used = 0;
}

static void put_bytes(struct dw_child_output *out, const void *bytes, size_t size)
{
	while (size) {
		size_t part = sizeof(out->buffer) - out->used;
		part = part < size ? part : size;
		memcpy(out->buffer + out->used, bytes, part);
		out->used += part;
		bytes = (const uint8_t *)bytes + part;
		size -= part;
		if (out->used == sizeof(out->buffer))
			flush(out);
	}
}

void dw_child_put_number(struct dw_child_output *out, uint32_t number)
{
	put_bytes(out, &number, sizeof(number));
}

void dw_child_put_text(struct dw_child_output *out, const char *text)
{
	size_t length = text ? strlen(text) : 0;
	length = length < UINT32_MAX ? length : UINT32_MAX - 1;
	dw_child_put_number(out, text ? (uint32_t)length + 1 : 0);
	put_bytes(out, text, length);
}

static void limit(int what, uint64_t value)
{
	struct rlimit now;
	if (getrlimit(what, &now) == 0 && (now.rlim_max == RLIM_INFINITY || value < now.rlim_max))
		setrlimit(what, &(struct rlimit){ value, value });
}

/* Bytes of address space that the process has. */
static uint64_t address_space(void)
{
	char text[64] = "";
	int fd = open("/proc/self/statm", O_RDONLY);
	if (fd < 0)
		return 0;
	ssize_t size = read(fd, text, sizeof(text) - 1);
	close(fd);
	return size > 0 ? strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void close_all_but(int keep)
{
	long open_max = sysconf(_SC_OPEN_MAX);
	int last = open_max > 0 && open_max < 65536 ? (int)open_max : 65536;
#if defined(__linux__) && defined(SYS_close_range)
	if (syscall(SYS_close_range, (unsigned)keep + 1, ~0u, 0) == 0)
		last = keep;
#endif
	for (int fd = 0; fd < last; fd++)
		if (fd != keep)
			close(fd);
}

/* Address sanitizer makes system calls of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(SANITIZED)
#ifdef __x86_64__
#define THIS_ARCH AUDIT_ARCH_X86_64
#else
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

/* Only memory, the pipe and the end are left. Where the kernel has no seccomp, the other limits must do. */
static void restrict_calls(void)
{
	static const uint32_t allowed[] = { SYS_write,  SYS_brk,        SYS_mmap,         SYS_munmap,
		                            SYS_mremap, SYS_mprotect,   SYS_madvise,      SYS_futex,
		                            SYS_exit,   SYS_exit_group, SYS_rt_sigreturn, SYS_getrandom };
	enum { COUNT = sizeof(allowed) / sizeof(*allowed) };
	struct sock_filter filter[COUNT + 6];
	unsigned n = 0;
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < COUNT; i++)
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (uint8_t)(COUNT - i),
		                                           0);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { (unsigned short)n, filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
#else
static void restrict_calls(void)
{
}
#endif

enum child_status { CHILD_OK, CHILD_FAILED };

/* Never returns. */
static void run_child(const struct dw_child_job *job, int fd)
{
	struct dw_child_output out;
	uint64_t space = address_space();
	/* A crash ends the child at once, whatever handlers the process has. */
	for (int i = 1; i < 32; i++)
		signal(i, SIG_DFL);
	out.fd = fd;
	out.failed = false;
	out.used = 0;
	close_all_but(fd);
	limit(RLIMIT_NOFILE, 0);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_CPU, CPU_SECONDS);
#ifndef SANITIZED
	limit(RLIMIT_AS, space + MEMORY_LIMIT);
#else
	(void)space;
#endif
	restrict_calls();
	bool ok = dw_child_answer(job, &out);
	if (ok)
		dw_child_put_number(&out, DW_CHILD_END);
	flush(&out);
	_exit(ok && !out.failed ? CHILD_OK : CHILD_FAILED);
}

/* ---- The parent ---- */

static const char *const section_names[] = { ".debug_info", ".debug_types",       ".debug_abbrev", ".debug_line",
	                                     ".debug_str",  ".debug_line_str",    ".debug_ranges", ".debug_rnglists",
	                                     ".debug_addr", ".debug_str_offsets", ".debug_aranges" };

/* Puts a file's sections, decompressed, in `ret`. */
static struct sp_error *take_sections(struct sp_object *object, struct dw_child_file *ret)
{
	ret->address_size = sp_object_address_size(object);
	ret->big_endian = sp_object_big_endian(object);
	for (size_t i = 0; i < sizeof(section_names) / sizeof(*section_names); i++) {
		const struct sp_section *section = sp_object_find_section(object, section_names[i]);
		const uint8_t *bytes;
		size_t size;
		if (!section || section->no_bits)
			continue;
		struct sp_error *error = sp_object_section_bytes(object, section, &bytes, &size);
		if (error)
			return error;
		if (size)
			ret->sections[ret->section_count++] = (struct dw_child_section){ section_names[i], bytes,
				                                                         size };
	}
	return NULL;
}

static void find_code(struct sp_object *object, struct dw_child_job *job)
{
	size_t count;
	const struct sp_section *sections = sp_object_sections(object, &count);
	if (sp_object_is_relocatable(object))
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t end = sections[i].address + sections[i].size;
		if (!sections[i].executable || !sections[i].size)
			continue;
		if (!job->code_end || sections[i].address < job->code_start)
			job->code_start = sections[i].address;
		if (end > job->code_end)
			job->code_end = end;
	}
}

struct sp_error *dw_child_create(const struct sp_dwarf_files *files, struct dw_child **ret)
{
	struct sp_error *missing = dw_child_need_libdwarf();
	if (missing)
		return missing;
	struct dw_child *child = calloc(1, sizeof(*child));
	if (!child)
		return sp_error_no_memory();
	pthread_mutex_init(&child->lock, NULL);
	child->main = files->main;
	struct sp_error *error = take_sections(files->main, &child->job.main);
	if (!error && files->supplementary)
		error = take_sections(files->supplementary, &child->job.supplementary);
	if (error) {
		dw_child_destroy(child);
		return error;
	}
	find_code(files->main, &child->job);
	*ret = child;
	return NULL;
}

void dw_child_destroy(struct dw_child *child)
{
	if (!child)
		return;
	pthread_mutex_destroy(&child->lock);
	sp_arena_deinit(&child->strings);
	free(child);
}

size_t dw_child_memory(struct dw_child *child)
{
	pthread_mutex_lock(&child->lock);
	size_t memory = sizeof(*child) + child->strings.total;
	pthread_mutex_unlock(&child->lock);
	return memory;
}

typedef SP_VECTOR(uint8_t) bytes;

/* Reads all that the child writes, until it closes the pipe or time is up. */
static struct sp_error *read_output(struct dw_child *child, int fd, bytes *ret)
{
	uint64_t end = sp_clock_now() + (uint64_t)WALL_SECONDS * 1000000000;
	const char *name = sp_object_name(child->main);
	for (;;) {
		uint64_t now = sp_clock_now();
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		if (now >= end)
			return sp_error_create(SP_ERROR_LIMIT, "%s: libdwarf took more than %d s", name, WALL_SECONDS);
		if (ret->count > OUTPUT_LIMIT)
			return sp_error_create(SP_ERROR_LIMIT, "%s: libdwarf answers without end", name);
		if (!sp_vector_reserve(ret, 65536))
			return sp_error_no_memory();
		if (poll(&wait, 1, (int)((end - now) / 1000000) + 1) < 0 && errno != EINTR)
			return sp_error_from_errno(errno, "%s: waiting for libdwarf", name);
		if (!wait.revents)
			continue;
		ssize_t size = read(fd, ret->items + ret->count, 65536);
		if (size == 0)
			return NULL;
		if (size < 0 && errno != EINTR)
			return sp_error_from_errno(errno, "%s: reading from libdwarf", name);
		ret->count += size > 0 ? (size_t)size : 0;
	}
}

static struct sp_error *check_status(struct dw_child *child, int status)
{
	const char *name = sp_object_name(child->main);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_OK)
		return NULL;
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
		return sp_error_create(SP_ERROR_LIMIT, "%s: libdwarf took too long or too much", name);
	if (WIFSIGNALED(status))
		return sp_error_create(SP_ERROR_FORMAT, "%s: libdwarf crashed (%s)", name, strsignal(WTERMSIG(status)));
	return sp_error_create(SP_ERROR_FORMAT, "%s: libdwarf can't read it", name);
}

/* Forks a child for the addresses and collects what it writes. */
static struct sp_error *run(struct dw_child *child, const uint64_t *addresses, size_t count, bytes *ret)
{
	int fds[2], status = 0;
	struct dw_child_job job = child->job;
	job.addresses = addresses;
	job.count = count;
	if (pipe(fds) != 0)
		return sp_error_from_errno(errno, "pipe");
	fcntl(fds[0], F_SETFD, FD_CLOEXEC);
	fcntl(fds[1], F_SETFD, FD_CLOEXEC);
	pid_t pid = fork();
	if (pid == 0)
		run_child(&job, fds[1]);
	int errnum = errno;
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return sp_error_from_errno(errnum, "fork");
	}
	struct sp_error *error = read_output(child, fds[0], ret);
	close(fds[0]);
	if (error)
		kill(pid, SIGKILL);
	pid_t waited;
	do
		waited = waitpid(pid, &status, 0);
	while (waited < 0 && errno == EINTR);
	if (error)
		return error;
	/* Where the process ignores SIGCHLD the status is lost; the mark at the end of the output tells it too. */
	return waited == pid ? check_status(child, status) : NULL;
}

/* ---- Reading the answers ---- */

/* A string of the output, copied to live as long as the engine. */
static bool read_text(struct dw_child *child, struct sp_cursor *c, const char **ret)
{
	uint32_t length;
	const uint8_t *size = sp_cursor_bytes(c, sizeof(length));
	*ret = NULL;
	if (!size)
		return true;
	memcpy(&length, size, sizeof(length));
	if (!length)
		return true;
	const uint8_t *text = sp_cursor_bytes(c, length - 1);
	if (!text)
		return true;
	*ret = sp_arena_strndup(&child->strings, (const char *)text, length - 1);
	return *ret;
}

static uint32_t read_number(struct sp_cursor *c)
{
	uint32_t number = 0;
	const uint8_t *at = sp_cursor_bytes(c, sizeof(number));
	if (at)
		memcpy(&number, at, sizeof(number));
	return number;
}

/* Moves over the frames of an answer. */
static void skip_frames(struct sp_cursor *c, uint32_t count)
{
	if (count > FRAME_LIMIT)
		sp_cursor_fail(c);
	for (uint32_t i = 0; i < count && !c->bad; i++) {
		for (unsigned k = 0; k < 3; k++) {
			uint32_t length = read_number(c);
			sp_cursor_skip(c, length ? length - 1 : 0);
		}
		sp_cursor_skip(c, 8);
	}
}

/* Where the frames of each address are in the output; 0 = there are none. */
static struct sp_error *find_answers(struct dw_child *child, struct sp_cursor c, size_t *offsets, size_t count)
{
	for (;;) {
		uint32_t index = read_number(&c);
		size_t offset = sp_cursor_offset(&c);
		if (index == DW_CHILD_END && !c.bad)
			return NULL;
		skip_frames(&c, read_number(&c));
		if (c.bad || index >= count)
			return sp_error_create(SP_ERROR_FORMAT, "%s: libdwarf's answer is garbled",
			                       sp_object_name(child->main));
		offsets[index] = offset;
	}
}

typedef SP_VECTOR(struct sp_dwarf_frame) frames;

static bool read_frames(struct dw_child *child, struct sp_cursor *c, frames *ret)
{
	uint32_t count = read_number(c);
	bool ok = true;
	ret->count = 0;
	pthread_mutex_lock(&child->lock);
	for (uint32_t i = 0; i < count && ok; i++) {
		struct sp_dwarf_frame frame = { 0 };
		ok = read_text(child, c, &frame.linkage_name) && read_text(child, c, &frame.name) &&
		     read_text(child, c, &frame.file);
		frame.line = read_number(c);
		frame.column = read_number(c);
		ok = ok && sp_vector_push(ret, frame);
	}
	pthread_mutex_unlock(&child->lock);
	return ok;
}

struct sp_error *dw_child_lookup(struct dw_child *child, const uint64_t *addresses, size_t count,
                                 void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                 void *context)
{
	bytes output = { 0 };
	frames found = { 0 };
	size_t *offsets = calloc(count + 1, sizeof(*offsets));
	struct sp_error *error = offsets ? run(child, addresses, count, &output) : sp_error_no_memory();
	struct sp_cursor c = sp_cursor_init(output.items, output.count);
	if (!error)
		error = find_answers(child, c, offsets, count);
	for (size_t i = 0; i < count && !error; i++) {
		found.count = 0;
		sp_cursor_seek(&c, offsets[i]);
		if (offsets[i] && !read_frames(child, &c, &found))
			error = sp_error_no_memory();
		struct sp_dwarf_answer answer = { found.items, found.count };
		if (!error)
			emit(context, i, &answer);
	}
	free(offsets);
	sp_vector_deinit(&output);
	sp_vector_deinit(&found);
	return error;
}

#endif
