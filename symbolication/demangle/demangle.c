/* Demangling with libiberty, within bounds.
 *
 * libiberty's printers cannot be told to stop, and a short name can stand for an exponentially long one, so the
 * callback leaves with longjmp() once the output limit is reached: the C++ and Rust demanglers keep everything on the
 * stack while they print. (Only a Rust identifier in punycode has a buffer; it is printed at once, and the way out is
 * taken at the next piece.)
 *
 * libiberty refuses C++ names of more than 1,024 characters, because it recurses with the name's length. Real programs
 * have such names, so those are demangled without that limit on a thread whose stack is large enough for their length;
 * printing keeps a depth limit of its own. */
#include "symbolication/demangle/demangle.h"

#include "symbolication/demangle/private.h"

#include <libiberty/demangle.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum {
	SAFE_LENGTH = 1024, /* what libiberty takes with its limit on */
	/* Stack for longer names: measured at most 700 bytes a character, for nested templates. */
	STACK_BASE = 1 << 20,
	STACK_PER_CHARACTER = 2048,
};

struct job {
	const char *name;
	int options;
	struct sp_buffer *out;
	size_t limit; /* of out->size */
	bool failed;  /* over the limit, or no memory: leave */
	bool done;
	jmp_buf leave;
};

static void take(const char *text, size_t size, void *context)
{
	struct job *job = context;
	if (job->failed)
		longjmp(job->leave, 1);
	if (size > job->limit - job->out->size) {
		job->failed = true;
		return;
	}
	struct sp_error *error = sp_buffer_write(job->out, text, size);
	job->failed = error != NULL;
	sp_error_destroy(error);
}

static void run_rust(struct job *job)
{
	if (setjmp(job->leave) == 0)
		job->done = rust_demangle_callback(job->name, job->options, take, job);
}

static void run_itanium(struct job *job)
{
	if (setjmp(job->leave) == 0)
		job->done = cplus_demangle_v3_callback(job->name, job->options, take, job);
}

static void *run_itanium_thread(void *context)
{
	run_itanium(context);
	return NULL;
}

/* A C++ name that libiberty would refuse for its length. */
static void run_long_itanium(struct job *job, size_t length)
{
	pthread_attr_t attributes;
	pthread_t thread;
	job->options |= DMGL_NO_RECURSE_LIMIT;
	if (pthread_attr_init(&attributes) != 0)
		return;
	if (pthread_attr_setstacksize(&attributes, STACK_BASE + length * STACK_PER_CHARACTER) == 0 &&
	    pthread_create(&thread, &attributes, run_itanium_thread, job) == 0)
		pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
}

/* Whether a name can be one of Rust's; LLVM takes the older ones for C++. */
static bool may_be_rust(const char *name, enum sp_demangle_style style)
{
	if (name[0] != '_')
		return false;
	return name[1] == 'R' || (name[1] == 'Z' && name[2] == 'N' && style != SP_DEMANGLE_LLVM);
}

/* `name` is NUL-terminated at `length`. */
static bool demangle_plain(const char *name, size_t length, enum sp_demangle_style style, struct sp_buffer *out)
{
	size_t before = out->size;
	int options = DMGL_PARAMS | DMGL_ANSI | (style == SP_DEMANGLE_PLAIN ? DMGL_RET_DROP : 0);
	struct job job = { .name = name, .options = options, .out = out, .limit = before + SP_DEMANGLE_OUTPUT_LIMIT };
	if (may_be_rust(name, style)) {
		run_rust(&job);
		if (job.done && !job.failed)
			return true;
		out->size = before;
		job.failed = job.done = false;
	}
	if (strncmp(name, "_Z", 2) == 0 || strncmp(name, "___Z", 4) == 0 || strncmp(name, "_GLOBAL_", 8) == 0) {
		if (length <= SAFE_LENGTH)
			run_itanium(&job);
		else
			run_long_itanium(&job, length);
		if (job.done && !job.failed)
			return true;
		out->size = before;
	}
	if (style != SP_DEMANGLE_PLAIN)
		return false;
	if (strncmp(name, "_D", 2) == 0 && sp_demangle_d(name, length, out))
		return true;
	return sp_demangle_ocaml(name, length, out);
}

bool sp_demangle(const char *name, struct sp_buffer *out)
{
	return sp_demangle_as(name, SP_DEMANGLE_PLAIN, out);
}

bool sp_demangle_as(const char *name, enum sp_demangle_style style, struct sp_buffer *out)
{
	if (name[0] != '_' && name[0] != 'c' && name[0] != '?')
		return false;
	size_t length = strlen(name);
	if (length > SP_DEMANGLE_INPUT_LIMIT)
		return false;
	if (name[0] == '?')
		return sp_demangle_msvc(name, length, out);
	const char *suffix = memchr(name, '@', length);
	if (!suffix)
		return demangle_plain(name, length, style, out);
	size_t before = out->size, plain_length = (size_t)(suffix - name);
	char *plain = malloc(plain_length + 1);
	if (!plain)
		return false;
	memcpy(plain, name, plain_length);
	plain[plain_length] = 0;
	bool ok = demangle_plain(plain, plain_length, style, out);
	free(plain);
	struct sp_error *error = ok ? sp_buffer_write(out, suffix, strlen(suffix)) : NULL;
	if (error) {
		sp_error_destroy(error);
		out->size = before;
		ok = false;
	}
	return ok;
}
