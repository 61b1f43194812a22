/* Addresses of the viewer, and the random path that only who was told it knows. */
#ifdef _WIN32
#define _CRT_RAND_S
#endif
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <sys/random.h>
#endif

#define RANDOM_BYTES 24

static struct sp_error *random_bytes(uint8_t *ret)
{
#ifdef _WIN32
	for (size_t i = 0; i < RANDOM_BYTES; i += 4) {
		unsigned word;
		if (rand_s(&word))
			return sp_error_create(SP_ERROR_SYSTEM, "no random bytes");
		memcpy(ret + i, &word, 4);
	}
#else
	if (getentropy(ret, RANDOM_BYTES))
		return sp_error_from_errno(errno, "no random bytes");
#endif
	return NULL;
}

struct sp_error *view_random_token(char *ret)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint8_t bytes[RANDOM_BYTES];
	struct sp_error *error = random_bytes(bytes);
	if (error)
		return error;
	size_t bit = 0, at = 0;
	for (; bit < sizeof(bytes) * 8; bit += 5) {
		unsigned word = (unsigned)bytes[bit / 8] << 8 | (bit / 8 + 1 < RANDOM_BYTES ? bytes[bit / 8 + 1] : 0);
		ret[at++] = digits[word >> (11 - bit % 8) & 31];
	}
	ret[at] = 0;
	return NULL;
}

char *view_percent_encode(const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
	static const char hex[] = "0123456789ABCDEF";
	char *encoded = malloc(strlen(text) * 3 + 1), *at = encoded;
	if (!encoded)
		return NULL;
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (strchr(plain, c)) {
			*at++ = (char)c;
		} else {
			*at++ = '%';
			*at++ = hex[c >> 4];
			*at++ = hex[c & 15];
		}
	}
	*at = 0;
	return encoded;
}

char *view_origin(const char *address, uint16_t port)
{
	char *origin = NULL;
	if (!strcmp(address, "0.0.0.0") || !strcmp(address, "localhost"))
		address = "127.0.0.1";
	else if (!strcmp(address, "::") || !strcmp(address, "[::]"))
		address = "::1";
	bool brackets = strchr(address, ':') && address[0] != '[';
	int length = asprintf(&origin, brackets ? "http://[%s]:%u" : "http://%s:%u", address, port);
	return length < 0 ? NULL : origin;
}
