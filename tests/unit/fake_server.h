/* For tests that download: tests/tools/fake_debuginfod.py, which serves the folder "served" of the fixtures, good or
 * bad in known ways. */
#ifndef FAKE_SERVER_H
#define FAKE_SERVER_H

#include "fixture_support.h"

#include <signal.h>
#include <sys/wait.h>

static pid_t server;
static unsigned port; /* on 127.0.0.1 */

/* The folder must be there; false when the server does not come up. */
static bool start_fake_server(void)
{
	char served[600];
	snprintf(served, sizeof(served), "%s", in_folder("served"));
	server = fork();
	if (server == 0) {
		execlp("python3", "python3", TEST_DATA "/../tools/fake_debuginfod.py", served, (char *)NULL);
		_exit(127);
	}
	for (unsigned i = 0; i < 200 && !run("test -e served/port"); i++)
		usleep(50000);
	char *text = output_of("cat served/port");
	port = (unsigned)strtoul(text, NULL, 10);
	free(text);
	return port;
}

/* A teardown: ends the server and removes the fixtures. */
static int stop_fake_server(void **state)
{
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return remove_folder(state);
}

#endif
