/* What a trace says once all its events are in: processes, threads, images and code over time, samples with their
 * stacks, markers, losses.
 *
 * One pass over the events fills it. A process may be named only by the rundown at the end of the trace, a stack may
 * come long after its sample and its frames later still, so nothing goes into the recording before the end; then
 * trace_emit.c writes it all, in order of time. What grows with the length of the trace lies in spools (files). */
#ifndef SP_PLATFORM_WINDOWS_TRACE_H
#define SP_PLATFORM_WINDOWS_TRACE_H

#include "common/intern.h"
#include "common/map.h"
#include "common/vector.h"
#include "platform/windows/etl_payload.h"
#include "platform/windows/etl_reader.h"
#include "sampler/importer.h"
#include "sampler/output/spool.h"
#include "sampler/profile/model.h"

#define SP_TRACE_NONE UINT32_MAX
#define SP_TRACE_GRACE_NS 1000000000u /* events of a thread may come this long after its end */
#define SP_TRACE_DEFAULT_INTERVAL_NS 1000000u
#define SP_TRACE_PID_SYSTEM 4

struct sp_trace_process {
	uint32_t pid, parent_pid;
	uint64_t start, end;    /* ns; start 0 = before the trace */
	bool ended, started;    /* seen to end; seen to begin */
	uint32_t name, command; /* strings; SP_INTERN_NONE = unknown */
	uint32_t main_thread;   /* the first one; SP_TRACE_NONE = none known */
	uint32_t older;         /* that had the number before; SP_TRACE_NONE = none */
};

struct sp_trace_thread {
	uint32_t tid;
	uint32_t process; /* SP_TRACE_NONE = unknown so far */
	uint64_t start, end;
	bool ended;
	bool guessed; /* only known from events that name it */
	uint16_t idle_cpu;
	uint32_t name;
	uint32_t older;   /* that had the number before; SP_TRACE_NONE = none */
	uint32_t pending; /* newest sample that may still get a stack; a list by sample.next */
	/* Context switches. */
	bool on_cpu, off_cpu;
	uint8_t wait_reason, old_state;
	uint64_t since;          /* of being on or off */
	uint64_t cpu_ns, off_ns; /* not yet accounted to a sample */
	uint32_t waker;          /* thread that readied it; SP_TRACE_NONE = unknown */
	uint64_t samples;        /* at emission: handle state */
};

struct sp_trace_image {
	uint32_t process; /* SP_TRACE_NONE = kernel */
	uint32_t pid;
	uint64_t base, size;
	uint64_t load, unload; /* ns; 0 = before the trace, UINT64_MAX = still there */
	uint64_t described;    /* time of the last event that told of it: IDs have the same */
	uint32_t timestamp;
	uint32_t path; /* string, as Windows knows it (NT path) */
	bool live;
};

/* IDs that merging added, for images of (pid, base). */
struct sp_trace_ids {
	uint32_t pid;
	uint64_t base, time;
	uint32_t older; /* record of the same hash; SP_TRACE_NONE */
	uint32_t size, timestamp, name;
	bool has_id, has_debug;
	uint8_t guid[SP_GUID_SIZE];
	uint32_t age, debug_name;
	uint8_t debug_kind; /* event code */
};

enum sp_trace_sample_kind { SP_TRACE_CPU, SP_TRACE_PMC, SP_TRACE_OFF_CPU };

enum {
	SP_TRACE_DPC = 1,
	SP_TRACE_ISR = 2,
	SP_TRACE_IDLE = 4,         /* of the idle thread, and not DPC or ISR */
	SP_TRACE_KERNEL_WAITS = 8, /* `kernel` is the next sample that waits for the same stack key */
	SP_TRACE_USER_WAITS = 16,
	SP_TRACE_KERNEL_FULL = 32, /* as deep as the kernel walks: it goes on */
	SP_TRACE_USER_FULL = 64,
};

struct sp_trace_sample {
	uint64_t time;
	uint64_t ip;     /* off-CPU: when it began, ns */
	uint64_t cpu_ns; /* CPU time since the thread's last sample, where switches tell */
	uint32_t thread;
	uint32_t kernel, user; /* stack nodes; SP_TRACE_NONE = none */
	uint32_t next;         /* older pending sample of the thread */
	uint32_t weight;       /* off-CPU: intervals; PMC: events; else ticks */
	uint16_t cpu;
	uint8_t kind, flags;
	uint8_t source;        /* PMC: index into pmc */
	uint8_t reason, state; /* off-CPU: why, and in what state it left the CPU */
	uint32_t waker;
};

struct sp_trace_method {
	uint32_t process;
	uint64_t start, size;
	uint64_t load, unload; /* load 0 = found by a rundown */
	uint32_t name;
};

struct sp_trace_interval {
	uint64_t time;
	uint64_t ns;
};

struct sp_trace_pmc {
	uint32_t id, name;
	uint32_t interval; /* events a sample; 0 = unknown */
};

/* A provider of events that are not the kernel's, or a kind of kernel event. */
struct sp_trace_provider {
	struct sp_guid guid;
	uint32_t name; /* string; SP_INTERN_NONE = unknown */
	uint64_t events;
	bool marked; /* its events are wanted as markers */
};

/* A marker's event, decoded when its schema is surely known: at the end. */
struct sp_trace_marker {
	uint64_t time;
	uint64_t data; /* offset in marker_bytes: schema, then payload */
	uint64_t keyword;
	uint32_t thread, provider;
	uint32_t payload_size;
	uint16_t schema_size, id, task;
	uint8_t version, opcode, pointer_size, level;
	uint16_t file;
};

/* TRACE_EVENT_INFO of a manifest event. */
struct sp_trace_event_info {
	uint64_t key;   /* hash of provider, id and version */
	uint64_t bytes; /* offset in info_bytes */
	uint32_t size;
};

struct sp_trace_volume {
	uint32_t nt, dos; /* strings, each with a backslash at its end */
};

struct sp_trace_counts {
	uint64_t samples, idle, dpc_isr, pmc, off_cpu;
	uint64_t switches, readies, stacks, keys, definitions;
	uint64_t unresolved_keys; /* whose frames the trace does not have */
	uint64_t other_stacks;    /* of events that are no samples */
	uint64_t marker_stacks;   /* of events that become markers, in the events themselves */
	uint64_t late_threads;
	uint64_t images, image_ids, methods;
	uint64_t rt_lost_events, rt_lost_buffers;
	uint64_t bad_payloads;
};

struct sp_trace {
	const struct sp_import_options *options; /* borrowed */
	struct sp_etl_reader *reader;            /* borrowed; for the files' clocks */
	const char *folder;                      /* for spools */
	uint8_t pointer_size;                    /* of the recorded kernel */
	struct sp_intern strings;
	bool failed; /* out of memory: what was put since is missing */
	uint64_t first_time, last_time;

	SP_VECTOR(struct sp_trace_process) processes;
	struct sp_map by_pid; /* pid -> newest process */
	SP_VECTOR(struct sp_trace_thread) threads;
	struct sp_map by_tid;        /* tid (idle: 1 << 32 | CPU) -> newest thread */
	SP_VECTOR(uint32_t) running; /* CPU -> thread, by context switches */

	SP_VECTOR(struct sp_trace_image) images;
	struct sp_map by_base; /* hash of (process, base) -> newest image */
	SP_VECTOR(struct sp_trace_ids) ids;
	struct sp_map ids_by_base; /* hash of (pid, base) -> newest IDs */
	SP_VECTOR(struct sp_trace_volume) volumes;

	SP_SPOOL(struct sp_trace_sample) samples;
	bool samples_unordered;
	/* The stack tree: node -> parent and address. */
	SP_SPOOL(uint32_t) node_parent;
	SP_SPOOL(uint64_t) node_address;
	SP_SPOOL(uint32_t) node_table;        /* open addressing; node + 1 */
	struct sp_map kernel_keys, user_keys; /* key -> newest sample that waits for it */

	SP_VECTOR(struct sp_trace_method) methods;
	struct sp_map by_code;                         /* hash of (process, start) -> newest method */
	SP_VECTOR(struct sp_trace_interval) intervals; /* of the timer */
	SP_VECTOR(struct sp_trace_pmc) pmc;
	struct sp_map scripts; /* hash of (process, JavaScript source) -> URL string */

	SP_VECTOR(struct sp_trace_provider) providers;
	struct sp_map by_provider;        /* hash of GUID -> provider */
	uint32_t last_provider;           /* of the last event that has one */
	uint64_t kernel_events[256][256]; /* group, code */
	SP_SPOOL(struct sp_trace_marker) markers;
	SP_SPOOL(uint8_t) marker_bytes;
	SP_VECTOR(struct sp_trace_event_info) infos;
	struct sp_map info_by_key;
	SP_SPOOL(uint8_t) info_bytes;

	/* The machine; strings. */
	uint32_t host, os_text, build_text, model_text, system_root;
	uint16_t arch; /* PROCESSOR_ARCHITECTURE_*, 0xffff = unknown */
	uint32_t memory_mb, cpu_mhz;
	bool merged;          /* the trace has what merging adds */
	bool switches_traced; /* context switches are in it: CPU times are exact */
	struct sp_trace_counts counts;
};

void sp_trace_init(struct sp_trace *trace, const struct sp_import_options *options, struct sp_etl_reader *reader,
                   const char *folder);
void sp_trace_deinit(struct sp_trace *trace);
/* Takes an event in; false without memory. Events come in time order, as far as the trace has it. */
bool sp_trace_feed(struct sp_trace *trace, const struct sp_etl_event *event);
/* After the last event: what remained open. */
bool sp_trace_finish(struct sp_trace *trace);

/* Writes everything into the recording. */
struct sp_error *sp_trace_emit(struct sp_trace *trace, struct sp_recording_writer *recording,
                               struct sp_import_result *result);

/* ---- Parts ---- */

uint32_t sp_trace_string(struct sp_trace *trace, const char *text);
uint32_t sp_trace_text(struct sp_trace *trace, const struct sp_etl_text *text);
static inline const char *sp_trace_get(const struct sp_trace *trace, uint32_t string)
{
	return string == SP_INTERN_NONE ? NULL : sp_intern_string(&trace->strings, string);
}

/* trace_process.c */
bool sp_trace_process_event(struct sp_trace *trace, const struct sp_etl_event *event);
bool sp_trace_thread_event(struct sp_trace *trace, const struct sp_etl_event *event);
/* The process that has the number now; made up when the trace has not named it yet. SP_TRACE_NONE without memory or for
 * SP_ETL_ID_UNKNOWN. */
uint32_t sp_trace_process_now(struct sp_trace *trace, uint32_t pid);
/* The same for threads. `cpu` tells idle threads (TID 0) apart. `pid`: its process where known. */
uint32_t sp_trace_thread_now(struct sp_trace *trace, uint32_t tid, uint32_t pid, uint16_t cpu, uint64_t time);

bool sp_trace_has_filter(const struct sp_import_options *options);
/* Which processes are asked for: sets chosen[process] to 0 (wanted) or SP_HANDLE_NONE. */
void sp_trace_choose_processes(const struct sp_trace *trace, const struct sp_import_options *options, uint32_t *chosen);
/* The process that had the parent's number when `child` began; SP_TRACE_NONE = unknown. */
uint32_t sp_trace_parent_of(const struct sp_trace *trace, uint32_t child);

/* trace_image.c */
bool sp_trace_image_event(struct sp_trace *trace, const struct sp_etl_event *event);
bool sp_trace_image_id_event(struct sp_trace *trace, const struct sp_etl_event *event);
bool sp_trace_system_event(struct sp_trace *trace, const struct sp_etl_event *event);
const struct sp_trace_ids *sp_trace_ids_of(const struct sp_trace *trace, const struct sp_trace_image *image);
/* The path as programs on that machine write it ("C:\..."); cut to fit. */
void sp_trace_dos_path(const struct sp_trace *trace, const char *path, char *out, size_t size);

/* trace_sample.c */
bool sp_trace_perf_event(struct sp_trace *trace, const struct sp_etl_event *event);
bool sp_trace_switch_event(struct sp_trace *trace, const struct sp_etl_event *event);
bool sp_trace_ready_event(struct sp_trace *trace, const struct sp_etl_event *event);
/* Interval of the timer at a time, ns. */
uint64_t sp_trace_interval_at(const struct sp_trace *trace, uint64_t time);

/* trace_stack.c */
bool sp_trace_stack_event(struct sp_trace *trace, const struct sp_etl_event *event);
bool sp_trace_stack_finish(struct sp_trace *trace);

/* trace_code.c: methods of the .NET and JavaScript runtimes. False without memory; *ret_taken: it was one. */
bool sp_trace_code_event(struct sp_trace *trace, const struct sp_etl_event *event, bool *ret_taken);

/* Whether an EVENT_HEADER event tells of code made at run time. */
bool sp_trace_is_code(const struct sp_etl_event *event);

/* trace_provider.c */
bool sp_trace_provider_event(struct sp_trace *trace, const struct sp_etl_event *event);
bool sp_trace_metadata_event(struct sp_trace *trace, const struct sp_etl_event *event);
/* The name of a kind of kernel event: "Thread/CSwitch"; NULL = none known. */
const char *sp_trace_kernel_name(uint8_t group, uint8_t code);
/* Whether its events shall be markers, by what is known of it now. */
bool sp_trace_provider_wanted(const struct sp_trace *trace, const struct sp_trace_provider *provider);
/* Warns of what --markers names and the trace lacks. */
void sp_trace_say_unknown_providers(const struct sp_trace *trace, struct sp_import_result *result);
uint64_t sp_trace_info_key(const uint8_t *guid, uint16_t id, uint8_t version);
void sp_trace_provider_name(const struct sp_trace *trace, const struct sp_trace_provider *provider, char *out,
                            size_t size);

/* trace_marker.c */
struct sp_error *sp_trace_emit_markers(struct sp_trace *trace, const uint32_t *thread_handles,
                                       struct sp_recording_writer *recording, struct sp_import_result *result);

#endif
