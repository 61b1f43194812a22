/* Opens an index and looks addresses up in it. */
#include "symbolication/index/index.h"

#include "common/map.h"
#include "symbolication/index/format.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <zstd.h>

#define CHUNK ((size_t)1 << SP_INDEX_CHUNK_BITS)

struct sp_index {
	const uint8_t *bytes;
	size_t size;
	void *owned; /* by malloc(); NULL = borrowed or mapped */
	struct sp_file_map map;
	struct sp_index_header header; /* a copy, which was checked */
	const struct sp_index_page *pages;
	const uint16_t *lows;
	const uint8_t *segment_nodes, *segment_places, *nodes;
	const struct sp_index_place *places;
	const struct sp_index_symbol *symbols;
	const uint64_t *borders;
	const uint32_t *owners;
	size_t chunk_count;
	atomic_uchar *checked;       /* owned; one a chunk of the body: its checksum is right */
	atomic_bool borders_checked; /* all of theirs are */
	atomic_bool tables_checked;  /* all but those of strings are */
};

uint64_t sp_index_checksum(const uint8_t *bytes, size_t size)
{
	/* Four sums side by side, so that the processor need not wait for one. */
	uint64_t sums[4] = { 1, 2, 3, 4 }, words[4];
	size_t left = size;
	for (; left >= sizeof(words); left -= sizeof(words), bytes += sizeof(words)) {
		memcpy(words, bytes, sizeof(words));
		for (unsigned i = 0; i < 4; i++) {
			sums[i] = (sums[i] ^ words[i]) * 0x9e3779b97f4a7c15u;
			sums[i] ^= sums[i] >> 29;
		}
	}
	uint8_t rest[sizeof(words)] = { 0 };
	memcpy(rest, bytes, left);
	memcpy(words, rest, sizeof(words));
	uint64_t sum = size;
	for (unsigned i = 0; i < 4; i++)
		sum = sp_hash_u64(sum ^ sums[i] ^ sp_hash_u64(words[i] + i));
	return sum;
}

void sp_index_fix_checksums(uint8_t *bytes, size_t size)
{
	struct sp_index_header h;
	if (size < sizeof(h))
		return;
	memcpy(&h, bytes, sizeof(h));
	if (h.size != size || h.body > size || sp_index_key_offset(&h) > h.body)
		return;
	uint8_t *out = bytes + sizeof(h);
	for (size_t at = (size_t)h.body; at < size; at += CHUNK, out += sizeof(uint64_t)) {
		uint64_t sum = sp_index_checksum(bytes + at, size - at < CHUNK ? size - at : CHUNK);
		memcpy(out, &sum, sizeof(sum));
	}
	uint8_t *place = bytes + offsetof(struct sp_index_header, checksum);
	memset(place, 0, sizeof(h.checksum));
	uint64_t sum = sp_index_checksum(bytes, (size_t)h.body);
	memcpy(place, &sum, sizeof(sum));
}

/* ---- Opening ---- */

/* Whether the bytes in front of the body are whole; the checksum stands among them. */
static bool is_whole(const uint8_t *bytes, const struct sp_index_header *h)
{
	uint8_t *copy = malloc((size_t)h->body);
	if (!copy)
		return false;
	memcpy(copy, bytes, (size_t)h->body);
	memset(copy + offsetof(struct sp_index_header, checksum), 0, sizeof(h->checksum));
	bool whole = sp_index_checksum(copy, (size_t)h->body) == h->checksum;
	free(copy);
	return whole;
}

static bool sections_fit(const struct sp_index_header *h)
{
	uint64_t sizes[SP_INDEX_SECTIONS];
	sp_index_section_sizes(h, h->sections[SP_INDEX_NAME_BLOCKS].size, h->sections[SP_INDEX_FILE_BLOCKS].size,
	                       sizes);
	for (size_t i = 0; i < SP_INDEX_SECTIONS; i++) {
		const struct sp_index_extent *extent = &h->sections[i];
		if (extent->size != sizes[i] || extent->offset % 8 || extent->offset < h->body ||
		    extent->offset > h->size || h->size - extent->offset < SP_INDEX_PADDING ||
		    extent->size > h->size - extent->offset - SP_INDEX_PADDING)
			return false;
	}
	return true;
}

static bool header_fits(const struct sp_index_header *h, size_t size)
{
	if (memcmp(h->magic, SP_INDEX_MAGIC, sizeof(h->magic)) != 0 || h->version != SP_INDEX_VERSION ||
	    h->order != SP_INDEX_ORDER || h->size != size || (h->width != 3 && h->width != 4) || h->body > size ||
	    h->body % 8 || h->body < sizeof(*h))
		return false;
	return h->key_size && h->body == ((sp_index_key_offset(h) + h->key_size + 7) & ~UINT64_C(7)) && sections_fit(h);
}

static bool verify_chunk(struct sp_index *index, size_t chunk)
{
	size_t at = (size_t)index->header.body + (chunk << SP_INDEX_CHUNK_BITS), left = index->size - at;
	size_t size = left < CHUNK ? left : CHUNK;
	uint64_t sum;
	memcpy(&sum, index->bytes + sizeof(index->header) + chunk * sizeof(sum), sizeof(sum));
	if (sp_index_checksum(index->bytes + at, size) != sum)
		return false;
	atomic_store_explicit(&index->checked[chunk], 1, memory_order_relaxed);
	return true;
}

/* Whether bytes of the body are as they were written; `at` and `size` are known to be inside. */
static bool are_intact(struct sp_index *index, const void *at, size_t size)
{
	size_t offset = (size_t)((const uint8_t *)at - index->bytes - index->header.body);
	size_t last = (offset + size - (size > 0)) >> SP_INDEX_CHUNK_BITS;
	for (size_t chunk = offset >> SP_INDEX_CHUNK_BITS; chunk <= last; chunk++)
		if (!atomic_load_explicit(&index->checked[chunk], memory_order_relaxed) && !verify_chunk(index, chunk))
			return false;
	return true;
}

/* The same of the tables, which look-ups go through again and again. */
static inline bool is_intact(struct sp_index *index, const void *at, size_t size)
{
	return atomic_load_explicit(&index->tables_checked, memory_order_relaxed) || are_intact(index, at, size);
}

/* The list of pages is checked at once: it is short. */
static bool pages_fit(struct sp_index *index)
{
	const struct sp_index_header *h = &index->header;
	if (!is_intact(index, index->pages, ((size_t)h->pages + 1) * sizeof(*index->pages)))
		return false;
	for (uint32_t i = 0; i < h->pages; i++)
		if (index->pages[i].page >= index->pages[i + 1].page ||
		    index->pages[i].first > index->pages[i + 1].first)
			return false;
	return index->pages[h->pages].first == h->segments;
}

static const void *section(const struct sp_index *index, enum sp_index_section id)
{
	return index->bytes + index->header.sections[id].offset;
}

static struct sp_error *open_index(struct sp_index *index)
{
	struct sp_index_header *h = &index->header;
	if (index->size < sizeof(*h))
		return sp_error_create(SP_ERROR_FORMAT, "an index is cut short");
	memcpy(h, index->bytes, sizeof(*h));
	if (!header_fits(h, index->size) || !is_whole(index->bytes, h))
		return sp_error_create(SP_ERROR_FORMAT, "an index is damaged or of another version");
	index->chunk_count = (size_t)((h->size - h->body) >> SP_INDEX_CHUNK_BITS) + 1;
	index->checked = calloc(index->chunk_count, sizeof(*index->checked));
	if (!index->checked)
		return sp_error_no_memory();
	index->pages = section(index, SP_INDEX_PAGES);
	index->lows = section(index, SP_INDEX_LOWS);
	index->segment_nodes = section(index, SP_INDEX_SEGMENT_NODE);
	index->segment_places = section(index, SP_INDEX_SEGMENT_PLACE);
	index->nodes = section(index, SP_INDEX_NODES);
	index->places = section(index, SP_INDEX_PLACES);
	index->symbols = section(index, SP_INDEX_SYMBOLS);
	index->borders = section(index, SP_INDEX_BORDERS);
	index->owners = section(index, SP_INDEX_OWNERS);
	const char *key = sp_index_key(index);
	if (key[h->key_size - 1] || !pages_fit(index))
		return sp_error_create(SP_ERROR_FORMAT, "an index is damaged");
	return NULL;
}

void sp_index_check_tables(struct sp_index *index)
{
	static const enum sp_index_section tables[] = { SP_INDEX_LOWS,    SP_INDEX_SEGMENT_NODE, SP_INDEX_SEGMENT_PLACE,
		                                        SP_INDEX_NODES,   SP_INDEX_PLACES,       SP_INDEX_SYMBOLS,
		                                        SP_INDEX_BORDERS, SP_INDEX_OWNERS };
	bool intact = true;
	if (atomic_load_explicit(&index->tables_checked, memory_order_relaxed))
		return;
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && intact; i++)
		intact = are_intact(index, section(index, tables[i]), (size_t)index->header.sections[tables[i]].size);
	atomic_store_explicit(&index->tables_checked, intact, memory_order_relaxed);
}

/* Takes over `owned` and `map`. */
static struct sp_error *create(const void *bytes, size_t size, void *owned, struct sp_file_map map,
                               struct sp_index **ret)
{
	struct sp_index *index = calloc(1, sizeof(*index));
	if (!index) {
		free(owned);
		sp_file_unmap(&map);
		return sp_error_no_memory();
	}
	index->bytes = bytes;
	index->size = size;
	index->owned = owned;
	index->map = map;
	struct sp_error *error = open_index(index);
	if (error) {
		sp_index_destroy(index);
		return error;
	}
	*ret = index;
	return NULL;
}

struct sp_error *sp_index_open_bytes(const void *bytes, size_t size, struct sp_index **ret)
{
	return create(bytes, size, NULL, (struct sp_file_map){ 0 }, ret);
}

struct sp_error *sp_index_open_owned(void *bytes, size_t size, struct sp_index **ret)
{
	return create(bytes, size, bytes, (struct sp_file_map){ 0 }, ret);
}

struct sp_error *sp_index_open_map(struct sp_file_map *map, struct sp_index **ret)
{
	struct sp_file_map mine = *map;
	*map = (struct sp_file_map){ 0 };
	return create(mine.bytes, mine.size, NULL, mine, ret);
}

void sp_index_destroy(struct sp_index *index)
{
	if (!index)
		return;
	free(index->owned);
	sp_file_unmap(&index->map);
	free(index->checked);
	free(index);
}

const void *sp_index_bytes(const struct sp_index *index, size_t *ret_size)
{
	*ret_size = index->size;
	return index->bytes;
}

const char *sp_index_key(const struct sp_index *index)
{
	return (const char *)index->bytes + sp_index_key_offset(&index->header);
}

size_t sp_index_memory(const struct sp_index *index)
{
	return sizeof(*index) + index->chunk_count + (index->owned ? index->size : 0);
}

uint32_t sp_index_name_count(const struct sp_index *index)
{
	return index->header.names;
}

uint32_t sp_index_file_count(const struct sp_index *index)
{
	return index->header.files;
}

uint32_t sp_index_symbol_count(const struct sp_index *index)
{
	return index->header.symbols;
}

/* ---- Addresses ---- */

/* The page of an address, or the number of pages. */
static uint32_t find_page(const struct sp_index *index, uint32_t page, uint32_t hint)
{
	const struct sp_index_page *pages = index->pages;
	uint32_t low = 0, high = index->header.pages; /* pages[high] is above any other */
	if (hint < high && pages[hint].page <= page) {
		if (page < pages[hint + 1].page)
			return pages[hint].page == page ? hint : index->header.pages;
		low = hint;
	}
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (pages[middle].page <= page)
			low = middle;
		else
			high = middle;
	}
	return low < index->header.pages && pages[low].page == page ? low : index->header.pages;
}

/* The last segment of [first, end) that begins at or before `low`; `end` = none. A hint leads to a search that widens
 * from there. */
static uint32_t find_segment(const uint16_t *lows, uint32_t first, uint32_t end, uint16_t low, uint32_t hint)
{
	uint32_t from = first, to = end;
	if (lows[first] > low)
		return end;
	if (hint >= first && hint < end && lows[hint] <= low) {
		uint32_t step = 8;
		from = hint;
		while (step < end - from && lows[from + step] <= low) {
			from += step;
			step *= 2;
		}
		to = step < end - from ? from + step : end;
	}
	while (to - from > 1) { /* lows[from] <= low < lows[to] */
		uint32_t half = (to - from) / 2;
		bool right = lows[from + half] <= low;
		from = right ? from + half : from;
		to = right ? to : from + half;
	}
	return from;
}

/* The segment that holds an address: its number, or the number of segments. *ret_damaged is only set. */
static uint32_t segment_at(struct sp_index *index, uint64_t address, struct sp_index_hint *hint, bool *ret_damaged)
{
	uint32_t none = index->header.segments;
	if (address >> SP_INDEX_PAGE_BITS >= UINT32_MAX)
		return none;
	uint32_t page = find_page(index, (uint32_t)(address >> SP_INDEX_PAGE_BITS), hint->page);
	if (page == index->header.pages)
		return none;
	uint32_t first = index->pages[page].first, end = index->pages[page + 1].first;
	if (first == end)
		return none;
	if (!is_intact(index, index->lows + first, (size_t)(end - first) * sizeof(*index->lows))) {
		*ret_damaged = true;
		return none;
	}
	uint32_t segment = find_segment(index->lows, first, end, (uint16_t)address, hint->segment);
	if (segment == end)
		return none;
	*hint = (struct sp_index_hint){ page, segment };
	return segment;
}

static bool get_place(struct sp_index *index, uint32_t number, struct sp_index_place *ret)
{
	*ret = (struct sp_index_place){ 0 };
	if (!number)
		return true;
	if (number > index->header.places || !is_intact(index, &index->places[number - 1], sizeof(*ret)))
		return false;
	*ret = index->places[number - 1];
	return ret->file <= index->header.files;
}

/* Asks for memory that will be read soon; a place outside is never read. */
static inline void fetch(const void *items, uint32_t number, size_t size)
{
	if (number)
		__builtin_prefetch((const uint8_t *)items + (number - 1) * size);
}

void sp_index_spots(struct sp_index *index, const uint64_t *addresses, size_t count, struct sp_index_hint *hint,
                    struct sp_index_spot *ret)
{
	const uint32_t width = index->header.width, none = index->header.segments;
	for (size_t i = 0; i < count; i++) {
		ret[i] = (struct sp_index_spot){ 0 };
		uint32_t segment = segment_at(index, addresses[i], hint, &ret[i].damaged);
		ret[i].node = segment;
		fetch(index->segment_nodes, segment + 1, width);
		fetch(index->segment_places, segment + 1, width);
	}
	for (size_t i = 0; i < count; i++) {
		size_t segment = ret[i].node;
		ret[i].node = 0;
		if (segment == none)
			continue;
		const uint8_t *node = index->segment_nodes + segment * width;
		const uint8_t *place = index->segment_places + segment * width;
		if (!is_intact(index, node, width) || !is_intact(index, place, width)) {
			ret[i].damaged = true;
			continue;
		}
		ret[i].node = sp_index_number(node, width);
		ret[i].place = sp_index_number(place, width);
		fetch(index->nodes, ret[i].node, 3 * (size_t)width);
		fetch(index->places, ret[i].place, sizeof(*index->places));
	}
}

size_t sp_index_frames(struct sp_index *index, uint64_t address, struct sp_index_hint *hint,
                       struct sp_index_frame *frames)
{
	struct sp_index_spot spot;
	sp_index_spots(index, &address, 1, hint, &spot);
	return sp_index_frames_at(index, &spot, frames);
}

size_t sp_index_frames_at(struct sp_index *index, const struct sp_index_spot *spot, struct sp_index_frame *frames)
{
	const uint32_t width = index->header.width;
	uint32_t node = spot->node, place = spot->place;
	size_t count = 0;
	if (spot->damaged)
		return SP_INDEX_DAMAGED;
	if (!node && place) {
		frames[0].name = 0;
		return get_place(index, place, &frames[0].place) ? 1 : SP_INDEX_DAMAGED;
	}
	while (node) {
		const uint8_t *at = index->nodes + (size_t)(node - 1) * 3 * width;
		if (node > index->header.nodes || count == SP_INDEX_MAX_FRAMES || !is_intact(index, at, 3 * width))
			return SP_INDEX_DAMAGED;
		struct sp_index_frame *frame = &frames[count++];
		frame->name = sp_index_number(at, width);
		uint32_t parent = sp_index_number(at + width, width);
		if (!get_place(index, place, &frame->place) || frame->name > index->header.names || parent >= node)
			return SP_INDEX_DAMAGED;
		place = sp_index_number(at + 2 * width, width);
		node = parent;
	}
	return count;
}

/* ---- Symbols ---- */

const struct sp_index_symbol *sp_index_symbol(struct sp_index *index, uint32_t number)
{
	if (!number || number > index->header.symbols)
		return NULL;
	const struct sp_index_symbol *symbol = &index->symbols[number - 1];
	return is_intact(index, symbol, sizeof(*symbol)) && symbol->name <= index->header.names ? symbol : NULL;
}

/* The last border at or below an address; `end` = none. Borders that lie are found by nobody. */
static uint32_t find_border(const uint64_t *borders, uint32_t end, uint64_t address, uint32_t hint)
{
	uint32_t from = 0, to = end;
	if (!end || borders[0] > address)
		return end;
	if (hint < end && borders[hint] <= address) {
		uint32_t step = 4;
		from = hint;
		while (step < end - from && borders[from + step] <= address) {
			from += step;
			step *= 2;
		}
		to = step < end - from ? from + step : end;
	}
	while (to - from > 1) {
		uint32_t half = (to - from) / 2;
		bool right = borders[from + half] <= address;
		from = right ? from + half : from;
		to = right ? to : from + half;
	}
	return from;
}

/* They are looked at for every address: all of them once. */
static inline bool borders_are_intact(struct sp_index *index)
{
	if (atomic_load_explicit(&index->borders_checked, memory_order_relaxed))
		return true;
	bool intact = is_intact(index, index->borders, (size_t)index->header.borders * sizeof(*index->borders));
	atomic_store_explicit(&index->borders_checked, intact, memory_order_relaxed);
	return intact;
}

const struct sp_index_symbol *sp_index_symbol_at(struct sp_index *index, uint64_t address, uint32_t *hint,
                                                 bool *ret_damaged)
{
	uint32_t count = index->header.borders;
	if (!borders_are_intact(index)) {
		*ret_damaged = true;
		return NULL;
	}
	uint32_t border = find_border(index->borders, count, address, *hint);
	if (border == count)
		return NULL;
	*hint = border;
	if (!is_intact(index, &index->owners[border], sizeof(*index->owners))) {
		*ret_damaged = true;
		return NULL;
	}
	uint32_t owner = index->owners[border];
	if (!owner)
		return NULL;
	const struct sp_index_symbol *symbol = sp_index_symbol(index, owner);
	*ret_damaged |= !symbol;
	return symbol && address - symbol->start < symbol->size ? symbol : NULL;
}

/* ---- Strings ---- */

void sp_index_text_deinit(struct sp_index_text *text)
{
	free(text->block.bytes);
	*text = (struct sp_index_text){ 0 };
}

/* Unpacks a block. */
static bool unpack(struct sp_index *index, enum sp_index_section offsets, size_t block, struct sp_index_text *text)
{
	const struct sp_index_extent *blocks = &index->header.sections[offsets + 1];
	const uint64_t *at = (const uint64_t *)section(index, offsets) + block;
	if (!are_intact(index, at, 2 * sizeof(*at)) || at[0] > at[1] || at[1] > blocks->size)
		return false;
	const uint8_t *packed = index->bytes + blocks->offset + at[0];
	size_t packed_size = (size_t)(at[1] - at[0]);
	if (!are_intact(index, packed, packed_size))
		return false;
	unsigned long long size = ZSTD_getFrameContentSize(packed, packed_size);
	if (size > SP_INDEX_MAX_BLOCK)
		return false;
	text->number = 0;
	if (size > text->block.capacity) {
		char *larger = realloc(text->block.bytes, (size_t)size);
		if (!larger)
			return false;
		text->block.bytes = larger;
		text->block.capacity = (size_t)size;
	}
	text->block.size = (size_t)size;
	if (!size || ZSTD_decompress(text->block.bytes, (size_t)size, packed, packed_size) != size)
		return false;
	text->number = block + 1 + ((uint64_t)offsets << 32);
	return true;
}

/* String `number` of `count`: its kind, and the string behind it. */
static bool get_string(struct sp_index *index, enum sp_index_section offsets, uint32_t number, uint32_t count,
                       struct sp_index_text *text, const char **ret, unsigned *ret_kind)
{
	if (!number || number > count)
		return false;
	size_t block = (number - 1) / SP_INDEX_STRINGS_PER_BLOCK;
	if (text->number != block + 1 + ((uint64_t)offsets << 32) && !unpack(index, offsets, block, text))
		return false;
	const char *at = text->block.bytes, *end = at + text->block.size;
	for (uint32_t skip = (number - 1) % SP_INDEX_STRINGS_PER_BLOCK; skip; skip--) {
		const char *nul = memchr(at, 0, (size_t)(end - at));
		if (!nul)
			return false;
		at = nul + 1;
	}
	if (end - at < 2 || !memchr(at, 0, (size_t)(end - at)))
		return false;
	*ret_kind = (unsigned char)*at - 1u;
	*ret = at + 1;
	return true;
}

bool sp_index_name(struct sp_index *index, uint32_t name, struct sp_index_text *text, const char **ret,
                   enum sp_index_name_kind *ret_kind)
{
	unsigned kind;
	if (!get_string(index, SP_INDEX_NAME_OFFSETS, name, index->header.names, text, ret, &kind) ||
	    kind > SP_INDEX_NAMELESS)
		return false;
	*ret_kind = (enum sp_index_name_kind)kind;
	return true;
}

bool sp_index_file(struct sp_index *index, uint32_t file, struct sp_index_text *text, const char **ret)
{
	unsigned kind;
	return get_string(index, SP_INDEX_FILE_OFFSETS, file, index->header.files, text, ret, &kind);
}
