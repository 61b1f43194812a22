/* Error objects; see error.h. */
#define SP_ERROR_DEFINITIONS
#include "common/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sp_error no_memory = {
	.code = SP_ERROR_NO_MEMORY,
	.message = (char *)"out of memory",
};

struct sp_error *sp_error_no_memory(void)
{
	return &no_memory;
}

/* vasprintf() is not everywhere (mingw); this is. */
static char *format_string(const char *format, va_list args) SP_PRINTF(1, 0);
static char *format_string(const char *format, va_list args)
{
	va_list copy;
	va_copy(copy, args);
	int length = vsnprintf(NULL, 0, format, copy);
	va_end(copy);
	if (length < 0)
		return NULL;
	char *string = malloc((size_t)length + 1);
	if (string)
		vsnprintf(string, (size_t)length + 1, format, args);
	return string;
}

/* Takes ownership of `message`, which may be NULL after a failed allocation. */
static struct sp_error *wrap_message(enum sp_error_code code, int errnum, char *message)
{
	if (!message)
		return &no_memory;
	struct sp_error *error = malloc(sizeof(*error));
	if (!error) {
		free(message);
		return &no_memory;
	}
	*error = (struct sp_error){ .code = code, .errnum = errnum, .message = message };
	return error;
}

static char *join(const char *first, const char *second)
{
	size_t size = strlen(first) + strlen(second) + 3;
	char *string = malloc(size);
	if (string)
		snprintf(string, size, "%s: %s", first, second);
	return string;
}

struct sp_error *sp_error_create(enum sp_error_code code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *message = format_string(format, args);
	va_end(args);
	return wrap_message(code, 0, message);
}

struct sp_error *sp_error_from_errno(int errnum, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *what = format_string(format, args);
	va_end(args);
	char *message = what ? join(what, strerror(errnum)) : NULL;
	free(what);
	enum sp_error_code code = SP_ERROR_SYSTEM;
	if (errnum == ENOMEM)
		code = SP_ERROR_NO_MEMORY;
	else if (errnum == ENOENT)
		code = SP_ERROR_NOT_FOUND;
	else if (errnum == EACCES || errnum == EPERM)
		code = SP_ERROR_PERMISSION;
	return wrap_message(code, errnum, message);
}

struct sp_error *sp_error_copy(const struct sp_error *error)
{
	if (error == &no_memory)
		return &no_memory;
	size_t size = strlen(error->message) + 1;
	char *message = malloc(size);
	if (message)
		memcpy(message, error->message, size);
	return wrap_message(error->code, error->errnum, message);
}

struct sp_error *sp_error_prefix(struct sp_error *error, const char *format, ...)
{
	if (!error || error == &no_memory)
		return error;
	va_list args;
	va_start(args, format);
	char *prefix = format_string(format, args);
	va_end(args);
	char *message = prefix ? join(prefix, error->message) : NULL;
	free(prefix);
	if (!message)
		return error;
	free(error->message);
	error->message = message;
	return error;
}

void sp_error_destroy(struct sp_error *error)
{
	if (!error || error == &no_memory)
		return;
	free(error->message);
	free(error);
}
