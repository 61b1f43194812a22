/* Headers of ETL records. Offsets are those of the structures in the Windows SDK (SYSTEM_TRACE_HEADER,
 * PERFINFO_TRACE_HEADER, EVENT_TRACE_HEADER, EVENT_HEADER). */
#include "platform/windows/etl_record.h"

#include "common/cursor.h"

static const struct {
	struct sp_guid guid;
	uint8_t group;
} kernel_groups[] = {
	{ SP_GUID(0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0, 0, 0xf8, 0x04, 0x64, 0xe3), SP_ETL_GROUP_TRACE },
	{ SP_GUID(0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0, 0xc0, 0x4f, 0xd7, 0xba, 0x7c), SP_ETL_GROUP_PROCESS },
	{ SP_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0, 0xc0, 0x4f, 0xd7, 0xba, 0x7c), SP_ETL_GROUP_THREAD },
	{ SP_GUID(0x01853a65, 0x418f, 0x4f36, 0xae, 0xfc, 0xdc, 0x0f, 0x1d, 0x2f, 0xd2, 0x35), SP_ETL_GROUP_CONFIG },
	{ SP_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc), SP_ETL_GROUP_PERFINFO },
	{ SP_GUID(0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0, 0xa0, 0xc9, 0x11, 0xf5, 0x18), SP_ETL_GROUP_IMAGE },
	{ SP_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3), SP_ETL_GROUP_STACK },
};

static uint8_t group_of(const uint8_t *guid)
{
	for (size_t i = 0; i < sizeof(kernel_groups) / sizeof(kernel_groups[0]); i++)
		if (sp_guid_equal(guid, &kernel_groups[i].guid))
			return kernel_groups[i].group;
	return SP_ETL_GROUP_NONE;
}

/* The fields of a fixed header: there are as many bytes as it has. */
static uint16_t load16(const uint8_t *bytes)
{
	uint16_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

static uint32_t load32(const uint8_t *bytes)
{
	uint32_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

static uint64_t load64(const uint8_t *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* SYSTEM, COMPACT and PERFINFO: a version word that also tells of words put in before the payload. */
static bool decode_system(struct sp_cursor *c, struct sp_etl_event *ret)
{
	bool perf = ret->type == SP_ETL_TYPE_PERFINFO32 || ret->type == SP_ETL_TYPE_PERFINFO64;
	bool compact = ret->type == SP_ETL_TYPE_COMPACT32 || ret->type == SP_ETL_TYPE_COMPACT64;
	const uint8_t *h = sp_cursor_bytes(c, perf      ? SP_ETL_SIZE_PERFINFO
	                                      : compact ? SP_ETL_SIZE_COMPACT
	                                                : SP_ETL_SIZE_SYSTEM);
	if (!h)
		return false;
	uint16_t version = load16(h);
	ret->version = (uint8_t)version;
	ret->opcode = h[6];
	ret->group = h[7];
	if (!perf) {
		ret->tid = load32(h + 8);
		ret->pid = load32(h + 0xc);
	}
	ret->time = load64(h + (perf ? 8 : 0x10));
	ret->counters = (uint8_t)((version >> 8 & 7) + (version >> 15 & 1));
	if (ret->counters)
		sp_cursor_skip(c, 8u * ret->counters);
	if (ret->group == SP_ETL_GROUP_PROCESS && ret->opcode == SP_ETL_IMAGE_LOAD)
		ret->group = SP_ETL_GROUP_IMAGE; /* so the kernel writes it */
	return !c->bad;
}

static bool decode_full(struct sp_cursor *c, struct sp_etl_event *ret)
{
	const uint8_t *h = sp_cursor_bytes(c, SP_ETL_SIZE_FULL);
	if (!h)
		return false;
	ret->opcode = h[4];
	ret->level = h[5];
	ret->version = (uint8_t)load16(h + 6);
	ret->tid = load32(h + 8);
	ret->pid = load32(h + 0xc);
	ret->time = load64(h + 0x10);
	ret->guid = h + 0x18;
	ret->pointer_size = ret->type == SP_ETL_TYPE_FULL32 ? 4 : 8;
	ret->group = group_of(ret->guid);
	if (ret->group == SP_ETL_GROUP_PROCESS && ret->opcode == SP_ETL_IMAGE_LOAD)
		ret->group = SP_ETL_GROUP_IMAGE;
	return true;
}

/* The items' sizes must be walked to find the payload. */
static bool skip_items(struct sp_cursor *c, struct sp_etl_event *ret)
{
	ret->extended = c->at;
	bool more = true;
	while (more) {
		uint16_t size = sp_cursor_u16(c);
		sp_cursor_skip(c, 2);
		more = sp_cursor_u16(c) & 1;
		sp_cursor_skip(c, 2);
		if (size < 8 || c->bad)
			return false;
		size = (uint16_t)(size - 8);
		if ((size_t)((size + 7) & ~7) > sp_cursor_left(c) && size == sp_cursor_left(c))
			sp_cursor_skip(c, size); /* the last one of a record without payload */
		else
			sp_cursor_skip(c, (uint32_t)((size + 7) & ~7));
	}
	ret->extended_size = (uint32_t)(c->at - ret->extended);
	return !c->bad;
}

static bool decode_event(struct sp_cursor *c, struct sp_etl_event *ret)
{
	const uint8_t *h = sp_cursor_bytes(c, SP_ETL_SIZE_EVENT);
	if (!h)
		return false;
	ret->tid = load32(h + 8);
	ret->pid = load32(h + 0xc);
	ret->time = load64(h + 0x10);
	ret->guid = h + 0x18;
	ret->id = load16(h + 0x28);
	ret->version = h[0x2a];
	ret->channel = h[0x2b];
	ret->level = h[0x2c];
	ret->opcode = h[0x2d];
	ret->task = load16(h + 0x2e);
	ret->keyword = load64(h + 0x30);
	ret->pointer_size = ret->type == SP_ETL_TYPE_EVENT32 ? 4 : 8;
	return !(load16(h + 4) & 1) || skip_items(c, ret);
}

enum sp_etl_decoded sp_etl_record_decode(const uint8_t *bytes, size_t left, uint8_t file_pointer_size,
                                         struct sp_etl_event *ret, uint32_t *ret_step)
{
	struct sp_cursor c = sp_cursor_init(bytes, left);
	*ret_step = 0;
	if (left < 8)
		return SP_ETL_ENDED;
	uint32_t marker = sp_cursor_u32(&c), size;
	if (marker == SP_ETL_END || marker == 0)
		return SP_ETL_ENDED;
	uint8_t kind = (uint8_t)(marker >> 24), type = (uint8_t)(marker >> 16);
	bool sized_behind = type == SP_ETL_TYPE_SYSTEM32 || type == SP_ETL_TYPE_SYSTEM64 ||
	                    type == SP_ETL_TYPE_COMPACT32 || type == SP_ETL_TYPE_COMPACT64 ||
	                    type == SP_ETL_TYPE_PERFINFO32 || type == SP_ETL_TYPE_PERFINFO64;
	size = kind == SP_ETL_MARKER_TRACE && sized_behind ? sp_cursor_u16(&c) : marker & 0xffff;
	if ((kind != SP_ETL_MARKER_TRACE && kind != SP_ETL_MARKER_MESSAGE) || size < 8 || size > left)
		return SP_ETL_CORRUPT;
	*ret_step = (size + 7) & ~7u;
	if (*ret_step > left)
		*ret_step = (uint32_t)left;
	if (kind == SP_ETL_MARKER_MESSAGE)
		return SP_ETL_SKIPPED;
	*ret = (struct sp_etl_event){ .type = type,
		                      .group = SP_ETL_GROUP_NONE,
		                      .pointer_size = file_pointer_size,
		                      .pid = SP_ETL_ID_UNKNOWN,
		                      .tid = SP_ETL_ID_UNKNOWN,
		                      .record = bytes,
		                      .record_size = size };
	c = sp_cursor_init(bytes, size);
	bool good;
	if (sized_behind)
		good = decode_system(&c, ret);
	else if (type == SP_ETL_TYPE_FULL32 || type == SP_ETL_TYPE_FULL64)
		good = decode_full(&c, ret);
	else if (type == SP_ETL_TYPE_EVENT32 || type == SP_ETL_TYPE_EVENT64)
		good = decode_event(&c, ret);
	else
		return SP_ETL_SKIPPED;
	if (!good)
		return SP_ETL_SKIPPED; /* its size is known: what follows can be read */
	ret->payload = c.at;
	ret->payload_size = (uint32_t)sp_cursor_left(&c);
	return SP_ETL_EVENT;
}

uint16_t sp_etl_next_item(const struct sp_etl_event *event, uint32_t *offset, const uint8_t **ret_data,
                          uint32_t *ret_size)
{
	struct sp_cursor c = sp_cursor_init(event->extended, event->extended_size);
	sp_cursor_seek(&c, *offset);
	if (sp_cursor_left(&c) < 8)
		return 0;
	uint16_t size = sp_cursor_u16(&c), type = sp_cursor_u16(&c);
	sp_cursor_skip(&c, 2);
	uint16_t data_size = sp_cursor_u16(&c);
	if (size < 8 || data_size > size - 8)
		data_size = size < 8 ? 0 : (uint16_t)(size - 8);
	*ret_data = sp_cursor_bytes(&c, data_size);
	*ret_size = data_size;
	*offset += 8 + ((size < 8 ? 0 : size - 8u) + 7) / 8 * 8;
	return c.bad || !type ? 0 : type;
}
