/* SHA-256 by nettle, loaded on first use. Internal to symbolication/. */
#ifndef SP_SYMBOLICATION_STORE_HASH_H
#define SP_SYMBOLICATION_STORE_HASH_H

#include "common/error.h"

#include <stddef.h>

/* Call this before store_sha256(). */
struct sp_error *store_need_hash(void);
/* In hex; `ret` holds 65 chars. */
void store_sha256(const void *bytes, size_t size, char *ret);

#endif
