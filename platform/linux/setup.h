/* `sp setup`: rights to sample for ordinary users. */
#ifndef SP_PLATFORM_LINUX_SETUP_H
#define SP_PLATFORM_LINUX_SETUP_H

#include "platform/linux/perf_session.h"
#include "sampler/backend.h"

/* See sp_backend_ops.setup. */
struct sp_error *sp_linux_setup(enum sp_setup_action action, void (*emit)(void *context, const char *line),
                                void *context, bool *ret_ready);

/* The best mode that this process may use, found by opening events that count nothing. False when none; then *ret_errno
 * says how the kernel refuses. */
bool sp_linux_best_mode(enum sp_perf_mode *ret, int *ret_errno);

/* Whether the running binary carries file capabilities that this process did not get (a mount with nosuid, a container
 * without the capability). */
bool sp_linux_capabilities_idle(void);

#endif
