/* The gzip writer of compress.h: one gzip member, compressed on several cores.
 *
 * The input is cut into blocks. Each block is deflated on its own, primed with the 32 KiB in front of it as dictionary,
 * and ends on a byte boundary (Z_SYNC_FLUSH), so the results put one after the other are one deflate stream; the check
 * sums are combined. Browsers read only the first member of a file, so one member per block would not do.
 *
 * Blocks live in a ring of jobs. The caller's thread fills the job at `head`, workers compress, and the caller's thread
 * writes the oldest ones out, in order, when it needs their place: only it calls the sink, and memory stays bounded.
 * Without workers there is one job and one deflate stream that goes on from block to block. */
#include "common/compress.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define BLOCK_SIZE ((size_t)256 << 10)
#define WINDOW_SIZE ((size_t)32 << 10)
#define MAX_THREADS 64
#define HEADER_SIZE 10
#define PART_STEP (1u << 30) /* zlib counts input in unsigned int */

enum job_state {
	JOB_FREE,  /* the caller's: being filled, or empty */
	JOB_READY, /* waits for a worker */
	JOB_TAKEN, /* a worker has it */
	JOB_DONE,  /* output is complete, or .failed */
};

struct job {
	enum job_state state;
	bool last;   /* ends the deflate stream */
	bool apart;  /* without workers: ends on a byte, and what follows does not refer to it */
	bool failed; /* no memory */
	size_t dictionary_size;
	size_t in_size;
	size_t out_size, out_capacity;
	uint32_t crc; /* of the input */
	uint8_t *in;  /* WINDOW_SIZE bytes for the dictionary (at their end), then BLOCK_SIZE */
	uint8_t *out;
};

struct worker {
	struct sp_gzip *gzip;
	pthread_t thread;
	z_stream stream;
};

struct sp_gzip {
	sp_write_fn write;
	void *context;
	bool ended; /* an error was met or the trailer written */

	struct job *jobs;
	size_t job_count;
	size_t head;   /* number of the job being filled; its place is head % job_count */
	size_t oldest; /* number of the oldest job not yet written out */
	uint32_t crc;  /* of all written out */
	uint64_t size;

	struct worker *workers;
	unsigned worker_count; /* those whose stream is set up */
	unsigned thread_count; /* those that run */
	pthread_mutex_t mutex; /* guards next, stop and the jobs' states */
	pthread_cond_t work, done;
	size_t next; /* number of the next job for a worker */
	bool stop;
};

/* Compresses what is in the job; with `whole` as a piece of its own, else as the stream's continuation. */
static void compress_job(z_stream *stream, struct job *job, bool whole)
{
	const uint8_t *data = job->in + WINDOW_SIZE;
	job->out_size = 0;
	job->crc = (uint32_t)crc32(crc32(0, NULL, 0), data, (uInt)job->in_size);
	if (whole) {
		deflateReset(stream);
		if (job->dictionary_size)
			deflateSetDictionary(stream, data - job->dictionary_size, (uInt)job->dictionary_size);
	}
	stream->next_in = (uint8_t *)(uintptr_t)data;
	stream->avail_in = (uInt)job->in_size;
	int flush = job->last ? Z_FINISH : whole ? Z_SYNC_FLUSH : job->apart ? Z_FULL_FLUSH : Z_NO_FLUSH;
	do {
		if (job->out_size == job->out_capacity) {
			size_t wanted = job->out_capacity ? job->out_capacity * 2 : BLOCK_SIZE / 2;
			uint8_t *grown = realloc(job->out, wanted);
			if (!grown) {
				job->failed = true;
				return;
			}
			job->out = grown;
			job->out_capacity = wanted;
		}
		stream->next_out = job->out + job->out_size;
		stream->avail_out = (uInt)(job->out_capacity - job->out_size);
		deflate(stream, flush);
		job->out_size = job->out_capacity - stream->avail_out;
	} while (!stream->avail_out);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct sp_gzip *gzip = worker->gzip;
	pthread_mutex_lock(&gzip->mutex);
	for (;;) {
		struct job *job = &gzip->jobs[gzip->next % gzip->job_count];
		if (gzip->stop)
			break;
		if (job->state != JOB_READY) {
			pthread_cond_wait(&gzip->work, &gzip->mutex);
			continue;
		}
		job->state = JOB_TAKEN;
		gzip->next++;
		pthread_mutex_unlock(&gzip->mutex);
		compress_job(&worker->stream, job, true);
		pthread_mutex_lock(&gzip->mutex);
		job->state = JOB_DONE;
		pthread_cond_signal(&gzip->done);
	}
	pthread_mutex_unlock(&gzip->mutex);
	return NULL;
}

/* Threads of ours must not be chosen for the process's signals: those belong to the thread that waits for them. */
static bool start_worker(struct worker *worker)
{
#ifdef _WIN32
	return !pthread_create(&worker->thread, NULL, work, worker);
#else
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int status = pthread_create(&worker->thread, NULL, work, worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return !status;
#endif
}

static struct sp_error *set_up(struct sp_gzip *gzip, int level, unsigned threads)
{
	gzip->job_count = threads ? threads * 2 + 1 : 1;
	gzip->jobs = calloc(gzip->job_count, sizeof(*gzip->jobs));
	gzip->workers = calloc(threads ? threads : 1, sizeof(*gzip->workers));
	if (!gzip->jobs || !gzip->workers)
		return sp_error_no_memory();
	for (size_t i = 0; i < gzip->job_count; i++)
		if (!(gzip->jobs[i].in = malloc(WINDOW_SIZE + BLOCK_SIZE)))
			return sp_error_no_memory();
	for (unsigned i = 0; i < (threads ? threads : 1); i++) {
		struct worker *worker = &gzip->workers[i];
		worker->gzip = gzip;
		if (deflateInit2(&worker->stream, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
			return sp_error_no_memory();
		gzip->worker_count++;
	}
	for (; gzip->thread_count < threads; gzip->thread_count++)
		if (!start_worker(&gzip->workers[gzip->thread_count]))
			break;
	if (threads && !gzip->thread_count)
		return sp_error_create(SP_ERROR_SYSTEM, "cannot start a thread");
	return NULL;
}

struct sp_error *sp_gzip_create(int level, unsigned threads, sp_write_fn write, void *context, struct sp_gzip **ret)
{
	struct sp_gzip *gzip = calloc(1, sizeof(*gzip));
	if (!gzip)
		return sp_error_no_memory();
	gzip->write = write;
	gzip->context = context;
	pthread_mutex_init(&gzip->mutex, NULL);
	pthread_cond_init(&gzip->work, NULL);
	pthread_cond_init(&gzip->done, NULL);
	struct sp_error *error = set_up(gzip, level, threads > MAX_THREADS ? MAX_THREADS : threads);
	if (!error) {
		static const uint8_t header[HEADER_SIZE] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255 };
		error = write(context, header, sizeof(header));
	}
	if (error) {
		sp_gzip_destroy(gzip);
		return error;
	}
	*ret = gzip;
	return NULL;
}

/* Waits for the oldest job and hands its output to the sink. */
static struct sp_error *write_oldest(struct sp_gzip *gzip)
{
	struct job *job = &gzip->jobs[gzip->oldest % gzip->job_count];
	pthread_mutex_lock(&gzip->mutex);
	while (job->state != JOB_DONE)
		pthread_cond_wait(&gzip->done, &gzip->mutex);
	job->state = JOB_FREE;
	pthread_mutex_unlock(&gzip->mutex);
	gzip->oldest++;
	if (job->failed)
		return sp_error_no_memory();
	gzip->crc = (uint32_t)crc32_combine(gzip->crc, job->crc, (z_off_t)job->in_size);
	gzip->size += job->in_size;
	return job->out_size ? gzip->write(gzip->context, job->out, job->out_size) : NULL;
}

/* Sends the job at head on its way and makes the next place ready. */
static struct sp_error *submit(struct sp_gzip *gzip, bool last)
{
	struct job *job = &gzip->jobs[gzip->head % gzip->job_count];
	job->last = last;
	if (!gzip->thread_count) {
		compress_job(&gzip->workers[0].stream, job, false);
		job->state = JOB_DONE;
		gzip->head++;
		struct sp_error *error = write_oldest(gzip);
		job->in_size = 0;
		return error;
	}
	const uint8_t *data = job->in + WINDOW_SIZE;
	size_t in_size = job->in_size;
	if (gzip->head - gzip->oldest == gzip->job_count - 1) {
		struct sp_error *error = write_oldest(gzip);
		if (error)
			return error;
	}
	struct job *following = &gzip->jobs[(gzip->head + 1) % gzip->job_count];
	following->in_size = 0;
	following->dictionary_size = in_size < WINDOW_SIZE ? in_size : WINDOW_SIZE;
	memcpy(following->in + WINDOW_SIZE - following->dictionary_size, data + in_size - following->dictionary_size,
	       following->dictionary_size);
	pthread_mutex_lock(&gzip->mutex);
	job->state = JOB_READY;
	gzip->head++;
	pthread_cond_signal(&gzip->work);
	pthread_mutex_unlock(&gzip->mutex);
	return NULL;
}

struct sp_error *sp_gzip_write(void *context, const void *bytes, size_t size)
{
	struct sp_gzip *gzip = context;
	const uint8_t *at = bytes;
	if (gzip->ended)
		return sp_error_create(SP_ERROR_USAGE, "writing to an ended gzip stream");
	while (size) {
		struct job *job = &gzip->jobs[gzip->head % gzip->job_count];
		size_t part = BLOCK_SIZE - job->in_size;
		if (part > size)
			part = size;
		memcpy(job->in + WINDOW_SIZE + job->in_size, at, part);
		job->in_size += part;
		at += part;
		size -= part;
		if (job->in_size == BLOCK_SIZE) {
			struct sp_error *error = submit(gzip, false);
			if (error) {
				gzip->ended = true;
				return error;
			}
		}
	}
	return NULL;
}

static void put_u32(uint8_t *at, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

struct sp_error *sp_gzip_finish(struct sp_gzip *gzip)
{
	if (gzip->ended)
		return sp_error_create(SP_ERROR_USAGE, "the gzip stream has ended");
	gzip->ended = true;
	struct sp_error *error = submit(gzip, true);
	while (!error && gzip->oldest < gzip->head)
		error = write_oldest(gzip);
	if (error)
		return error;
	uint8_t trailer[8];
	put_u32(trailer, gzip->crc);
	put_u32(trailer + 4, (uint32_t)gzip->size);
	return gzip->write(gzip->context, trailer, sizeof(trailer));
}

/* ---- Parts ---- */

struct sp_error *sp_gzip_part(int level, const void *text, size_t text_size, sp_write_fn write, void *context,
                              struct sp_gzip_part *ret)
{
	uint8_t out[16384];
	const uint8_t *at = text;
	size_t left = text_size;
	z_stream stream = { 0 };
	struct sp_error *error = NULL;
	if (deflateInit2(&stream, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return sp_error_no_memory();
	*ret = (struct sp_gzip_part){ .text_size = text_size, .crc = (uint32_t)crc32(0, NULL, 0) };
	do {
		uInt part = left < PART_STEP ? (uInt)left : PART_STEP;
		ret->crc = (uint32_t)crc32(ret->crc, at, part);
		stream.next_in = (uint8_t *)(uintptr_t)at;
		stream.avail_in = part;
		at += part;
		left -= part;
		do {
			stream.next_out = out;
			stream.avail_out = sizeof(out);
			deflate(&stream, left ? Z_NO_FLUSH : Z_SYNC_FLUSH);
			size_t size = sizeof(out) - stream.avail_out;
			ret->size += size;
			error = size ? write(context, out, size) : NULL;
		} while (!stream.avail_out && !error);
	} while (left && !error);
	deflateEnd(&stream);
	return error;
}

/* Writes out all that was given so far, so that other bytes can follow. */
static struct sp_error *set_apart(struct sp_gzip *gzip)
{
	struct job *job = &gzip->jobs[gzip->head % gzip->job_count];
	struct sp_error *error = NULL;
	if (job->in_size || !gzip->thread_count) {
		job->apart = true;
		error = submit(gzip, false);
		job->apart = false;
	}
	while (!error && gzip->oldest < gzip->head)
		error = write_oldest(gzip);
	gzip->jobs[gzip->head % gzip->job_count].dictionary_size = 0;
	return error;
}

struct sp_error *sp_gzip_put_part(struct sp_gzip *gzip, const struct sp_gzip_part *part, const void *bytes)
{
	if (gzip->ended)
		return sp_error_create(SP_ERROR_USAGE, "writing to an ended gzip stream");
	struct sp_error *error = set_apart(gzip);
	if (!error && part->size)
		error = gzip->write(gzip->context, bytes, part->size);
	gzip->crc = (uint32_t)crc32_combine(gzip->crc, part->crc, (z_off_t)part->text_size);
	gzip->size += part->text_size;
	gzip->ended = error;
	return error;
}

void sp_gzip_destroy(struct sp_gzip *gzip)
{
	if (!gzip)
		return;
	pthread_mutex_lock(&gzip->mutex);
	gzip->stop = true;
	pthread_cond_broadcast(&gzip->work);
	pthread_mutex_unlock(&gzip->mutex);
	for (unsigned i = 0; i < gzip->thread_count; i++)
		pthread_join(gzip->workers[i].thread, NULL);
	for (unsigned i = 0; i < gzip->worker_count; i++)
		deflateEnd(&gzip->workers[i].stream);
	for (size_t i = 0; gzip->jobs && i < gzip->job_count; i++) {
		free(gzip->jobs[i].in);
		free(gzip->jobs[i].out);
	}
	free(gzip->jobs);
	free(gzip->workers);
	pthread_cond_destroy(&gzip->work);
	pthread_cond_destroy(&gzip->done);
	pthread_mutex_destroy(&gzip->mutex);
	free(gzip);
}
