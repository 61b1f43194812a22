/* Completes stacks that are deeper than the bytes that were dumped.
 *
 * First from the kernel's chain of frame pointers: it was read from the real stack at the same moment, so when it lists
 * every frame that the tables found, it is believed about the frames past the dump too.
 *
 * Then from earlier stacks of the same thread. A frame is known by its address and its place on the stack (CFA), and
 * while it is alive the frames outside it can't change. The history is a graph of such frames, each with its caller.
 * The danger is recursion: a function that returned and was called again at the same depth on another path looks the
 * same. Hence the guards: the outermost three frames of the dump must be in the history as a chain, seen within a
 * second, and a frame that had two different callers within a second is not followed any further. A stack that can't be
 * completed stays truncated. */
#include "common/map.h"
#include "internal.h"

#include <stdlib.h>

#define FRESH_NS 1000000000u
#define MATCHES 3      /* frames that must agree */
#define SLOTS_MIN 256u /* of the table of frames */
#define SLOTS_MAX 16384u
#define PROBES 8
#define TAIL 8              /* outermost frames of a whole stack that are remembered to end a kernel chain */
#define REMEMBERED_MAX 4096 /* frames of one stack that are remembered, from the outside */
#define SHALLOW 4096        /* bytes; a stack that is less deep is not remembered */

/* A frame seen in an earlier stack, and its caller then. */
struct node {
	uint64_t address, cfa;               /* key; address 0 = empty slot */
	uint64_t caller_address, caller_cfa; /* caller_address 0 = outermost */
	uint64_t time;                       /* when it was last seen with this caller */
	uint64_t other_time;                 /* when it was last seen with another caller; 0 = never */
	uint8_t caller_kind;                 /* enum sp_frame_kind */
};

struct path_frame {
	uint64_t address, cfa;
	uint8_t kind;
};

struct sp_stack_history {
	struct node *nodes; /* owned; hash table */
	size_t slots;       /* a power of two, or 0 */
	/* The last whole stack, outermost first. Its frames enter the table when a later stack lacks them. */
	struct path_frame *path; /* owned */
	size_t path_count, path_capacity;
	uint64_t path_time;
};

struct sp_error *sp_stack_history_create(struct sp_stack_history **ret)
{
	struct sp_stack_history *history = calloc(1, sizeof(*history));
	if (!history)
		return sp_error_no_memory();
	*ret = history;
	return NULL;
}

void sp_stack_history_destroy(struct sp_stack_history *history)
{
	if (!history)
		return;
	free(history->nodes);
	free(history->path);
	free(history);
}

/* ---- The table ---- */

static size_t first_slot(const struct sp_stack_history *history, uint64_t address, uint64_t cfa)
{
	return sp_hash_u64(address ^ cfa << 20 ^ cfa >> 44) & (history->slots - 1);
}

static struct node *find_node(const struct sp_stack_history *history, uint64_t address, uint64_t cfa)
{
	if (!history->slots)
		return NULL;
	size_t slot = first_slot(history, address, cfa);
	for (size_t i = 0; i < PROBES; i++) {
		struct node *node = &history->nodes[(slot + i) & (history->slots - 1)];
		if (node->address == address && node->cfa == cfa)
			return node;
	}
	return NULL;
}

/* A slot for a new key: a free one, else the one unseen for longest. */
static struct node *choose_slot(struct sp_stack_history *history, uint64_t address, uint64_t cfa)
{
	size_t slot = first_slot(history, address, cfa);
	struct node *oldest = NULL;
	for (size_t i = 0; i < PROBES; i++) {
		struct node *node = &history->nodes[(slot + i) & (history->slots - 1)];
		if (!node->address)
			return node;
		if (!oldest || node->time < oldest->time)
			oldest = node;
	}
	return oldest;
}

static bool grow(struct sp_stack_history *history)
{
	size_t slots = history->slots ? history->slots * 2 : SLOTS_MIN;
	struct node *old = history->nodes, *nodes = calloc(slots, sizeof(*nodes));
	size_t old_slots = history->slots;
	if (!nodes)
		return false;
	history->nodes = nodes;
	history->slots = slots;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].address)
			*choose_slot(history, old[i].address, old[i].cfa) = old[i];
	free(old);
	return true;
}

static bool is_fresh(uint64_t seen, uint64_t now)
{
	return seen && now - seen <= FRESH_NS;
}

static void put_node(struct sp_stack_history *history, const struct path_frame *frame, const struct path_frame *caller,
                     uint64_t time)
{
	static const struct path_frame none = { 0 };
	if (!caller)
		caller = &none;
	struct node *node = find_node(history, frame->address, frame->cfa);
	if (!node) {
		if (!history->slots && !grow(history))
			return;
		node = choose_slot(history, frame->address, frame->cfa);
		if (is_fresh(node->time, time) && history->slots < SLOTS_MAX && grow(history))
			node = choose_slot(history, frame->address, frame->cfa);
		*node = (struct node){ .address = frame->address, .cfa = frame->cfa };
	} else if (node->caller_address != caller->address || node->caller_cfa != caller->cfa) {
		node->other_time = node->time;
	}
	node->caller_address = caller->address;
	node->caller_cfa = caller->cfa;
	node->caller_kind = caller->kind;
	node->time = time;
}

/* ---- Remembering ---- */

/* Puts path[from .. path_count) into the table. */
static void put_path(struct sp_stack_history *history, size_t from)
{
	for (size_t i = from; i < history->path_count; i++)
		put_node(history, &history->path[i], i ? &history->path[i - 1] : NULL, history->path_time);
}

static void remember(struct sp_stack_history *history, uint64_t time, const struct sp_frame *frames, size_t count)
{
	size_t kept = count < REMEMBERED_MAX ? count : REMEMBERED_MAX;
	if (kept > history->path_capacity) {
		struct path_frame *path = realloc(history->path, kept * sizeof(*path));
		if (!path)
			return;
		history->path = path;
		history->path_capacity = kept;
	}
	size_t same = 0;
	for (; same < kept && same < history->path_count; same++) {
		const struct sp_frame *frame = &frames[count - 1 - same];
		if (frame->address != history->path[same].address || frame->cfa != history->path[same].cfa)
			break;
	}
	put_path(history, same);
	for (size_t i = same; i < kept; i++) {
		const struct sp_frame *frame = &frames[count - 1 - i];
		history->path[i] = (struct path_frame){ frame->address, frame->cfa, frame->kind };
	}
	history->path_count = kept;
	history->path_time = time;
}

/* ---- Splicing ---- */

struct splice {
	struct sp_frame *frames;
	size_t count, capacity;
};

static bool append(struct splice *splice, uint64_t address, uint64_t cfa, uint8_t kind, enum sp_frame_origin origin)
{
	if (splice->count == splice->capacity)
		return false;
	splice->frames[splice->count++] = (struct sp_frame){
		.address = address, .cfa = cfa, .kind = kind, .mode = SP_MODE_USER, .origin = (uint8_t)origin
	};
	return true;
}

/* The kernel's chain may lack the caller of a frame that has not set up its frame pointer. Past that it must list all
 * frames of the dump. Returns the index in the chain of the first frame past the dump, 0 when it does not fit. */
static size_t match_chain(const uint64_t *chain, size_t chain_count, const struct splice *splice)
{
	for (size_t skipped = 0; skipped <= 1; skipped++) {
		size_t matched = 0;
		for (size_t i = 2; i < splice->count && i - skipped < chain_count; i++, matched++)
			if (chain[i - skipped] != splice->frames[i].address)
				break;
		if (matched >= MATCHES && matched == splice->count - 2)
			return splice->count - skipped;
	}
	return 0;
}

/* Ends a chain with the outermost frames of the thread's last whole stack, where the chain's last frame is one of them:
 * the C library's start code does not keep the frame pointer. */
static bool append_tail(const struct sp_stack_history *history, struct splice *splice)
{
	uint64_t last = splice->frames[splice->count - 1].address;
	size_t tail = history->path_count < TAIL ? history->path_count : TAIL, at = 0, found = 0;
	for (size_t i = 0; i < tail; i++) {
		if (history->path[i].address == last) {
			at = i;
			found++;
		}
	}
	if (found != 1)
		return false;
	while (at-- > 0) {
		const struct path_frame *frame = &history->path[at];
		if (!append(splice, frame->address, frame->cfa, frame->kind, SP_FOUND_SPLICED_STACK))
			return false;
	}
	return true;
}

static bool is_certain(const struct node *node, uint64_t now)
{
	return node && !is_fresh(node->other_time, now);
}

/* The node of the dump's outermost frame, when the dump's end fits the history. */
static const struct node *match_history(const struct sp_stack_history *history, uint64_t now, struct splice *splice)
{
	if (splice->count < MATCHES)
		return NULL;
	const struct node *node = NULL;
	for (size_t i = splice->count - MATCHES; i < splice->count; i++) {
		struct sp_frame *frame = &splice->frames[i];
		if (node && frame->cfa == 0 && node->caller_address == frame->address)
			frame->cfa = node->caller_cfa; /* it was beyond the dump */
		if (node && (node->caller_address != frame->address || node->caller_cfa != frame->cfa))
			return NULL;
		node = find_node(history, frame->address, frame->cfa);
		if (!is_certain(node, now) || !is_fresh(node->time, now))
			return NULL;
	}
	return node;
}

/* Appends callers from the history; true when the root was reached. */
static bool follow_history(const struct sp_stack_history *history, uint64_t now, const struct node *node,
                           struct splice *splice)
{
	while (is_certain(node, now)) {
		if (!node->caller_address)
			return true;
		if (!append(splice, node->caller_address, node->caller_cfa, node->caller_kind, SP_FOUND_SPLICED_STACK))
			return false;
		node = find_node(history, node->caller_address, node->caller_cfa);
	}
	return false;
}

static enum sp_unwind_end splice_stack(struct sp_stack_history *history, uint64_t time, const uint64_t *chain,
                                       size_t chain_count, struct splice *splice)
{
	size_t dumped = splice->count, at = match_chain(chain, chain_count, splice);
	if (at) {
		while (at < chain_count &&
		       append(splice, chain[at], 0, SP_FRAME_RETURN_ADDRESS, SP_FOUND_SPLICED_CHAIN))
			at++;
		if (append_tail(history, splice))
			return SP_UNWIND_ROOT;
		if (splice->count > dumped)
			return SP_UNWIND_DUMP_END;
	}
	put_path(history, 0);
	const struct node *node = match_history(history, time, splice);
	if (!node)
		return SP_UNWIND_DUMP_END;
	return follow_history(history, time, node, splice) ? SP_UNWIND_ROOT : SP_UNWIND_DUMP_END;
}

/* Frames of a kernel chain lack their places on the stack and would match any others. */
static bool is_rememberable(const struct sp_frame *frames, size_t count)
{
	for (size_t i = 0; i + 1 < count; i++)
		if (!frames[i].cfa)
			return false;
	return count >= 2 && frames[count - 2].cfa - frames[0].cfa >= SHALLOW;
}

enum sp_unwind_end sp_unwind_complete(struct sp_stack_history *history, uint64_t time, const uint64_t *chain,
                                      size_t chain_count, enum sp_unwind_end end, struct sp_frame *frames,
                                      size_t capacity, size_t *count)
{
	struct splice splice = { .frames = frames, .count = *count, .capacity = capacity };
	if (end == SP_UNWIND_DUMP_END)
		end = splice_stack(history, time, chain, chain_count, &splice);
	*count = splice.count;
	if (end == SP_UNWIND_ROOT && is_rememberable(frames, *count))
		remember(history, time, frames, *count);
	return end;
}
