/* Fuzz target: Go's table of functions and lines, from the table and from an index of it. The first byte chooses one of
 * the made programs (of the tests); then come changes to it: where (2 bytes), and the byte there. */
#include "../unit/go_table.h"
#include "spsym.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct made m;
	static const unsigned forms[] = { 2, 16, 18, 20 };
	struct spsym_options options = { .no_background = true, .debuginfod_urls = "" };
	uint64_t addresses[0x70];
	spsym_context *context;
	spsym_module *module;
	if (!size)
		return 0;
	make(&m, forms[data[0] & 3], data[0] & 4 ? 4 : 8, data[0] & 8, data[0] & 16 ? ".rodata" : ".gopclntab");
	for (size_t i = 1; i + 3 <= size; i += 3)
		m.bytes[(TABLE + (data[i] | (size_t)data[i + 1] << 8)) % SIZE] = data[i + 2];
	if (spsym_context_create(&options, &context))
		return 0;
	spsym_error *error = spsym_module_open_bytes(context, m.bytes, SIZE, "fuzz", &module);
	if (!error) {
		struct spsym_result result = { 0 };
		for (size_t i = 0; i < 0x70; i++)
			addresses[i] = TEXT + i;
		for (int round = 0; round < 2; round++) {
			spsym_error_destroy(spsym_lookup(module, addresses, 0x70, &result));
			spsym_error_destroy(spsym_module_index(module));
		}
		spsym_result_deinit(&result);
		spsym_module_release(module);
	}
	spsym_error_destroy(error);
	spsym_context_destroy(context);
	return 0;
}
