/* Opening a browser on Unix: $BROWSER, else the desktop's opener, detached from the terminal, and as the user behind
 * sudo rather than as root. */
#include "common/sudo.h"
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __APPLE__
extern char **environ;
#endif

#define WORDS 32      /* of one command */
#define CANDIDATES 16 /* commands that are tried */
#define GROUPS 128

/* What the child needs, made before the fork: after it in a process with threads little may be called. */
struct launch {
	struct sp_arena arena;
	char *commands[CANDIDATES][WORDS + 1]; /* argument lists, tried in order */
	size_t command_count;
	bool switch_user;
	uid_t uid;
	gid_t gid, groups[GROUPS];
	int group_count;
	SP_VECTOR(char *) environment; /* NULL-terminated */
};

/* ---- The commands ---- */

/* Copies a word of a command with %s replaced by the URL and %% by %. */
static char *expand_word(struct launch *launch, const char *word, size_t length, const char *url, bool *has_url)
{
	size_t size = length + 1;
	for (size_t i = 0; i + 1 < length; i++)
		size += word[i] == '%' && word[i + 1] == 's' ? strlen(url) : 0;
	char *expanded = sp_arena_alloc(&launch->arena, size), *at = expanded;
	if (!expanded)
		return NULL;
	for (size_t i = 0; i < length; i++) {
		if (word[i] == '%' && i + 1 < length && word[i + 1] == 's') {
			at = stpcpy(at, url);
			*has_url = true;
			i++;
		} else {
			*at++ = word[i];
			if (word[i] == '%' && i + 1 < length && word[i + 1] == '%')
				i++;
		}
	}
	*at = 0;
	return expanded;
}

/* Adds "command arg 'arg with spaces' %s"; no shell is involved. The URL goes to the end when there is no %s. */
static void add_command(struct launch *launch, const char *text, size_t length, const char *url)
{
	if (launch->command_count == CANDIDATES)
		return;
	char **words = launch->commands[launch->command_count];
	size_t count = 0;
	bool has_url = false;
	for (size_t at = 0; at < length && count < WORDS - 1;) {
		if (text[at] == ' ' || text[at] == '\t') {
			at++;
			continue;
		}
		char quote = 0;
		if (text[at] == '"' || text[at] == '\'')
			quote = text[at];
		size_t start = quote ? ++at : at;
		while (at < length && (quote ? text[at] != quote : text[at] != ' ' && text[at] != '\t'))
			at++;
		words[count] = expand_word(launch, text + start, at - start, url, &has_url);
		count += words[count] != NULL;
		at += quote != 0;
	}
	if (!count)
		return;
	if (!has_url)
		words[count++] = sp_arena_strndup(&launch->arena, url, strlen(url));
	words[count] = NULL;
	launch->command_count++;
}

/* $BROWSER: commands separated by colons. */
static void add_browsers(struct launch *launch, const char *browsers, const char *url)
{
	while (*browsers) {
		size_t length = strcspn(browsers, ":");
		add_command(launch, browsers, length, url);
		browsers += length + (browsers[length] != 0);
	}
}

/* ---- The user and the environment ---- */

static const char *set(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

/* Whether the user's session has a socket of that name. */
static bool has_socket(uid_t uid, const char *name)
{
	char path[128];
	struct stat st;
	snprintf(path, sizeof(path), "/run/user/%u/%s", (unsigned)uid, name);
	return !stat(path, &st);
}

static bool SP_PRINTF(2, 3) add_variable(struct launch *launch, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	char *copy = length < (int)sizeof(text) ? sp_arena_strndup(&launch->arena, text, (size_t)length) : NULL;
	return copy && sp_vector_push(&launch->environment, copy);
}

/* The environment as it is, but with the user's own home and session where sudo took them away. */
static bool make_environment(struct launch *launch, const struct passwd *user)
{
	static const char *const replaced[] = { "HOME=", "USER=", "LOGNAME=", "XDG_RUNTIME_DIR=", "SHELL=" };
	for (char **variable = environ; *variable; variable++) {
		bool skip = false;
		for (size_t i = 0; user && i < sizeof(replaced) / sizeof(*replaced); i++)
			skip |= !strncmp(*variable, replaced[i], strlen(replaced[i]));
		if (!skip && !sp_vector_push(&launch->environment, *variable))
			return false;
	}
	bool ok = true;
	if (user) {
		unsigned uid = launch->uid;
		ok = add_variable(launch, "HOME=%s", user->pw_dir) && add_variable(launch, "USER=%s", user->pw_name) &&
		     add_variable(launch, "LOGNAME=%s", user->pw_name) &&
		     add_variable(launch, "SHELL=%s", user->pw_shell) &&
		     add_variable(launch, "XDG_RUNTIME_DIR=/run/user/%u", uid);
		if (!set("DBUS_SESSION_BUS_ADDRESS") && has_socket(uid, "bus"))
			ok &= add_variable(launch, "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/%u/bus", uid);
		if (!set("WAYLAND_DISPLAY") && has_socket(uid, "wayland-0"))
			ok &= add_variable(launch, "WAYLAND_DISPLAY=wayland-0");
	}
	return ok && sp_vector_push(&launch->environment, NULL);
}

/* Fills in user and environment; false when that cannot be done: then nothing is started as root instead. */
static bool prepare_user(struct launch *launch)
{
	gid_t gid;
	launch->switch_user = sp_sudo_ids(&launch->uid, &gid);
	if (!launch->switch_user)
		return make_environment(launch, NULL);
	const struct passwd *user = getpwuid(launch->uid);
	if (!user)
		return false;
	launch->gid = user->pw_gid;
	launch->group_count = GROUPS;
#ifdef __APPLE__
	int groups[GROUPS];
	if (getgrouplist(user->pw_name, (int)user->pw_gid, groups, &launch->group_count) < 0)
		return false;
	for (int i = 0; i < launch->group_count; i++)
		launch->groups[i] = (gid_t)groups[i];
#else
	if (getgrouplist(user->pw_name, user->pw_gid, launch->groups, &launch->group_count) < 0)
		return false;
#endif
	return make_environment(launch, user);
}

/* ---- Starting it ---- */

/* In the child: becomes the user and runs the first command that can be. Only returns on failure. */
static void run_in_child(struct launch *launch)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return;
	if (launch->switch_user &&
	    (setgroups((size_t)launch->group_count, launch->groups) || setgid(launch->gid) || setuid(launch->uid)))
		return;
	environ = launch->environment.items;
	for (size_t i = 0; i < launch->command_count; i++)
		execvp(launch->commands[i][0], launch->commands[i]);
}

/* Starts it as no child of ours, so that nobody waits for it; false when no command could be run. */
static bool start(struct launch *launch)
{
	int ends[2];
	char failed;
	if (pipe(ends))
		return false;
	fcntl(ends[0], F_SETFD, FD_CLOEXEC);
	fcntl(ends[1], F_SETFD, FD_CLOEXEC);
	pid_t child = fork();
	if (!child) {
		close(ends[0]);
#ifdef CLOSE_RANGE_CLOEXEC
		close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
#endif
		setsid();
		pid_t grandchild = fork();
		if (grandchild > 0)
			_exit(0);
		if (!grandchild)
			run_in_child(launch);
		ssize_t written = write(ends[1], "x", 1);
		_exit(written != 1);
	}
	close(ends[1]);
	/* The pipe ends without a byte when a command runs. */
	ssize_t got = -1;
	if (child > 0) {
		waitpid(child, NULL, 0);
		while ((got = read(ends[0], &failed, 1)) < 0 && errno == EINTR)
			;
	}
	close(ends[0]);
	return !got;
}

/* Whether there is a desktop to open a window on. */
static bool has_display(void)
{
#ifdef __APPLE__
	return true;
#else
	uid_t uid;
	gid_t gid;
	return set("DISPLAY") || set("WAYLAND_DISPLAY") || (sp_sudo_ids(&uid, &gid) && has_socket(uid, "wayland-0"));
#endif
}

bool view_open_browser(const char *url, bool *ret_remote)
{
	struct launch launch = { 0 };
	const char *browsers = set("BROWSER");
	*ret_remote = set("SSH_CONNECTION") || set("SSH_TTY");
	/* A $BROWSER is the user's word, also over SSH, where an editor's terminal sets it. */
	if (browsers)
		add_browsers(&launch, browsers, url);
	if (!*ret_remote && has_display())
#ifdef __APPLE__
		add_command(&launch, "open", 4, url);
#else
		add_command(&launch, "xdg-open", 8, url);
#endif
	bool opened = launch.command_count && prepare_user(&launch) && start(&launch);
	sp_vector_deinit(&launch.environment);
	sp_arena_deinit(&launch.arena);
	return opened;
}
