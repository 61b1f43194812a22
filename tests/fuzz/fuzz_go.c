/* Fuzz target: Go's table of functions and lines, from the table and from an index of it. The first byte chooses one of
 * the made programs (of the tests); then come changes to it: where (2 bytes), and the byte there. */
#include "../unit/go_table.h"
#include "look_up.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct made m;
	static const unsigned forms[] = { 2, 16, 18, 20 };
	uint64_t addresses[0x70];
	if (!size)
		return 0;
	make(&m, forms[data[0] & 3], data[0] & 4 ? 4 : 8, data[0] & 8, data[0] & 16 ? ".rodata" : ".gopclntab");
	for (size_t i = 1; i + 3 <= size; i += 3)
		m.bytes[(TABLE + (data[i] | (size_t)data[i + 1] << 8)) % SIZE] = data[i + 2];
	for (size_t i = 0; i < 0x70; i++)
		addresses[i] = TEXT + i;
	look_up(m.bytes, SIZE, "fuzz", addresses, 0x70);
	return 0;
}
