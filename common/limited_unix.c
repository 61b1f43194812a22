/* The limited child on Unix; see limited.h. */
#include "common/limited.h"

#include "common/clock.h"
#include "common/vector.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

/* ---- The child ---- */

static void flush(struct sp_limited_output *out)
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

void sp_limited_put(struct sp_limited_output *out, const void *bytes, size_t size)
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
static void run_child(const struct sp_limited *limited, int fd)
{
	struct sp_limited_output out;
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
	limit(RLIMIT_CPU, limited->cpu_s);
#ifndef SANITIZED
	limit(RLIMIT_AS, space + limited->memory);
#else
	(void)space;
#endif
	restrict_calls();
	bool ok = limited->work(limited->context, &out);
	if (ok)
		sp_limited_put(&out, "", 1); /* the end: the status may be lost */
	flush(&out);
	_exit(ok && !out.failed ? CHILD_OK : CHILD_FAILED);
}

/* ---- The parent ---- */

typedef SP_VECTOR(uint8_t) bytes;

/* Reads all that the child writes, until it closes the pipe or time is up. */
static struct sp_error *read_output(const struct sp_limited *limited, int fd, bytes *ret)
{
	uint64_t end = sp_clock_now() + (uint64_t)limited->wall_s * 1000000000;
	for (;;) {
		uint64_t now = sp_clock_now();
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		if (now >= end)
			return sp_error_create(SP_ERROR_LIMIT, "%s: %s took more than %u s", limited->name,
			                       limited->what, limited->wall_s);
		if (ret->count > limited->output_size)
			return sp_error_create(SP_ERROR_LIMIT, "%s: %s answers without end", limited->name,
			                       limited->what);
		if (!sp_vector_reserve(ret, 65536))
			return sp_error_no_memory();
		if (poll(&wait, 1, (int)((end - now) / 1000000) + 1) < 0 && errno != EINTR)
			return sp_error_from_errno(errno, "%s: waiting for %s", limited->name, limited->what);
		if (!wait.revents)
			continue;
		ssize_t size = read(fd, ret->items + ret->count, 65536);
		if (size == 0)
			return NULL;
		if (size < 0 && errno != EINTR)
			return sp_error_from_errno(errno, "%s: reading from %s", limited->name, limited->what);
		ret->count += size > 0 ? (size_t)size : 0;
	}
}

static struct sp_error *check_status(const struct sp_limited *limited, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_OK)
		return NULL;
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
		return sp_error_create(SP_ERROR_LIMIT, "%s: %s took too long or too much", limited->name,
		                       limited->what);
	if (WIFSIGNALED(status))
		return sp_error_create(SP_ERROR_FORMAT, "%s: %s crashed (%s)", limited->name, limited->what,
		                       strsignal(WTERMSIG(status)));
	return sp_error_create(SP_ERROR_FORMAT, "%s: %s can't read it", limited->name, limited->what);
}

/* Forks the child, collects what it writes, and waits for its end. */
static struct sp_error *run(const struct sp_limited *limited, bytes *ret)
{
	int fds[2], status = 0;
	if (pipe(fds) != 0)
		return sp_error_from_errno(errno, "pipe");
	fcntl(fds[0], F_SETFD, FD_CLOEXEC);
	fcntl(fds[1], F_SETFD, FD_CLOEXEC);
	pid_t pid = fork();
	if (pid == 0)
		run_child(limited, fds[1]);
	int errnum = errno;
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return sp_error_from_errno(errnum, "fork");
	}
	struct sp_error *error = read_output(limited, fds[0], ret);
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
	error = waited == pid ? check_status(limited, status) : NULL;
	if (!error && (!ret->count || ret->items[--ret->count]))
		error = sp_error_create(SP_ERROR_FORMAT, "%s: the answer of %s has no end", limited->name,
		                        limited->what);
	return error;
}

struct sp_error *sp_limited_run(const struct sp_limited *limited, uint8_t **ret, size_t *ret_size)
{
	bytes output = { 0 };
	struct sp_error *error = run(limited, &output);
	if (error) {
		sp_vector_deinit(&output);
		return error;
	}
	*ret = output.items;
	*ret_size = output.count;
	return NULL;
}
