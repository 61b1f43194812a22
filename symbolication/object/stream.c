/* See stream.h. The buffer is zeroed memory of the system's, of which pages are taken when they are written. */
#include "symbolication/object/stream.h"

#include "common/inflate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#ifndef _WIN32
#include <sys/mman.h>
#include <unistd.h>
#endif

struct sp_stream {
	const uint8_t *in;
	size_t in_size;
	uint8_t *bytes; /* owned */
	size_t size;
	pthread_t thread;
	atomic_size_t done; /* bytes that are final */
	atomic_bool cancel;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t moved; /* more is done, or all */
	bool ended;
	struct sp_error *error; /* owned; why it ended early */
};

static bool on_progress(void *context, size_t done)
{
	struct sp_stream *stream = context;
	pthread_mutex_lock(&stream->lock);
	atomic_store_explicit(&stream->done, done, memory_order_release);
	pthread_cond_broadcast(&stream->moved);
	pthread_mutex_unlock(&stream->lock);
	return !atomic_load_explicit(&stream->cancel, memory_order_relaxed);
}

static void *run(void *argument)
{
	struct sp_stream *stream = argument;
	struct sp_error *error = sp_inflate(stream->in, stream->in_size, stream->bytes, stream->size, on_progress,
	                                    stream);
	pthread_mutex_lock(&stream->lock);
	stream->error = error;
	stream->ended = true;
	pthread_cond_broadcast(&stream->moved);
	pthread_mutex_unlock(&stream->lock);
	return NULL;
}

/* Large pages: there are fewer of them to take. */
static void want_large_pages(uint8_t *bytes, size_t size)
{
#ifdef MADV_HUGEPAGE
	size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = (page - (uintptr_t)bytes % page) % page;
	if (size > skip)
		madvise(bytes + skip, size - skip, MADV_HUGEPAGE);
#else
	(void)bytes;
	(void)size;
#endif
}

struct sp_error *sp_stream_create(const uint8_t *in, size_t in_size, size_t size, struct sp_stream **ret)
{
	struct sp_stream *stream = calloc(1, sizeof(*stream));
	if (!stream)
		return sp_error_no_memory();
	*stream = (struct sp_stream){ .in = in, .in_size = in_size, .size = size, .bytes = calloc(1, size) };
	if (!stream->bytes) {
		free(stream);
		return sp_error_no_memory();
	}
	want_large_pages(stream->bytes, size);
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->moved, NULL);
	int status = pthread_create(&stream->thread, NULL, run, stream);
	if (status) {
		pthread_mutex_destroy(&stream->lock);
		pthread_cond_destroy(&stream->moved);
		free(stream->bytes);
		free(stream);
		return sp_error_from_errno(status, "cannot start a thread");
	}
	*ret = stream;
	return NULL;
}

void sp_stream_destroy(struct sp_stream *stream)
{
	if (!stream)
		return;
	atomic_store(&stream->cancel, true);
	pthread_join(stream->thread, NULL);
	pthread_mutex_destroy(&stream->lock);
	pthread_cond_destroy(&stream->moved);
	sp_error_destroy(stream->error);
	free(stream->bytes);
	free(stream);
}

const uint8_t *sp_stream_bytes(const struct sp_stream *stream, size_t *ret_size)
{
	*ret_size = stream->size;
	return stream->bytes;
}

struct sp_error *sp_stream_wait(struct sp_stream *stream, size_t end)
{
	/* The last byte is there when the checksum was right. */
	if (end < stream->size && atomic_load_explicit(&stream->done, memory_order_acquire) >= end)
		return NULL;
	pthread_mutex_lock(&stream->lock);
	while (!stream->ended && (end >= stream->size || atomic_load(&stream->done) < end))
		pthread_cond_wait(&stream->moved, &stream->lock);
	struct sp_error *error = NULL;
	if (stream->error && (end >= stream->size || atomic_load(&stream->done) < end))
		error = sp_error_copy(stream->error);
	pthread_mutex_unlock(&stream->lock);
	return error;
}
