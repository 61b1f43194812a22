/* Sending files to a symbol server (symbolication/server/): what is there, what is needed, and no more than that. */
#ifndef SP_SYMBOLICATION_UPLOAD_UPLOAD_H
#define SP_SYMBOLICATION_UPLOAD_UPLOAD_H

#include "common/error.h"
#include "common/vector.h"
#include "spsym.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sp_upload_result {
	SP_UPLOAD_PENDING,
	SP_UPLOAD_SENT,
	SP_UPLOAD_THERE,    /* the server had it */
	SP_UPLOAD_LEFT_OUT, /* of no use to anyone, and found in a folder */
	SP_UPLOAD_REFUSED,  /* of no use, and named by the caller; or the server does not want it */
	SP_UPLOAD_FAILED,
};

struct sp_upload_file {
	char *path; /* owned */
	char sha256[65];
	uint64_t size;
	struct spsym_file_info info; /* zeroed for sources */
	char *build_id;              /* owned; of the binary that a source belongs to, else NULL */
	enum sp_upload_result result;
	char *reason; /* owned; why it was left out, refused or failed; else NULL */
};
typedef SP_VECTOR(struct sp_upload_file) sp_upload_files;
void sp_upload_files_deinit(sp_upload_files *files);

/* Finds ELF, PE, PDB and Breakpad files by content: those named, and those in named folders and below. `sources`: and
 * the source files on this machine that their debug information names. `symbols` reads that. */
struct sp_error *sp_upload_find(spsym_context *symbols, const char *const *paths, bool sources, sp_upload_files *ret);

struct sp_upload_options {
	const char *url; /* of the server, may end in a slash */
	const char *token;
	const char *ns;  /* namespace */
	const char *ref; /* build or branch; may be NULL */
	/* Told from time to time, in any thread; bytes of the files that must be sent. May be NULL. */
	void (*progress)(void *context, uint64_t done, uint64_t total);
	void *context;
};
/* Asks what is needed and sends it, several at a time. What happened to each file is in its result; an error is what
 * kept all of them from being sent. */
struct sp_error *sp_upload_send(const struct sp_upload_options *options, sp_upload_files *files);

#endif
