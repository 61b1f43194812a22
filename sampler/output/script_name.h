/* What a JIT's name for a function of a script tells: V8 writes "JS:*fib /path/n.js:1:15" into perf-PID.map. */
#ifndef SP_SAMPLER_OUTPUT_SCRIPT_NAME_H
#define SP_SAMPLER_OUTPUT_SCRIPT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parts of the text that was parsed. */
struct sp_script_name {
	const char *function; /* not NUL-terminated; empty for a function without a name */
	size_t function_size;
	const char *file;
	size_t file_size;
	uint32_t line, column; /* from 1 */
};

/* False when the text is no such name: then it is to be shown as it is. The mark of the compiler that made the code (~
 * interpreter, ^ baseline, + mid-tier, * optimised, none) is left out, so that all of them are one function. */
bool sp_script_name_parse(const char *text, struct sp_script_name *ret);

#endif
