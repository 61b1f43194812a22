/* Unwinds the stacks in a file of dump-stacks and tells how long a frame took and how many stacks reach the root.
 *
 * usage: unwind-dumps [--engine sp|libdw] [--clip BYTES] [--passes N] [--cold] [--result FILE] [--ends] DUMP
 *        unwind-dumps --splice [--clip BYTES] DUMP
 *
 * With --splice, truncated stacks are completed, and where the unclipped dump gives a whole stack the result is
 * compared with that.
 *
 * Each stack is copied to one buffer first, so that what is measured is the unwinding, not the misses on dumps that lie
 * cold in memory (--cold unwinds them where they are). For each sample the
 * best of the passes counts. The result file has, for each
 * sample, a count and that many 64-bit addresses. */
#include "dump-file.h"
#include "tests/oracle/unwind_target.h"

#include <err.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>
#ifdef HAVE_LIBDW
#include <elfutils/libdwfl.h>
#endif

#define MAX_FILES 512
#define STACK_MAX 65536

/* A process between two execs. */
struct process {
	uint32_t pid;
	struct target_mapping mappings[TARGET_MAX_RANGES];
	size_t mapping_count;
	struct sp_code_range ranges[TARGET_MAX_RANGES];
	size_t range_count;
	void *dwfl;
};

struct sample {
	const struct dump_record *record;
	size_t process;
};

/* A file that is mapped by some process. */
struct file {
	char path[256];
	struct sp_object *object;
	struct sp_unwind_module *module;
};

static struct process *processes;
static size_t process_count;
static struct sample *samples;
static size_t sample_count;
static struct file files[MAX_FILES];
static size_t file_count;
static const uint8_t *vdso;
static size_t vdso_size;
static size_t clip = STACK_MAX;
static bool cold, show_ends;
static uint8_t hot_stack[STACK_MAX];

/* ---- Reading the dump ---- */

static size_t add_process(uint32_t pid, const struct process *copied)
{
	processes = realloc(processes, (process_count + 1) * sizeof(*processes));
	if (!processes)
		err(1, "realloc");
	struct process *process = &processes[process_count];
	memset(process, 0, sizeof(*process));
	if (copied) {
		memcpy(process->mappings, copied->mappings, sizeof(process->mappings));
		process->mapping_count = copied->mapping_count;
	}
	process->pid = pid;
	return process_count++;
}

/* The newest process of that pid. */
static size_t find_process(uint32_t pid)
{
	for (size_t i = process_count; i-- > 0;)
		if (processes[i].pid == pid)
			return i;
	return add_process(pid, NULL);
}

static int compare_mappings(const void *a, const void *b)
{
	const struct target_mapping *left = a, *right = b;
	return left->start < right->start ? -1 : left->start > right->start;
}

static void add_mapping(struct process *process, const struct dump_map *map, const char *path)
{
	if (process->mapping_count == TARGET_MAX_RANGES)
		errx(1, "too many mappings");
	struct target_mapping mapping = { map->start, map->start + map->size, map->file_offset, "" };
	snprintf(mapping.path, sizeof(mapping.path), "%s", path);
	for (size_t i = 0; i < process->mapping_count; i++) /* an older mapping makes room */
		if (process->mappings[i].start < mapping.end && mapping.start < process->mappings[i].end) {
			process->mappings[i] = mapping;
			return;
		}
	process->mappings[process->mapping_count++] = mapping;
}

static void take_record(const struct dump_record *record)
{
	const void *body = record + 1;
	const struct dump_fork *fork = body;
	const struct dump_map *map = body;
	switch (record->kind) {
	case DUMP_VDSO:
		vdso = body;
		vdso_size = record->size - sizeof(*record);
		break;
	case DUMP_MAP:
		add_mapping(&processes[find_process(record->pid)], map, (const char *)(map + 1));
		break;
	case DUMP_EXEC:
		add_process(record->pid, NULL);
		break;
	case DUMP_FORK: {
		size_t parent = find_process((uint32_t)fork->parent);
		struct process *copied = malloc(sizeof(*copied));
		memcpy(copied, &processes[parent], sizeof(*copied));
		add_process(record->pid, copied);
		free(copied);
		break;
	}
	case DUMP_SAMPLE:
		if (sample_count % 4096 == 0)
			samples = realloc(samples, (sample_count + 4096) * sizeof(*samples));
		if (!samples)
			err(1, "realloc");
		samples[sample_count++] = (struct sample){ record, find_process(record->pid) };
		break;
	default:
		break;
	}
}

static void read_dump(const char *path)
{
	int fd = open(path, O_RDONLY);
	struct stat status;
	if (fd < 0 || fstat(fd, &status) != 0)
		err(1, "%s", path);
	size_t size = (size_t)status.st_size;
	const uint8_t *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		err(1, "%s", path);
	for (size_t at = 0; at + sizeof(struct dump_record) <= size;) {
		const struct dump_record *record = (const struct dump_record *)(bytes + at);
		if (record->size < sizeof(*record) || record->size > size - at)
			errx(1, "%s: bad record", path);
		take_record(record);
		at += record->size;
	}
	for (size_t i = 0; i < process_count; i++)
		qsort(processes[i].mappings, processes[i].mapping_count, sizeof(processes[i].mappings[0]),
		      compare_mappings);
}

/* A sample's parts; the stack in the hot buffer unless asked otherwise. */
static const struct dump_sample *open_sample(const struct sample *sample, const uint64_t **ret_chain,
                                             struct sp_stack_slice *ret_stack)
{
	const struct dump_sample *s = (const struct dump_sample *)(sample->record + 1);
	const uint64_t *chain = (const uint64_t *)(s + 1);
	size_t size = s->stack_size < clip ? s->stack_size : clip;
	const uint8_t *bytes = (const uint8_t *)(chain + s->chain_count);
	if (!cold) {
		memcpy(hot_stack, bytes, size);
		bytes = hot_stack;
	}
	*ret_chain = chain;
	*ret_stack = (struct sp_stack_slice){ s->registers[SP_X86_64_RSP], bytes, size };
	return s;
}

/* ---- Engines ---- */

static struct file *open_file(const char *path)
{
	for (size_t i = 0; i < file_count; i++)
		if (strcmp(files[i].path, path) == 0)
			return &files[i];
	if (file_count == MAX_FILES)
		errx(1, "too many files");
	struct file *file = &files[file_count++];
	snprintf(file->path, sizeof(file->path), "%s", path);
	struct sp_error *error = NULL;
	if (strcmp(path, "[vdso]") == 0)
		error = sp_object_open_bytes(vdso, vdso_size, path, &file->object);
	else if (path[0] == '/' && strncmp(path, "//", 2) != 0)
		error = sp_object_open_path(path, &file->object);
	if (!error && file->object)
		error = sp_unwind_module_from_object(file->object, &file->module);
	if (error)
		warnx("%s", error->message);
	sp_error_destroy(error);
	return file;
}

static uint64_t mapping_bias(const struct target_mapping *mapping, const struct file *file)
{
	size_t count;
	const struct sp_segment *segments = sp_object_segments(file->object, &count);
	for (size_t i = 0; i < count; i++)
		if (segments[i].executable && mapping->file_offset >= (segments[i].file_offset & ~(uint64_t)0xfff) &&
		    mapping->file_offset < segments[i].file_offset + segments[i].file_size)
			return mapping->start - mapping->file_offset + segments[i].file_offset - segments[i].address;
	return 0;
}

static void prepare_process(struct process *process)
{
	for (size_t i = 0; i < process->mapping_count; i++) {
		const struct target_mapping *mapping = &process->mappings[i];
		struct file *file = open_file(mapping->path);
		process->ranges[process->range_count++] = (struct sp_code_range){
			.start = mapping->start,
			.end = mapping->end,
			.bias = file->module ? mapping_bias(mapping, file) : 0,
			.module = file->module,
		};
	}
}

static struct sp_regs sample_registers(const struct dump_sample *sample)
{
	struct sp_regs regs = { .arch = SP_ARCH_X86_64, .known = 0x1ffff };
	memcpy(regs.value, sample->registers, sizeof(sample->registers));
	return regs;
}

static struct sp_unwinder *unwinder;
static struct sp_frame frames[SP_UNWIND_MAX_FRAMES];

static size_t unwind_sp(struct process *process, const struct dump_sample *sample, const struct sp_stack_slice *stack,
                        uint64_t *addresses)
{
	struct sp_regs regs = sample_registers(sample);
	const struct sp_code_map map = { process->ranges, process->range_count };
	size_t count;
	enum sp_unwind_end end = sp_unwind(unwinder, &map, &regs, stack, 1, frames, SP_UNWIND_MAX_FRAMES, &count);
	for (size_t i = 0; i < count; i++)
		addresses[i] = frames[i].address;
	if (show_ends && end != SP_UNWIND_ROOT) {
		printf("end %d after %zu frames at %#" PRIx64 "\n", end, count, frames[count - 1].address);
	}
	addresses[count] = end == SP_UNWIND_ROOT;
	return count;
}

#ifdef HAVE_LIBDW

/* What libdw's callbacks need to know. */
static struct {
	const struct dump_sample *sample;
	const struct sp_stack_slice *stack;
	uint64_t *addresses;
	size_t count;
} now;

static pid_t next_thread(Dwfl *dwfl, void *context, void **thread)
{
	(void)dwfl;
	if (*thread)
		return 0;
	*thread = context;
	return 1;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *context, void **thread)
{
	(void)dwfl, (void)tid;
	*thread = context;
	return true;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *context)
{
	(void)dwfl, (void)context;
	uint64_t offset = address - now.stack->address;
	if (offset > now.stack->size || now.stack->size - offset < 8)
		return false;
	memcpy(ret, now.stack->bytes + offset, 8);
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *context)
{
	(void)context;
	dwfl_thread_state_register_pc(thread, now.sample->registers[16]);
	return dwfl_thread_state_registers(thread, 0, 17, (const Dwarf_Word *)now.sample->registers);
}

static int take_frame(Dwfl_Frame *frame, void *context)
{
	(void)context;
	Dwarf_Addr pc;
	if (now.count == SP_UNWIND_MAX_FRAMES || !dwfl_frame_pc(frame, &pc, NULL))
		return DWARF_CB_ABORT;
	now.addresses[now.count++] = pc;
	return DWARF_CB_OK;
}

static void prepare_libdw(struct process *process)
{
	static char *no_path;
	static const Dwfl_Callbacks callbacks = { .find_elf = dwfl_build_id_find_elf,
		                                  .find_debuginfo = dwfl_standard_find_debuginfo,
		                                  .debuginfo_path = &no_path };
	static const Dwfl_Thread_Callbacks thread_callbacks = { .next_thread = next_thread,
		                                                .get_thread = get_thread,
		                                                .memory_read = read_memory,
		                                                .set_initial_registers = set_registers };
	no_path = (char *)"";
	Dwfl *dwfl = dwfl_begin(&callbacks);
	dwfl_report_begin(dwfl);
	for (size_t i = 0; i < process->mapping_count; i++) {
		const char *path = process->mappings[i].path;
		char vdso_path[] = "/tmp/sp-vdso-XXXXXX";
		if (!process->ranges[i].module)
			continue;
		if (path[0] == '[') { /* libdw wants a file */
			int fd = mkstemp(vdso_path);
			if (fd < 0 || write(fd, vdso, vdso_size) != (ssize_t)vdso_size)
				err(1, "%s", vdso_path);
			close(fd);
			path = vdso_path;
		}
		dwfl_report_elf(dwfl, path, path, -1, process->ranges[i].bias, true);
		if (path == vdso_path)
			unlink(path);
	}
	dwfl_report_end(dwfl, NULL, NULL);
	if (!dwfl_attach_state(dwfl, NULL, 1, &thread_callbacks, process))
		warnx("libdw: %s", dwfl_errmsg(-1));
	process->dwfl = dwfl;
}

static size_t unwind_libdw(struct process *process, const struct dump_sample *sample,
                           const struct sp_stack_slice *stack, uint64_t *addresses)
{
	if (!process->dwfl)
		prepare_libdw(process);
	now.sample = sample;
	now.stack = stack;
	now.addresses = addresses;
	now.count = 0;
	dwfl_getthread_frames(process->dwfl, 1, take_frame, NULL);
	addresses[now.count] = false; /* told by the last address */
	return now.count;
}

#endif

/* ---- Measuring ---- */

typedef size_t engine(struct process *process, const struct dump_sample *sample, const struct sp_stack_slice *stack,
                      uint64_t *addresses);

static double ticks_per_ns(void)
{
	struct timespec start, end;
	uint64_t from = __rdtsc();
	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &end);
	while ((end.tv_sec - start.tv_sec) * 1000000000l + end.tv_nsec - start.tv_nsec < 50000000);
	return (double)(__rdtsc() - from) /
	       (double)((end.tv_sec - start.tv_sec) * 1000000000l + end.tv_nsec - start.tv_nsec);
}

static uint64_t addresses[SP_UNWIND_MAX_FRAMES + 1];

/* One pass over all samples. ticks[i] becomes the least that sample i took so far: what else the machine did drops out.
 */
static void run_pass(engine *unwind, FILE *result, uint64_t *ticks, size_t *ret_frames, size_t *ret_roots)
{
	*ret_frames = *ret_roots = 0;
	for (size_t i = 0; i < sample_count; i++) {
		const uint64_t *chain;
		struct sp_stack_slice stack;
		const struct dump_sample *sample = open_sample(&samples[i], &chain, &stack);
		uint64_t start = __rdtsc();
		size_t count = unwind(&processes[samples[i].process], sample, &stack, addresses);
		uint64_t taken = __rdtsc() - start;
		if (!ticks[i] || taken < ticks[i])
			ticks[i] = taken;
		*ret_frames += count;
		*ret_roots += addresses[count] != 0;
		if (result) {
			uint64_t length = count;
			fwrite(&length, sizeof(length), 1, result);
			fwrite(addresses, sizeof(addresses[0]), count, result);
		}
	}
}

static void measure(engine *unwind, const char *name, unsigned long passes, const char *result_path)
{
	FILE *result = result_path ? fopen(result_path, "wb") : NULL;
	uint64_t *ticks = calloc(sample_count, sizeof(*ticks)), total = 0;
	size_t frame_count = 0, roots = 0;
	if (!ticks || (result_path && !result))
		err(1, "%s", result_path ? result_path : "memory");
	double rate = ticks_per_ns();
	for (unsigned long pass = 0; pass < passes; pass++) {
		run_pass(unwind, pass == 0 ? result : NULL, ticks, &frame_count, &roots);
		show_ends = false;
	}
	if (result && fclose(result) != 0)
		err(1, "%s", result_path);
	for (size_t i = 0; i < sample_count; i++)
		total += ticks[i];
	free(ticks);
	printf("%s: %zu samples, %zu frames, %.1f ns/frame", name, sample_count, frame_count,
	       (double)total / rate / (double)frame_count);
	if (unwind == unwind_sp) {
		struct sp_unwind_stats stats;
		sp_unwinder_stats(unwinder, &stats);
		printf(", root reached %.2f %%, cache hits %.2f %%", 100.0 * (double)roots / (double)sample_count,
		       100.0 * (double)stats.cache_hits / (double)(stats.cache_hits + stats.cache_misses));
	}
	printf("\n");
}

/* ---- Splicing ---- */

struct thread {
	uint32_t tid;
	struct sp_stack_history *history;
};

static struct sp_stack_history *find_history(uint32_t tid)
{
	static struct thread threads[4096];
	static size_t count;
	for (size_t i = 0; i < count; i++)
		if (threads[i].tid == tid)
			return threads[i].history;
	if (count == sizeof(threads) / sizeof(threads[0]) || sp_stack_history_create(&threads[count].history))
		errx(1, "too many threads");
	threads[count].tid = tid;
	return threads[count++].history;
}

static bool is_same(const struct sp_frame *a, const struct sp_frame *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a[i].address != b[i].address)
			return false;
	return true;
}

static void splice_all(void)
{
	static struct sp_frame truth[SP_UNWIND_MAX_FRAMES];
	size_t whole = 0, truncated = 0, completed = 0, checked = 0, wrong = 0, wrong_length = 0, partial = 0;
	size_t by_chain = 0, partial_wrong = 0;
	uint64_t ticks = 0;
	for (size_t i = 0; i < sample_count; i++) {
		const uint64_t *chain;
		struct sp_stack_slice stack;
		const struct dump_sample *sample = open_sample(&samples[i], &chain, &stack);
		struct sp_regs regs = sample_registers(sample);
		const struct process *process = &processes[samples[i].process];
		const struct sp_code_map map = { process->ranges, process->range_count };
		size_t count, true_count = 0;
		enum sp_unwind_end end = sp_unwind(unwinder, &map, &regs, &stack, 1, frames, SP_UNWIND_MAX_FRAMES,
		                                   &count);
		size_t dumped = count;
		bool was_truncated = end == SP_UNWIND_DUMP_END;
		uint64_t start = __rdtsc();
		end = sp_unwind_complete(find_history(samples[i].record->tid), samples[i].record->time, &stack, 1,
		                         chain, sample->chain_count, end, frames, SP_UNWIND_MAX_FRAMES, &count);
		ticks += __rdtsc() - start;
		whole += end == SP_UNWIND_ROOT;
		if (!was_truncated)
			continue;
		truncated++;
		completed += end == SP_UNWIND_ROOT;
		partial += end != SP_UNWIND_ROOT && count > dumped;
		by_chain += count > dumped && frames[dumped].origin == SP_FOUND_SPLICED_CHAIN;
		const struct sp_stack_slice full = { stack.address, (const uint8_t *)(chain + sample->chain_count),
			                             sample->stack_size };
		if (full.size == stack.size || count == dumped ||
		    sp_unwind(unwinder, &map, &regs, &full, 1, truth, SP_UNWIND_MAX_FRAMES, &true_count) !=
		        SP_UNWIND_ROOT)
			continue;
		checked++;
		size_t shorter = count < true_count ? count : true_count;
		bool is_wrong = !is_same(frames, truth, shorter) || count > true_count ||
		                (end == SP_UNWIND_ROOT && count != true_count);
		wrong += is_wrong;
		partial_wrong += is_wrong && end != SP_UNWIND_ROOT;
		wrong_length += end == SP_UNWIND_ROOT && count != true_count;
	}
	printf("%zu samples, %zu truncated, %zu completed (%zu by the kernel's chain first), %zu in part; root reached "
	       "%.2f %%; %.0f ns a sample\n",
	       sample_count, truncated, completed, by_chain, partial, 100.0 * (double)whole / (double)sample_count,
	       (double)ticks / ticks_per_ns() / (double)sample_count);
	if (checked)
		printf("%zu checked: %zu wrong (%.2f %%), of them %zu of another length, %zu not whole\n", checked,
		       wrong, 100.0 * (double)wrong / (double)checked, wrong_length, partial_wrong);
}

int main(int argc, char **argv)
{
	bool splice = false;
	engine *unwind = unwind_sp;
	const char *name = "sp", *path = NULL, *result_path = NULL;
	unsigned long passes = 5;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--engine") == 0 && i + 1 < argc)
			name = argv[++i];
		else if (strcmp(argv[i], "--clip") == 0 && i + 1 < argc)
			clip = strtoul(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--passes") == 0 && i + 1 < argc)
			passes = strtoul(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--result") == 0 && i + 1 < argc)
			result_path = argv[++i];
		else if (strcmp(argv[i], "--splice") == 0)
			splice = true;
		else if (strcmp(argv[i], "--cold") == 0)
			cold = true;
		else if (strcmp(argv[i], "--ends") == 0)
			show_ends = true;
		else
			path = argv[i];
	}
	if (!path)
		errx(2, "usage: unwind-dumps [--engine sp|libdw] [--clip BYTES] [--passes N] [--cold] [--result FILE] "
		        "[--ends] DUMP");
#ifdef HAVE_LIBDW
	if (strcmp(name, "libdw") == 0)
		unwind = unwind_libdw;
#endif
	if (unwind == unwind_sp && strcmp(name, "sp") != 0)
		errx(3, "no engine %s in this build", name);
	read_dump(path);
	for (size_t i = 0; i < process_count; i++)
		prepare_process(&processes[i]);
	if (sp_unwinder_create(&unwinder))
		errx(1, "out of memory");
	if (splice) {
		splice_all();
		return 0;
	}
	measure(unwind, name, passes, result_path);
	return 0;
}
