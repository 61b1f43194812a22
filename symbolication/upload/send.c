/* Asking and sending; see upload.h. What the server speaks is told in server/upload.c. */
#include "upload.h"

#include "common/json.h"
#include "common/json_read.h"
#include "common/map.h"
#include "symbolication/locate/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define BATCH ((size_t)1024) /* files that one question is about */
#define SENDERS 4
#define TRIES 8
/* Together about a minute: longer than the server holds on to a connection that went silent. */
#define FIRST_WAIT_MS 500 /* before the second try; then twice as long each time */
#define CONNECT_MS 10000
#define STALL_MS 180000        /* without a byte: the server syncs and parses what came */
#define REPLY_LIMIT (1u << 20) /* bytes */

struct sender {
	const struct sp_upload_options *options;
	sp_upload_files *files;
	uint64_t *offsets; /* owned; where to go on, by file */
	bool *later;       /* owned; has the bytes of an earlier one: once that is there, it need not be sent */
	char *header;      /* owned */
	int url_length;    /* without slashes at its end */
	atomic_size_t next;
	_Atomic uint64_t done;
	uint64_t total;
};

/* ---- Requests ---- */

struct answer {
	long status; /* 0 = none */
	struct sp_buffer body;
};

static void answer_deinit(struct answer *answer)
{
	free(answer->body.bytes);
	*answer = (struct answer){ 0 };
}

/* Fills in the rest of a request and makes it. */
static struct sp_error *ask(const struct sender *s, struct sp_fetch_request *request, struct answer *ret)
{
	const char *headers[] = { s->header, "Content-Type: application/json", NULL };
	*ret = (struct answer){ .body = { .limit = REPLY_LIMIT } };
	request->headers = headers;
	request->reply = &ret->body;
	request->connect_ms = CONNECT_MS;
	request->first_byte_ms = STALL_MS;
	request->stall_ms = STALL_MS;
	return sp_fetch(request, &ret->status);
}

static bool is_passing(long status)
{
	return status >= 500 || status == 408 || status == 409 || status == 429;
}

/* What a refusing reply says: {"error": TEXT}, or its first line. */
static struct sp_error *reason_of(const struct answer *answer)
{
	struct sp_json_reader reader;
	const char *key, *text;
	size_t length, text_length;
	struct sp_error *error = NULL;
	enum sp_error_code code = answer->status == 422 || answer->status == 413 ? SP_ERROR_UNSUPPORTED
	                                                                         : SP_ERROR_PERMISSION;
	sp_json_read_init(&reader, answer->body.bytes ? answer->body.bytes : "", answer->body.size);
	sp_json_read_object(&reader);
	while (sp_json_next_key(&reader, &key, &length)) {
		if (!sp_json_key_is(key, length, "error"))
			sp_json_skip(&reader);
		else if (sp_json_read_string(&reader, &text, &text_length) && !error)
			error = sp_error_create(code, "%.*s", (int)text_length, text);
	}
	sp_json_read_deinit(&reader);
	if (error)
		return error;
	text = answer->body.bytes ? answer->body.bytes : "";
	text_length = 0;
	while (text_length < answer->body.size && text[text_length] != '\n')
		text_length++;
	return sp_error_create(code, "the server says %ld: %.*s", answer->status, (int)text_length, text);
}

static void wait_before(unsigned attempt)
{
	uint64_t ms = (uint64_t)FIRST_WAIT_MS << attempt;
	uint32_t random = 0;
	if (getrandom(&random, sizeof(random), 0) == sizeof(random))
		ms = ms / 2 + random % ms;
	nanosleep(&(struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 }, NULL);
}

/* ---- What is needed ---- */

static const char *name_of(const struct sp_upload_file *file)
{
	const char *slash = strrchr(file->path, '/');
	return file->build_id || !slash ? file->path : slash + 1;
}

static void write_question(const struct sender *s, const size_t *numbers, size_t count, struct sp_json *json)
{
	sp_json_object_begin(json);
	sp_json_key(json, "files");
	sp_json_array_begin(json);
	for (size_t i = 0; i < count; i++) {
		const struct sp_upload_file *file = &s->files->items[numbers[i]];
		sp_json_object_begin(json);
		sp_json_member_string(json, "sha256", file->sha256);
		sp_json_member_int(json, "size", (int64_t)file->size);
		sp_json_member_string(json, "name", name_of(file));
		sp_json_member_string(json, "namespace", s->options->ns);
		if (s->options->ref)
			sp_json_member_string(json, "ref", s->options->ref);
		if (file->build_id)
			sp_json_member_string(json, "buildId", file->build_id);
		sp_json_object_end(json);
	}
	sp_json_array_end(json);
	sp_json_object_end(json);
}

/* One file's part of the answer. */
static void read_action(struct sender *s, size_t number, struct sp_json_reader *reader)
{
	struct sp_upload_file *file = &s->files->items[number];
	const char *key, *text;
	size_t length, text_length;
	sp_json_read_object(reader);
	while (sp_json_next_key(reader, &key, &length)) {
		if (sp_json_key_is(key, length, "action")) {
			if (!sp_json_read_string(reader, &text, &text_length))
				break;
			file->result = sp_json_key_is(text, text_length, "skip")     ? SP_UPLOAD_THERE
			               : sp_json_key_is(text, text_length, "upload") ? SP_UPLOAD_PENDING
			                                                             : SP_UPLOAD_REFUSED;
		} else if (sp_json_key_is(key, length, "reason")) {
			if (sp_json_read_string(reader, &text, &text_length) && !file->reason)
				file->reason = strndup(text, text_length);
		} else if (sp_json_key_is(key, length, "offset")) {
			sp_json_read_u64(reader, &s->offsets[number]);
		} else {
			sp_json_skip(reader);
		}
	}
}

static struct sp_error *read_actions(struct sender *s, const size_t *numbers, size_t count, const struct answer *answer)
{
	struct sp_json_reader reader;
	const char *key;
	size_t length, at = 0;
	sp_json_read_init(&reader, answer->body.bytes, answer->body.size);
	sp_json_read_object(&reader);
	while (sp_json_next_key(&reader, &key, &length)) {
		if (!sp_json_key_is(key, length, "files")) {
			sp_json_skip(&reader);
			continue;
		}
		sp_json_read_array(&reader);
		while (sp_json_next_item(&reader)) {
			if (at == count)
				sp_json_read_fail(&reader, "more files than were asked for");
			else
				read_action(s, numbers[at++], &reader);
		}
	}
	struct sp_error *error = sp_json_read_finish(&reader);
	sp_json_read_deinit(&reader);
	if (!error && at != count)
		error = sp_error_create(SP_ERROR_FORMAT, "fewer files than were asked for");
	return error ? sp_error_prefix(error, "%s answers strangely: is it a server of sp?", s->options->url) : NULL;
}

/* Asks about some files; tries again while that may help. */
static struct sp_error *check(struct sender *s, const size_t *numbers, size_t count, unsigned tries)
{
	struct sp_buffer question = { 0 };
	struct sp_json json;
	char *url = NULL;
	sp_json_init(&json, sp_buffer_write, &question);
	write_question(s, numbers, count, &json);
	struct sp_error *error = sp_json_finish(&json);
	if (!error && asprintf(&url, "%.*s/v1/uploads:check", s->url_length, s->options->url) < 0)
		error = sp_error_no_memory();
	for (unsigned attempt = 0; !error; attempt++) {
		struct sp_fetch_request request = { .url = url, .post = question.bytes, .post_size = question.size };
		struct answer answer;
		error = ask(s, &request, &answer);
		bool again = attempt + 1 < tries &&
		             (error ? error->code == SP_ERROR_SYSTEM : is_passing(answer.status));
		if (!error && !again)
			error = answer.status == 200 ? read_actions(s, numbers, count, &answer) : reason_of(&answer);
		answer_deinit(&answer);
		if (!again)
			break;
		sp_error_destroy(error);
		error = NULL;
		wait_before(attempt);
	}
	free(url);
	free(question.bytes);
	return error;
}

/* Asks about all that is not done. */
static struct sp_error *check_all(struct sender *s)
{
	size_t numbers[BATCH], count = 0;
	struct sp_error *error = NULL;
	for (size_t i = 0; i < s->files->count && !error; i++) {
		if (s->files->items[i].result == SP_UPLOAD_PENDING)
			numbers[count++] = i;
		if (count == BATCH || (count && i + 1 == s->files->count)) {
			error = check(s, numbers, count, TRIES);
			count = 0;
		}
	}
	return error;
}

/* Headers are the sources of many binaries: their bytes are sent once. */
static bool find_repeated(struct sender *s)
{
	struct sp_map seen = { 0 };
	bool ok = true;
	for (size_t i = 0; i < s->files->count && ok; i++) {
		const struct sp_upload_file *file = &s->files->items[i];
		uint64_t key = sp_hash_bytes(file->sha256, sizeof(file->sha256));
		if (file->result != SP_UPLOAD_PENDING)
			continue;
		s->later[i] = sp_map_get(&seen, key) != NULL;
		ok = s->later[i] || sp_map_put(&seen, key, i);
	}
	sp_map_deinit(&seen);
	return ok;
}

/* ---- Sending ---- */

static struct sp_error *add_parameter(struct sp_buffer *url, const char *name, const char *value)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/";
	struct sp_error *error = sp_buffer_write(url, name, strlen(name));
	for (; *value && !error; value++) {
		char text[4];
		int length = snprintf(text, sizeof(text), strchr(plain, *value) ? "%c" : "%%%02X",
		                      (unsigned char)*value);
		error = sp_buffer_write(url, text, (size_t)length);
	}
	return error;
}

static struct sp_error *make_url(const struct sender *s, const struct sp_upload_file *file, uint64_t offset,
                                 struct sp_buffer *ret)
{
	char *base;
	int length = asprintf(&base, "%.*s/v1/uploads/%s?offset=%llu", s->url_length, s->options->url, file->sha256,
	                      (unsigned long long)offset);
	if (length < 0)
		return sp_error_no_memory();
	struct sp_error *error = sp_buffer_write(ret, base, (size_t)length);
	free(base);
	if (!error)
		error = add_parameter(ret, "&name=", name_of(file));
	if (!error)
		error = add_parameter(ret, "&namespace=", s->options->ns);
	if (!error && s->options->ref)
		error = add_parameter(ret, "&ref=", s->options->ref);
	if (!error && file->build_id)
		error = add_parameter(ret, "&buildId=", file->build_id);
	return error ? error : sp_buffer_write(ret, "", 1);
}

/* A transfer's share in the progress of all. */
struct share {
	struct sender *sender;
	uint64_t counted;
};

static bool count_bytes(void *context, uint64_t done, uint64_t total)
{
	struct share *share = context;
	struct sender *s = share->sender;
	(void)total;
	if (done > share->counted) {
		uint64_t all = atomic_fetch_add(&s->done, done - share->counted) + done - share->counted;
		share->counted = done;
		if (s->options->progress)
			s->options->progress(s->options->context, all, s->total);
	}
	return true;
}

static struct sp_error *put(struct sender *s, size_t number, struct share *share, struct answer *ret)
{
	const struct sp_upload_file *file = &s->files->items[number];
	struct sp_buffer url = { 0 };
	uint64_t offset = s->offsets[number];
	*ret = (struct answer){ 0 };
	int fd = open(file->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return sp_error_create(SP_ERROR_NOT_FOUND, "%s", strerror(errno));
	struct sp_error *error = make_url(s, file, offset, &url);
	if (!error) {
		struct sp_fetch_request request = { .url = url.bytes,
			                            .put = true,
			                            .put_fd = fd,
			                            .put_offset = offset,
			                            .put_size = file->size - offset,
			                            .progress = count_bytes,
			                            .context = share };
		error = ask(s, &request, ret);
	}
	free(url.bytes);
	close(fd);
	return error;
}

/* Takes the bytes of a broken transfer back and asks how far it came. */
static struct sp_error *look_again(struct sender *s, size_t number, struct share *share, unsigned attempt)
{
	atomic_fetch_sub(&s->done, share->counted);
	share->counted = 0;
	wait_before(attempt);
	return check(s, &number, 1, TRIES - attempt);
}

static void send_file(struct sender *s, size_t number)
{
	struct sp_upload_file *file = &s->files->items[number];
	struct share share = { .sender = s };
	struct sp_error *error = NULL;
	for (unsigned attempt = 0; file->result == SP_UPLOAD_PENDING && !error; attempt++) {
		struct answer answer;
		error = put(s, number, &share, &answer);
		bool again = attempt + 1 < TRIES &&
		             (error ? error->code == SP_ERROR_SYSTEM : is_passing(answer.status));
		if (!error && (answer.status == 201 || answer.status == 200))
			file->result = answer.status == 201 ? SP_UPLOAD_SENT : SP_UPLOAD_THERE;
		else if (!error && !again)
			error = reason_of(&answer);
		answer_deinit(&answer);
		if (again) {
			sp_error_destroy(error);
			error = look_again(s, number, &share, attempt);
		}
	}
	if (!error)
		return;
	file->result = error->code == SP_ERROR_UNSUPPORTED ? SP_UPLOAD_REFUSED : SP_UPLOAD_FAILED;
	free(file->reason);
	file->reason = strdup(error->message);
	sp_error_destroy(error);
}

static void *send_files(void *context)
{
	struct sender *s = context;
	for (;;) {
		size_t number = atomic_fetch_add(&s->next, 1);
		if (number >= s->files->count)
			return NULL;
		if (s->files->items[number].result == SP_UPLOAD_PENDING && !s->later[number])
			send_file(s, number);
	}
}

static void send_all(struct sender *s)
{
	pthread_t threads[SENDERS];
	unsigned started = 0;
	atomic_store(&s->next, 0);
	for (size_t i = 0; i < s->files->count; i++) {
		if (s->offsets[i] > s->files->items[i].size)
			s->offsets[i] = 0;
		if (s->files->items[i].result == SP_UPLOAD_PENDING && !s->later[i])
			s->total += s->files->items[i].size - s->offsets[i];
	}
	while (started < SENDERS && s->total && pthread_create(&threads[started], NULL, send_files, s) == 0)
		started++;
	send_files(s);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

/* What is needed first, then those that wait for others' bytes. */
static struct sp_error *check_and_send(struct sender *s)
{
	struct sp_error *error = check_all(s);
	if (error)
		return error;
	if (!find_repeated(s))
		return sp_error_no_memory();
	send_all(s);
	memset(s->later, 0, s->files->count * sizeof(*s->later));
	error = check_all(s);
	if (!error)
		send_all(s);
	return error;
}

struct sp_error *sp_upload_send(const struct sp_upload_options *options, sp_upload_files *files)
{
	struct sender s = { .options = options, .files = files };
	struct sp_error *error = NULL;
	s.url_length = (int)strlen(options->url);
	while (s.url_length && options->url[s.url_length - 1] == '/')
		s.url_length--;
	s.offsets = calloc(files->count + 1, sizeof(*s.offsets));
	s.later = calloc(files->count + 1, sizeof(*s.later));
	if (!s.offsets || !s.later || asprintf(&s.header, "Authorization: Bearer %s", options->token) < 0) {
		s.header = NULL;
		error = sp_error_no_memory();
	}
	if (!error)
		error = check_and_send(&s);
	free(s.header);
	free(s.offsets);
	free(s.later);
	return error;
}
