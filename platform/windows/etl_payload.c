/* See etl_payload.h. */
#include "platform/windows/etl_payload.h"

const struct sp_guid sp_etl_guid_image_id = SP_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25,
                                                    0x60, 0xde);
const struct sp_guid sp_etl_guid_system = SP_GUID(0x9b79ee91, 0xb5fd, 0x41c0, 0xa2, 0x43, 0x42, 0x48, 0xe2, 0x66, 0xe9,
                                                  0xd0);
const struct sp_guid sp_etl_guid_metadata = SP_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3,
                                                    0x76, 0x71);
const struct sp_guid sp_etl_guid_rt_lost = SP_GUID(0x6a399ae0, 0x4bc6, 0x4de9, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e,
                                                   0x7e);

static struct sp_cursor payload_of(const struct sp_etl_event *event)
{
	return sp_cursor_init(event->payload, event->payload_size);
}

static uint64_t read_pointer(struct sp_cursor *c, const struct sp_etl_event *event)
{
	return event->pointer_size == 8 ? sp_cursor_u64(c) : sp_cursor_u32(c);
}

/* ---- Texts ---- */

/* Rundowns are full of texts, so they are gone through by words of eight bytes: a word with only ASCII characters, none
 * of them the end. */
static bool plain_wide(const uint8_t *bytes, uint64_t *ret)
{
	memcpy(ret, bytes, sizeof(*ret));
	uint64_t ends = (*ret - 0x0001000100010001u) & ~*ret & 0x8000800080008000u;
	return !(ends | (*ret & 0xff80ff80ff80ff80u));
}

static bool plain_narrow(const uint8_t *bytes, uint64_t *ret)
{
	memcpy(ret, bytes, sizeof(*ret));
	uint64_t ends = (*ret - 0x0101010101010101u) & ~*ret;
	return !((ends | *ret) & 0x8080808080808080u);
}

struct sp_etl_text sp_etl_wide_text(struct sp_cursor *c)
{
	struct sp_etl_text text = { .bytes = c->at, .wide = true };
	uint64_t word;
	while (sp_cursor_left(c) >= sizeof(word) && plain_wide(c->at, &word)) {
		sp_cursor_skip(c, sizeof(word));
		text.size += sizeof(word);
	}
	while (sp_cursor_left(c) >= 2) {
		if (!sp_cursor_u16(c))
			return text;
		text.size += 2;
	}
	if (!text.size)
		text.bytes = NULL;
	return text; /* without an end it goes to the payload's */
}

struct sp_etl_text sp_etl_narrow_text(struct sp_cursor *c)
{
	struct sp_etl_text text = { .bytes = c->at };
	const uint8_t *end = sp_cursor_left(c) ? memchr(c->at, 0, sp_cursor_left(c)) : NULL;
	text.size = (uint32_t)(end ? (size_t)(end - c->at) : sp_cursor_left(c));
	sp_cursor_skip(c, (uint64_t)text.size + (end != NULL));
	if (end)
		return text;
	if (!text.size)
		text.bytes = NULL;
	return text;
}

/* Appends a code point; false when it does not fit any more. */
static bool put_utf8(char *out, size_t size, size_t *at, uint32_t code)
{
	static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	unsigned length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	if (*at + length >= size)
		return false;
	for (unsigned i = length - 1; i > 0; i--, code >>= 6)
		out[*at + i] = (char)(0x80 | (code & 0x3f));
	out[*at] = (char)(length == 1 ? code : first[length] | code);
	*at += length;
	return true;
}

static void wide_to_utf8(const struct sp_etl_text *text, char *out, size_t size)
{
	size_t at = 0;
	uint64_t word;
	for (uint32_t i = 0; i + 2 <= text->size; i += 2) {
		while (text->size - i >= sizeof(word) && size - at > 4 && plain_wide(text->bytes + i, &word)) {
			for (unsigned j = 0; j < 4; j++)
				out[at + j] = (char)(word >> 16 * j);
			at += 4;
			i += sizeof(word);
		}
		if (i + 2 > text->size)
			break;
		uint32_t code = (uint32_t)text->bytes[i] | (uint32_t)text->bytes[i + 1] << 8;
		if (code >= 0xd800 && code < 0xe000) {
			uint32_t low = 0;
			if (i + 4 <= text->size)
				low = (uint32_t)text->bytes[i + 2] | (uint32_t)text->bytes[i + 3] << 8;
			bool pair = code < 0xdc00 && low >= 0xdc00 && low < 0xe000;
			code = pair ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
			i += pair ? 2 : 0;
		}
		if (!code || !put_utf8(out, size, &at, code))
			break;
	}
	out[at] = '\0';
}

/* The length of the UTF-8 sequence at `bytes`; 0 when it is none. */
static unsigned utf8_length(const uint8_t *bytes, size_t left)
{
	unsigned length = bytes[0] < 0x80 ? 1 : bytes[0] < 0xc2 ? 0 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
	if (bytes[0] > 0xf4 || length > left)
		return 0;
	for (unsigned i = 1; i < length; i++)
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
	if (length == 3 && ((bytes[0] == 0xe0 && bytes[1] < 0xa0) || (bytes[0] == 0xed && bytes[1] > 0x9f)))
		return 0;
	if (length == 4 && ((bytes[0] == 0xf0 && bytes[1] < 0x90) || (bytes[0] == 0xf4 && bytes[1] > 0x8f)))
		return 0;
	return length;
}

void sp_etl_text_utf8(const struct sp_etl_text *text, char *out, size_t size)
{
	size_t at = 0;
	uint64_t word;
	out[0] = '\0';
	if (!text->bytes)
		return;
	if (text->wide) {
		wide_to_utf8(text, out, size);
		return;
	}
	for (uint32_t i = 0; i < text->size && text->bytes[i];) {
		if (text->size - i >= sizeof(word) && size - at > sizeof(word) &&
		    plain_narrow(text->bytes + i, &word)) {
			memcpy(out + at, &word, sizeof(word));
			at += sizeof(word);
			i += sizeof(word);
			continue;
		}
		unsigned length = utf8_length(text->bytes + i, text->size - i);
		if (length) {
			if (at + length >= size)
				break;
			memcpy(out + at, text->bytes + i, length);
			at += length;
			i += length;
		} else if (!put_utf8(out, size, &at, text->bytes[i++])) {
			break;
		}
	}
	out[at] = '\0';
}

/* ---- Processes and threads ---- */

/* A security identifier: 4 bytes of 0, or TOKEN_USER and a SID of so many sub-authorities. */
static void skip_sid(struct sp_cursor *c, uint8_t pointer_size)
{
	struct sp_cursor peek = *c;
	if (!sp_cursor_u32(&peek)) {
		sp_cursor_skip(c, 4);
		return;
	}
	sp_cursor_skip(c, 2u * pointer_size);
	sp_cursor_skip(c, 1);
	uint8_t count = sp_cursor_u8(c);
	sp_cursor_skip(c, 6 + 4u * count);
}

bool sp_etl_process_parse(const struct sp_etl_event *event, struct sp_etl_process *ret)
{
	struct sp_cursor c = payload_of(event);
	*ret = (struct sp_etl_process){ 0 };
	if (event->version == 0) { /* PID first, as a pointer */
		ret->pid = (uint32_t)read_pointer(&c, event);
		ret->parent_pid = (uint32_t)read_pointer(&c, event);
	} else {
		read_pointer(&c, event); /* page directory, or the process object */
		ret->pid = sp_cursor_u32(&c);
		ret->parent_pid = sp_cursor_u32(&c);
		sp_cursor_skip(&c, 8); /* session, exit status */
		if (event->version >= 3)
			read_pointer(&c, event); /* page directory */
		if (event->version >= 4)
			sp_cursor_skip(&c, 4); /* flags */
	}
	if (c.bad)
		return false;
	skip_sid(&c, event->pointer_size);
	if (c.bad)
		return true; /* it has an identity at least */
	ret->name = sp_etl_narrow_text(&c);
	if (event->version >= 2)
		ret->command = sp_etl_wide_text(&c);
	return true;
}

bool sp_etl_thread_parse(const struct sp_etl_event *event, struct sp_etl_thread *ret)
{
	struct sp_cursor c = payload_of(event);
	uint32_t first = sp_cursor_u32(&c), second = sp_cursor_u32(&c);
	*ret = (struct sp_etl_thread){ .pid = first, .tid = second };
	if (c.bad)
		return false;
	if (event->opcode == SP_ETL_THREAD_SET_NAME) {
		ret->name = sp_etl_wide_text(&c);
		return true;
	}
	if (event->version == 0)
		*ret = (struct sp_etl_thread){ .pid = second, .tid = first };
	if (event->version < 3)
		return true;
	sp_cursor_skip(&c, 7u * event->pointer_size + 4 + 4); /* stacks, addresses, service tag, priorities */
	if (!c.bad)
		ret->name = sp_etl_wide_text(&c);
	return true;
}

bool sp_etl_switch_parse(const struct sp_etl_event *event, struct sp_etl_switch *ret)
{
	struct sp_cursor c = payload_of(event);
	ret->new_tid = sp_cursor_u32(&c);
	ret->old_tid = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4); /* priorities, C-state, spare */
	ret->wait_reason = sp_cursor_u8(&c);
	sp_cursor_skip(&c, 1); /* wait mode */
	ret->old_state = sp_cursor_u8(&c);
	sp_cursor_skip(&c, 9); /* ideal CPU, wait time, reserved */
	return !c.bad;
}

bool sp_etl_ready_parse(const struct sp_etl_event *event, uint32_t *ret_tid)
{
	struct sp_cursor c = payload_of(event);
	*ret_tid = sp_cursor_u32(&c);
	return !c.bad;
}

/* ---- Images ---- */

bool sp_etl_image_parse(const struct sp_etl_event *event, struct sp_etl_image *ret)
{
	struct sp_cursor c = payload_of(event);
	*ret = (struct sp_etl_image){ 0 };
	ret->base = read_pointer(&c, event);
	ret->size = read_pointer(&c, event);
	if (event->version == 0 && event->pointer_size == 8)
		ret->size &= UINT32_MAX; /* what follows a 4-byte size there is padding */
	if (event->version >= 1)
		ret->pid = sp_cursor_u32(&c);
	else
		ret->pid = event->pid;
	if (event->version >= 2) {
		sp_cursor_skip(&c, 4); /* checksum */
		ret->timestamp = sp_cursor_u32(&c);
		sp_cursor_skip(&c, 4); /* signature */
		read_pointer(&c, event);
		sp_cursor_skip(&c, 16);
	}
	if (c.bad)
		return false;
	ret->path = sp_etl_wide_text(&c);
	return true;
}

bool sp_etl_image_id_parse(const struct sp_etl_event *event, struct sp_etl_image_id *ret)
{
	struct sp_cursor c = payload_of(event);
	*ret = (struct sp_etl_image_id){ 0 };
	ret->base = read_pointer(&c, event);
	if (event->opcode == SP_ETL_IMAGE_ID) {
		ret->size = (uint32_t)read_pointer(&c, event);
		ret->pid = sp_cursor_u32(&c);
		ret->timestamp = sp_cursor_u32(&c);
		if (c.bad)
			return false;
		ret->name = sp_etl_wide_text(&c);
		return true;
	}
	ret->pid = sp_cursor_u32(&c);
	ret->guid = sp_cursor_bytes(&c, SP_GUID_SIZE);
	ret->age = sp_cursor_u32(&c);
	if (c.bad)
		return false;
	ret->name = sp_etl_narrow_text(&c);
	return true;
}

/* ---- Samples and stacks ---- */

bool sp_etl_sample_parse(const struct sp_etl_event *event, struct sp_etl_sample *ret)
{
	struct sp_cursor c = payload_of(event);
	ret->ip = read_pointer(&c, event);
	ret->tid = sp_cursor_u32(&c);
	ret->count = sp_cursor_u16(&c);
	uint8_t flags = sp_cursor_u8(&c);
	sp_cursor_skip(&c, 1); /* rank */
	ret->dpc = flags & 1;
	ret->isr = flags & 2;
	return !c.bad;
}

bool sp_etl_interval_parse(const struct sp_etl_event *event, struct sp_etl_interval *ret)
{
	struct sp_cursor c = payload_of(event);
	ret->source = sp_cursor_u32(&c);
	ret->interval = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4); /* before */
	ret->name = (struct sp_etl_text){ 0 };
	if (c.bad)
		return false;
	if (event->version >= 3)
		ret->name = sp_etl_wide_text(&c);
	return true;
}

bool sp_etl_stack_parse(const struct sp_etl_event *event, struct sp_etl_stack *ret)
{
	struct sp_cursor c = payload_of(event);
	bool definition = event->opcode == SP_ETL_STACK_DELETE || event->opcode == SP_ETL_STACK_RUNDOWN;
	*ret = (struct sp_etl_stack){ 0 };
	if (!definition) {
		ret->event_time = sp_cursor_u64(&c);
		ret->pid = sp_cursor_u32(&c);
		ret->tid = sp_cursor_u32(&c);
	}
	if (event->opcode != SP_ETL_STACK_WALK)
		ret->key = read_pointer(&c, event);
	if (c.bad)
		return false;
	if (definition || event->opcode == SP_ETL_STACK_WALK) {
		ret->frames = c.at;
		ret->frame_count = (uint32_t)(sp_cursor_left(&c) / event->pointer_size);
	}
	return true;
}
