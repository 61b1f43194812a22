/* Looks addresses up with the symbol library, for tests/bench/symbols.
 *
 *   symbols-lookup [--cache DIR] [--index] [--print] [--raw] [--symbols] [--repeat N] FILE <ADDRESSES
 *
 * Addresses are as nm prints them, in hex, one a line. --index makes the index first, --print writes the answers in
 * llvm-symbolizer's form, --raw leaves names mangled, --symbols uses the symbol table only. With --repeat the look-up
 * is done N more times with the same result, and each time counts. On stderr: "key value" lines, times in seconds,
 * memory in bytes. */
#include "spsym.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(spsym_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "symbols-lookup: %s\n", spsym_error_message(error));
	exit(1);
}

static uint64_t *read_addresses(size_t *ret_count)
{
	size_t count = 0, capacity = 0;
	uint64_t *addresses = NULL;
	char line[64];
	while (fgets(line, sizeof(line), stdin)) {
		if (count == capacity) {
			capacity = capacity ? 2 * capacity : 1024;
			addresses = realloc(addresses, capacity * sizeof(*addresses));
			if (!addresses)
				exit(1);
		}
		addresses[count++] = strtoull(line, NULL, 16);
	}
	*ret_count = count;
	return addresses;
}

static void print(const uint64_t *addresses, uint64_t base, const struct spsym_result *result)
{
	for (size_t i = 0; i < result->count; i++) {
		const struct spsym_location *location = &result->locations[i];
		printf("0x%llx\n", (unsigned long long)(addresses[i] + base));
		for (size_t k = 0; k < location->frame_count; k++) {
			const struct spsym_frame *frame = &location->frames[k];
			printf("%s\n%s:%u:%u\n", frame->function ? frame->function : "??",
			       frame->file ? frame->file : "??", frame->line, frame->column);
		}
		if (!location->frame_count)
			printf("%s\n??:0:0\n", location->symbol.name ? location->symbol.name : "??");
		putchar('\n');
	}
}

static void report_memory(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	unsigned long long kib;
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %llu", &kib) == 1)
			fprintf(stderr, "anon %llu\n", kib * 1024);
	if (file)
		fclose(file);
}

int main(int argc, char **argv)
{
	struct spsym_options options = { .no_background = true };
	bool index = false, printing = false, symbols = false;
	const char *path = NULL;
	int repeat = 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--index"))
			index = true;
		else if (!strcmp(argv[i], "--print"))
			printing = true;
		else if (!strcmp(argv[i], "--raw"))
			options.no_demangling = true;
		else if (!strcmp(argv[i], "--symbols"))
			symbols = true;
		else if (!strcmp(argv[i], "--cache") && i + 1 < argc)
			options.cache_folder = argv[++i];
		else if (!strcmp(argv[i], "--repeat") && i + 1 < argc)
			repeat = atoi(argv[++i]);
		else
			path = argv[i];
	}
	if (!path)
		return 2;
	size_t count;
	uint64_t *addresses = read_addresses(&count);
	double start = now();
	spsym_context *context;
	spsym_module *module;
	struct spsym_result result = { 0 };
	check(spsym_context_create(&options, &context));
	check(spsym_module_open_path(context, path, &module));
	uint64_t base = spsym_module_info(module)->base;
	for (size_t i = 0; i < count; i++)
		addresses[i] -= base;
	if (index) {
		double before = now();
		check(spsym_module_index(module));
		fprintf(stderr, "index %.6f\n", now() - before);
		report_memory();
	}
	check((symbols ? spsym_lookup_symbols : spsym_lookup)(module, addresses, count, &result));
	fprintf(stderr, "first %.6f\n", now() - start);
	if (result.debug_error)
		fprintf(stderr, "note %s\n", result.debug_error);
	for (int i = 0; i < repeat; i++) {
		double before = now();
		check((symbols ? spsym_lookup_symbols : spsym_lookup)(module, addresses, count, &result));
		fprintf(stderr, "again %.6f\n", now() - before);
	}
	report_memory();
	if (printing)
		print(addresses, base, &result);
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
	free(addresses);
	return 0;
}
