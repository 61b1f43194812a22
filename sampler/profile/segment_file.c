/* The file behind a recording writer; see segment_file.h. */
#include "sampler/profile/segment_file.h"

#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#ifndef O_BINARY
#define O_BINARY 0
#endif
#ifndef O_NOFOLLOW
#define O_NOFOLLOW 0
#endif
#ifndef O_CLOEXEC
#define O_CLOEXEC 0
#endif

#define ZSTD_LEVEL 1

struct segment {
	struct segment *next;
	struct sp_segment_header header;
	struct sp_bytes payload; /* owned */
};

struct sp_segment_file {
	char *path; /* owned, for messages */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock; the thread works on the first without it, which nobody else touches until it is taken out. */
	struct segment *first, **last;
	struct segment *spare; /* the latest one written, for its buffer; or NULL */
	size_t waiting;        /* bytes of the queue */
	bool stop;
	struct sp_error *error; /* sticky; owned */
	/* The thread's. */
	int fd;
	ZSTD_CCtx *zstd;
	struct sp_bytes packed; /* output of zstd */
	uint64_t written;       /* bytes in the file, whole segments only */
};

/* ---- Writing ---- */

static struct sp_error *write_all(struct sp_segment_file *file, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	while (size) {
		ssize_t n = write(file->fd, at, size < INT32_MAX ? size : INT32_MAX);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return sp_error_from_errno(n ? errno : ENOSPC, "cannot write the recording %s", file->path);
		at += n;
		size -= (size_t)n;
	}
	return NULL;
}

/* Compresses the payload where that makes it smaller. */
static const uint8_t *pack(struct sp_segment_file *file, struct segment *segment)
{
	const struct sp_bytes *payload = &segment->payload;
	struct sp_segment_header *header = &segment->header;
	header->size = header->stored_size = (uint32_t)payload->count;
	header->packing = SP_SEGMENT_PLAIN;
	file->packed.count = 0;
	size_t bound = ZSTD_compressBound(payload->count);
	if (!payload->count || !sp_bytes_reserve(&file->packed, bound))
		return payload->items;
	size_t size = ZSTD_compress2(file->zstd, file->packed.items, bound, payload->items, payload->count);
	if (ZSTD_isError(size) || size >= payload->count)
		return payload->items;
	header->stored_size = (uint32_t)size;
	header->packing = SP_SEGMENT_ZSTD;
	return file->packed.items;
}

/* Appends a segment. When that fails half-way the torn bytes are taken back, as far as the system allows. */
static struct sp_error *write_segment(struct sp_segment_file *file, struct segment *segment)
{
	uint8_t bytes[SP_SEGMENT_HEADER_SIZE];
	const uint8_t *stored = pack(file, segment);
	segment->header.version = SP_SEGMENT_VERSION;
	segment->header.payload_crc = sp_segment_crc(stored, segment->header.stored_size);
	sp_segment_header_encode(&segment->header, bytes);
	struct sp_error *error = write_all(file, bytes, sizeof(bytes));
	if (!error)
		error = write_all(file, stored, segment->header.stored_size);
	if (!error) {
		file->written += sizeof(bytes) + segment->header.stored_size;
		return NULL;
	}
	int unused = ftruncate(file->fd, (off_t)file->written);
	(void)unused;
	return error;
}

static void free_segment(struct segment *segment)
{
	if (segment)
		free(segment->payload.items);
	free(segment);
}

static void *run(void *argument)
{
	struct sp_segment_file *file = argument;
	pthread_mutex_lock(&file->lock);
	for (;;) {
		while (!file->first && !file->stop)
			pthread_cond_wait(&file->changed, &file->lock);
		struct segment *segment = file->first;
		if (!segment)
			break;
		bool failed = file->error;
		pthread_mutex_unlock(&file->lock);
		struct sp_error *error = failed ? NULL : write_segment(file, segment);
		pthread_mutex_lock(&file->lock);
		if (error)
			file->error = error;
		file->first = segment->next;
		if (!file->first)
			file->last = &file->first;
		file->waiting -= segment->payload.count;
		free_segment(file->spare);
		file->spare = segment;
		pthread_cond_broadcast(&file->changed);
	}
	pthread_mutex_unlock(&file->lock);
	return NULL;
}

/* ---- Handing over ---- */

struct sp_error *sp_segment_file_create(const char *path, struct sp_segment_file **ret)
{
	struct sp_segment_file *file = calloc(1, sizeof(*file));
	if (!file)
		return sp_error_no_memory();
	pthread_mutex_init(&file->lock, NULL);
	pthread_cond_init(&file->changed, NULL);
	file->last = &file->first;
	file->path = strdup(path);
	file->zstd = ZSTD_createCCtx();
	file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_BINARY | O_CLOEXEC | O_NOFOLLOW, 0600);
	int errnum = errno;
	struct sp_error *error = NULL;
	if (file->fd < 0)
		error = sp_error_from_errno(errnum, "cannot create the recording %s", path);
	else if (!file->path || !file->zstd)
		error = sp_error_no_memory();
	else if (pthread_create(&file->thread, NULL, run, file))
		error = sp_error_create(SP_ERROR_SYSTEM, "cannot start a thread to write %s", path);
	if (error) {
		sp_error_destroy(sp_segment_file_destroy(file));
		return error;
	}
	file->running = true;
	sp_file_give_to_user(path);
	ZSTD_CCtx_setParameter(file->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
	*ret = file;
	return NULL;
}

/* A segment with an empty payload; NULL without memory. */
static struct segment *new_segment(struct sp_segment_file *file)
{
	struct segment *segment = file->spare;
	file->spare = NULL;
	if (!segment)
		return calloc(1, sizeof(*segment));
	segment->next = NULL;
	segment->payload.count = 0;
	return segment;
}

struct sp_error *sp_segment_file_put(struct sp_segment_file *file, const struct sp_segment_header *header,
                                     struct sp_bytes *payload)
{
	struct sp_error *error = NULL;
	pthread_mutex_lock(&file->lock);
	while (file->first && file->waiting + payload->count > SP_SEGMENTS_WAITING_BYTES)
		pthread_cond_wait(&file->changed, &file->lock);
	struct segment *segment = file->error ? NULL : new_segment(file);
	if (segment) {
		struct sp_bytes empty = segment->payload;
		segment->header = *header;
		segment->payload = *payload;
		*payload = empty;
		*file->last = segment;
		file->last = &segment->next;
		file->waiting += segment->payload.count;
		pthread_cond_broadcast(&file->changed);
	} else {
		error = file->error ? sp_error_copy(file->error) : sp_error_no_memory();
	}
	pthread_mutex_unlock(&file->lock);
	return error;
}

struct sp_error *sp_segment_file_wait(struct sp_segment_file *file)
{
	pthread_mutex_lock(&file->lock);
	while (file->first)
		pthread_cond_wait(&file->changed, &file->lock);
	struct sp_error *error = file->error ? sp_error_copy(file->error) : NULL;
	pthread_mutex_unlock(&file->lock);
	return error;
}

struct sp_error *sp_segment_file_destroy(struct sp_segment_file *file)
{
	if (!file)
		return NULL;
	if (file->running) {
		pthread_mutex_lock(&file->lock);
		file->stop = true;
		pthread_cond_broadcast(&file->changed);
		pthread_mutex_unlock(&file->lock);
		pthread_join(file->thread, NULL);
	}
	struct sp_error *error = file->error;
	if (file->fd >= 0 && close(file->fd) && !error)
		error = sp_error_from_errno(errno, "cannot write the recording %s", file->path);
	free_segment(file->spare);
	free(file->packed.items);
	ZSTD_freeCCtx(file->zstd);
	free(file->path);
	pthread_cond_destroy(&file->changed);
	pthread_mutex_destroy(&file->lock);
	free(file);
	return error;
}
