/* Cabinets (MS-CAB, "Cabinet File Format"; MS-MCI, "MSZIP").
 *
 * A cabinet has files and folders; a folder is a compressed stream of several files, cut into blocks of at most 32 KB
 * of their bytes. MSZIP compresses each block by deflate, with the previous block as dictionary. Symbol stores put one
 * file into each cabinet. */
#include "symbolication/locate/cabinet.h"

#include "common/cursor.h"
#include "common/library.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { FLAG_PREVIOUS = 1, FLAG_NEXT = 2, FLAG_RESERVE = 4 };
enum { METHOD_STORED = 0, METHOD_MSZIP = 1, METHOD_QUANTUM = 2, METHOD_LZX = 3, METHOD_MASK = 15 };
enum { BLOCK_MAX = 32768, FOLDER_CONTINUED = 0xfffd };

struct cabinet {
	struct sp_cursor file;
	unsigned folder_reserve, data_reserve; /* bytes that applications keep in each header */
	uint64_t folders;                      /* offset of the folder table */
	unsigned folder_count;
	uint64_t files; /* offset of the first file's entry */
};

struct entry {
	uint32_t size, offset; /* in the folder's stream */
	unsigned folder;
};

struct folder {
	uint64_t data;
	unsigned blocks, method;
};

bool sp_cabinet_probe(const void *bytes, size_t size)
{
	return size >= 36 && memcmp(bytes, "MSCF\0\0\0\0", 8) == 0;
}

static struct sp_error *cut_off(void)
{
	return sp_error_create(SP_ERROR_FORMAT, "the cabinet is cut off");
}

static struct sp_error *read_header(struct sp_cursor c, struct cabinet *ret)
{
	*ret = (struct cabinet){ .file = c };
	sp_cursor_skip(&c, 16);
	ret->files = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 6);
	ret->folder_count = sp_cursor_u16(&c);
	unsigned file_count = sp_cursor_u16(&c), flags = sp_cursor_u16(&c);
	sp_cursor_skip(&c, 4);
	if (flags & FLAG_RESERVE) {
		unsigned header_reserve = sp_cursor_u16(&c);
		ret->folder_reserve = sp_cursor_u8(&c);
		ret->data_reserve = sp_cursor_u8(&c);
		sp_cursor_skip(&c, header_reserve);
	}
	for (unsigned i = 0; i < 2; i++) { /* names of cabinet and disk */
		if (flags & FLAG_PREVIOUS)
			(void)sp_cursor_string(&c);
	}
	for (unsigned i = 0; i < 2; i++) {
		if (flags & FLAG_NEXT)
			(void)sp_cursor_string(&c);
	}
	ret->folders = sp_cursor_offset(&c);
	if (c.bad)
		return cut_off();
	if (!file_count || !ret->folder_count)
		return sp_error_create(SP_ERROR_FORMAT, "the cabinet is empty");
	return NULL;
}

static struct sp_error *read_entry(const struct cabinet *cabinet, size_t limit, struct entry *ret)
{
	struct sp_cursor c = cabinet->file;
	sp_cursor_seek(&c, cabinet->files);
	ret->size = sp_cursor_u32(&c);
	ret->offset = sp_cursor_u32(&c);
	ret->folder = sp_cursor_u16(&c);
	if (c.bad)
		return cut_off();
	if (ret->folder >= FOLDER_CONTINUED)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "the file goes on in another cabinet");
	if (ret->folder >= cabinet->folder_count)
		return sp_error_create(SP_ERROR_FORMAT, "the cabinet has no folder %u", ret->folder);
	if (ret->size > limit || ret->offset > limit - ret->size)
		return sp_error_create(SP_ERROR_LIMIT, "the cabinet holds a file of %u bytes, more than %zu", ret->size,
		                       limit);
	return NULL;
}

static struct sp_error *read_folder(const struct cabinet *cabinet, unsigned index, struct folder *ret)
{
	struct sp_cursor c = cabinet->file;
	sp_cursor_seek(&c, cabinet->folders + (uint64_t)index * (8 + cabinet->folder_reserve));
	ret->data = sp_cursor_u32(&c);
	ret->blocks = sp_cursor_u16(&c);
	ret->method = sp_cursor_u16(&c) & METHOD_MASK;
	return c.bad ? cut_off() : NULL;
}

/* The exclusive or of all words; the last bytes that make no word count from the other end. */
static uint32_t checksum(const uint8_t *bytes, size_t size, uint32_t sum)
{
	for (; size >= 4; bytes += 4, size -= 4)
		sum ^= (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
		       (uint32_t)bytes[3] << 24;
	uint32_t rest = 0;
	for (size_t i = 0; i < size; i++)
		rest |= (uint32_t)bytes[i] << (8 * (size - 1 - i));
	return sum ^ rest;
}

/* One block of a folder. */
struct block {
	const uint8_t *bytes;
	unsigned size, unpacked;
};

static struct sp_error *next_block(const struct cabinet *cabinet, struct sp_cursor *c, struct block *ret)
{
	uint32_t sum = sp_cursor_u32(c);
	size_t at = sp_cursor_offset(c);
	ret->size = sp_cursor_u16(c);
	ret->unpacked = sp_cursor_u16(c);
	sp_cursor_skip(c, cabinet->data_reserve);
	ret->bytes = sp_cursor_bytes(c, ret->size);
	if (!ret->bytes)
		return cut_off();
	if (!ret->unpacked || ret->unpacked > BLOCK_MAX)
		return sp_error_create(SP_ERROR_FORMAT, "a block of the cabinet holds %u bytes", ret->unpacked);
	if (sum && checksum(c->start + at, 4 + cabinet->data_reserve, checksum(ret->bytes, ret->size, 0)) != sum)
		return sp_error_create(SP_ERROR_FORMAT, "a block of the cabinet has another checksum");
	return NULL;
}

/* Unpacks a block to `out`, behind which `before` bytes of the stream stand. */
static struct sp_error *inflate_block(z_stream *stream, const struct block *block, uint8_t *out, size_t before)
{
	if (block->size < 2 || block->bytes[0] != 'C' || block->bytes[1] != 'K')
		return sp_error_create(SP_ERROR_FORMAT, "a block of the cabinet is no MSZIP block");
	size_t dictionary = before < BLOCK_MAX ? before : BLOCK_MAX;
	if (inflateReset(stream) != Z_OK ||
	    (dictionary && inflateSetDictionary(stream, out - dictionary, (uInt)dictionary) != Z_OK))
		return sp_error_no_memory();
	stream->next_in = (uint8_t *)(uintptr_t)(block->bytes + 2);
	stream->avail_in = block->size - 2;
	stream->next_out = out;
	stream->avail_out = block->unpacked;
	int status = inflate(stream, Z_FINISH);
	if (status == Z_MEM_ERROR)
		return sp_error_no_memory();
	if (status != Z_STREAM_END || stream->avail_out)
		return sp_error_create(SP_ERROR_FORMAT, "a block of the cabinet is corrupt");
	return NULL;
}

/* Unpacks the first `size` bytes of a folder, at least, into a buffer of exactly that size plus a block. */
static struct sp_error *unpack_folder(const struct cabinet *cabinet, const struct folder *folder, z_stream *stream,
                                      uint8_t *out, size_t size)
{
	struct sp_cursor c = cabinet->file;
	sp_cursor_seek(&c, folder->data);
	size_t done = 0;
	for (unsigned i = 0; i < folder->blocks && done < size; i++) {
		struct block block;
		struct sp_error *error = next_block(cabinet, &c, &block);
		if (error)
			return error;
		if (folder->method == METHOD_MSZIP) {
			error = inflate_block(stream, &block, out + done, done);
		} else if (block.size != block.unpacked) {
			error = sp_error_create(SP_ERROR_FORMAT, "a stored block of the cabinet has two sizes");
		} else {
			memcpy(out + done, block.bytes, block.size);
		}
		if (error)
			return error;
		done += block.unpacked;
	}
	return done < size ? cut_off() : NULL;
}

static struct sp_error *unpack_own(const struct cabinet *cabinet, const struct entry *entry,
                                   const struct folder *folder, uint8_t **ret, size_t *ret_size)
{
	size_t needed = (size_t)entry->offset + entry->size;
	/* No deflate stream expands more, and a block is at most 32 KB. */
	size_t file_size = (size_t)(cabinet->file.end - cabinet->file.start);
	if (needed / 1032 > file_size || needed / BLOCK_MAX > folder->blocks)
		return sp_error_create(SP_ERROR_FORMAT, "%zu bytes cannot have been packed to %zu", needed, file_size);
	uint8_t *out = malloc(needed + BLOCK_MAX);
	z_stream stream = { 0 };
	if (!out || inflateInit2(&stream, -15) != Z_OK) {
		free(out);
		return sp_error_no_memory();
	}
	struct sp_error *error = unpack_folder(cabinet, folder, &stream, out, needed);
	inflateEnd(&stream);
	if (error) {
		free(out);
		return error;
	}
	if (entry->offset)
		memmove(out, out + entry->offset, entry->size);
	*ret = out;
	*ret_size = entry->size;
	return NULL;
}

/* The functions of libarchive in use. */
struct archive_functions {
	void *(*new)(void);
	int (*support_cab)(void *archive);
	int (*open_memory)(void *archive, const void *bytes, size_t size);
	int (*next_header)(void *archive, void **entry);
	ptrdiff_t (*read_data)(void *archive, void *buffer, size_t size);
	int (*free)(void *archive);
};

static struct sp_error *load_archive(struct archive_functions *ret)
{
#ifdef _WIN32
	static const char *const names[] = { "libarchive-13.dll", "archive.dll", NULL };
#elif defined(__APPLE__)
	static const char *const names[] = { "/usr/lib/libarchive.2.dylib", NULL };
#else
	static const char *const names[] = { "libarchive.so.13", NULL };
#endif
	const struct sp_library_function functions[] = { { "archive_read_new", &ret->new },
		                                         { "archive_read_support_format_cab", &ret->support_cab },
		                                         { "archive_read_open_memory", &ret->open_memory },
		                                         { "archive_read_next_header", &ret->next_header },
		                                         { "archive_read_data", &ret->read_data },
		                                         { "archive_read_free", &ret->free } };
	struct sp_error *error = sp_library_load(names, functions, sizeof(functions) / sizeof(functions[0]));
	return error ? sp_error_prefix(error, "the cabinet is compressed by LZX, which needs libarchive") : NULL;
}

static struct sp_error *read_archive(const struct archive_functions *f, void *archive, const struct cabinet *cabinet,
                                     uint8_t *out, size_t size)
{
	void *entry;
	size_t file_size = (size_t)(cabinet->file.end - cabinet->file.start), done = 0;
	if (f->support_cab(archive) != 0 || f->open_memory(archive, cabinet->file.start, file_size) != 0 ||
	    f->next_header(archive, &entry) != 0)
		return sp_error_create(SP_ERROR_FORMAT, "the cabinet cannot be read");
	while (done < size) {
		ptrdiff_t part = f->read_data(archive, out + done, size - done);
		if (part <= 0)
			return sp_error_create(SP_ERROR_FORMAT, "the cabinet's LZX data is corrupt");
		done += (size_t)part;
	}
	return NULL;
}

static struct sp_error *unpack_lzx(const struct cabinet *cabinet, const struct entry *entry, uint8_t **ret,
                                   size_t *ret_size)
{
	struct archive_functions f;
	struct sp_error *error = load_archive(&f);
	if (error)
		return error;
	void *archive = f.new();
	uint8_t *out = malloc(entry->size ? entry->size : 1);
	error = archive && out ? read_archive(&f, archive, cabinet, out, entry->size) : sp_error_no_memory();
	if (archive)
		f.free(archive);
	if (error) {
		free(out);
		return error;
	}
	*ret = out;
	*ret_size = entry->size;
	return NULL;
}

struct sp_error *sp_cabinet_unpack(const void *bytes, size_t size, size_t limit, uint8_t **ret, size_t *ret_size)
{
	struct cabinet cabinet;
	struct entry entry;
	struct folder folder;
	if (!sp_cabinet_probe(bytes, size))
		return sp_error_create(SP_ERROR_FORMAT, "not a cabinet");
	struct sp_error *error = read_header(sp_cursor_init(bytes, size), &cabinet);
	if (!error)
		error = read_entry(&cabinet, limit, &entry);
	if (!error)
		error = read_folder(&cabinet, entry.folder, &folder);
	if (error)
		return error;
	switch (folder.method) {
	case METHOD_STORED:
	case METHOD_MSZIP:
		return unpack_own(&cabinet, &entry, &folder, ret, ret_size);
	case METHOD_LZX:
		return unpack_lzx(&cabinet, &entry, ret, ret_size);
	default:
		return sp_error_create(SP_ERROR_UNSUPPORTED, "the cabinet's compression (%s) is not known",
		                       folder.method == METHOD_QUANTUM ? "Quantum" : "a new one");
	}
}
