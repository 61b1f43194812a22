/* Refusals and cures; see refusal.h.
 *
 * perf_event_open() is refused for three kinds of reasons: kernel.perf_event_paranoid (levels above 2 exist in the
 * kernels of Debian and Ubuntu and forbid everything), a seccomp filter (containers; the errno may be any), or the
 * target is another user's. */
#include "platform/linux/refusal.h"

#include "common/file.h"
#include "platform/linux/proc.h"
#include "platform/linux/setup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *sp_refusal_cure(void)
{
	if (geteuid() == 0)
		return "give sp CAP_PERFMON (in a container: --cap-add PERFMON)";
	return sp_linux_capabilities_idle() ? "sudo sp setup --sysctl" : "sudo sp setup";
}

static bool read_paranoid(long *ret)
{
	char *text;
	size_t size;
	struct sp_error *error = sp_file_read("/proc/sys/kernel/perf_event_paranoid", 64, &text, &size);
	if (error) {
		sp_error_destroy(error);
		return false;
	}
	*ret = strtol(text, NULL, 10);
	free(text);
	return true;
}

/* Whether a filter of system calls is in force. */
static bool is_filtered(void)
{
	char mode[16];
	return sp_proc_status_field(0, "Seccomp", mode, sizeof(mode)) && mode[0] == '2';
}

static struct sp_error *explain_refusal(int errnum)
{
	long level = 0;
	bool known = read_paranoid(&level);
	const char *reason = strerror(errnum);
	if (is_filtered())
		return sp_error_create(SP_ERROR_PERMISSION,
		                       "this process may not sample: perf_event_open is refused (%s) under a seccomp "
		                       "filter, as containers have; allow it with --security-opt seccomp=unconfined "
		                       "(or a profile with perf_event_open) and --cap-add PERFMON",
		                       reason);
	if (errnum == ENOSYS || !known)
		return sp_error_create(SP_ERROR_UNSUPPORTED,
		                       "this kernel cannot sample: perf_event_open is missing (%s); it needs "
		                       "CONFIG_PERF_EVENTS",
		                       reason);
	return sp_error_create(SP_ERROR_PERMISSION,
	                       "this user may not sample: perf_event_open is refused (%s) since "
	                       "kernel.perf_event_paranoid is %ld and sp has no CAP_PERFMON; run `%s` once "
	                       "(or: sudo sysctl kernel.perf_event_paranoid=2)",
	                       reason, level, sp_refusal_cure());
}

/* Threads of the kernel have no memory of their own. */
static bool is_kernel_thread(uint32_t pid)
{
	char kind[8], size[32];
	if (sp_proc_status_field(pid, "Kthread", kind, sizeof(kind)))
		return kind[0] == '1';
	return sp_proc_status_field(pid, "Name", size, sizeof(size)) &&
	       !sp_proc_status_field(pid, "VmSize", size, sizeof(size));
}

/* Marks that container runtimes leave; a process namespace of its own shows in NSpid having two numbers. */
static bool in_container(void)
{
	char numbers[64];
	if (!access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK) || getenv("container"))
		return true;
	return sp_proc_status_field(0, "NSpid", numbers, sizeof(numbers)) && strpbrk(numbers, " \t");
}

/* Capabilities that the process has and sp has not: to the kernel it is the stronger one then. */
static bool has_more_capabilities(uint32_t pid)
{
	char theirs[32], ours[32];
	return sp_proc_status_field(pid, "CapPrm", theirs, sizeof(theirs)) &&
	       sp_proc_status_field(0, "CapPrm", ours, sizeof(ours)) &&
	       (strtoull(theirs, NULL, 16) & ~strtoull(ours, NULL, 16));
}

static struct sp_error *explain_attach(struct sp_error *error, uint32_t pid)
{
	char path[32], state[32];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (error->code == SP_ERROR_NOT_FOUND || error->errnum == ESRCH || stat(path, &st)) {
		bool zombie = sp_proc_status_field(pid, "State", state, sizeof(state)) && state[0] == 'Z';
		sp_error_destroy(error);
		return sp_error_create(SP_ERROR_NOT_FOUND,
		                       zombie ? "process %u has ended already; its parent has not collected it yet"
		                              : "there is no process %u",
		                       pid);
	}
	if (error->code != SP_ERROR_PERMISSION)
		return error;
	int errnum = error->errnum;
	sp_error_destroy(error);
	if (geteuid() && st.st_uid != geteuid())
		return sp_error_create(SP_ERROR_PERMISSION,
		                       "process %u belongs to another user: run `sudo sp record -p %u`", pid, pid);
	if (!geteuid() && is_kernel_thread(pid))
		return sp_error_create(SP_ERROR_PERMISSION,
		                       "process %u is a thread of the kernel, which has no code of a program to record",
		                       pid);
	const char *place = in_container() ? "run sp outside this container" : "run sp as a root that has them all";
	if (!geteuid() && has_more_capabilities(pid))
		return sp_error_create(SP_ERROR_PERMISSION,
		                       "process %u may not be sampled (%s): it has capabilities that sp has not; %s",
		                       pid, strerror(errnum), place);
	if (!geteuid() && !in_container())
		return sp_error_create(
		    SP_ERROR_PERMISSION,
		    "process %u may not be sampled (%s), although sp runs as root: a security module "
		    "(lockdown, SELinux, AppArmor) or missing capabilities forbid it",
		    pid, strerror(errnum));
	if (!geteuid())
		return sp_error_create(SP_ERROR_PERMISSION,
		                       "process %u may not be sampled (%s), not even by root here: run sp outside "
		                       "this container",
		                       pid, strerror(errnum));
	return sp_error_create(SP_ERROR_PERMISSION, "process %u may not be sampled (%s): run `sudo sp record -p %u`",
	                       pid, strerror(errnum), pid);
}

struct sp_error *sp_refusal_explain(struct sp_error *error, uint32_t attach_pid)
{
	/* The marker that sp_ring_memory_map() puts on an event of sp's own being refused. */
	bool refused = !strncmp(error->message, "perf_event_open:", 16);
	if (refused && (error->errnum == EACCES || error->errnum == EPERM || error->errnum == ENOSYS)) {
		int errnum = error->errnum;
		sp_error_destroy(error);
		return explain_refusal(errnum);
	}
	if (error->errnum == EMFILE)
		return sp_error_prefix(error, "raise the limit of open files (ulimit -n)");
	return attach_pid ? explain_attach(error, attach_pid) : error;
}
