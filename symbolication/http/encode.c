/* Compression of replies: zstd or gzip, as the client accepts, at their fastest levels (the wire is mostly loopback).
 */
#include "internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

#define LEAST_SIZE 1024 /* bytes; smaller replies are not worth it */

void http_encoder_deinit(struct http_encoder *encoder)
{
	ZSTD_freeCCtx(encoder->zstd);
	encoder->zstd = NULL;
}

/* Whether the parameters behind a coding say q=0. */
static bool quality_is_zero(const char *at, const char *end)
{
	const char *q = at;
	while (q + 1 < end && !((q[0] == 'q' || q[0] == 'Q') && q[1] == '='))
		q++;
	if (q + 1 >= end)
		return false;
	for (q += 2; q < end && (*q == '0' || *q == '.'); q++)
		;
	return q == end || !isdigit((unsigned char)*q);
}

bool http_accepts(const char *accept_encoding, const char *coding)
{
	bool any = false, named = false, named_zero = false;
	for (const char *at = accept_encoding; at && *at;) {
		at += strspn(at, " \t,");
		const char *end = at + strcspn(at, ",");
		size_t length = strcspn(at, ",; \t");
		bool zero = quality_is_zero(at + length, end);
		if (length == strlen(coding) && !strncasecmp(at, coding, length)) {
			named = true;
			named_zero = zero;
		} else if (length == 1 && *at == '*') {
			any = !zero;
		}
		at = end;
	}
	return named ? !named_zero : any;
}

static bool encode_zstd(struct http_encoder *encoder, struct sp_buffer *body, char **ret, size_t *ret_size)
{
	if (!encoder->zstd)
		encoder->zstd = ZSTD_createCCtx();
	size_t bound = ZSTD_compressBound(body->size);
	char *out = encoder->zstd ? malloc(bound) : NULL;
	if (!out)
		return false;
	size_t size = ZSTD_compressCCtx(encoder->zstd, out, bound, body->bytes, body->size, 1);
	if (ZSTD_isError(size)) {
		free(out);
		return false;
	}
	*ret = out;
	*ret_size = size;
	return true;
}

static bool encode_gzip(struct sp_buffer *body, char **ret, size_t *ret_size)
{
	z_stream z = { 0 };
	if (body->size > UINT32_MAX / 2 || deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	size_t bound = deflateBound(&z, (uLong)body->size);
	char *out = malloc(bound);
	z.next_in = (Bytef *)body->bytes;
	z.avail_in = (uInt)body->size;
	z.next_out = (Bytef *)out;
	z.avail_out = (uInt)bound;
	bool done = out && deflate(&z, Z_FINISH) == Z_STREAM_END;
	*ret_size = bound - z.avail_out;
	deflateEnd(&z);
	if (!done) {
		free(out);
		return false;
	}
	*ret = out;
	return true;
}

const char *http_encode(struct http_encoder *encoder, const char *accept_encoding, struct sp_buffer *body)
{
	char *out;
	size_t size;
	const char *coding = NULL;
	if (body->size < LEAST_SIZE)
		return NULL;
	if (http_accepts(accept_encoding, "zstd") && encode_zstd(encoder, body, &out, &size))
		coding = "zstd";
	else if (http_accepts(accept_encoding, "gzip") && encode_gzip(body, &out, &size))
		coding = "gzip";
	if (!coding)
		return NULL;
	free(body->bytes);
	body->bytes = out;
	body->size = body->capacity = size;
	return coding;
}
