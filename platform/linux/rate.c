/* The sample rate; see rate.h.
 *
 * Nothing in the kernel keeps clock events from eating a CPU: in a virtual machine each tick leaves the guest. So the
 * price is measured: work done in a few ms of wall time, with and without a clock event on this thread, in turns. */
#include "platform/linux/rate.h"

#include "common/clock.h"
#include "common/file.h"
#include "platform/linux/perf_attr.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define IOC_ENABLE _IO('$', 0)
#define IOC_DISABLE _IO('$', 1)

/* Below this rate even a slow machine spends little, and nothing is measured. */
#define RATE_UNMEASURED 2000.0
#define PROBE_RATE 10000
#define PROBE_NS 2000000u
#define PROBES 3
/* Shares of a CPU that samples may take: a word is said beyond the first, the rate is lowered to the second. */
#define SHARE_TOLD 0.10
#define SHARE_MOST 0.30

/* Units of work in PROBE_NS of wall time. */
static uint64_t work(void)
{
	uint64_t count = 0, end = sp_clock_now() + PROBE_NS;
	while (sp_clock_now() < end)
		count++;
	return count;
}

double sp_rate_sample_cost(void)
{
	struct sp_perf_attr attr = {
		.type = SP_PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = SP_PERF_SW_CPU_CLOCK,
		.sample_period = 1000000000u / PROBE_RATE,
		.flags = SP_PERF_ATTR_DISABLED | SP_PERF_ATTR_EXCLUDE_KERNEL | SP_PERF_ATTR_EXCLUDE_HV,
	};
	int fd = sp_perf_open(&attr, 0, -1, NULL);
	if (fd < 0)
		return 0;
	/* The best of each: other load only takes away. */
	uint64_t without = 0, with = 0;
	for (int i = 0; i < PROBES; i++) {
		uint64_t count = work();
		without = count > without ? count : without;
		ioctl(fd, IOC_ENABLE, 0);
		count = work();
		ioctl(fd, IOC_DISABLE, 0);
		with = count > with ? count : with;
	}
	close(fd);
	if (!without || with >= without)
		return 0;
	return (1 - (double)with / (double)without) * 1e9 / PROBE_RATE;
}

static double kernel_limit(void)
{
	char *text;
	size_t size;
	struct sp_error *error = sp_file_read("/proc/sys/kernel/perf_event_max_sample_rate", 64, &text, &size);
	if (error) {
		sp_error_destroy(error);
		return SP_RATE_MOST;
	}
	double limit = strtod(text, NULL);
	free(text);
	return limit >= 1 ? limit : SP_RATE_MOST;
}

static struct sp_error *say(char **ret_note, int printed)
{
	if (printed >= 0)
		return NULL;
	*ret_note = NULL;
	return sp_error_no_memory();
}

struct sp_error *sp_rate_choose(double wished, double *ret, char **ret_note)
{
	*ret_note = NULL;
	if (!(wished >= 1) || isinf(wished))
		return sp_error_create(SP_ERROR_USAGE, "a sample rate of %g a second is not possible", wished);
	double limit = kernel_limit();
	*ret = fmin(fmin(wished, SP_RATE_MOST), limit);
	double cost = *ret > RATE_UNMEASURED ? sp_rate_sample_cost() : 0;
	double bearable = cost > 0 ? SHARE_MOST * 1e9 / cost : *ret;
	if (bearable < *ret) {
		*ret = floor(fmax(bearable, RATE_UNMEASURED) / 100) * 100;
		return say(ret_note, asprintf(ret_note,
		                              "lowered from %.0f to %.0f Hz: a sample takes %.1f us here, more would "
		                              "take over %.0f %% of the CPU time",
		                              wished, *ret, cost / 1000, SHARE_MOST * 100));
	}
	if (*ret < wished && limit < SP_RATE_MOST)
		return say(ret_note, asprintf(ret_note,
		                              "lowered from %.0f to %.0f Hz, which is "
		                              "kernel.perf_event_max_sample_rate",
		                              wished, *ret));
	if (*ret < wished)
		return say(ret_note, asprintf(ret_note, "lowered from %.0f to %.0f Hz, the highest rate that is safe",
		                              wished, *ret));
	if (*ret * cost > SHARE_TOLD * 1e9)
		return say(ret_note, asprintf(ret_note, "sampling at %.0f Hz takes about %.0f %% of the CPU time", *ret,
		                              *ret * cost / 1e7));
	return NULL;
}
