/* `sp setup`; see setup.h.
 *
 * The narrow grant is file capabilities on the sp binary: only sp, run by whomever, may sample. What a capability is
 * worth depends on kernel, file system, mount options and container, so it is not reasoned about but tried: an ordinary
 * user runs the binary and opens an event. Where that fails, a sysctl drop-in lets every program sample.
 * Undo puts the settings back that the drop-in's comments remember. */
#include "platform/linux/setup.h"

#include "common/file.h"
#include "platform/linux/perf_attr.h"
#include "platform/linux/sudo_user.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SELF "/proc/self/exe"
#define DROP_IN "/etc/sysctl.d/90-sp.conf"
#define DROP_IN_LIMIT 65536
#define BEFORE "# before: "
#define NOBODY 65534

/* Capabilities (capabilities(7)) that sp gets: to sample, to have full-sized rings, and to read the kernel's symbols,
 * whose addresses the samples show anyway. */
enum {
	CAP_IPC_LOCK = 14,
	CAP_SYSLOG = 34,
	CAP_PERFMON = 38,
};
#define CAPABILITIES_TEXT "cap_perfmon,cap_ipc_lock,cap_syslog=ep"

/* The value of the xattr security.capability, revision 2, little-endian. */
struct file_capabilities {
	uint32_t magic; /* revision, and the flag that they are effective at once */
	struct {
		uint32_t permitted, inheritable;
	} word[2];
};
#define CAPABILITIES_MAGIC 0x02000001u
#define CAPABILITIES_XATTR "security.capability"

/* What the drop-in sets, and why. */
static const struct setting {
	const char *key;  /* of sysctl */
	const char *file; /* of /proc/sys */
	const char *value;
} settings[] = {
	{ "kernel.perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid", "0" },
	/* Two rings of 16 MiB and 1 MiB for each CPU. */
	{ "kernel.perf_event_mlock_kb", "/proc/sys/kernel/perf_event_mlock_kb", "17424" },
	{ "kernel.kptr_restrict", "/proc/sys/kernel/kptr_restrict", "0" },
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

struct setup {
	void (*emit)(void *context, const char *line);
	void *context;
	char binary[PATH_MAX];
};

static void say(const struct setup *setup, const char *format, ...) SP_PRINTF(2, 3);
static void say(const struct setup *setup, const char *format, ...)
{
	char line[PATH_MAX + 256];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	setup->emit(setup->context, line);
}

/* ---- What is ---- */

static int try_event(int32_t pid, int cpu, uint64_t exclude)
{
	struct sp_perf_attr attr = { .type = SP_PERF_TYPE_SOFTWARE,
		                     .size = sizeof(attr),
		                     .config = SP_PERF_SW_DUMMY,
		                     .flags = SP_PERF_ATTR_DISABLED | exclude };
	int fd = sp_perf_open(&attr, pid, cpu, NULL);
	if (fd < 0)
		return -fd;
	close(fd);
	return 0;
}

bool sp_linux_best_mode(enum sp_perf_mode *ret, int *ret_errno)
{
	*ret = SP_PERF_MODE_SYSTEM;
	if (!try_event(-1, 0, 0))
		return true;
	*ret = SP_PERF_MODE_THREAD;
	if (!try_event(0, -1, 0))
		return true;
	*ret = SP_PERF_MODE_THREAD_USER;
	*ret_errno = try_event(0, -1, SP_PERF_ATTR_EXCLUDE_KERNEL | SP_PERF_ATTR_EXCLUDE_HV);
	return !*ret_errno;
}

static bool has_capabilities(void)
{
	return getxattr(SELF, CAPABILITIES_XATTR, NULL, 0) > 0;
}

bool sp_linux_capabilities_idle(void)
{
	enum sp_perf_mode mode;
	int problem;
	return has_capabilities() && !(sp_linux_best_mode(&mode, &problem) && mode == SP_PERF_MODE_SYSTEM);
}

/* A setting's value; false when it can't be read. */
static bool read_setting(const struct setting *setting, char *buffer, size_t size)
{
	char *text;
	size_t length;
	struct sp_error *error = sp_file_read(setting->file, 256, &text, &length);
	if (error) {
		sp_error_destroy(error);
		return false;
	}
	text[strcspn(text, "\n")] = 0;
	snprintf(buffer, size, "%s", text);
	free(text);
	return true;
}

static void tell_status(const struct setup *setup, bool *ret_ready)
{
	static const char *const modes[] = {
		[SP_PERF_MODE_SYSTEM] = "all of the command's processes, kernel included",
		[SP_PERF_MODE_THREAD] = "the command's threads, kernel included (short-lived processes too seldom)",
		[SP_PERF_MODE_THREAD_USER] = "the command's threads, without the kernel's part",
	};
	enum sp_perf_mode mode;
	int problem = 0;
	bool any = sp_linux_best_mode(&mode, &problem);
	*ret_ready = any && mode == SP_PERF_MODE_SYSTEM;
	if (any)
		say(setup, "this user can sample %s", modes[mode]);
	else
		say(setup, "this user cannot sample: %s", strerror(problem));
	say(setup, "%s %s file capabilities", setup->binary, has_capabilities() ? "has" : "has no");
	say(setup, access(DROP_IN, F_OK) ? "there is no %s" : "%s is in place", DROP_IN);
	for (size_t i = 0; i < SETTINGS; i++) {
		char value[64];
		if (read_setting(&settings[i], value, sizeof(value)))
			say(setup, "%s = %s", settings[i].key, value);
	}
}

/* ---- File capabilities ---- */

/* Runs the binary as an ordinary user, who asks for its own status. */
static bool works_for_users(void)
{
	struct sp_sudo_user user;
	bool as_user = false;
	sp_error_destroy(sp_sudo_user_init(&user, &as_user));
	gid_t group = NOBODY;
	if (!as_user)
		user = (struct sp_sudo_user){ .uid = NOBODY, .gid = NOBODY, .groups = &group, .group_count = 1 };
	int pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		char *const argv[] = { (char *)"sp", (char *)"setup", (char *)"--status", NULL };
		if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
		    sp_sudo_user_become(&user))
			_exit(126);
		execv(SELF, argv);
		_exit(126);
	}
	int status = -1;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (as_user)
		sp_sudo_user_deinit(&user);
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The kernel's highest capability; older kernels have no CAP_PERFMON. */
static bool kernel_knows_perfmon(void)
{
	const struct setting last = { .file = "/proc/sys/kernel/cap_last_cap" };
	char value[64];
	return read_setting(&last, value, sizeof(value)) && strtol(value, NULL, 10) >= CAP_PERFMON;
}

static struct sp_error *take_capabilities(const struct setup *setup)
{
	if (removexattr(SELF, CAPABILITIES_XATTR) && errno != ENODATA && errno != EOPNOTSUPP)
		return sp_error_from_errno(errno, "cannot take the capabilities from %s", setup->binary);
	return NULL;
}

/* Gives the binary capabilities and tries them; *ret_works is false, and nothing is left, when they are of no use. */
static struct sp_error *give_capabilities(const struct setup *setup, bool *ret_works)
{
	*ret_works = false;
	if (!kernel_knows_perfmon()) {
		say(setup, "this kernel has no CAP_PERFMON (it is older than Linux 5.8)");
		return NULL;
	}
	struct file_capabilities value = { .magic = CAPABILITIES_MAGIC };
	value.word[0].permitted = 1u << CAP_IPC_LOCK;
	value.word[1].permitted = 1u << (CAP_PERFMON - 32) | 1u << (CAP_SYSLOG - 32);
	if (setxattr(SELF, CAPABILITIES_XATTR, &value, sizeof(value), 0)) {
		if (errno != EOPNOTSUPP)
			return sp_error_from_errno(errno, "cannot give %s capabilities", setup->binary);
		say(setup, "the file system of %s cannot keep capabilities", setup->binary);
		return NULL;
	}
	*ret_works = works_for_users();
	if (*ret_works) {
		say(setup, "gave %s the capabilities %s", setup->binary, CAPABILITIES_TEXT);
		say(setup,
		    "risk: whoever runs this file, it can see all processes of this machine and addresses in the "
		    "kernel; it shows its user those of the recorded command only");
		say(setup, "a new build or update of the file needs `sudo sp setup` again");
		return NULL;
	}
	say(setup, "capabilities of %s have no effect here (a mount with nosuid, or the kernel wants CAP_SYS_ADMIN)",
	    setup->binary);
	return take_capabilities(setup);
}

/* ---- The sysctl drop-in ---- */

static struct sp_error *write_setting(const struct setting *setting, const char *value)
{
	int fd = open(setting->file, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	int problem = errno;
	if (fd >= 0)
		close(fd);
	if (written)
		return NULL;
	if (problem == EROFS)
		return sp_error_create(SP_ERROR_PERMISSION,
		                       "%s cannot be set from inside this container: run `sudo sp setup --sysctl` on "
		                       "its host",
		                       setting->key);
	return sp_error_from_errno(problem, "cannot set %s to %s", setting->key, value);
}

/* The value in the line "# before: KEY = VALUE" of a drop-in; false when there is none. */
static bool remembered(const char *text, const char *key, char *buffer, size_t size)
{
	const size_t length = strlen(key);
	for (const char *at = text; (at = strstr(at, BEFORE)); at++) {
		const char *name = at + strlen(BEFORE);
		if (strncmp(name, key, length) || strncmp(name + length, " = ", 3))
			continue;
		const char *value = name + length + 3;
		snprintf(buffer, size, "%.*s", (int)strcspn(value, "\n"), value);
		return true;
	}
	return false;
}

/* The text of the drop-in in place; NULL when there is none. The caller frees it. */
static char *read_drop_in(void)
{
	char *text;
	size_t size;
	struct sp_error *error = sp_file_read(DROP_IN, DROP_IN_LIMIT, &text, &size);
	if (!error)
		return text;
	sp_error_destroy(error);
	return NULL;
}

static struct sp_error *write_drop_in(const struct setup *setup)
{
	char *old = read_drop_in();
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	if (!stream) {
		free(old);
		return sp_error_no_memory();
	}
	fprintf(stream, "# Written by `sp setup`; `sudo sp setup --undo` takes it back.\n");
	for (size_t i = 0; i < SETTINGS; i++) {
		char before[64];
		/* Written twice, the first word of what was before stands. */
		if ((old && remembered(old, settings[i].key, before, sizeof(before))) ||
		    read_setting(&settings[i], before, sizeof(before)))
			fprintf(stream, BEFORE "%s = %s\n", settings[i].key, before);
		fprintf(stream, "%s = %s\n", settings[i].key, settings[i].value);
	}
	free(old);
	if (fclose(stream)) {
		free(text);
		return sp_error_no_memory();
	}
	struct sp_error *error = sp_file_write_atomic(DROP_IN, text, size);
	free(text);
	if (!error && chmod(DROP_IN, 0644))
		error = sp_error_from_errno(errno, "cannot change the mode of %s", DROP_IN);
	if (!error)
		say(setup, "wrote %s", DROP_IN);
	return error;
}

static struct sp_error *give_system(const struct setup *setup, bool *ret_ready)
{
	struct sp_error *error = write_drop_in(setup);
	for (size_t i = 0; !error && i < SETTINGS; i++) {
		error = write_setting(&settings[i], settings[i].value);
		if (!error)
			say(setup, "set %s = %s", settings[i].key, settings[i].value);
	}
	if (error)
		return error;
	say(setup, "risk: every user and program of this machine can now sample its processes' addresses and stacks, "
	           "and see addresses in the kernel");
	*ret_ready = works_for_users();
	return NULL;
}

static struct sp_error *undo_system(const struct setup *setup)
{
	char *text = read_drop_in();
	if (!text)
		return NULL;
	struct sp_error *error = NULL;
	for (size_t i = 0; !error && i < SETTINGS; i++) {
		char before[64];
		if (!remembered(text, settings[i].key, before, sizeof(before)))
			continue;
		error = write_setting(&settings[i], before);
		if (!error)
			say(setup, "set %s = %s", settings[i].key, before);
	}
	free(text);
	if (!error && unlink(DROP_IN))
		error = sp_error_from_errno(errno, "cannot remove %s", DROP_IN);
	if (!error)
		say(setup, "removed %s", DROP_IN);
	return error;
}

static struct sp_error *undo(const struct setup *setup)
{
	bool had_capabilities = has_capabilities();
	bool had_drop_in = !access(DROP_IN, F_OK);
	struct sp_error *error = take_capabilities(setup);
	if (!error && had_capabilities)
		say(setup, "took the capabilities from %s", setup->binary);
	if (!error)
		error = undo_system(setup);
	if (!error && !had_capabilities && !had_drop_in)
		say(setup, "there is nothing to undo");
	return error;
}

struct sp_error *sp_linux_setup(enum sp_setup_action action, void (*emit)(void *context, const char *line),
                                void *context, bool *ret_ready)
{
	struct setup setup = { .emit = emit, .context = context };
	*ret_ready = false;
	ssize_t length = readlink(SELF, setup.binary, sizeof(setup.binary) - 1);
	if (length < 0)
		return sp_error_from_errno(errno, "cannot find the sp binary");
	setup.binary[length] = 0;
	if (action == SP_SETUP_STATUS) {
		tell_status(&setup, ret_ready);
		return NULL;
	}
	if (geteuid() != 0)
		return sp_error_create(SP_ERROR_PERMISSION, "this needs root: run `sudo sp setup`");
	if (action == SP_SETUP_UNDO)
		return undo(&setup);
	if (action == SP_SETUP_GRANT) {
		struct sp_error *error = give_capabilities(&setup, ret_ready);
		if (error || *ret_ready)
			return error;
		say(&setup, "so all users are allowed to sample instead");
	}
	return give_system(&setup, ret_ready);
}
