/* Cabinets: what symbol stores keep files in whose names end in '_' (foo.pd_). Internal to symbolication/. */
#ifndef SP_SYMBOLICATION_LOCATE_CABINET_H
#define SP_SYMBOLICATION_LOCATE_CABINET_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool sp_cabinet_probe(const void *bytes, size_t size);

/* Unpacks the first file of a cabinet, of at most `limit` bytes. Stored and MSZIP files by own code, LZX by libarchive,
 * which is loaded for that (SP_ERROR_UNSUPPORTED where it is not there). The caller frees *ret. */
struct sp_error *sp_cabinet_unpack(const void *bytes, size_t size, size_t limit, uint8_t **ret, size_t *ret_size);

#endif
