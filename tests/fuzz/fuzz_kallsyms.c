/* Fuzz target: kernel symbol lists: what is made of one can be read, and keeps its symbols. */
#include "symbolication/kallsyms.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct sp_symbols *symbols)
{
	for (size_t i = 0; i < symbols->count; i++) {
		const struct sp_symbol *s = &symbols->items[i];
		if (!s->name[0] || (i && s->address < symbols->items[i - 1].address))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_symbols symbols;
	struct spsym_file_info info;
	struct sp_kallsyms_image image = { .build_id = data, .build_id_size = size < 20 ? size : 20, .arch = "x86_64" };
	char *kept;
	size_t kept_size;
	(void)sp_kallsyms_probe(data, size);
	struct sp_error *error = sp_kallsyms_read(data, size, &symbols, &info);
	if (!error) {
		check(&symbols);
		sp_symbols_deinit(&symbols);
	}
	sp_error_destroy(error);
	error = sp_kallsyms_make((const char *)data, size, &image, &kept, &kept_size, NULL);
	if (!error) {
		if (!sp_kallsyms_probe(kept, kept_size))
			abort();
		error = sp_kallsyms_read(kept, kept_size, &symbols, &info);
		if (!error) {
			check(&symbols);
			sp_symbols_deinit(&symbols);
		}
		free(kept);
	}
	sp_error_destroy(error);
	return 0;
}
