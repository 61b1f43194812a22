/* Starting the command; see launch.h. */
#include "platform/linux/launch.h"

#include "common/vector.h"
#include "platform/linux/sudo_user.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* An environment under construction. Strings that were made here are owned, the others borrowed. */
struct environment {
	SP_VECTOR(char *) variables;
	SP_VECTOR(char *) made;
};

static void environment_deinit(struct environment *environment)
{
	for (size_t i = 0; i < environment->made.count; i++)
		free(environment->made.items[i]);
	sp_vector_deinit(&environment->made);
	sp_vector_deinit(&environment->variables);
}

/* Sets one "NAME=value", which stays borrowed. */
static bool environment_put(struct environment *environment, char *variable)
{
	const char *equals = strchr(variable, '=');
	size_t length = equals ? (size_t)(equals - variable) + 1 : strlen(variable);
	for (size_t i = 0; i < environment->variables.count; i++) {
		if (!strncmp(environment->variables.items[i], variable, length)) {
			environment->variables.items[i] = variable;
			return true;
		}
	}
	return sp_vector_push(&environment->variables, variable);
}

static bool environment_set(struct environment *environment, const char *name, const char *value)
{
	char *variable;
	if (!value)
		return true;
	if (asprintf(&variable, "%s=%s", name, value) < 0)
		return false;
	if (!sp_vector_push(&environment->made, variable)) {
		free(variable);
		return false;
	}
	return environment_put(environment, variable);
}

static bool environment_init(struct environment *environment, const struct sp_sudo_user *user, char *const *added)
{
	*environment = (struct environment){ 0 };
	for (char **variable = environ; variable && *variable; variable++) {
		if (!sp_vector_push(&environment->variables, *variable))
			return false;
	}
	if (user &&
	    (!environment_set(environment, "HOME", user->home) || !environment_set(environment, "USER", user->name) ||
	     !environment_set(environment, "LOGNAME", user->name)))
		return false;
	for (; added && *added; added++) {
		if (!environment_put(environment, *added))
			return false;
	}
	return sp_vector_push(&environment->variables, NULL);
}

/* sp's handlers must not run in the child, which waits for a while as a copy of sp. */
static void reset_handlers(uint64_t ignored)
{
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;
		if (sigaction(number, NULL, &action) || action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)
			continue;
		bool ignore = number <= 64 && (ignored >> (number - 1) & 1);
		action = (struct sigaction){ .sa_handler = ignore ? SIG_IGN : SIG_DFL };
		sigaction(number, &action, NULL);
	}
}

/* In the child: wait, become the user, exec. Only async-signal-safe calls (execvp is, in practice). */
static _Noreturn void run_child(int go_fd, int exec_fd, const struct sp_sudo_user *user, char *const *argv, char **env)
{
	char go;
	ssize_t got;
	do
		got = read(go_fd, &go, 1);
	while (got < 0 && errno == EINTR);
	if (got != 1)
		_exit(127); /* sp ended before it began */
	int problem = user ? sp_sudo_user_become(user) : 0;
	if (!problem) {
		environ = env;
		execvp(argv[0], argv);
		problem = errno;
	}
	while (write(exec_fd, &problem, sizeof(problem)) < 0 && errno == EINTR)
		;
	_exit(problem == ENOENT ? 127 : 126);
}

int sp_pidfd_open(int pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static struct sp_error *fork_child(struct sp_launch *launch, const struct sp_sudo_user *user, char *const *argv,
                                   char **env, uint64_t ignored)
{
	int go[2], exec[2];
	/* A socket, since writing to one can be done without risking SIGPIPE. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go))
		return sp_error_from_errno(errno, "socketpair");
	if (pipe2(exec, O_CLOEXEC)) {
		close(go[0]);
		close(go[1]);
		return sp_error_from_errno(errno, "pipe");
	}
	sigset_t all, mask;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	int pid = fork();
	int problem = errno;
	if (pid == 0) {
		reset_handlers(ignored);
		close(go[1]);
		sigprocmask(SIG_SETMASK, &mask, NULL);
		run_child(go[0], exec[1], user, argv, env);
	}
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	close(go[0]);
	close(exec[1]);
	launch->go_fd = go[1];
	launch->exec_fd = exec[0];
	if (pid < 0) {
		sp_launch_deinit(launch);
		return sp_error_from_errno(problem, "cannot start a process");
	}
	launch->pid = pid;
	launch->pidfd = sp_pidfd_open(pid);
	fcntl(launch->exec_fd, F_SETFL, O_NONBLOCK);
	return NULL;
}

struct sp_error *sp_launch_init(struct sp_launch *launch, char *const *argv, char *const *env, uint64_t ignored)
{
	*launch = (struct sp_launch){ .pidfd = -1, .go_fd = -1, .exec_fd = -1 };
	struct sp_sudo_user user;
	bool as_user;
	struct sp_error *error = sp_sudo_user_init(&user, &as_user);
	if (error)
		return error;
	struct environment environment;
	if (environment_init(&environment, as_user ? &user : NULL, env))
		error = fork_child(launch, as_user ? &user : NULL, argv, environment.variables.items, ignored);
	else
		error = sp_error_no_memory();
	environment_deinit(&environment);
	sp_sudo_user_deinit(&user);
	return error;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

struct sp_error *sp_launch_go(struct sp_launch *launch)
{
	ssize_t wrote;
	do
		wrote = send(launch->go_fd, "g", 1, MSG_NOSIGNAL);
	while (wrote < 0 && errno == EINTR);
	int problem = errno;
	close_fd(&launch->go_fd);
	/* A child that was killed while it waited is found by its status. */
	if (wrote < 0 && problem != EPIPE)
		return sp_error_from_errno(problem, "cannot start the command");
	return NULL;
}

void sp_launch_poll_exec(struct sp_launch *launch)
{
	if (launch->exec_fd < 0)
		return;
	int problem;
	ssize_t got = read(launch->exec_fd, &problem, sizeof(problem));
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got == (ssize_t)sizeof(problem))
		__atomic_store_n(&launch->exec_errno, problem, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&launch->exec_done, true, __ATOMIC_RELEASE);
	close_fd(&launch->exec_fd);
}

struct sp_exit_status sp_launch_status(const struct sp_launch *launch)
{
	struct sp_exit_status status = { .exec_errno = __atomic_load_n(&launch->exec_errno, __ATOMIC_ACQUIRE) };
	siginfo_t info = { 0 };
	/* A child whose exec failed is gone at once: it has not ended before its message was read. */
	if (!status.exec_errno && !__atomic_load_n(&launch->exec_done, __ATOMIC_ACQUIRE))
		return status;
	/* WNOWAIT leaves the zombie, and with it the pid: no signal can reach a stranger. */
	if (!launch->pid || waitid(P_PID, (id_t)launch->pid, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
		return status;
	status.exited = true;
	if (info.si_code == CLD_EXITED)
		status.code = info.si_status;
	else
		status.signal = info.si_status;
	return status;
}

void sp_launch_signal(const struct sp_launch *launch, int signal)
{
	if (launch->pid)
		kill(launch->pid, signal);
}

void sp_launch_deinit(struct sp_launch *launch)
{
	bool held = launch->go_fd >= 0;
	close_fd(&launch->go_fd);
	close_fd(&launch->exec_fd);
	close_fd(&launch->pidfd);
	if (launch->pid)
		waitpid(launch->pid, NULL, held ? 0 : WNOHANG);
	launch->pid = 0;
}
