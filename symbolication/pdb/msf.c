/* The MSF container, as Microsoft's open-sourced PDB code (microsoft-pdb, msf.cpp) and LLVM's documentation tell it. */
#include "symbolication/pdb/msf.h"

#include <stdlib.h>

static const char magic[] = "Microsoft C/C++ MSF 7.00\r\n\x1a"
                            "DS\0\0";
enum {
	MAGIC_SIZE = 32,
	PAGE_MIN = 512,
	PAGE_MAX = 65536,
	DIRECTORY_PAGES = 0x34, /* where the list of pages stands that hold the page list of the directory */
	STREAM_DELETED = -1
};

bool msf_probe(const uint8_t *bytes, size_t size)
{
	return size >= MAGIC_SIZE && memcmp(bytes, magic, sizeof(magic) - 1) == 0;
}

static uint32_t word(const uint8_t *bytes, size_t index)
{
	uint32_t value;
	memcpy(&value, bytes + index * 4, sizeof(value));
	return value;
}

static uint64_t pages_of(const struct msf *msf, uint64_t size)
{
	return (size + msf->page_size - 1) / msf->page_size;
}

/* A page's bytes; NULL past the end of the file. The last page may be cut off. */
static const uint8_t *page_bytes(const struct msf *msf, uint32_t page, size_t size)
{
	struct sp_cursor c = sp_cursor_sub(&msf->file, (uint64_t)page * msf->page_size, size);
	return c.bad ? NULL : c.start;
}

/* Collects the directory: a list of pages holds the numbers of pages that hold the numbers of its pages. */
static struct sp_error *read_directory(struct msf *msf, uint32_t size)
{
	uint64_t pages = pages_of(msf, size);
	msf->directory = malloc((size_t)size + 1);
	if (!msf->directory)
		return sp_error_no_memory();
	msf->memory = size;
	uint32_t per_page = msf->page_size / 4;
	for (uint64_t i = 0; i < pages; i++) {
		struct sp_cursor list = msf->file;
		sp_cursor_seek(&list, DIRECTORY_PAGES + i / per_page * 4);
		uint32_t list_page = sp_cursor_u32(&list);
		struct sp_cursor entry = msf->file;
		sp_cursor_seek(&entry, (uint64_t)list_page * msf->page_size + i % per_page * 4);
		uint32_t page = sp_cursor_u32(&entry);
		size_t done = (size_t)i * msf->page_size, left = size - done;
		size_t part = left < msf->page_size ? left : msf->page_size;
		const uint8_t *bytes = list.bad || entry.bad ? NULL : page_bytes(msf, page, part);
		if (!bytes)
			return sp_error_create(SP_ERROR_FORMAT, "page %llu of the stream directory is past the end",
			                       (unsigned long long)i);
		memcpy(msf->directory + done, bytes, part);
	}
	return NULL;
}

/* Finds out where each stream's page numbers are. */
static struct sp_error *index_streams(struct msf *msf, uint32_t size)
{
	uint32_t words = size / 4, count = words ? word(msf->directory, 0) : 0;
	if (!words || count > words - 1)
		return sp_error_create(SP_ERROR_FORMAT, "the stream directory names %u streams in %u bytes", count,
		                       size);
	msf->streams = calloc((size_t)count + 1, sizeof(*msf->streams));
	if (!msf->streams)
		return sp_error_no_memory();
	msf->memory += count * sizeof(*msf->streams);
	uint64_t at = 1 + (uint64_t)count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t stream_size = word(msf->directory, 1 + i);
		if (stream_size == (uint32_t)STREAM_DELETED)
			stream_size = 0;
		uint64_t pages = pages_of(msf, stream_size);
		if (pages > words - at)
			return sp_error_create(SP_ERROR_FORMAT, "the pages of stream %u are past the directory's end",
			                       i);
		msf->streams[i] = (struct msf_stream){ stream_size, (uint32_t)at };
		at += pages;
	}
	msf->stream_count = count;
	return NULL;
}

struct sp_error *msf_open(struct sp_cursor file, struct msf *ret)
{
	*ret = (struct msf){ .file = file };
	struct sp_cursor c = file;
	sp_cursor_seek(&c, MAGIC_SIZE);
	ret->page_size = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4); /* which of the two free page maps is used */
	ret->page_count = sp_cursor_u32(&c);
	uint32_t directory_size = sp_cursor_u32(&c);
	size_t file_size = (size_t)(file.end - file.start);
	if (c.bad || ret->page_size < PAGE_MIN || ret->page_size > PAGE_MAX || ret->page_size & (ret->page_size - 1))
		return sp_error_create(SP_ERROR_FORMAT, "a PDB has no pages of %u bytes", ret->page_size);
	if (directory_size > file_size)
		return sp_error_create(SP_ERROR_FORMAT, "the stream directory (%u bytes) is larger than the file",
		                       directory_size);
	struct sp_error *error = read_directory(ret, directory_size);
	if (!error)
		error = index_streams(ret, directory_size);
	if (error)
		msf_close(ret);
	return error;
}

void msf_close(struct msf *msf)
{
	free(msf->directory);
	free(msf->streams);
	*msf = (struct msf){ 0 };
}

uint32_t msf_size(const struct msf *msf, uint32_t stream)
{
	return stream < msf->stream_count ? msf->streams[stream].size : 0;
}

static uint32_t page_of(const struct msf *msf, uint32_t stream, uint64_t index)
{
	return word(msf->directory, msf->streams[stream].pages + (size_t)index);
}

bool msf_read(const struct msf *msf, uint32_t stream, uint64_t offset, void *buffer, size_t size)
{
	uint32_t total = msf_size(msf, stream);
	if (offset > total || size > total - offset)
		return false;
	for (uint8_t *to = buffer; size;) {
		size_t skip = offset % msf->page_size, part = msf->page_size - skip;
		if (part > size)
			part = size;
		const uint8_t *bytes = page_bytes(msf, page_of(msf, stream, offset / msf->page_size), skip + part);
		if (!bytes)
			return false;
		memcpy(to, bytes + skip, part);
		to += part;
		offset += part;
		size -= part;
	}
	return true;
}

const uint8_t *msf_view(const struct msf *msf, uint32_t stream, uint64_t offset, size_t size)
{
	uint32_t total = msf_size(msf, stream);
	if (offset > total || size > total - offset || !size)
		return NULL;
	uint64_t first = offset / msf->page_size, last = (offset + size - 1) / msf->page_size;
	uint32_t page = page_of(msf, stream, first);
	for (uint64_t i = first + 1; i <= last; i++) {
		if (page_of(msf, stream, i) != page + (i - first))
			return NULL;
	}
	struct sp_cursor c = sp_cursor_sub(&msf->file, (uint64_t)page * msf->page_size + offset % msf->page_size, size);
	return c.bad ? NULL : c.start;
}

struct sp_error *msf_load(const struct msf *msf, uint32_t stream, uint64_t offset, size_t size, struct msf_bytes *ret)
{
	*ret = (struct msf_bytes){ .cursor = sp_cursor_init(NULL, 0) };
	if (!size)
		return NULL;
	const uint8_t *bytes = msf_view(msf, stream, offset, size);
	if (!bytes) {
		/* Pages may be named more than once: a stream could be larger than the file. */
		if (size > (size_t)(msf->file.end - msf->file.start))
			return sp_error_create(SP_ERROR_FORMAT, "stream %u is larger than the file", stream);
		ret->owned = malloc(size);
		if (!ret->owned)
			return sp_error_no_memory();
		if (!msf_read(msf, stream, offset, ret->owned, size)) {
			free(ret->owned);
			ret->owned = NULL;
			return sp_error_create(SP_ERROR_FORMAT, "stream %u: offset 0x%llx, size 0x%zx is past the end",
			                       stream, (unsigned long long)offset, size);
		}
		bytes = ret->owned;
	}
	ret->cursor = sp_cursor_init(bytes, size);
	return NULL;
}

struct sp_cursor msf_record(const struct msf *msf, uint32_t stream, uint64_t offset, uint8_t *buffer,
                            uint16_t *ret_kind, uint32_t *ret_size)
{
	uint16_t header[2] = { 0 };
	struct sp_cursor c = sp_cursor_init(NULL, 0);
	c.bad = true;
	*ret_kind = 0;
	*ret_size = 0;
	if (!msf_read(msf, stream, offset, header, sizeof(header)) || header[0] < 2)
		return c;
	size_t size = header[0] - 2u;
	const uint8_t *bytes = msf_view(msf, stream, offset + 4, size);
	if (!bytes && size) {
		if (!msf_read(msf, stream, offset + 4, buffer, size))
			return c;
		bytes = buffer;
	}
	*ret_kind = header[1];
	*ret_size = header[0] + 2u;
	c = sp_cursor_init(bytes ? bytes : buffer, size);
	return c;
}
