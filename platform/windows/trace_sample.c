/* Samples: of the timer, of hardware counters, and of threads that wait. */
#include "platform/windows/trace.h"

#define PMC_MAX 250

static uint32_t push_sample(struct sp_trace *trace, const struct sp_trace_sample *sample, bool stack_follows)
{
	uint32_t index = (uint32_t)trace->samples.count;
	if (trace->samples.count >= SP_TRACE_NONE - 1 || !sp_spool_push(&trace->samples, *sample)) {
		trace->failed = true;
		return SP_TRACE_NONE;
	}
	if (index && sample->time < trace->samples.items[index - 1].time)
		trace->samples_unordered = true;
	if (stack_follows) {
		struct sp_trace_thread *thread = &trace->threads.items[sample->thread];
		trace->samples.items[index].next = thread->pending;
		thread->pending = index;
	}
	return index;
}

static bool wanted_time(const struct sp_trace *trace, uint64_t time)
{
	const struct sp_import_options *options = trace->options;
	uint64_t since = time > trace->first_time ? time - trace->first_time : 0;
	return !options->time_limited || (since >= options->from_ns && since < options->to_ns);
}

/* ---- The timer and counters ---- */

static uint8_t pmc_of(struct sp_trace *trace, uint32_t id)
{
	for (size_t i = 0; i < trace->pmc.count; i++)
		if (trace->pmc.items[i].id == id)
			return (uint8_t)i;
	if (trace->pmc.count >= PMC_MAX)
		return PMC_MAX - 1;
	if (!sp_vector_push(&trace->pmc, (struct sp_trace_pmc){ .id = id, .name = SP_INTERN_NONE }))
		trace->failed = true;
	return (uint8_t)(trace->pmc.count ? trace->pmc.count - 1 : 0);
}

static bool take_sample(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_etl_sample parsed;
	bool pmc = event->opcode == SP_ETL_PERF_PMC;
	if (!sp_etl_sample_parse(event, &parsed)) {
		trace->counts.bad_payloads++;
		return true;
	}
	bool idle = !parsed.tid && (pmc || (!parsed.dpc && !parsed.isr));
	trace->counts.samples += !pmc && !idle;
	trace->counts.pmc += pmc && !idle;
	trace->counts.idle += idle;
	trace->counts.dpc_isr += !pmc && (parsed.dpc || parsed.isr);
	if ((idle && !trace->options->idle) || !wanted_time(trace, event->time))
		return true;
	struct sp_trace_sample sample = { .time = event->time,
		                          .ip = parsed.ip,
		                          .kernel = SP_TRACE_NONE,
		                          .user = SP_TRACE_NONE,
		                          .next = SP_TRACE_NONE,
		                          .waker = SP_TRACE_NONE,
		                          .cpu = event->cpu,
		                          .weight = parsed.count && !pmc ? parsed.count : 1 };
	sample.thread = sp_trace_thread_now(trace, parsed.tid, SP_ETL_ID_UNKNOWN, event->cpu, event->time);
	if (sample.thread == SP_TRACE_NONE)
		return !trace->failed;
	if (pmc) {
		sample.kind = SP_TRACE_PMC;
		sample.source = pmc_of(trace, parsed.count);
	} else {
		struct sp_trace_thread *thread = &trace->threads.items[sample.thread];
		sample.flags = (uint8_t)((parsed.dpc ? SP_TRACE_DPC : 0) | (parsed.isr ? SP_TRACE_ISR : 0) |
		                         (idle ? SP_TRACE_IDLE : 0));
		if (thread->on_cpu) {
			thread->cpu_ns += event->time > thread->since ? event->time - thread->since : 0;
			thread->since = event->time;
		}
		sample.cpu_ns = thread->cpu_ns;
		thread->cpu_ns = 0;
	}
	push_sample(trace, &sample, true);
	return !trace->failed;
}

static bool take_interval(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_etl_interval parsed;
	if (!sp_etl_interval_parse(event, &parsed)) {
		trace->counts.bad_payloads++;
		return true;
	}
	if (parsed.source) {
		struct sp_trace_pmc *pmc;
		uint8_t index = pmc_of(trace, parsed.source);
		if (trace->failed)
			return false;
		pmc = &trace->pmc.items[index];
		pmc->interval = parsed.interval;
		if (pmc->name == SP_INTERN_NONE)
			pmc->name = sp_trace_text(trace, &parsed.name);
		return !trace->failed;
	}
	uint64_t ns = (uint64_t)parsed.interval * 100;
	size_t count = trace->intervals.count;
	if (!ns || (count && trace->intervals.items[count - 1].ns == ns))
		return true;
	if (!sp_vector_push(&trace->intervals, (struct sp_trace_interval){ .time = event->time, .ns = ns }))
		trace->failed = true;
	return !trace->failed;
}

uint64_t sp_trace_interval_at(const struct sp_trace *trace, uint64_t time)
{
	size_t at = trace->intervals.count;
	if (!at)
		return SP_TRACE_DEFAULT_INTERVAL_NS;
	/* Before the first one that is told of, it was that one: the event comes when sampling has begun. */
	while (--at && trace->intervals.items[at].time > time)
		;
	return trace->intervals.items[at].ns;
}

bool sp_trace_perf_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	switch (event->opcode) {
	case SP_ETL_PERF_SAMPLE:
	case SP_ETL_PERF_PMC:
		return take_sample(trace, event);
	case SP_ETL_PERF_SET_INTERVAL:
	case SP_ETL_PERF_START:
	case SP_ETL_PERF_STOP:
		return take_interval(trace, event);
	default:
		return true;
	}
}

/* ---- Context switches ---- */

/* A CPU's current thread, SP_TRACE_NONE = unknown. */
static uint32_t *running_on(struct sp_trace *trace, uint16_t cpu)
{
	while (trace->running.count <= cpu) {
		if (!sp_vector_push(&trace->running, SP_TRACE_NONE)) {
			trace->failed = true;
			return NULL;
		}
	}
	return &trace->running.items[cpu];
}

static void leave_cpu(struct sp_trace_thread *thread, const struct sp_etl_switch *parsed, uint64_t time)
{
	if (thread->on_cpu && time > thread->since)
		thread->cpu_ns += time - thread->since;
	thread->on_cpu = false;
	thread->off_cpu = true;
	thread->since = time;
	thread->wait_reason = parsed->wait_reason;
	thread->old_state = parsed->old_state;
	thread->waker = SP_TRACE_NONE;
}

/* Time off the CPU becomes samples at the rate of the timer; what is too short for one adds up. */
static void enter_cpu(struct sp_trace *trace, uint32_t index, const struct sp_etl_event *event)
{
	struct sp_trace_thread *thread = &trace->threads.items[index];
	if (thread->off_cpu && event->time > thread->since) {
		uint64_t interval = sp_trace_interval_at(trace, event->time);
		thread->off_ns += event->time - thread->since;
		uint64_t weight = thread->off_ns / interval;
		thread->off_ns %= interval;
		if (weight && wanted_time(trace, event->time)) {
			struct sp_trace_sample sample = { .time = event->time,
				                          .ip = thread->since,
				                          .cpu_ns = thread->cpu_ns,
				                          .thread = index,
				                          .kernel = SP_TRACE_NONE,
				                          .user = SP_TRACE_NONE,
				                          .next = SP_TRACE_NONE,
				                          .weight = weight < UINT32_MAX ? (uint32_t)weight : UINT32_MAX,
				                          .cpu = event->cpu,
				                          .kind = SP_TRACE_OFF_CPU,
				                          .reason = thread->wait_reason,
				                          .state = thread->old_state,
				                          .waker = thread->waker };
			thread->cpu_ns = 0;
			trace->counts.off_cpu++;
			push_sample(trace, &sample, true);
			thread = &trace->threads.items[index];
		}
	}
	thread->off_cpu = false;
	thread->on_cpu = true;
	thread->since = event->time;
}

bool sp_trace_switch_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_etl_switch parsed;
	if (!sp_etl_switch_parse(event, &parsed)) {
		trace->counts.bad_payloads++;
		return true;
	}
	trace->switches_traced = true;
	trace->counts.switches++;
	uint32_t old = SP_TRACE_NONE, new = SP_TRACE_NONE;
	if (parsed.old_tid)
		old = sp_trace_thread_now(trace, parsed.old_tid, SP_ETL_ID_UNKNOWN, event->cpu, event->time);
	if (old != SP_TRACE_NONE)
		leave_cpu(&trace->threads.items[old], &parsed, event->time);
	if (parsed.new_tid)
		new = sp_trace_thread_now(trace, parsed.new_tid, SP_ETL_ID_UNKNOWN, event->cpu, event->time);
	if (new != SP_TRACE_NONE)
		enter_cpu(trace, new, event);
	uint32_t *running = running_on(trace, event->cpu);
	if (running)
		*running = new;
	return !trace->failed;
}

bool sp_trace_ready_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	uint32_t tid;
	if (!sp_etl_ready_parse(event, &tid)) {
		trace->counts.bad_payloads++;
		return true;
	}
	trace->counts.readies++;
	if (!tid)
		return true;
	uint32_t thread = sp_trace_thread_now(trace, tid, SP_ETL_ID_UNKNOWN, event->cpu, event->time);
	uint32_t waker = SP_TRACE_NONE;
	if (event->tid != SP_ETL_ID_UNKNOWN && event->tid)
		waker = sp_trace_thread_now(trace, event->tid, event->pid, event->cpu, event->time);
	else if (event->tid == SP_ETL_ID_UNKNOWN && event->cpu < trace->running.count)
		waker = trace->running.items[event->cpu];
	if (thread != SP_TRACE_NONE)
		trace->threads.items[thread].waker = waker;
	return !trace->failed;
}
