/* Which sample rate this machine can bear. */
#ifndef SP_PLATFORM_LINUX_RATE_H
#define SP_PLATFORM_LINUX_RATE_H

#include "common/error.h"

/* The most that is ever asked for: beyond, a clock event can keep a virtual machine from getting anywhere. */
#define SP_RATE_MOST 20000.0

/* Gives the rate to use: at most `wished`. *ret_note (owned by the caller) says why it is less, or what it costs when
 * that is much; NULL when there is nothing to say. May spend some ms of CPU time to measure. A rate that is no
 * positive number is an error. */
struct sp_error *sp_rate_choose(double wished, double *ret, char **ret_note);

/* CPU time that one sample of the CPU clock takes, in ns; 0 when it can't be measured. */
double sp_rate_sample_cost(void);

#endif
