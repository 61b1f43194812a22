/* The search through symbol stores. The syntax of paths and the layout of stores are those of Microsoft's symsrv
 * (Debugging Tools for Windows, "Symbol path", "Using SymSrv", "SymStore"). */
#include "symbolication/locate/symstore.h"

#include "common/clock.h"
#include "common/file.h"
#include "common/vector.h"
#include "symbolication/locate/cabinet.h"
#include "symbolication/locate/fetch.h"
#include "symbolication/locate/private.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ELEMENTS_MAX = 64,
	STORES_MAX = 10, /* of one chain, as symsrv allows */
	POINTER_MAX = 4096,
	CONNECT_MS = 5000,
	FIRST_BYTE_MS = 30000,
	STALL_MS = 30000,
	PAUSE_S = 60, /* for which a server that failed is not asked again */
};
#define DOWNLOAD_LIMIT (UINT64_C(8) << 30)
#define UNPACKED_LIMIT ((size_t)4 << 30)

enum tiers { TIERS_UNKNOWN, TIERS_ONE, TIERS_TWO };

struct store {
	char *place; /* owned; folder or URL, without a slash at its end */
	bool is_url;
	enum tiers tiers;
	uint64_t not_before; /* sp_clock_now(); 0 = may be asked */
};

/* An element of the path: a chain of stores, or one plain folder. */
struct element {
	struct store stores[STORES_MAX];
	size_t count;
	bool plain; /* a folder that may have the file itself */
};

struct sp_symstore {
	struct element elements[ELEMENTS_MAX];
	size_t count;
	char *cache; /* owned; the default one */
	bool offline;
	bool (*progress)(void *context, const char *url, uint64_t done, uint64_t total);
	void *context;
	pthread_mutex_t lock; /* one search at a time: downloads are not made side by side */
};

/* ---- The path ---- */

static bool is_url(const char *text, size_t length)
{
	return (length > 7 && strncasecmp(text, "http://", 7) == 0) ||
	       (length > 8 && strncasecmp(text, "https://", 8) == 0);
}

static bool add_store(struct element *element, const char *text, size_t length)
{
	bool url = is_url(text, length);
	while (length > 1 && (text[length - 1] == '/' || (!url && text[length - 1] == '\\')))
		length--;
	if (element->count == STORES_MAX || !length)
		return true;
	char *place = sp_path_format("%.*s", (int)length, text);
	if (!place)
		return false;
	element->stores[element->count++] = (struct store){ .place = place, .is_url = url };
	return true;
}

/* The stores between asterisks. An empty one is the default cache, an empty last one Microsoft's server; a chain that
 * has only a server gets the default cache in front, unless it has one by "cache*". */
static bool parse_chain(const struct sp_symstore *store, struct element *element, const char *text, size_t length)
{
	const char *end = text + length;
	bool ok = true;
	bool only = !memchr(text, '*', length);
	if (only && !element->count && (!length || is_url(text, length)))
		ok = add_store(element, store->cache, strlen(store->cache));
	while (ok) {
		const char *star = memchr(text, '*', (size_t)(end - text));
		size_t part = (size_t)((star ? star : end) - text);
		if (part)
			ok = add_store(element, text, part);
		else if (star)
			ok = add_store(element, store->cache, strlen(store->cache));
		else
			ok = add_store(element, SP_SYMSTORE_MICROSOFT, strlen(SP_SYMSTORE_MICROSOFT));
		if (!star)
			break;
		text = star + 1;
	}
	return ok;
}

static bool begins(const char *text, size_t length, const char *word)
{
	return length >= strlen(word) && strncasecmp(text, word, strlen(word)) == 0;
}

/* `cache` is where elements behind "cache*" keep what they find; NULL = nowhere. */
static bool parse_element(struct sp_symstore *store, const char *text, size_t length, char **cache)
{
	if (store->count == ELEMENTS_MAX)
		return true;
	struct element *element = &store->elements[store->count];
	if (begins(text, length, "cache*")) {
		free(*cache);
		*cache = length > 6 ? sp_path_format("%.*s", (int)length - 6, text + 6) : strdup(store->cache);
		store->count++;
		return *cache && add_store(element, *cache, strlen(*cache));
	}
	store->count++;
	bool server = is_url(text, length);
	if (*cache && (server || begins(text, length, "srv*") || begins(text, length, "symsrv*")) &&
	    !add_store(element, *cache, strlen(*cache)))
		return false;
	if (begins(text, length, "srv*"))
		return parse_chain(store, element, text + 4, length - 4);
	if (begins(text, length, "symsrv*")) { /* then comes the name of the DLL that would do it on Windows */
		const char *star = memchr(text + 7, '*', length - 7);
		return !star || parse_chain(store, element, star + 1, length - (size_t)(star + 1 - text));
	}
	if (server)
		return parse_chain(store, element, text, length);
	element->plain = true;
	return add_store(element, text, length);
}

static bool parse_path(struct sp_symstore *store, const char *path)
{
	char *cache = NULL;
	bool ok = true;
	while (ok && path && *path) {
		size_t length = strcspn(path, ";");
		const char *next = path + length + (path[length] == ';');
		while (length && isspace((unsigned char)*path)) {
			path++;
			length--;
		}
		while (length && isspace((unsigned char)path[length - 1]))
			length--;
		if (length)
			ok = parse_element(store, path, length, &cache);
		path = next;
	}
	free(cache);
	return ok;
}

/* URLs separated by blanks, and "microsoft". */
static bool parse_servers(struct sp_symstore *store, const char *text)
{
	bool ok = true;
	while (ok && *(text += strspn(text, " \t\n"))) {
		size_t length = strcspn(text, " \t\n");
		const char *server = text;
		text += length;
		bool microsoft = length == 9 && strncasecmp(server, "microsoft", 9) == 0;
		if (store->count == ELEMENTS_MAX || (!microsoft && !is_url(server, length)))
			continue;
		ok = microsoft ? parse_chain(store, &store->elements[store->count++], SP_SYMSTORE_MICROSOFT,
		                             strlen(SP_SYMSTORE_MICROSOFT))
		               : parse_chain(store, &store->elements[store->count++], server, length);
	}
	return ok;
}

static bool parse_all(struct sp_symstore *store, const struct sp_symstore_options *options)
{
	bool ok = options->path ? parse_path(store, options->path)
	                        : parse_path(store, getenv("_NT_SYMBOL_PATH")) &&
	                              parse_path(store, getenv("_NT_ALT_SYMBOL_PATH"));
	return ok && (!options->servers || parse_servers(store, options->servers));
}

struct sp_error *sp_symstore_create(const struct sp_symstore_options *options, struct sp_symstore **ret)
{
	const char *path = options->path ? options->path : getenv("_NT_SYMBOL_PATH");
	const char *other = options->path ? NULL : getenv("_NT_ALT_SYMBOL_PATH");
	*ret = NULL;
	if (!(path && *path) && !(other && *other) && !(options->servers && *options->servers))
		return NULL;
	struct sp_symstore *store = calloc(1, sizeof(*store));
	if (!store)
		return sp_error_no_memory();
	pthread_mutex_init(&store->lock, NULL);
	store->offline = options->offline;
	store->progress = options->progress;
	store->context = options->context;
	struct sp_error *error = NULL;
	if (options->cache)
		store->cache = strdup(options->cache);
	else
		error = sp_file_cache_folder("windows-symbols", &store->cache);
	if (!error && (!store->cache || !parse_all(store, options)))
		error = sp_error_no_memory();
	if (error || !store->count) {
		sp_symstore_destroy(store);
		return error;
	}
	*ret = store;
	return NULL;
}

void sp_symstore_destroy(struct sp_symstore *store)
{
	if (!store)
		return;
	for (size_t i = 0; i < store->count; i++) {
		for (size_t k = 0; k < store->elements[i].count; k++)
			free(store->elements[i].stores[k].place);
	}
	free(store->cache);
	pthread_mutex_destroy(&store->lock);
	free(store);
}

/* ---- One search ---- */

struct search {
	struct sp_symstore *symstore;
	const struct sp_symstore_query *query;
	const char *url;        /* being downloaded */
	struct sp_error *error; /* ends the search */
};

static void trace(struct search *search, const char *format, ...) SP_PRINTF(2, 3);
static void trace(struct search *search, const char *format, ...)
{
	char line[2048];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	search->query->trace(search->query->context, line);
}

static bool exists(const char *path)
{
	return access(path, R_OK) == 0;
}

/* The name with its last character replaced: what a packed file is called. */
static char *packed_name(const char *name)
{
	char *packed = strdup(name);
	if (packed)
		packed[strlen(packed) - 1] = '_';
	return packed;
}

/* <place>/[xx/]<name>/<ID>/<file>. */
static char *store_path(const struct store *store, const char *name, const char *id, const char *file)
{
	if (store->tiers == TIERS_TWO && strlen(name) >= 2)
		return sp_path_format("%s/%.2s/%s/%s/%s", store->place, name, name, id, file);
	return sp_path_format("%s/%s/%s/%s", store->place, name, id, file);
}

static void find_tiers(struct store *store)
{
	if (store->tiers != TIERS_UNKNOWN)
		return;
	char *index = sp_path_format("%s/index2.txt", store->place);
	store->tiers = index && exists(index) ? TIERS_TWO : TIERS_ONE;
	free(index);
}

/* Follows a file.ptr of a local store: "PATH:<where it is>" or "MSG:<why it is not>". */
static bool follow_pointer(struct search *search, const char *pointer)
{
	char *text;
	size_t size;
	struct sp_error *error = sp_file_read(pointer, POINTER_MAX, &text, &size);
	if (error) {
		trace(search, "symbol store: %s", error->message);
		sp_error_destroy(error);
		return false;
	}
	text[strcspn(text, "\r\n")] = 0;
	bool accepted = false;
	if (strncasecmp(text, "PATH:", 5) == 0 && text[5]) {
		for (char *c = text + 5; *c; c++)
			*c = *c == '\\' ? '/' : *c;
		accepted = search->query->accept(search->query->context, "symbol store's file.ptr", text + 5,
		                                 SP_SYMSTORE_STORE);
	} else {
		trace(search, "symbol store: %s says: %.300s", pointer, text);
	}
	free(text);
	return accepted;
}

/* Local stores are searched by the name as given and in lower case: Windows does not tell the two apart. */
static bool try_local_name(struct search *search, const struct store *store, const char *name, const char *id)
{
	const struct sp_symstore_query *query = search->query;
	char *packed = packed_name(name);
	const char *files[] = { name, packed, "file.ptr" };
	bool accepted = false;
	for (size_t i = 0; packed && i < 3 && !accepted; i++) {
		char *path = store_path(store, name, id, files[i]);
		if (path && exists(path))
			accepted = i == 2 ? follow_pointer(search, path)
			                  : query->accept(query->context, "symbol store", path, SP_SYMSTORE_STORE);
		else if (path && i == 0)
			trace(search, "symbol store: %s: not there", path);
		free(path);
	}
	free(packed);
	return accepted;
}

static void lower(char *text)
{
	for (; *text; text++)
		*text = (char)tolower((unsigned char)*text);
}

static void upper(char *text)
{
	for (; *text; text++)
		*text = (char)toupper((unsigned char)*text);
}

static bool try_local(struct search *search, struct store *store)
{
	const struct sp_symstore_query *query = search->query;
	find_tiers(store);
	char *name = strdup(query->name), *id = strdup(query->id);
	bool accepted = false;
	if (!name || !id)
		search->error = sp_error_no_memory();
	else
		accepted = try_local_name(search, store, name, id);
	if (name && id && !accepted) {
		upper(id);
		if (strcmp(id, query->id) != 0)
			accepted = try_local_name(search, store, name, id);
		lower(name);
		if (!accepted && strcmp(name, query->name) != 0)
			accepted = try_local_name(search, store, name, query->id);
	}
	free(name);
	free(id);
	return accepted;
}

/* ---- Downloads ---- */

static bool report_progress(void *context, uint64_t done, uint64_t total)
{
	struct search *search = context;
	const struct sp_symstore *s = search->symstore;
	return !s->progress || s->progress(s->context, search->url, done, total);
}

/* Escapes what may not stand in the path of a URL. */
static char *make_url(const struct store *store, const char *name, const char *id, const char *file)
{
	char *path = store_path(store, name, id, file);
	size_t keep = strlen(store->place);
	char *url = path ? malloc(3 * strlen(path) + 1) : NULL, *at = url;
	for (size_t i = 0; url && path[i]; i++) {
		unsigned char c = (unsigned char)path[i];
		if (i < keep || isalnum(c) || strchr("-._~/", c))
			*at++ = (char)c;
		else
			at += snprintf(at, 4, "%%%02X", c);
	}
	if (url)
		*at = 0;
	free(path);
	return url;
}

enum outcome { FOUND, MISSING, FAILED };

/* Downloads to `path`, which is new. */
static enum outcome fetch(struct search *search, struct store *store, const char *url, int fd)
{
	long status = 0;
	search->url = url;
	struct sp_fetch_request request = { .url = url,
		                            .fd = fd,
		                            .size_limit = DOWNLOAD_LIMIT,
		                            .connect_ms = CONNECT_MS,
		                            .first_byte_ms = FIRST_BYTE_MS,
		                            .stall_ms = STALL_MS,
		                            .progress = report_progress,
		                            .context = search };
	struct sp_error *error = sp_fetch(&request, &status);
	if (error) {
		trace(search, "symbol server: %s", error->message);
		if (error->code == SP_ERROR_CANCELLED || error->code == SP_ERROR_NO_MEMORY)
			search->error = error;
		else
			sp_error_destroy(error);
		store->not_before = sp_clock_now() + (uint64_t)PAUSE_S * 1000000000;
		return FAILED;
	}
	if (status == 200)
		return FOUND;
	trace(search, "symbol server: %s: %s (%ld)", url, status == 404 ? "not found" : "HTTP status", status);
	if (status >= 500)
		store->not_before = sp_clock_now() + (uint64_t)PAUSE_S * 1000000000;
	return status == 404 || status == 403 || status == 410 ? MISSING : FAILED;
}

/* Where a file is kept: the nearest local store of the chain. */
static const struct store *nearest(const struct element *element)
{
	for (size_t i = 0; i < element->count; i++) {
		if (!element->stores[i].is_url)
			return &element->stores[i];
	}
	return NULL;
}

/* Puts the file at `path` into a store, unpacked. */
static bool put(const struct store *store, const struct sp_symstore_query *query, const char *path)
{
	char *to = store_path(store, query->name, query->id, query->name);
	char *folder = to ? sp_path_folder(to) : NULL;
	struct sp_file_map map;
	struct sp_error *error = folder ? sp_file_make_folders(folder) : sp_error_no_memory();
	if (!error)
		error = sp_file_map_path(path, &map);
	if (!error) {
		uint8_t *unpacked = NULL;
		size_t size = map.size;
		if (sp_cabinet_probe(map.bytes, map.size))
			error = sp_cabinet_unpack(map.bytes, map.size, UNPACKED_LIMIT, &unpacked, &size);
		if (!error)
			error = sp_file_write_atomic(to, unpacked ? unpacked : map.bytes, size);
		free(unpacked);
		sp_file_unmap(&map);
	}
	free(folder);
	free(to);
	bool ok = !error;
	sp_error_destroy(error);
	return ok;
}

/* Checks a file that was downloaded to `temporary`, keeps it in the nearer stores, and uses it from the nearest. */
static bool keep(struct search *search, const struct element *element, size_t at, const char *url,
                 const char *temporary)
{
	const struct sp_symstore_query *query = search->query;
	const struct store *cache = nearest(element);
	if (!query->accept(query->context, url, temporary, SP_SYMSTORE_CHECK))
		return false;
	bool kept = false;
	for (size_t i = at; i-- > 0;) {
		if (!element->stores[i].is_url)
			kept = put(&element->stores[i], query, temporary);
	}
	char *path = store_path(cache, query->name, query->id, query->name);
	bool accepted = kept && path && query->accept(query->context, "symbol server", path, SP_SYMSTORE_STORE);
	if (!accepted)
		trace(search, "symbol server: the file could not be kept in %s", cache->place);
	free(path);
	return accepted;
}

static int make_temporary(const struct store *cache, char **ret)
{
	struct sp_error *error = sp_file_make_folders(cache->place);
	sp_error_destroy(error);
	*ret = sp_path_format("%s/download.XXXXXX", cache->place);
	return *ret ? mkstemp(*ret) : -1;
}

/* One file of a server. */
static enum outcome download(struct search *search, const struct element *element, size_t at, struct store *store,
                             const char *file, bool *ret_accepted)
{
	const struct store *cache = nearest(element);
	char *temporary = NULL;
	char *url = make_url(store, search->query->name, search->query->id, file);
	int fd = url && cache ? make_temporary(cache, &temporary) : -1;
	enum outcome outcome = FAILED;
	if (fd < 0) {
		trace(search, "symbol server: %s: not asked: no folder to download to", store->place);
	} else {
		outcome = fetch(search, store, url, fd);
		close(fd);
		if (outcome == FOUND)
			*ret_accepted = keep(search, element, at, url, temporary);
		unlink(temporary);
	}
	free(temporary);
	free(url);
	return outcome;
}

/* A server with two tiers says so by a file in its root; it is asked when the first file was missing. */
static bool ask_tiers(struct search *search, const struct element *element, struct store *store)
{
	if (store->tiers != TIERS_UNKNOWN)
		return false;
	char *url = sp_path_format("%s/index2.txt", store->place), *temporary = NULL;
	const struct store *cache = nearest(element);
	int fd = url && cache ? make_temporary(cache, &temporary) : -1;
	if (fd >= 0) {
		enum outcome outcome = fetch(search, store, url, fd);
		if (outcome != FAILED)
			store->tiers = outcome == FOUND ? TIERS_TWO : TIERS_ONE;
		close(fd);
		unlink(temporary);
	}
	free(temporary);
	free(url);
	return store->tiers == TIERS_TWO;
}

/* The file itself, then packed. */
static bool try_server(struct search *search, const struct element *element, size_t at)
{
	struct store *store = (struct store *)&element->stores[at];
	bool accepted = false;
	if (search->symstore->offline) {
		trace(search, "symbol server: %s: not asked, downloads are off", store->place);
		return false;
	}
	if (store->not_before > sp_clock_now()) {
		trace(search, "symbol server: %s: not asked, it failed a moment ago", store->place);
		return false;
	}
	const char *name = search->query->name;
	char *packed = packed_name(name);
	enum outcome outcome = download(search, element, at, store, name, &accepted);
	if (outcome == MISSING && !search->error && ask_tiers(search, element, store))
		outcome = download(search, element, at, store, name, &accepted);
	if (outcome == MISSING && !search->error && packed)
		download(search, element, at, store, packed, &accepted);
	free(packed);
	return accepted;
}

/* A folder of the path has the file itself, or is a store. */
static bool try_plain(struct search *search, struct store *store)
{
	const struct sp_symstore_query *query = search->query;
	char *path = query->flat ? sp_path_format("%s/%s", store->place, query->name) : NULL;
	bool accepted = path && exists(path) && query->accept(query->context, "symbol path", path, SP_SYMSTORE_LOCAL);
	free(path);
	return accepted || try_local(search, store);
}

/* What one store of a chain has goes into the nearer ones. */
static void copy_nearer(const struct element *element, size_t at, const struct sp_symstore_query *query)
{
	const struct store *from = &element->stores[at];
	char *path = store_path(from, query->name, query->id, query->name);
	for (size_t i = 0; path && exists(path) && i < at; i++) {
		if (!element->stores[i].is_url)
			put(&element->stores[i], query, path);
	}
	free(path);
}

static bool try_element(struct search *search, struct element *element)
{
	bool accepted = false;
	for (size_t i = 0; i < element->count && !accepted && !search->error; i++) {
		struct store *store = &element->stores[i];
		if (store->is_url) {
			accepted = try_server(search, element, i);
		} else if (element->plain) {
			accepted = try_plain(search, store);
		} else {
			accepted = try_local(search, store);
			if (accepted)
				copy_nearer(element, i, search->query);
		}
	}
	return accepted;
}

struct sp_error *sp_symstore_search(struct sp_symstore *store, const struct sp_symstore_query *query)
{
	struct search search = { .symstore = store, .query = query };
	if (!sp_path_is_component(query->name) || !sp_path_is_component(query->id))
		return NULL;
	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < store->count && !search.error; i++) {
		if (try_element(&search, &store->elements[i]))
			break;
	}
	pthread_mutex_unlock(&store->lock);
	return search.error;
}
