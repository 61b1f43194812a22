/* SHA-256 by nettle, which uses the processor's instructions for it; loaded on first use. */
#include "hash.h"

#include "common/library.h"

#include <nettle/sha2.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#define FUNCTIONS(X) X(nettle_sha256_init) X(nettle_sha256_update) X(nettle_sha256_digest)

static struct {
	FUNCTIONS(SP_LIBRARY_MEMBER)
} nettle;
static struct sp_error *failed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	static const char *const names[] = { STORE_NETTLE_LIBRARY, NULL };
	static const struct sp_library_function functions[] = {
		{ "nettle_sha256_init", &nettle.nettle_sha256_init },
		{ "nettle_sha256_update", &nettle.nettle_sha256_update },
		{ "nettle_sha256_digest", &nettle.nettle_sha256_digest },
	};
	failed = sp_library_load(names, functions, sizeof(functions) / sizeof(functions[0]));
}

struct sp_error *store_need_hash(void)
{
	pthread_once(&once, load);
	return failed ? sp_error_copy(failed) : NULL;
}

void store_sha256(const void *bytes, size_t size, char *ret)
{
	struct sha256_ctx context;
	uint8_t digest[SHA256_DIGEST_SIZE];
	nettle.nettle_sha256_init(&context);
	nettle.nettle_sha256_update(&context, size, bytes);
	nettle.nettle_sha256_digest(&context, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}
