/* The parts of the profile's text, each written by one function; see write.c for the whole. */
#ifndef SP_SAMPLER_OUTPUT_WRITE_H
#define SP_SAMPLER_OUTPUT_WRITE_H

#include "common/json.h"
#include "sampler/output/layout.h"

/* write_meta.c */
void sp_write_meta(struct sp_json *json, const struct sp_layout *layout);
/* write_threads.c */
struct sp_error *sp_write_threads(struct sp_json *json, struct sp_layout *layout);
void sp_write_counters(struct sp_json *json, struct sp_layout *layout);
/* write_markers.c: the thread's member "markers". *ret_any: there are some. */
struct sp_error *sp_write_markers(struct sp_json *json, struct sp_layout *layout, uint32_t thread, bool *ret_any);
void sp_write_marker_schemas(struct sp_json *json);
/* write_tables.c */
void sp_write_libs(struct sp_json *json, const struct sp_layout *layout);
/* `gzip`: the sink behind `json`, NULL when that is another one. */
void sp_write_shared(struct sp_json *json, const struct sp_layout *layout, struct sp_gzip *gzip);

/* How losses are called in markers and the info panel. */
const char *sp_loss_name(uint8_t kind);

/* A time as ms since the profile's start. */
static inline void sp_write_time(struct sp_json *json, const struct sp_layout *layout, uint64_t time)
{
	uint64_t since = time > layout->zero ? time - layout->zero : 0;
	sp_json_ns_as_ms(json, since < INT64_MAX ? (int64_t)since : INT64_MAX);
}

#endif
