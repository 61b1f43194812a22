/* Symbol stores and servers as Microsoft's tools lay them out: <store>/<name>/<ID>/<name>. Internal to symbolication/.
 *
 * A search path in the syntax of _NT_SYMBOL_PATH names them. A chain ("srv*near*far") is asked from the left to the
 * right, and what was found far away is kept in all nearer stores. Nothing is downloaded unless a server is named. */
#ifndef SP_SYMBOLICATION_LOCATE_SYMSTORE_H
#define SP_SYMBOLICATION_LOCATE_SYMSTORE_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sp_symstore;

/* What "microsoft" and an empty last server stand for. */
#define SP_SYMSTORE_MICROSOFT "https://msdl.microsoft.com/download/symbols"

struct sp_symstore_options {
	const char *path;    /* of folders, stores and servers; NULL = $_NT_SYMBOL_PATH and $_NT_ALT_SYMBOL_PATH */
	const char *servers; /* URLs separated by blanks, asked after those of the path; NULL = none */
	const char *cache;   /* folder of the default cache; NULL = sp's cache folder "windows-symbols" */
	bool offline;        /* download nothing */
	/* As in struct sp_debuginfod_options. */
	bool (*progress)(void *context, const char *url, uint64_t done, uint64_t total);
	void *context;
};

/* *ret is NULL when nothing is named. */
struct sp_error *sp_symstore_create(const struct sp_symstore_options *options, struct sp_symstore **ret);
void sp_symstore_destroy(struct sp_symstore *store);

enum sp_symstore_offer {
	SP_SYMSTORE_CHECK, /* only look whether it is right */
	SP_SYMSTORE_LOCAL, /* from a folder of the path */
	SP_SYMSTORE_STORE, /* from a store: it was made on another machine */
};

/* One search. Names and IDs are single components of a path. */
struct sp_symstore_query {
	const char *name; /* "foo.pdb", "foo.dll" */
	const char *id;   /* as the store writes it: GUID and age, or time stamp and size */
	bool flat;        /* folders of the path may have the file itself, too */
	/* Whether the file at `path`, which may be a cabinet, is the wanted one; `place` is for messages. A file that
	 * was downloaded is checked first; if it is right it goes into the cache and is offered again from there. */
	bool (*accept)(void *context, const char *place, const char *path, enum sp_symstore_offer offer);
	/* What was tried and why it was nothing. */
	void (*trace)(void *context, const char *line);
	void *context;
};

/* Goes through all places until one is accepted. Only a lack of memory and a cancelled download are errors.
 * Thread-safe; one download runs at a time. */
struct sp_error *sp_symstore_search(struct sp_symstore *store, const struct sp_symstore_query *query);

#endif
