/* The profile's meta object: units, categories, the machine, and the info panel's sections. */
#include "common/words.h"
#include "sampler/output/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE_THREADS 15
#define VISIBLE_PART 20  /* of the busiest one's samples */
#define NOTED_MODULES 20 /* unreadable modules that are listed */

static void write_categories(struct sp_json *json)
{
	static const struct {
		const char *name, *color;
		bool found; /* has the subcategories that tell how a frame was found */
	} categories[SP_CATEGORY_COUNT] = {
		[SP_CATEGORY_OTHER] = { "Other", "grey", false },
		[SP_CATEGORY_USER] = { "User", "yellow", true },
		[SP_CATEGORY_KERNEL] = { "Kernel", "orange", false },
		[SP_CATEGORY_JIT] = { "JIT", "green", true },
		[SP_CATEGORY_KERNEL_UNSAMPLED] = { "Kernel, not sampled", "brown", false },
		[SP_CATEGORY_TRUNCATED] = { "Truncated", "darkgrey", false },
		[SP_CATEGORY_SPLICED] = { "Spliced", "lightblue", false },
		[SP_CATEGORY_GUEST] = { "Guest", "purple", true },
		[SP_CATEGORY_OFF_CPU] = { "Off-CPU", "blue", false },
	};
	static const char *const found[] = { "By frame pointer", "Guessed", "Spliced: kernel's frame pointers",
		                             "Spliced: earlier stack" };
	sp_json_key(json, "categories");
	sp_json_array_begin(json);
	for (size_t i = 0; i < SP_CATEGORY_COUNT; i++) {
		sp_json_object_begin(json);
		sp_json_member_string(json, "name", categories[i].name);
		sp_json_member_string(json, "color", categories[i].color);
		sp_json_key(json, "subcategories");
		sp_json_array_begin(json);
		sp_json_string(json, "Other");
		for (size_t j = 0; categories[i].found && j < sizeof(found) / sizeof(*found); j++)
			sp_json_string(json, found[j]);
		sp_json_array_end(json);
		sp_json_object_end(json);
	}
	sp_json_array_end(json);
}

/* ---- The info panel ---- */

static void section_begin(struct sp_json *json, const char *label)
{
	sp_json_object_begin(json);
	sp_json_member_string(json, "label", label);
	sp_json_key(json, "entries");
	sp_json_array_begin(json);
}

static void section_end(struct sp_json *json)
{
	sp_json_array_end(json);
	sp_json_object_end(json);
}

static void entry_begin(struct sp_json *json, const char *label, const char *format)
{
	sp_json_object_begin(json);
	sp_json_member_string(json, "label", label);
	sp_json_member_string(json, "format", format);
	sp_json_key(json, "value");
}

static void entry_string(struct sp_json *json, const char *label, const char *value)
{
	if (!value || !*value)
		return;
	entry_begin(json, label && *label ? label : "(unnamed)", "string");
	sp_json_string(json, value);
	sp_json_object_end(json);
}

static void entry_count(struct sp_json *json, const char *label, uint64_t value)
{
	entry_begin(json, label, "integer");
	sp_json_uint(json, value);
	sp_json_object_end(json);
}

static void entry_share(struct sp_json *json, const char *label, uint64_t part, uint64_t whole)
{
	entry_begin(json, label, "percentage");
	sp_json_double(json, part < whole ? (double)part / (double)whole : part > 0);
	sp_json_object_end(json);
}

static void entry_duration(struct sp_json *json, const char *label, uint64_t ns)
{
	entry_begin(json, label, "duration");
	sp_json_ns_as_ms(json, ns < INT64_MAX ? (int64_t)ns : INT64_MAX);
	sp_json_object_end(json);
}

/* Keys that are shown elsewhere, or here under a label of their own. */
static const struct {
	const char *key, *label;
} known_keys[] = {
	{ SP_META_MODE, "Mode" },
	{ SP_META_SHORTFALL, "What is missing" },
	{ SP_META_CURE, "How to get it" },
	{ SP_META_RATE_NOTE, "Rate" },
	{ SP_META_EMPTY, "No samples" },
	{ SP_META_HOST, "Host" },
	{ SP_META_BOOT_ID, "Boot ID" },
	{ SP_META_PRODUCT, NULL },
	{ SP_META_COMMAND, NULL },
	{ SP_META_PROFILE_NAME, NULL },
	{ SP_META_OS, NULL },
	{ SP_META_PLATFORM, NULL },
	{ SP_META_ARCH, NULL },
	{ SP_META_CPU, NULL },
	{ SP_META_CPUS, NULL },
	{ SP_META_MEMORY, NULL },
	{ SP_META_INTERVAL_NS, NULL },
};
#define KNOWN_KEYS (sizeof(known_keys) / sizeof(*known_keys))

static void write_recording_section(struct sp_json *json, const struct sp_layout *layout)
{
	const struct sp_profile_builder *builder = layout->builder;
	section_begin(json, "Recording");
	for (size_t i = 0; i < KNOWN_KEYS; i++)
		if (known_keys[i].label)
			entry_string(json, known_keys[i].label, sp_build_meta(builder, known_keys[i].key));
	for (size_t i = 0; i < builder->sources.count; i++) {
		const struct sp_build_source *source = &builder->sources.items[i];
		char text[128];
		if (!source->defined || source->rate <= 0)
			continue;
		snprintf(text, sizeof(text), "%g a second", source->rate);
		entry_string(json, sp_build_string(builder, source->name), text);
	}
	for (size_t i = 0; i < builder->meta.count; i++) {
		const char *key = sp_build_string(builder, builder->meta.items[i].key);
		bool known = false;
		for (size_t j = 0; j < KNOWN_KEYS && !known; j++)
			known = !strcmp(key, known_keys[j].key);
		if (!known)
			entry_string(json, key, sp_build_string(builder, builder->meta.items[i].value));
	}
	section_end(json);
}

static void write_truth_section(struct sp_json *json, const struct sp_layout *layout)
{
	static const char *const ends[] = {
		[SP_UNWIND_DUMP_END] = "Truncated: stack dump too short",
		[SP_UNWIND_NO_TABLES] = "Truncated: code without unwind tables",
		[SP_UNWIND_BAD_CFA] = "Truncated: impossible frame",
		[SP_UNWIND_OTHER_STACK] = "Truncated: on another stack",
		[SP_UNWIND_DEPTH] = "Truncated: too deep",
		[SP_UNWIND_NO_REGS] = "Truncated: no user registers",
		[SP_UNWIND_NOT_RECORDED] = "Truncated: not in the trace",
	};
	const struct sp_profile_builder *builder = layout->builder;
	const struct sp_profile_summary *summary = &builder->summary;
	section_begin(json, "What was and was not seen");
	entry_count(json, "Samples", summary->samples);
	if (builder->kernel_unsampled_weight)
		entry_count(json, "Samples added for the kernel, which was not sampled",
		            builder->kernel_unsampled_weight);
	if (summary->off_cpu_samples)
		entry_count(json, "Off-CPU samples", summary->off_cpu_samples);
	for (unsigned i = 0; i <= SP_LOSS_BUFFER; i++)
		if (builder->losses[i] || i == SP_LOSS_RING_FULL)
			entry_count(json, sp_loss_name((uint8_t)i), builder->losses[i]);
	if (builder->throttled_ns)
		entry_duration(json, "Time throttled", builder->throttled_ns);
	entry_count(json, "Truncated stacks", summary->truncated);
	entry_share(json, "Share of truncated stacks", summary->truncated, summary->samples + summary->off_cpu_samples);
	for (unsigned i = SP_UNWIND_ROOT + 1; i <= SP_UNWIND_NOT_RECORDED; i++)
		if (builder->ends[i])
			entry_count(json, ends[i], builder->ends[i]);
	entry_count(json, "Spliced stacks", summary->spliced);
	entry_count(json, "Stacks with guessed frames", summary->guessed);
	entry_share(json, "Kernel time not sampled", builder->kernel_unsampled_weight, builder->weight);
	section_end(json);
}

static void write_modules_section(struct sp_json *json, const struct sp_layout *layout)
{
	const struct sp_profile_builder *builder = layout->builder;
	size_t noted = 0;
	for (size_t i = 0; i < layout->libs.count; i++) {
		const struct sp_build_module *module = &builder->modules.items[layout->libs.items[i].module];
		const char *note = sp_build_string(builder, module->note);
		if (!note || !*note)
			continue;
		if (!noted++)
			section_begin(json, "Modules that could not be read");
		if (noted <= NOTED_MODULES)
			entry_string(json, sp_intern_string(&layout->strings, layout->libs.items[i].name), note);
	}
	if (noted > NOTED_MODULES)
		entry_count(json, "More", noted - NOTED_MODULES);
	if (noted)
		section_end(json);
}

/* ---- Threads to show at first ---- */

struct busy {
	uint64_t samples;
	uint32_t thread;
};

static int compare_busy(const void *left, const void *right)
{
	const struct busy *a = left, *b = right;
	if (a->samples != b->samples)
		return a->samples > b->samples ? -1 : 1;
	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

/* The busiest ones, as the front-end itself would choose, and the first of all, which carries the markers of the whole
 * recording. */
static void write_initial_threads(struct sp_json *json, const struct sp_layout *layout)
{
	size_t count = layout->threads.count;
	struct busy *busy = malloc(count * sizeof(*busy));
	if (!busy)
		return; /* the front-end then chooses itself */
	for (size_t i = 0; i < count; i++)
		busy[i] = (struct busy){ layout->threads.items[i].samples, (uint32_t)i };
	qsort(busy, count, sizeof(*busy), compare_busy);
	sp_json_key(json, "initialVisibleThreads");
	sp_json_array_begin(json);
	sp_json_uint(json, 0);
	for (size_t i = 0; i < count && i < VISIBLE_THREADS && busy[i].samples; i++)
		if (busy[i].thread && busy[i].samples >= busy[0].samples / VISIBLE_PART)
			sp_json_uint(json, busy[i].thread);
	sp_json_array_end(json);
	sp_json_key(json, "initialSelectedThreads");
	sp_json_array_begin(json);
	sp_json_uint(json, busy[0].thread);
	sp_json_array_end(json);
	free(busy);
}

/* ---- Meta ---- */

static uint64_t meta_number(const struct sp_layout *layout, const char *key)
{
	const char *value = sp_build_meta(layout->builder, key);
	return value ? strtoull(value, NULL, 10) : 0;
}

static void member_meta(struct sp_json *json, const struct sp_layout *layout, const char *member, const char *key)
{
	const char *value = sp_build_meta(layout->builder, key);
	if (value && *value)
		sp_json_member_string(json, member, value);
}

static void member_meta_number(struct sp_json *json, const struct sp_layout *layout, const char *member,
                               const char *key)
{
	uint64_t value = meta_number(layout, key);
	if (!value)
		return;
	sp_json_key(json, member);
	sp_json_uint(json, value);
}

static void write_times(struct sp_json *json, const struct sp_layout *layout)
{
	const struct sp_profile_builder *builder = layout->builder;
	int64_t start = 0;
	sp_json_key(json, "interval");
	sp_json_ns_as_ms(json, (int64_t)sp_build_interval(builder));
	if (builder->clocks.count) {
		const struct sp_record_clock *clock = &builder->clocks.items[0];
		start = (int64_t)(clock->wall_ns - (clock->time - layout->zero));
	}
	sp_json_key(json, "startTime");
	sp_json_ns_as_ms(json, start > 0 ? start : 0);
	if (builder->clocks.count && !strcmp(builder->clocks.items[0].name, "CLOCK_MONOTONIC")) {
		sp_json_key(json, "startTimeAsClockMonotonicNanosecondsSinceBoot");
		sp_json_uint(json, layout->zero);
	}
	sp_json_key(json, "profilingStartTime");
	sp_json_uint(json, 0);
	sp_json_key(json, "profilingEndTime");
	sp_write_time(json, layout, layout->end);
	sp_json_key(json, "sampleUnits");
	sp_json_object_begin(json);
	sp_json_member_string(json, "time", "ms");
	sp_json_member_string(json, "eventDelay", "ms");
	sp_json_member_string(json, "threadCPUDelta", "µs");
	sp_json_object_end(json);
}

static void write_machine(struct sp_json *json, const struct sp_layout *layout)
{
	member_meta(json, layout, "oscpu", SP_META_OS);
	member_meta(json, layout, "platform", SP_META_PLATFORM);
	member_meta(json, layout, "abi", SP_META_ARCH);
	member_meta(json, layout, "CPUName", SP_META_CPU);
	member_meta_number(json, layout, "logicalCPUs", SP_META_CPUS);
	member_meta_number(json, layout, "mainMemory", SP_META_MEMORY);
	member_meta(json, layout, "arguments", SP_META_COMMAND);
}

/* Writes a member with the program's name: the first word of the command line, without its folder. */
static void member_program(struct sp_json *json, const char *member, const char *command)
{
	char *word = sp_words_first(command);
	const char *slash = word ? strrchr(word, '/') : NULL;
	const char *name = slash && slash[1] ? slash + 1 : word;
	sp_json_member_string(json, member, name ? name : "");
	free(word);
}

/* What the front-end shows as the profile's title. */
static void write_product(struct sp_json *json, const struct sp_layout *layout)
{
	const struct sp_profile_builder *builder = layout->builder;
	const char *name = builder->options.profile_name;
	const char *command = sp_build_meta(builder, SP_META_COMMAND);
	if (!name || !*name)
		name = sp_build_meta(builder, SP_META_PROFILE_NAME);
	if ((!name || !*name) && command && *command && *command != ' ') {
		member_program(json, "product", command);
		return;
	}
	if (!name || !*name)
		name = sp_build_meta(builder, SP_META_PRODUCT);
	sp_json_member_string(json, "product", name && *name ? name : "sp");
}

void sp_write_meta(struct sp_json *json, const struct sp_layout *layout)
{
	sp_json_key(json, "meta");
	sp_json_object_begin(json);
	sp_json_member_int(json, "preprocessedProfileVersion", layout->builder->options.version);
	sp_json_member_int(json, "version", 24); /* of Firefox's own format; only displayed */
	write_product(json, layout);
	sp_json_member_int(json, "processType", 0);
	sp_json_member_int(json, "stackwalk", 1);
	sp_json_member_bool(json, "debug", false);
	sp_json_member_bool(json, "symbolicated", layout->symbolicated);
	sp_json_member_bool(json, "usesOnlyOneStackType", true);
	sp_json_member_bool(json, "sourceCodeIsNotOnSearchfox", true);
	write_times(json, layout);
	write_machine(json, layout);
	write_categories(json);
	sp_write_marker_schemas(json);
	write_initial_threads(json, layout);
	sp_json_key(json, "extra");
	sp_json_array_begin(json);
	write_recording_section(json, layout);
	write_truth_section(json, layout);
	write_modules_section(json, layout);
	sp_json_array_end(json);
	sp_json_object_end(json);
}
