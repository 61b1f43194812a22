/* Fields of events that describe themselves: TraceLogging events carry their schema, manifest events have it in
 * TRACE_EVENT_INFO blobs that merging puts into the trace. */
#ifndef SP_PLATFORM_WINDOWS_ETL_SCHEMA_H
#define SP_PLATFORM_WINDOWS_ETL_SCHEMA_H

#include "platform/windows/etl_payload.h"

#define SP_ETL_FIELD_TEXT 256
#define SP_ETL_FIELDS_MAX 256 /* values that are given of one event */

struct sp_etl_field {
	const char *name; /* UTF-8 */
	const char *text; /* its value for people */
	bool is_number;
	uint64_t number; /* of integers, sign-extended, and pointers */
};

/* Called for each field in order, array elements one by one. False stops. */
typedef bool (*sp_etl_field_fn)(void *context, const struct sp_etl_field *field);

/* The name of a TraceLogging event; "" when it is none. */
void sp_etl_schema_name(const struct sp_etl_event *event, char *out, size_t size);
/* The schema item of an event; NULL = none. */
const uint8_t *sp_etl_schema_of(const struct sp_etl_event *event, uint32_t *ret_size);
/* The provider's name in an event's traits; "" = none. */
void sp_etl_traits_name(const struct sp_etl_event *event, char *out, size_t size);

/* Decodes by a TraceLogging schema. *name_out: the event's name. False when schema and payload do not fit; the fields
 * before that were given. */
bool sp_etl_schema_decode(const uint8_t *schema, size_t schema_size, const uint8_t *payload, size_t payload_size,
                          uint8_t pointer_size, char *name_out, size_t name_size, sp_etl_field_fn give, void *context);

/* What a TRACE_EVENT_INFO says of its event. */
struct sp_etl_event_info {
	const uint8_t *provider; /* GUID */
	uint16_t id, task;
	uint8_t version, opcode;
	struct sp_etl_text provider_name, task_name, opcode_name, event_name;
};
bool sp_etl_info_parse(const uint8_t *info, size_t size, struct sp_etl_event_info *ret);
bool sp_etl_info_decode(const uint8_t *info, size_t info_size, const uint8_t *payload, size_t payload_size,
                        uint8_t pointer_size, sp_etl_field_fn give, void *context);

#endif
