/* A pipeline with scripted streams that records into a folder of the test's own, and reads back what it wrote. */
#ifndef SP_TESTS_PIPELINE_SETUP_H
#define SP_TESTS_PIPELINE_SETUP_H

#include "fake_capture.h"

#define MS 1000000u
#define SEC 1000000000u
#define ROOT 100

static char folder[] = "/tmp/sp-test-pipeline-XXXXXX";
static char path[64];

/* What a test works with. */
struct setup {
	struct fake_stream a, b, c;
	struct sp_backend backend;
	struct sp_pipeline_options options;
	struct sp_recording_writer *writer;
	struct sp_pipeline *pipeline;
	struct text text; /* the recording, after finish() */
};

static const struct sp_source source = { .name = "cycles", .unit = "cycles", .rate = 1000 };

static inline struct setup *start(const struct sp_pipeline_options *change)
{
	struct setup *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	fake_init(&s->a);
	fake_init(&s->b);
	fake_init(&s->c);
	fake_backend_init(&s->backend);
	if (!s->writer)
		ok(sp_recording_writer_create(path, &s->writer));
	s->options = (struct sp_pipeline_options){ .sources = &source,
		                                   .source_count = 1,
		                                   .interval_ns = MS,
		                                   .kernel_sampled = true,
		                                   .whole_system = true,
		                                   .root_pid = ROOT };
	if (change)
		s->options = *change;
	s->options.recording = s->writer;
	if (s->options.ops)
		s->options.backend = &s->backend;
	ok(sp_pipeline_create(&s->options, &s->pipeline));
	ok(sp_pipeline_add_stream(s->pipeline, &s->a.stream));
	ok(sp_pipeline_add_stream(s->pipeline, &s->b.stream));
	ok(sp_pipeline_add_stream(s->pipeline, &s->c.stream));
	return s;
}

static inline void read_back(struct text *text)
{
	struct sp_recording_reader *reader;
	struct sp_record record;
	bool more;
	text->size = 0;
	text->bytes[0] = '\0';
	ok(sp_recording_reader_create(path, &reader));
	for (;;) {
		ok(sp_recording_read(reader, &record, &more));
		if (!more)
			break;
		/* Clock times differ from run to run. */
		if (record.type != SP_RECORD_CLOCK && record.type != SP_RECORD_SOURCE)
			render(text, &record, reader);
	}
	sp_recording_reader_destroy(reader);
}

/* Ends the recording and reads it back; every event must have been given back by then. */
static inline void finish(struct setup *s, uint64_t end_time)
{
	ok(sp_pipeline_finish(s->pipeline, end_time));
	assert_int_equal(s->a.released, s->a.count);
	assert_int_equal(s->b.released, s->b.count);
	assert_int_equal(s->c.released, s->c.count);
	ok(sp_recording_flush(s->writer));
	read_back(&s->text);
}

static inline void stop(struct setup *s)
{
	sp_pipeline_destroy(s->pipeline);
	ok(sp_recording_writer_finish(s->writer));
	free(s);
}

/* The lines of the recording that begin with `start`, or contain it when it begins with '*'. */
static inline void expect(struct setup *s, const char *start, const char *expected)
{
	static struct text found;
	found.size = 0;
	found.bytes[0] = '\0';
	for (const char *line = s->text.bytes, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		char copy[1024];
		snprintf(copy, sizeof(copy), "%.*s", (int)(end - line), line);
		if (start[0] == '*' ? strstr(copy, start + 1) != NULL : !strncmp(copy, start, strlen(start)))
			say(&found, "%s\n", copy);
	}
	assert_string_equal(found.bytes, expected);
}

static inline struct sp_pipeline_counts counts(struct setup *s)
{
	struct sp_pipeline_counts counts;
	sp_pipeline_counts(s->pipeline, &counts);
	return counts;
}

static inline int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/recording", folder);
	return 0;
}

static inline int remove_folder(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

#endif
