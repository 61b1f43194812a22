/* What to say when the kernel does not let sp sample, or not fully: the reason, and the one cure. */
#ifndef SP_PLATFORM_LINUX_REFUSAL_H
#define SP_PLATFORM_LINUX_REFUSAL_H

#include "common/error.h"

#include <stdint.h>

/* The command that would allow per-CPU events with the kernel's share. Static. */
const char *sp_refusal_cure(void);

/* Adds to an error of opening a capture what the user can do about it. Consumes and returns the error. `attach_pid` is
 * 0 when launching. */
struct sp_error *sp_refusal_explain(struct sp_error *error, uint32_t attach_pid);

#endif
