/* Opening of PDBs: the info stream, the DBI stream and its list of modules.
 *
 * Formats: Microsoft's open-sourced microsoft-pdb, and LLVM's "The PDB File Format". */
#include "symbolication/pdb/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DBI_HEADER = 64,
	MODULE_HEADER = 64,
	DEBUG_STREAMS = 11,
	FEATURE_MINIMAL = 0x494d544d, /* "MTMI": made by /DEBUG:FASTLINK */
	NAMES_SIGNATURE = (int)0xeffeeffe,
	STRING_MAX = 65536,
};

static const char fastlink_note[] =
    "made by /DEBUG:FASTLINK: lines and inlined functions stayed in the object files; link with /DEBUG:FULL";

static const char old_lines_note[] =
    "some modules have lines of Visual C++ 6's form, which is not read: functions there are known, lines are not";

bool sp_pdb_probe(const uint8_t *bytes, size_t size)
{
	return msf_probe(bytes, size);
}

const char *pdb_keep(struct sp_pdb *pdb, const char *text, size_t length)
{
	pthread_mutex_lock(&pdb->lock);
	size_t before = pdb->names.arena.total;
	uint32_t index = sp_intern(&pdb->names, text, length);
	const char *kept = index == SP_INTERN_NONE ? NULL : sp_intern_string(&pdb->names, index);
	atomic_fetch_add(&pdb->memory, pdb->names.arena.total - before);
	pthread_mutex_unlock(&pdb->lock);
	return kept;
}

const char *pdb_stream_string(struct sp_pdb *pdb, uint32_t stream, uint32_t offset, uint32_t end)
{
	if (offset >= end)
		return NULL;
	size_t most = end - offset < STRING_MAX ? end - offset : STRING_MAX, length = 0;
	uint32_t page = pdb->msf.page_size;
	/* Up to the end of the page, then page by page while they follow each other. */
	for (size_t seen = page - offset % page; length < most; seen += page) {
		size_t size = seen < most ? seen : most;
		const uint8_t *bytes = msf_view(&pdb->msf, stream, offset, size);
		if (!bytes)
			break;
		const uint8_t *nul = memchr(bytes, 0, size);
		if (nul)
			return (const char *)bytes;
		length = size;
	}
	char *copy = malloc(most + 1);
	const char *kept = NULL;
	if (copy && msf_read(&pdb->msf, stream, offset, copy, most)) {
		const char *nul = memchr(copy, 0, most);
		kept = nul ? pdb_keep(pdb, copy, (size_t)(nul - copy)) : NULL;
	}
	free(copy);
	return kept;
}

/* The stream of a name, by the info stream's table: a buffer of strings, then a hash table of (offset, stream). */
static uint32_t named_stream(struct sp_cursor c, const char *wanted)
{
	uint32_t size = sp_cursor_u32(&c);
	const uint8_t *bytes = sp_cursor_bytes(&c, size);
	sp_cursor_skip(&c, 4); /* number of entries */
	uint32_t capacity = sp_cursor_u32(&c);
	uint32_t words = sp_cursor_u32(&c);
	struct sp_cursor present = c;
	sp_cursor_skip(&c, (uint64_t)words * 4);
	sp_cursor_skip(&c, (uint64_t)sp_cursor_u32(&c) * 4); /* which slots were deleted */
	for (uint32_t i = 0; i < capacity && !c.bad && !present.bad && i / 32 < words; i++) {
		struct sp_cursor bit = present;
		sp_cursor_skip(&bit, i / 32 * 4);
		if (!(sp_cursor_u32(&bit) >> i % 32 & 1))
			continue;
		uint32_t offset = sp_cursor_u32(&c), stream = sp_cursor_u32(&c);
		struct sp_cursor name = sp_cursor_init(bytes, size);
		sp_cursor_seek(&name, offset);
		if (!c.bad && strcmp(sp_cursor_string(&name), wanted) == 0 && !name.bad)
			return stream;
	}
	return PDB_NO_STREAM;
}

/* Behind the names stand the features, 32 bits each. */
static bool has_feature(struct sp_cursor c, uint32_t wanted)
{
	sp_cursor_skip(&c, sp_cursor_u32(&c));
	uint32_t entries = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4);
	sp_cursor_skip(&c, (uint64_t)sp_cursor_u32(&c) * 4);
	sp_cursor_skip(&c, (uint64_t)sp_cursor_u32(&c) * 4);
	sp_cursor_skip(&c, (uint64_t)entries * 8 + 4);
	while (sp_cursor_left(&c) >= 4) {
		if (sp_cursor_u32(&c) == wanted)
			return true;
	}
	return false;
}

static struct sp_error *read_info(struct sp_pdb *pdb)
{
	struct msf_bytes info;
	uint32_t size = msf_size(&pdb->msf, PDB_STREAM_INFO);
	struct sp_error *error = msf_load(&pdb->msf, PDB_STREAM_INFO, 0, size, &info);
	if (error)
		return error;
	struct sp_cursor c = info.cursor;
	sp_cursor_skip(&c, 8); /* version, time stamp */
	uint32_t age = sp_cursor_u32(&c);
	const uint8_t *guid = sp_cursor_bytes(&c, 16);
	if (guid) {
		spsym_debug_id_from_build_id(guid, 16, false, pdb->info.debug_id);
		snprintf(pdb->info.debug_id + 32, 9, "%x", age);
		pdb->names_stream = named_stream(c, "/names");
		if (has_feature(c, FEATURE_MINIMAL))
			pdb->note = fastlink_note;
	}
	free(info.owned);
	return guid ? NULL : sp_error_create(SP_ERROR_FORMAT, "the PDB's info stream is cut off");
}

static void read_names_header(struct sp_pdb *pdb)
{
	uint32_t header[3];
	if (!msf_read(&pdb->msf, pdb->names_stream, 0, header, sizeof(header)) ||
	    header[0] != (uint32_t)NAMES_SIGNATURE)
		return;
	uint32_t left = msf_size(&pdb->msf, pdb->names_stream) - (uint32_t)sizeof(header);
	pdb->names_at = sizeof(header);
	pdb->names_size = header[2] < left ? header[2] : left;
}

/* The list of modules: a fixed part, two names, padding to four bytes. */
static struct sp_error *read_modules(struct sp_pdb *pdb, uint32_t at, uint32_t size)
{
	struct msf_bytes list;
	struct sp_error *error = msf_load(&pdb->msf, PDB_STREAM_DBI, at, size, &list);
	if (error)
		return error;
	SP_VECTOR(struct pdb_module) modules = { 0 };
	struct sp_cursor c = list.cursor;
	while (sp_cursor_left(&c) >= MODULE_HEADER) {
		struct pdb_module module = { .info = at + (uint32_t)sp_cursor_offset(&c) };
		sp_cursor_skip(&c, 34);
		module.stream = sp_cursor_u16(&c);
		module.symbol_size = sp_cursor_u32(&c);
		module.c11_size = sp_cursor_u32(&c);
		module.c13_size = sp_cursor_u32(&c);
		sp_cursor_skip(&c, MODULE_HEADER - 48);
		(void)sp_cursor_string(&c);
		(void)sp_cursor_string(&c);
		if (c.bad)
			break;
		sp_cursor_skip(&c, -sp_cursor_offset(&c) & 3);
		pdb->info.has_debug_info |= module.c13_size > 0;
		if (module.c11_size && !module.c13_size && !pdb->note)
			pdb->note = old_lines_note;
		if (!sp_vector_push(&modules, module)) {
			error = sp_error_no_memory();
			break;
		}
	}
	free(list.owned);
	pdb->modules = modules.items;
	pdb->module_count = modules.count;
	pdb->msf.memory += modules.capacity * sizeof(*modules.items);
	return error;
}

static void set_arch(struct sp_pdb *pdb)
{
	const char *arch = pdb->machine == 0x8664   ? "x86_64"
	                   : pdb->machine == 0x14c  ? "x86"
	                   : pdb->machine == 0xaa64 ? "arm64"
	                   : pdb->machine == 0x1c4  ? "arm"
	                                            : "";
	snprintf(pdb->info.arch, sizeof(pdb->info.arch), "%s", arch);
}

/* Sizes of the parts that follow the DBI header, in their order. */
enum { MODULES, CONTRIBUTIONS, SECTION_MAP, FILES, TYPE_SERVER, EC_NAMES, DEBUG_HEADER, PARTS };

static struct sp_error *read_parts(struct sp_pdb *pdb, const uint32_t sizes[PARTS])
{
	uint32_t at[PARTS];
	uint64_t next = DBI_HEADER, total = msf_size(&pdb->msf, PDB_STREAM_DBI);
	for (unsigned i = 0; i < PARTS; i++) {
		if (sizes[i] > total - next)
			return sp_error_create(SP_ERROR_FORMAT, "part %u of the PDB's DBI stream is past its end", i);
		at[i] = (uint32_t)next;
		next += sizes[i];
	}
	uint16_t streams[DEBUG_STREAMS];
	memset(streams, 0xff, sizeof(streams));
	size_t known = sizes[DEBUG_HEADER] / 2 < DEBUG_STREAMS ? sizes[DEBUG_HEADER] / 2 : DEBUG_STREAMS;
	if (!msf_read(&pdb->msf, PDB_STREAM_DBI, at[DEBUG_HEADER], streams, known * 2))
		memset(streams, 0xff, sizeof(streams));
	struct sp_error *error = read_modules(pdb, at[MODULES], sizes[MODULES]);
	if (!error)
		error = pdb_read_contributions(pdb, at[CONTRIBUTIONS], sizes[CONTRIBUTIONS]);
	if (!error)
		error = pdb_read_sections(pdb, streams, DEBUG_STREAMS);
	return error;
}

static struct sp_error *read_dbi(struct sp_pdb *pdb)
{
	uint8_t header[DBI_HEADER];
	if (!msf_size(&pdb->msf, PDB_STREAM_DBI)) {
		pdb->note = "it holds types only, no symbols";
		return NULL;
	}
	if (!msf_read(&pdb->msf, PDB_STREAM_DBI, 0, header, sizeof(header)))
		return sp_error_create(SP_ERROR_FORMAT, "the PDB's DBI stream is cut off");
	struct sp_cursor c = sp_cursor_init(header, sizeof(header));
	if (sp_cursor_u32(&c) != UINT32_MAX)
		return sp_error_create(SP_ERROR_UNSUPPORTED,
		                       "a DBI stream of the time before Visual C++ 5 is not read");
	sp_cursor_skip(&c, 4);
	snprintf(pdb->info.debug_id + 32, 9, "%x", sp_cursor_u32(&c));
	sp_cursor_skip(&c, 4); /* stream of globals, version of the linker */
	pdb->public_stream = sp_cursor_u16(&c);
	sp_cursor_skip(&c, 2);
	pdb->symbol_stream = sp_cursor_u16(&c);
	sp_cursor_skip(&c, 2);
	uint32_t sizes[PARTS];
	for (unsigned i = MODULES; i <= TYPE_SERVER; i++)
		sizes[i] = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4);
	sizes[DEBUG_HEADER] = sp_cursor_u32(&c);
	sizes[EC_NAMES] = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 2); /* flags */
	pdb->machine = sp_cursor_u16(&c);
	set_arch(pdb);
	return read_parts(pdb, sizes);
}

static struct sp_error *read_all(struct sp_pdb *pdb)
{
	struct sp_error *error = read_info(pdb);
	if (!error)
		error = read_dbi(pdb);
	if (error)
		return error;
	read_names_header(pdb);
	error = pdb_open_publics(pdb);
	if (!error)
		error = pdb_open_types(pdb, PDB_STREAM_TPI, &pdb->types);
	if (!error)
		error = pdb_open_types(pdb, PDB_STREAM_IPI, &pdb->ids);
	pdb->info.has_symbols = pdb->address_map_count > 0;
	return error;
}

struct sp_error *sp_pdb_open(const uint8_t *bytes, size_t size, const char *name, struct sp_pdb **ret)
{
	struct sp_pdb *pdb = calloc(1, sizeof(*pdb));
	if (!pdb)
		return sp_error_no_memory();
	pthread_mutex_init(&pdb->lock, NULL);
	pdb->info.kind = SPSYM_KIND_PDB;
	pdb->public_stream = pdb->symbol_stream = pdb->names_stream = PDB_NO_STREAM;
	pdb->parse_budget = (uint64_t)size * 4 + (1 << 20);
	pdb->name = strdup(name);
	struct sp_error *error = pdb->name ? msf_open(sp_cursor_init(bytes, size), &pdb->msf) : sp_error_no_memory();
	if (!error)
		error = read_all(pdb);
	if (error) {
		sp_pdb_destroy(pdb);
		return sp_error_prefix(error, "cannot read %s", name);
	}
	*ret = pdb;
	return NULL;
}

void sp_pdb_destroy(struct sp_pdb *pdb)
{
	if (!pdb)
		return;
	for (size_t i = 0; i < pdb->module_count; i++)
		pdb_module_data_destroy(atomic_load(&pdb->modules[i].data));
	free(pdb->modules);
	free(pdb->contribution_order);
	free(pdb->sections);
	free(pdb->to_source.entries);
	free(pdb->from_source.entries);
	msf_close(&pdb->msf);
	sp_intern_deinit(&pdb->names);
	sp_map_deinit(&pdb->files);
	sp_map_deinit(&pdb->module_names);
	pthread_mutex_destroy(&pdb->lock);
	free(pdb->name);
	free(pdb);
}

const struct spsym_file_info *sp_pdb_info(const struct sp_pdb *pdb)
{
	return &pdb->info;
}

const uint8_t *sp_pdb_bytes(const struct sp_pdb *pdb, size_t *ret_size)
{
	*ret_size = (size_t)(pdb->msf.file.end - pdb->msf.file.start);
	return pdb->msf.file.start;
}

size_t sp_pdb_memory(struct sp_pdb *pdb)
{
	return sizeof(*pdb) + pdb->msf.memory + atomic_load(&pdb->memory) +
	       (pdb->to_source.count + pdb->from_source.count) * sizeof(struct pdb_omap_entry);
}

static uint64_t hash_lower(const char *name)
{
	char lower[512];
	size_t length = 0;
	for (; name[length] && length < sizeof(lower); length++)
		lower[length] = (char)tolower((unsigned char)name[length]);
	return sp_hash_bytes(lower, length);
}

size_t pdb_module_by_name(struct sp_pdb *pdb, const char *name)
{
	size_t found = pdb->module_count;
	pthread_mutex_lock(&pdb->lock);
	bool made = pdb->module_names.count || !pdb->module_count;
	pthread_mutex_unlock(&pdb->lock);
	for (size_t i = 0; i < pdb->module_count && !made; i++) {
		const char *own = pdb_stream_string(pdb, PDB_STREAM_DBI, pdb->modules[i].info + MODULE_HEADER,
		                                    msf_size(&pdb->msf, PDB_STREAM_DBI));
		if (!own)
			continue;
		uint64_t hash = hash_lower(own);
		pthread_mutex_lock(&pdb->lock);
		if (!sp_map_get(&pdb->module_names, hash))
			sp_map_put(&pdb->module_names, hash, i);
		pthread_mutex_unlock(&pdb->lock);
	}
	pthread_mutex_lock(&pdb->lock);
	const uint64_t *index = sp_map_get(&pdb->module_names, hash_lower(name));
	if (index)
		found = (size_t)*index;
	pthread_mutex_unlock(&pdb->lock);
	return found;
}
