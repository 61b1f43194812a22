/* Passing diagnostics on; see log.h. */
#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_MAX_BYTES 4096

void sp_log(const struct sp_log *log, enum sp_log_level level, const char *format, ...)
{
	if (!log || !log->emit || level > log->level)
		return;
	char line[LINE_MAX_BYTES];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	log->emit(log->context, level, line);
}
