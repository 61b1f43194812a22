/* See etl_schema.h. Formats: TraceLoggingProvider.h and tdh.h of the Windows SDK. */
#include "platform/windows/etl_schema.h"

#include <inttypes.h>
#include <stdio.h>

/* Both kinds of schema have the same numbers for the types of values. */
enum {
	IN_NULL = 0,
	IN_WIDE = 1,
	IN_NARROW = 2,
	IN_INT8 = 3,
	IN_UINT8 = 4,
	IN_INT16 = 5,
	IN_UINT16 = 6,
	IN_INT32 = 7,
	IN_UINT32 = 8,
	IN_INT64 = 9,
	IN_UINT64 = 10,
	IN_FLOAT = 11,
	IN_DOUBLE = 12,
	IN_BOOL = 13,
	IN_BINARY = 14,
	IN_GUID = 15,
	IN_POINTER = 16,
	IN_FILETIME = 17,
	IN_SYSTEMTIME = 18,
	IN_SID = 19,
	IN_HEX32 = 20,
	IN_HEX64 = 21,
	IN_COUNTED_WIDE = 22,
	IN_COUNTED_NARROW = 23,
	IN_STRUCT = 24,
	IN_COUNTED_BINARY = 25,
};
#define DEPTH_MAX 8
#define STEPS_MAX 16384

struct decoder {
	struct sp_cursor c; /* over the payload */
	uint8_t pointer_size;
	sp_etl_field_fn give;
	void *context;
	unsigned given, steps;
	bool stopped;
};

/* Schemas may claim arrays of arrays of nothing: each turn counts. */
static bool go_on(struct decoder *decoder)
{
	if (decoder->steps++ >= STEPS_MAX)
		decoder->stopped = true;
	return !decoder->stopped;
}

static void give(struct decoder *decoder, struct sp_etl_field *field)
{
	if (decoder->stopped || decoder->given++ >= SP_ETL_FIELDS_MAX || !decoder->give(decoder->context, field))
		decoder->stopped = true;
}

/* ---- Values ---- */

static void hex(const uint8_t *bytes, size_t count, char *out, size_t size)
{
	size_t at = 0;
	for (size_t i = 0; i < count && at + 3 < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%02x", bytes[i]);
}

static void read_bytes(struct sp_cursor *c, uint32_t count, char *text)
{
	const uint8_t *bytes = sp_cursor_bytes(c, count);
	if (bytes)
		hex(bytes, count, text, SP_ETL_FIELD_TEXT);
}

static void read_counted(struct sp_cursor *c, bool wide, uint32_t size, char *text)
{
	struct sp_etl_text counted = { .bytes = sp_cursor_bytes(c, size), .size = size, .wide = wide };
	sp_etl_text_utf8(&counted, text, SP_ETL_FIELD_TEXT);
}

static void read_guid(struct sp_cursor *c, char *text)
{
	const uint8_t *g = sp_cursor_bytes(c, SP_GUID_SIZE);
	if (g)
		snprintf(text, SP_ETL_FIELD_TEXT,
		         "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", g[3], g[2], g[1], g[0],
		         g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
}

static void read_integer(struct sp_cursor *c, unsigned size, bool is_signed, bool hexadecimal,
                         struct sp_etl_field *field, char *text)
{
	uint64_t value = sp_cursor_uint(c, size);
	field->is_number = true;
	if (is_signed && size < 8)
		value = (uint64_t)((int64_t)(value << (64 - 8 * size)) >> (64 - 8 * size));
	field->number = value;
	if (hexadecimal)
		snprintf(text, SP_ETL_FIELD_TEXT, "0x%" PRIx64, value);
	else if (is_signed)
		snprintf(text, SP_ETL_FIELD_TEXT, "%" PRId64, (int64_t)value);
	else
		snprintf(text, SP_ETL_FIELD_TEXT, "%" PRIu64, value);
}

static void read_float(struct sp_cursor *c, unsigned size, char *text)
{
	double wide = 0;
	float narrow = 0;
	const uint8_t *bytes = sp_cursor_bytes(c, size);
	if (bytes && size == 8)
		memcpy(&wide, bytes, 8);
	else if (bytes)
		memcpy(&narrow, bytes, 4);
	snprintf(text, SP_ETL_FIELD_TEXT, "%g", size == 8 ? wide : (double)narrow);
}

static void read_sid(struct sp_cursor *c, char *text)
{
	struct sp_cursor start = *c;
	sp_cursor_skip(c, 1);
	uint8_t count = sp_cursor_u8(c);
	uint32_t size = 8 + 4u * count;
	read_bytes(&start, size, text);
	*c = start;
}

static void read_string(struct sp_cursor *c, bool wide, char *text)
{
	struct sp_etl_text string = wide ? sp_etl_wide_text(c) : sp_etl_narrow_text(c);
	sp_etl_text_utf8(&string, text, SP_ETL_FIELD_TEXT);
}

/* Reads one value; `length` is what a manifest says of strings (characters) and binaries (bytes), 0 = nothing. False
 * for a type that is not known: nothing behind it can be read. */
static bool read_value(struct decoder *decoder, unsigned type, uint32_t length, struct sp_etl_field *field, char *text)
{
	struct sp_cursor *c = &decoder->c;
	text[0] = '\0';
	switch (type) {
	case IN_NULL:
		return true;
	case IN_WIDE:
	case IN_NARROW:
		if (length)
			read_counted(c, type == IN_WIDE, type == IN_WIDE ? length * 2 : length, text);
		else
			read_string(c, type == IN_WIDE, text);
		break;
	case IN_INT8:
	case IN_UINT8:
		read_integer(c, 1, type == IN_INT8, false, field, text);
		break;
	case IN_INT16:
	case IN_UINT16:
		read_integer(c, 2, type == IN_INT16, false, field, text);
		break;
	case IN_INT32:
	case IN_UINT32:
		read_integer(c, 4, type == IN_INT32, false, field, text);
		break;
	case IN_INT64:
	case IN_UINT64:
	case IN_FILETIME:
		read_integer(c, 8, type == IN_INT64, false, field, text);
		break;
	case IN_FLOAT:
	case IN_DOUBLE:
		read_float(c, type == IN_FLOAT ? 4 : 8, text);
		break;
	case IN_BOOL:
		read_integer(c, 4, false, false, field, text);
		snprintf(text, SP_ETL_FIELD_TEXT, "%s", field->number ? "true" : "false");
		break;
	case IN_GUID:
		read_guid(c, text);
		break;
	case IN_POINTER:
		read_integer(c, decoder->pointer_size, false, true, field, text);
		break;
	case IN_HEX32:
	case IN_HEX64:
		read_integer(c, type == IN_HEX32 ? 4 : 8, false, true, field, text);
		break;
	case IN_SYSTEMTIME:
		read_bytes(c, 16, text);
		break;
	case IN_SID:
		read_sid(c, text);
		break;
	case IN_BINARY:
		read_bytes(c, length, text);
		break;
	case IN_COUNTED_WIDE:
	case IN_COUNTED_NARROW:
		read_counted(c, type == IN_COUNTED_WIDE, sp_cursor_u16(c), text);
		break;
	case IN_COUNTED_BINARY:
		read_bytes(c, sp_cursor_u16(c), text);
		break;
	default:
		return false;
	}
	return !c->bad;
}

/* ---- TraceLogging ---- */

const uint8_t *sp_etl_schema_of(const struct sp_etl_event *event, uint32_t *ret_size)
{
	const uint8_t *data;
	uint32_t offset = 0, size;
	for (uint16_t type; event->extended && (type = sp_etl_next_item(event, &offset, &data, &size));) {
		if (type != SP_ETL_ITEM_SCHEMA)
			continue;
		*ret_size = size;
		return data;
	}
	*ret_size = 0;
	return NULL;
}

void sp_etl_traits_name(const struct sp_etl_event *event, char *out, size_t size)
{
	const uint8_t *data;
	uint32_t offset = 0, data_size;
	out[0] = '\0';
	for (uint16_t type; event->extended && (type = sp_etl_next_item(event, &offset, &data, &data_size));) {
		if (type != SP_ETL_ITEM_TRAITS || data_size < 3)
			continue;
		struct sp_cursor c = sp_cursor_init(data + 2, data_size - 2);
		struct sp_etl_text name = sp_etl_narrow_text(&c);
		sp_etl_text_utf8(&name, out, size);
		return;
	}
}

/* Skips size and tags; what follows is the name. A tag byte with its high bit set has another after it. */
static bool schema_begin(struct sp_cursor *c, char *name, size_t name_size)
{
	uint16_t size = sp_cursor_u16(c);
	if (size >= 2 && size - 2u < sp_cursor_left(c))
		c->end = c->at + (size - 2);
	for (unsigned i = 0; i < 4 && sp_cursor_u8(c) & 0x80; i++)
		;
	struct sp_etl_text text = { .bytes = c->at };
	const char *string = sp_cursor_string(c);
	text.size = (uint32_t)strlen(string);
	sp_etl_text_utf8(&text, name, name_size);
	return !c->bad;
}

void sp_etl_schema_name(const struct sp_etl_event *event, char *out, size_t size)
{
	uint32_t schema_size;
	const uint8_t *schema = sp_etl_schema_of(event, &schema_size);
	struct sp_cursor c = sp_cursor_init(schema, schema_size);
	out[0] = '\0';
	if (schema)
		schema_begin(&c, out, size);
}

/* A field of a TraceLogging schema. */
struct tlg_field {
	char name[64];
	unsigned type;
	bool counted;         /* a u16 count stands before the values */
	uint32_t fixed_count; /* of values; 1 = one */
	uint32_t members;     /* of a struct: how many of the next fields belong to it */
};

static bool tlg_next(struct sp_cursor *schema, struct tlg_field *ret)
{
	if (!sp_cursor_left(schema))
		return false;
	struct sp_etl_text text = { .bytes = schema->at };
	text.size = (uint32_t)strlen(sp_cursor_string(schema));
	if (schema->bad)
		return false;
	sp_etl_text_utf8(&text, ret->name, sizeof(ret->name));
	uint8_t in = sp_cursor_u8(schema), out = 0;
	if (in & 0x80) {
		out = sp_cursor_u8(schema);
		if (out & 0x80)
			for (unsigned i = 0; i < 4 && sp_cursor_u8(schema) & 0x80; i++)
				;
	}
	ret->type = in & 0x1f;
	ret->counted = (in & 0x60) == 0x40;
	ret->fixed_count = 1;
	if ((in & 0x60) == 0x20)
		ret->fixed_count = sp_cursor_u16(schema);
	if ((in & 0x60) == 0x60) { /* a type of its own, described by that many bytes: unknown here */
		sp_cursor_skip(schema, sp_cursor_u16(schema));
		return false;
	}
	ret->members = ret->type == IN_STRUCT ? out & 0x7f : 0;
	return !schema->bad;
}

static bool tlg_value(struct decoder *decoder, const struct tlg_field *tlg)
{
	char text[SP_ETL_FIELD_TEXT];
	struct sp_etl_field field = { .name = tlg->name, .text = text };
	unsigned type = tlg->type;
	if (type == IN_BINARY)
		type = IN_COUNTED_BINARY;
	if (!read_value(decoder, type, 0, &field, text))
		return false;
	give(decoder, &field);
	return true;
}

/* Decodes `count` fields of the schema (all that are left for UINT32_MAX). */
static bool tlg_fields(struct decoder *decoder, struct sp_cursor *schema, uint32_t count, unsigned depth)
{
	struct tlg_field field;
	for (uint32_t i = 0; i < count && sp_cursor_left(schema) && go_on(decoder); i++) {
		if (depth > DEPTH_MAX || !tlg_next(schema, &field))
			return false;
		uint32_t values = field.counted ? sp_cursor_u16(&decoder->c) : field.fixed_count;
		struct sp_cursor members = *schema;
		for (uint32_t j = 0; j < values && go_on(decoder); j++) {
			*schema = members;
			if (field.type == IN_STRUCT ? !tlg_fields(decoder, schema, field.members, depth + 1)
			                            : !tlg_value(decoder, &field))
				return false;
		}
		if (!values && field.type == IN_STRUCT) /* none: its members' descriptions must be passed */
			for (uint32_t j = 0; j < field.members; j++)
				if (!tlg_next(schema, &field))
					return false;
	}
	return true;
}

bool sp_etl_schema_decode(const uint8_t *schema, size_t schema_size, const uint8_t *payload, size_t payload_size,
                          uint8_t pointer_size, char *name_out, size_t name_size, sp_etl_field_fn give_fn,
                          void *context)
{
	struct sp_cursor c = sp_cursor_init(schema, schema_size);
	struct decoder decoder = { .c = sp_cursor_init(payload, payload_size),
		                   .pointer_size = pointer_size,
		                   .give = give_fn,
		                   .context = context };
	name_out[0] = '\0';
	return schema_begin(&c, name_out, name_size) && tlg_fields(&decoder, &c, UINT32_MAX, 0);
}

/* ---- TRACE_EVENT_INFO ---- */

#define INFO_HEADER 0x70
#define PROPERTY_SIZE 24
#define PROPERTIES_MAX 512
enum { PROPERTY_STRUCT = 1, PROPERTY_PARAM_LENGTH = 2, PROPERTY_PARAM_COUNT = 4 };

static struct sp_etl_text info_text(const uint8_t *info, size_t size, uint32_t offset)
{
	struct sp_cursor c = sp_cursor_init(info, size);
	if (!offset || offset >= size)
		return (struct sp_etl_text){ 0 };
	sp_cursor_seek(&c, offset);
	struct sp_etl_text text = sp_etl_wide_text(&c);
	while (text.size >= 2 && text.bytes[text.size - 2] == ' ' && !text.bytes[text.size - 1])
		text.size -= 2; /* message texts end in a blank */
	return text;
}

bool sp_etl_info_parse(const uint8_t *info, size_t size, struct sp_etl_event_info *ret)
{
	struct sp_cursor c = sp_cursor_init(info, size);
	if (size < INFO_HEADER)
		return false;
	*ret = (struct sp_etl_event_info){ .provider = sp_cursor_bytes(&c, SP_GUID_SIZE) };
	sp_cursor_skip(&c, SP_GUID_SIZE);
	ret->id = sp_cursor_u16(&c);
	ret->version = sp_cursor_u8(&c);
	sp_cursor_skip(&c, 2);
	ret->opcode = sp_cursor_u8(&c);
	ret->task = sp_cursor_u16(&c);
	sp_cursor_seek(&c, 0x34);
	ret->provider_name = info_text(info, size, sp_cursor_u32(&c));
	sp_cursor_seek(&c, 0x44);
	ret->task_name = info_text(info, size, sp_cursor_u32(&c));
	ret->opcode_name = info_text(info, size, sp_cursor_u32(&c));
	sp_cursor_seek(&c, 0x5c);
	ret->event_name = info_text(info, size, sp_cursor_u32(&c));
	return !c.bad;
}

struct properties {
	const uint8_t *info;
	size_t size;
	uint32_t count;
	uint32_t *values; /* of the integers read so far, for lengths and counts */
};

struct property {
	uint32_t flags, name;
	uint16_t in_type, first_member, member_count, count, length;
};

static bool read_property(const struct properties *properties, uint32_t index, struct property *ret)
{
	struct sp_cursor c = sp_cursor_init(properties->info, properties->size);
	sp_cursor_seek(&c, INFO_HEADER + (uint64_t)index * PROPERTY_SIZE);
	ret->flags = sp_cursor_u32(&c);
	ret->name = sp_cursor_u32(&c);
	ret->in_type = ret->first_member = sp_cursor_u16(&c);
	ret->member_count = sp_cursor_u16(&c);
	sp_cursor_skip(&c, 4);
	ret->count = sp_cursor_u16(&c);
	ret->length = sp_cursor_u16(&c);
	return !c.bad && index < properties->count;
}

static uint32_t value_of(const struct properties *properties, uint16_t index)
{
	return index < properties->count ? properties->values[index] : 0;
}

static bool decode_property(struct decoder *decoder, const struct properties *properties, uint32_t index,
                            unsigned depth)
{
	struct property property;
	char name[64], text[SP_ETL_FIELD_TEXT];
	if (depth > DEPTH_MAX || !read_property(properties, index, &property))
		return false;
	uint32_t count = property.flags & PROPERTY_PARAM_COUNT ? value_of(properties, property.count) : property.count;
	uint32_t length = property.flags & PROPERTY_PARAM_LENGTH ? value_of(properties, property.length)
	                                                         : property.length;
	if (!count && !(property.flags & PROPERTY_PARAM_COUNT))
		count = 1;
	/* Of other types it only repeats the size. */
	if (property.in_type != IN_WIDE && property.in_type != IN_NARROW && property.in_type != IN_BINARY)
		length = 0;
	struct sp_etl_text label = info_text(properties->info, properties->size, property.name);
	sp_etl_text_utf8(&label, name, sizeof(name));
	for (uint32_t i = 0; i < count && go_on(decoder); i++) {
		if (property.flags & PROPERTY_STRUCT) {
			for (uint32_t j = 0; j < property.member_count; j++)
				if (!decode_property(decoder, properties, property.first_member + j, depth + 1))
					return false;
			continue;
		}
		struct sp_etl_field field = { .name = name, .text = text };
		if (!read_value(decoder, property.in_type, length, &field, text))
			return false;
		properties->values[index] = field.is_number && field.number <= UINT32_MAX ? (uint32_t)field.number : 0;
		give(decoder, &field);
	}
	return true;
}

bool sp_etl_info_decode(const uint8_t *info, size_t info_size, const uint8_t *payload, size_t payload_size,
                        uint8_t pointer_size, sp_etl_field_fn give_fn, void *context)
{
	uint32_t values[PROPERTIES_MAX] = { 0 };
	struct properties properties = { .info = info, .size = info_size, .values = values };
	struct decoder decoder = { .c = sp_cursor_init(payload, payload_size),
		                   .pointer_size = pointer_size,
		                   .give = give_fn,
		                   .context = context };
	struct sp_cursor c = sp_cursor_init(info, info_size);
	sp_cursor_seek(&c, 0x64);
	properties.count = sp_cursor_u32(&c);
	uint32_t top = sp_cursor_u32(&c);
	if (c.bad || properties.count > PROPERTIES_MAX || top > properties.count)
		return false;
	for (uint32_t i = 0; i < top && !decoder.stopped; i++)
		if (!decode_property(&decoder, &properties, i, 0))
			return false;
	return true;
}
