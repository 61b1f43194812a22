/* Errors as objects: what, where and why.
 *
 * A fallible function returns NULL on success or an error object that the caller owns, and gives its result
 * through a last parameter named `ret`. Library code never prints and never aborts on bad input. */
#ifndef SP_COMMON_ERROR_H
#define SP_COMMON_ERROR_H

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__MINGW32__)
#define SP_PRINTF(fmt_at, args_at) __attribute__((format(gnu_printf, fmt_at, args_at)))
#else
#define SP_PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))
#endif

/* Tells the compiler that an error path returns an error: without it, it warns of results that are not set. */
#define SP_NONNULL __attribute__((returns_nonnull))

enum sp_error_code {
	SP_ERROR_NO_MEMORY,   /* an allocation failed */
	SP_ERROR_SYSTEM,      /* the OS refused; errnum says why */
	SP_ERROR_FORMAT,      /* the input is corrupt or not what it claims to be */
	SP_ERROR_LIMIT,       /* the input is larger than a named limit */
	SP_ERROR_NOT_FOUND,   /* what was asked for does not exist */
	SP_ERROR_PERMISSION,  /* it exists but may not be used */
	SP_ERROR_UNSUPPORTED, /* well-formed, but nothing here can handle it */
	SP_ERROR_USAGE,       /* the caller (or the command line) asked wrongly */
	SP_ERROR_CANCELLED,   /* stopped on request */
};

struct sp_error {
	enum sp_error_code code;
	int errnum;    /* errno for SP_ERROR_SYSTEM and SP_ERROR_PERMISSION, else 0 */
	char *message; /* one line, no trailing newline; owned by the error */
};

/* A new error with a formatted message. Never returns NULL: without memory it returns the static
 * out-of-memory error, which sp_error_destroy() accepts. */
struct sp_error *sp_error_create(enum sp_error_code code, const char *format, ...) SP_NONNULL SP_PRINTF(2, 3);

/* As sp_error_create(), for an errno value: ": <strerror>" is appended. ENOENT, ENOMEM, EACCES and EPERM map to
 * their own codes, everything else is SP_ERROR_SYSTEM. */
struct sp_error *sp_error_from_errno(int errnum, const char *format, ...) SP_NONNULL SP_PRINTF(2, 3);

/* Puts "<formatted>: " in front of the message of `error`, which it consumes, and returns it. */
struct sp_error *sp_error_prefix(struct sp_error *error, const char *format, ...) SP_PRINTF(2, 3);

/* A copy, for an error that is sticky and returned again and again. Without memory the static out-of-memory error. */
struct sp_error *sp_error_copy(const struct sp_error *error);

/* The static out-of-memory error. */
struct sp_error *sp_error_no_memory(void) SP_NONNULL;

/* Frees an error; NULL and the static error are fine. */
void sp_error_destroy(struct sp_error *error);

#if defined(__clang_analyzer__) && !defined(SP_ERROR_DEFINITIONS)
/* The static analyser does not see SP_NONNULL from afar; told so, it knows that results are set where no error is. */
#define SP_ERROR_IS(call)                        \
	({                                       \
		struct sp_error *error_ = call;  \
		if (!error_)                     \
			__builtin_unreachable(); \
		error_;                          \
	})
#define sp_error_create(...) SP_ERROR_IS(sp_error_create(__VA_ARGS__))
#define sp_error_from_errno(...) SP_ERROR_IS(sp_error_from_errno(__VA_ARGS__))
#define sp_error_no_memory() SP_ERROR_IS(sp_error_no_memory())
#endif

static inline void sp_error_cleanup(struct sp_error **error)
{
	sp_error_destroy(*error);
}

#ifdef __cplusplus
}
#endif

#endif
