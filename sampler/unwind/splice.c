/* Completes stacks that are deeper than the bytes that were dumped.
 *
 * First from the kernel's chain of frame pointers: it was read from the real stack at the same moment, so when it lists
 * every frame that the tables found, it is believed about the frames past the dump too.
 *
 * Then from earlier stacks of the same thread. A frame is known by its address, its place on the stack (CFA), its
 * caller and a print of the words below its return address, where registers are saved; while it is alive the frames
 * outside it can't change. The last whole stack is kept as it was, frames that have left it go to a table.
 *
 * The danger is recursion: a function that returned and was called again at the same depth on another path looks much
 * the same. Hence the guards: three adjoining frames of the dump must be in the history with the same prints, seen
 * within a second; neither they nor the dump's outermost frame may have had two different callers within a second; from
 * them outwards the dump and the history must agree frame by frame; and past the dump a frame is followed only when its
 * caller has been the same since before the three were seen, and no other was seen there within a second.
 *
 * Each truncated stack first serves as a test: what would the history have said, had the dump been half as long? Tests
 * do without the last guard, which stops most of what they find wrong: a thread whose tests fail more often than one in
 * ten is not spliced. A stack that can't be completed stays truncated. */
#include "common/map.h"
#include "internal.h"

#include <stdlib.h>

#define FRESH_NS 1000000000u
#define MATCHES 3                           /* adjoining frames that must agree */
#define WINDOW 64                           /* outermost frames of the dump among which they are sought */
#define PRINT_WORDS 3                       /* of the stack, below a frame's return address */
#define SLOTS_MIN 256u                      /* of the table of frames */
#define SLOTS_MAX 16384u                    /* 1.2 MB, for a thread whose stack changes all the time */
#define PROBES 8                            /* slots in which a frame may be */
#define PREFETCHED 256                      /* frames whose place on the stack is fetched ahead */
#define TAIL 8                              /* outermost frames of a whole stack that may end a kernel chain */
#define REMEMBERED_MAX SP_UNWIND_MAX_FRAMES /* frames of one stack that are remembered, from the outside */
#define TESTS_MAX 1024                      /* tests that are counted; then both counts are halved */
#define FAILURES_ALLOWED 3                  /* besides one test in ten */
#define SHALLOW 4096                        /* bytes; a stack that is less deep is not remembered */

/* A frame of the last whole stack. */
struct path_frame {
	uint64_t address, cfa;
	uint64_t since; /* when it was first seen with all the frames outside it */
	uint32_t print; /* of its saved registers; 0 = unknown */
	uint8_t kind;   /* enum sp_frame_kind */
};

/* What a look-up reads first: eight keys lie side by side, eight nodes do not. */
struct key {
	uint32_t hash; /* of address and CFA; 0 = empty slot */
	uint32_t seen; /* node.time in units of 2^20 ns */
};

/* A frame of an earlier stack, and its caller then. */
struct node {
	uint64_t address, cfa;
	uint64_t caller_address, caller_cfa; /* caller_address 0 = outermost */
	uint64_t since;                      /* when it was first seen with this caller */
	uint64_t time;                       /* when it was last seen with this caller */
	uint64_t other_time;                 /* when it was last seen with another caller; 0 = never */
	uint32_t print;                      /* of its saved registers; 0 = unknown */
	uint8_t caller_kind;                 /* enum sp_frame_kind */
};

struct sp_stack_history {
	struct key *keys;   /* owned; hash table, ... */
	struct node *nodes; /* owned; ... and what belongs to each slot */
	size_t slots;       /* a power of two, or 0 */
	/* The last whole stack, outermost first: its CFAs fall. */
	struct path_frame *path; /* owned */
	size_t path_count, path_capacity;
	uint64_t path_time;
	uint32_t tests, failures; /* of splicing, on truncated stacks' known parts */
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
	free(history->keys);
	free(history->nodes);
	free(history->path);
	free(history);
}

/* ---- The table ---- */

static uint32_t hash_of(uint64_t address, uint64_t cfa)
{
	return (uint32_t)(sp_hash_u64(address ^ cfa << 20 ^ cfa >> 44) >> 32) | 1;
}

/* The slot of a frame, or of the `i`th that it may be in. */
static size_t slot_of(const struct sp_stack_history *history, uint32_t hash, size_t i)
{
	return ((hash >> 1) + i) & (history->slots - 1);
}

static struct node *find_node(const struct sp_stack_history *history, uint64_t address, uint64_t cfa)
{
	uint32_t hash = hash_of(address, cfa);
	for (size_t i = 0; history->slots && i < PROBES; i++) {
		size_t slot = slot_of(history, hash, i);
		struct node *node = &history->nodes[slot];
		if (history->keys[slot].hash == hash && node->address == address && node->cfa == cfa)
			return node;
	}
	return NULL;
}

/* A slot for a new frame: a free one, else the one unseen for longest. */
static size_t choose_slot(const struct sp_stack_history *history, uint32_t hash, uint32_t now)
{
	size_t oldest = slot_of(history, hash, 0);
	for (size_t i = 0; i < PROBES; i++) {
		size_t slot = slot_of(history, hash, i);
		if (!history->keys[slot].hash)
			return slot;
		if (now - history->keys[slot].seen > now - history->keys[oldest].seen)
			oldest = slot;
	}
	return oldest;
}

static void put_in_slot(struct sp_stack_history *history, size_t slot, uint32_t hash, const struct node *node)
{
	history->keys[slot] = (struct key){ .hash = hash, .seen = (uint32_t)(node->time >> 20) };
	history->nodes[slot] = *node;
}

static bool grow(struct sp_stack_history *history)
{
	struct sp_stack_history old = *history;
	size_t slots = old.slots ? old.slots * 2 : SLOTS_MIN;
	struct key *keys = calloc(slots, sizeof(*keys));
	struct node *nodes = malloc(slots * sizeof(*nodes));
	if (!keys || !nodes) {
		free(keys);
		free(nodes);
		return false;
	}
	history->keys = keys;
	history->nodes = nodes;
	history->slots = slots;
	uint32_t now = (uint32_t)(old.path_time >> 20);
	for (size_t i = 0; i < old.slots; i++)
		if (old.keys[i].hash)
			put_in_slot(history, choose_slot(history, old.keys[i].hash, now), old.keys[i].hash,
			            &old.nodes[i]);
	free(old.keys);
	free(old.nodes);
	return true;
}

static bool is_fresh(uint64_t seen, uint64_t now)
{
	return seen && now - seen <= FRESH_NS;
}

/* A slot for a frame that is not in the table, which grows rather than forget a fresh one; SIZE_MAX without memory. */
static size_t claim_slot(struct sp_stack_history *history, uint32_t hash, uint64_t time)
{
	uint32_t now = (uint32_t)(time >> 20);
	if (!history->slots && !grow(history))
		return SIZE_MAX;
	size_t slot = choose_slot(history, hash, now);
	if (history->keys[slot].hash && is_fresh(history->nodes[slot].time, time) && history->slots < SLOTS_MAX &&
	    grow(history))
		slot = choose_slot(history, hash, now);
	return slot;
}

/* Puts a frame of the path into the table. */
static void put_node(struct sp_stack_history *history, size_t index)
{
	static const struct path_frame none = { 0 };
	const struct path_frame *frame = &history->path[index];
	const struct path_frame *caller = index ? frame - 1 : &none;
	struct node node = { .address = frame->address,
		             .cfa = frame->cfa,
		             .caller_address = caller->address,
		             .caller_cfa = caller->cfa,
		             .caller_kind = caller->kind,
		             .since = frame->since,
		             .time = history->path_time,
		             .print = frame->print };
	uint32_t hash = hash_of(frame->address, frame->cfa);
	const struct node *known = find_node(history, frame->address, frame->cfa);
	if (known && known->caller_address == caller->address && known->caller_cfa == caller->cfa) {
		node.since = known->since;
		node.other_time = known->other_time;
	} else if (known) {
		node.other_time = known->time;
	}
	size_t slot = known ? (size_t)(known - history->nodes) : claim_slot(history, hash, node.time);
	if (slot != SIZE_MAX)
		put_in_slot(history, slot, hash, &node);
}

/* ---- Remembering ---- */

/* What is known of a stack's bytes. */
struct dump {
	const struct sp_stack_slice *slices;
	size_t slice_count;
	uint64_t limit; /* bytes from here on are not to be used */
};

/* A hash of the words below the return address of the frame with that CFA; 0 when they are not in the dump. */
static uint32_t take_print(const struct dump *dump, uint64_t cfa)
{
	uint64_t low = cfa - 8 - 8 * PRINT_WORDS;
	for (size_t i = 0; i < dump->slice_count && cfa - 8 <= dump->limit; i++) {
		const struct sp_stack_slice *slice = &dump->slices[i];
		uint64_t words[PRINT_WORDS], print = 0, offset = low - slice->address;
		if (slice->size < sizeof(words) || offset > slice->size - sizeof(words))
			continue;
		memcpy(words, slice->bytes + offset, sizeof(words));
		for (size_t w = 0; w < PRINT_WORDS; w++)
			print = (print ^ words[w]) * 0x9e3779b97f4a7c15u;
		return (uint32_t)(print >> 32) | 1;
	}
	return 0;
}

static bool reserve_path(struct sp_stack_history *history, size_t count)
{
	if (count <= history->path_capacity)
		return true;
	struct path_frame *path = realloc(history->path, count * sizeof(*path));
	if (!path)
		return false;
	history->path = path;
	history->path_capacity = count;
	return true;
}

/* Makes a whole stack the path; frames of the old path that are not in it go to the table. */
static void remember(struct sp_stack_history *history, uint64_t time, const struct dump *dump,
                     const struct sp_frame *frames, size_t count)
{
	size_t kept = count < REMEMBERED_MAX ? count : REMEMBERED_MAX;
	if (!reserve_path(history, kept))
		return;
	size_t same = 0;
	for (; same < kept && same < history->path_count; same++) {
		const struct sp_frame *frame = &frames[count - 1 - same];
		struct path_frame *known = &history->path[same];
		if (frame->address != known->address || frame->cfa != known->cfa)
			break;
		/* Local variables among the words may have changed; frames outside the dump keep their print. */
		uint32_t print = take_print(dump, frame->cfa);
		known->print = print ? print : known->print;
	}
	for (size_t i = same; i < history->path_count; i++)
		put_node(history, i);
	for (size_t i = same; i < kept; i++) {
		const struct sp_frame *frame = &frames[count - 1 - i];
		history->path[i] = (struct path_frame){ .address = frame->address,
			                                .cfa = frame->cfa,
			                                .since = time,
			                                .print = take_print(dump, frame->cfa),
			                                .kind = frame->kind };
	}
	history->path_count = kept;
	history->path_time = time;
}

void sp_stack_history_prefetch(const struct sp_stack_history *history, const struct sp_stack_slice *slice)
{
	size_t count = history->path_count < PREFETCHED ? history->path_count : PREFETCHED;
	for (size_t i = 0; i < count; i++) {
		/* What the walk reads of a frame, and what its print is made of. */
		uint64_t offset = history->path[history->path_count - 1 - i].cfa - 16 - slice->address;
		if (offset < slice->size)
			__builtin_prefetch(slice->bytes + offset);
	}
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

/* Appends path[0 .. index) from the inside; true when all fit. */
static bool append_path(const struct sp_stack_history *history, size_t index, struct splice *splice)
{
	while (index-- > 0) {
		const struct path_frame *frame = &history->path[index];
		if (!append(splice, frame->address, frame->cfa, frame->kind, SP_FOUND_SPLICED_STACK))
			return false;
	}
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
	return append_path(history, at, splice);
}

/* What the history knows of a frame. */
struct place {
	uint64_t caller_address, caller_cfa; /* caller_address 0 = outermost */
	uint64_t since, time, other_time;
	size_t index; /* in the path */
	uint32_t print;
	uint8_t caller_kind;
	bool in_path;
};

/* The index in the path of a frame, or path_count. */
static size_t find_in_path(const struct sp_stack_history *history, uint64_t address, uint64_t cfa)
{
	size_t low = 0, high = history->path_count;
	/* The outermost frame has no CFA, for lack of a caller; it is in the way of searching but sought by none. */
	if (high && !history->path[0].cfa)
		low = 1;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (history->path[middle].cfa > cfa)
			low = middle + 1;
		else
			high = middle;
	}
	/* A frame without a stack frame of its own (a leaf, a trampoline) can share its CFA with its caller. */
	for (; low < history->path_count && history->path[low].cfa == cfa; low++)
		if (history->path[low].address == address)
			return low;
	return history->path_count;
}

/* Without other callers it may have had. */
static struct place place_in_path(const struct sp_stack_history *history, size_t index)
{
	const struct path_frame *frame = &history->path[index];
	struct place place = { .since = frame->since,
		               .time = history->path_time,
		               .index = index,
		               .print = frame->print,
		               .in_path = true };
	if (index) {
		place.caller_address = frame[-1].address;
		place.caller_cfa = frame[-1].cfa;
		place.caller_kind = frame[-1].kind;
	}
	return place;
}

static bool find_place(const struct sp_stack_history *history, uint64_t address, uint64_t cfa, struct place *ret)
{
	size_t index = cfa ? find_in_path(history, address, cfa) : history->path_count;
	const struct node *node = find_node(history, address, cfa);
	if (index < history->path_count) {
		*ret = place_in_path(history, index);
		if (node && (node->caller_address != ret->caller_address || node->caller_cfa != ret->caller_cfa))
			ret->other_time = node->time;
		return true;
	}
	if (!node)
		return false;
	*ret = (struct place){ .caller_address = node->caller_address,
		               .caller_cfa = node->caller_cfa,
		               .since = node->since,
		               .time = node->time,
		               .other_time = node->other_time,
		               .print = node->print,
		               .caller_kind = node->caller_kind };
	return true;
}

/* Where the dump's end fits the history: the place of its outermost frame, and when it was seen. */
static bool match_history(const struct sp_stack_history *history, uint64_t now, const struct dump *dump,
                          struct splice *splice, struct place *ret, uint64_t *ret_seen)
{
	size_t last = splice->count - 1, run = 0;
	struct place place = { 0 };
	if (last && !splice->frames[last].cfa) { /* beyond the dump: take it from the history */
		const struct sp_frame *inner = &splice->frames[last - 1];
		if (find_place(history, inner->address, inner->cfa, &place) &&
		    place.caller_address == splice->frames[last].address)
			splice->frames[last].cfa = place.caller_cfa;
	}
	for (size_t i = last; i + WINDOW > last && run < MATCHES; i--) {
		const struct sp_frame *frame = &splice->frames[i];
		if (!find_place(history, frame->address, frame->cfa, &place))
			return false;
		if (i == last && is_fresh(place.other_time, now))
			return false; /* which of the two callers it has now is beyond the dump */
		if (i == last)
			*ret = place;
		else if (place.caller_address != frame[1].address || place.caller_cfa != frame[1].cfa)
			return false;
		uint32_t print = take_print(dump, frame->cfa);
		bool agrees = (!print || !place.print || print == place.print) && is_fresh(place.time, now) &&
		              !is_fresh(place.other_time, now);
		run = agrees ? run + 1 : 0;
		if (run == 1)
			*ret_seen = place.time;
		if (i == 0)
			break;
	}
	return run == MATCHES;
}

/* Appends callers from the history; true when the root was reached. */
static bool follow_history(const struct sp_stack_history *history, uint64_t now, uint64_t seen, struct place place,
                           struct splice *splice)
{
	size_t dumped = splice->count;
	while (place.since <= seen) {
		if (is_fresh(place.other_time, now))
			return false;
		if (place.in_path) /* and so are all frames outside it */
			return append_path(history, place.index, splice);
		if (!place.caller_address)
			return true;
		if (!append(splice, place.caller_address, place.caller_cfa, place.caller_kind, SP_FOUND_SPLICED_STACK))
			return false;
		if (!place.caller_cfa) /* only the outermost frame has none */
			return true;
		if (!find_place(history, place.caller_address, place.caller_cfa, &place))
			return false;
	}
	/* A frame that would have to be alive has been replaced since: so have the three. */
	splice->count = dumped;
	return false;
}

/* What the history says of callers that are known: 1 = right, -1 = wrong, 0 = nothing. */
static int compare_with_history(const struct sp_stack_history *history, uint64_t seen, struct place place,
                                const struct sp_frame *callers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (place.since > seen)
			return 0;
		if (place.caller_address != callers[i].address ||
		    (callers[i].cfa && place.caller_cfa != callers[i].cfa))
			return -1;
		if (place.in_path && place.index)
			place = place_in_path(history, place.index - 1);
		else if (!find_place(history, place.caller_address, place.caller_cfa, &place))
			return 0;
	}
	return 1;
}

/* Tests on the inner half of a truncated stack what would be said of the outer half. */
static void test_splicing(struct sp_stack_history *history, uint64_t now, const struct dump *dump,
                          const struct splice *splice)
{
	struct splice half = { .frames = splice->frames, .count = splice->count / 2 };
	if (half.count < 2 * MATCHES)
		return;
	struct place place;
	uint64_t seen;
	struct dump shorter = *dump;
	shorter.limit = half.frames[half.count - 1].cfa - 8;
	if (!match_history(history, now, &shorter, &half, &place, &seen))
		return;
	int result = compare_with_history(history, seen, place, splice->frames + half.count,
	                                  splice->count - half.count);
	history->tests += result != 0;
	history->failures += result < 0;
	if (history->tests == TESTS_MAX) {
		history->tests /= 2;
		history->failures /= 2;
	}
}

static enum sp_unwind_end splice_chain(const struct sp_stack_history *history, const uint64_t *chain,
                                       size_t chain_count, struct splice *splice)
{
	size_t at = match_chain(chain, chain_count, splice);
	if (!at)
		return SP_UNWIND_DUMP_END;
	while (at < chain_count && append(splice, chain[at], 0, SP_FRAME_RETURN_ADDRESS, SP_FOUND_SPLICED_CHAIN))
		at++;
	return append_tail(history, splice) ? SP_UNWIND_ROOT : SP_UNWIND_DUMP_END;
}

static enum sp_unwind_end splice_history(struct sp_stack_history *history, uint64_t time, const struct dump *dump,
                                         struct splice *splice)
{
	struct place place;
	uint64_t seen;
	test_splicing(history, time, dump, splice);
	if (history->failures > FAILURES_ALLOWED + history->tests / 10 ||
	    !match_history(history, time, dump, splice, &place, &seen) ||
	    !follow_history(history, time, seen, place, splice))
		return SP_UNWIND_DUMP_END;
	return SP_UNWIND_ROOT;
}

/* Frames of a kernel chain lack their places on the stack and would match any others. */
static bool is_rememberable(const struct sp_frame *frames, size_t count)
{
	for (size_t i = 0; i + 1 < count; i++)
		if (!frames[i].cfa)
			return false;
	return count >= 2 && frames[count - 2].cfa - frames[0].cfa >= SHALLOW;
}

enum sp_unwind_end sp_unwind_complete(struct sp_stack_history *history, uint64_t time,
                                      const struct sp_stack_slice *slices, size_t slice_count, const uint64_t *chain,
                                      size_t chain_count, enum sp_unwind_end end, struct sp_frame *frames,
                                      size_t capacity, size_t *count)
{
	struct splice splice = { .frames = frames, .count = *count, .capacity = capacity };
	const struct dump dump = { .slices = slices, .slice_count = slice_count, .limit = UINT64_MAX };
	if (end == SP_UNWIND_DUMP_END && *count) {
		end = splice_chain(history, chain, chain_count, &splice);
		if (splice.count == *count)
			end = splice_history(history, time, &dump, &splice);
	}
	*count = splice.count;
	if (end == SP_UNWIND_ROOT && is_rememberable(frames, *count))
		remember(history, time, &dump, frames, *count);
	return end;
}
