/* The Linux backend's state; private to platform/linux. */
#ifndef SP_PLATFORM_LINUX_CAPTURE_H
#define SP_PLATFORM_LINUX_CAPTURE_H

#include "platform/linux/found.h"
#include "platform/linux/launch.h"
#include "platform/linux/perf_session.h"
#include "platform/linux/priority.h"
#include "sampler/backend.h"

#include <poll.h>
#include <signal.h>

/* Descriptors that wait() watches beside the rings'. */
enum { SP_POLL_INTERRUPT, SP_POLL_TARGET, SP_POLL_EXEC, SP_POLL_RINGS };

struct sp_backend {
	struct sp_capture_options options;
	struct sp_capture_info info;
	struct sp_source source;
	char *rate_note; /* owned; info points to it */
	struct sp_perf_session session;
	struct sp_found_events found;
	struct sp_launch launch; /* pid 0 when attached */
	int target_pidfd;        /* attached: readable when the process ended; -1 = none */
	int interrupt_fd;
	struct pollfd *polls; /* SP_POLL_RINGS + 2 a CPU */
	size_t poll_count;
	struct sp_priority priority; /* of the reader, as it was */
	bool started, stopped;
};

#endif
