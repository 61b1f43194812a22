/* Kernel symbols as text: /proc/kallsyms, and the files that sp keeps of it. Internal to symbolication/, and what the
 * recorder keeps the running kernel's symbols with.
 *
 * A kept file is one header line, then the lines of one image (the kernel itself or one of its modules) as they stand
 *in /proc/kallsyms:
 *
 *	# sp-kallsyms 1 base=<hex> build-id=<hex> arch=<arch>
 *	ffffffff81000000 T _text
 *
 * `base` is the address of relative address 0: for the kernel that of _text, which is where the first segment of its
 * vmlinux stands, for a module that of its .text. */
#ifndef SP_SYMBOLICATION_KALLSYMS_H
#define SP_SYMBOLICATION_KALLSYMS_H

#include "common/arena.h"
#include "common/error.h"
#include "spsym.h"
#include "symbolication/object/object.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a kept file needs beside the text. */
struct sp_kallsyms_image {
	const char *module; /* "ext4" as in "[ext4]"; NULL = the kernel itself */
	uint64_t base;      /* 0 = the kernel's _text (else _stext) */
	const uint8_t *build_id;
	size_t build_id_size;
	const char *arch; /* as in spsym_file_info */
	bool big_endian;
};

/* Makes a kept file from the text of /proc/kallsyms: only code symbols of the image. SP_ERROR_PERMISSION when the
 * kernel hides its addresses (all are zero), SP_ERROR_NOT_FOUND when the image has no symbol. The caller frees *ret;
 * *ret_base (may be NULL) gets the base. */
struct sp_error *sp_kallsyms_make(const char *text, size_t size, const struct sp_kallsyms_image *image, char **ret,
                                  size_t *ret_size, uint64_t *ret_base);

/* Whether bytes look like such text. */
bool sp_kallsyms_probe(const void *bytes, size_t size);

/* Reads a kept file, or the plain text of /proc/kallsyms (then with the symbols of modules, as "name [module]"):
 * symbols in address order with SP_SYMBOL_SYMTAB, sizes up to the next symbol, at most to the end of the image's last
 * page; `names` are copies. `info` gets kind, base, IDs and arch. */
struct sp_error *sp_kallsyms_read(const void *bytes, size_t size, struct sp_symbols *ret, struct spsym_file_info *info);

#endif
