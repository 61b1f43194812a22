/* Looking up the addresses of a profile: those of a module all at once, in address order, and how an answer becomes
 * frames. Used while a profile is written, and for one that was saved. */
#ifndef SP_SAMPLER_OUTPUT_LOOKUP_H
#define SP_SAMPLER_OUTPUT_LOOKUP_H

#include "common/log.h"
#include "spsym.h"

struct sp_lookup_query {
	uint32_t module, entry; /* numbers of the caller's */
	uint64_t address;       /* relative to the module */
};

struct sp_lookup_requests {
	spsym_context *symbols;
	const struct sp_log *log; /* may be NULL */
	void (*identity)(void *context, uint32_t module, struct spsym_identity *ret);
	struct sp_error *(*answer)(void *context, uint32_t entry, const struct spsym_location *location);
	void *context; /* for both */
};

/* Answers all queries, whose order changes. A module without symbols gets no answers, with a word on the log. */
struct sp_error *sp_lookup(const struct sp_lookup_requests *requests, struct sp_lookup_query *queries, size_t count);

/* The number of frames that a location becomes, at least 1; and the frame at a depth, 0 = the outermost function. Its
 * name is the symbol's when the debug information has none. */
size_t sp_lookup_depth(const struct spsym_location *location);
struct spsym_frame sp_lookup_frame(const struct spsym_location *location, size_t depth);

#endif
