/* Tokens: made once, told once, kept as a hash. */
#include "private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PREFIX "sps_"
#define ID_BYTES 5
#define SECRET_BYTES 24

/* Five bits a letter. */
static void to_base32(const uint8_t *bytes, size_t size, char *ret)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned bits = 0, held = 0;
	for (size_t i = 0; i < size; i++) {
		bits = bits << 8 | bytes[i];
		for (held += 8; held >= 5; held -= 5)
			*ret++ = letters[bits >> (held - 5) & 31];
	}
	if (held)
		*ret++ = letters[bits << (5 - held) & 31];
	*ret = 0;
}

struct sp_error *sp_store_token_create(struct sp_store *store, struct sp_store_token *token, char *secret)
{
	uint8_t bytes[ID_BYTES + SECRET_BYTES];
	char text[48], sha256[SP_STORE_SHA_SIZE];
	char probe[SP_STORE_NAME_SIZE + 4];
	size_t length = strlen(token->ns);
	/* "pr/" with a star is tried with a name in its place. */
	snprintf(probe, sizeof(probe), "%.*s%s", (int)(length && token->ns[length - 1] == '*' ? length - 1 : length),
	         token->ns, length && token->ns[length - 1] == '*' ? "x" : "");
	if (length && strcmp(token->ns, "*") != 0 && !sp_store_is_namespace(probe))
		return sp_error_create(SP_ERROR_USAGE,
		                       "\"%s\" is no namespace: release, branch/NAME or pr/NAME, at its end may be a *",
		                       token->ns);
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return sp_error_from_errno(errno, "no random bytes");
	to_base32(bytes, ID_BYTES, token->id);
	to_base32(bytes + ID_BYTES, SECRET_BYTES, text);
	snprintf(secret, SP_STORE_TOKEN_SIZE, PREFIX "%s_%s", token->id, text);
	store_sha256(secret, strlen(secret), sha256);
	token->created = store_now();
	return store_index_put_token(store->index, token, sha256);
}

struct sp_error *sp_store_token_check(struct sp_store *store, const char *secret, struct sp_store_token *ret)
{
	char id[16] = "", known[SP_STORE_SHA_SIZE] = "", given[SP_STORE_SHA_SIZE];
	struct sp_error *error = NULL;
	unsigned char difference = 0;
	size_t length = strncmp(secret, PREFIX, strlen(PREFIX)) ? 0 : strcspn(secret + strlen(PREFIX), "_");
	if (!length || length >= sizeof(id) || strlen(secret) >= SP_STORE_TOKEN_SIZE)
		return sp_error_create(SP_ERROR_PERMISSION, "that is no token of this server");
	memcpy(id, secret + strlen(PREFIX), length);
	error = store_index_get_token(store->index, id, ret, known);
	if (error && error->code != SP_ERROR_NOT_FOUND)
		return error;
	store_sha256(secret, strlen(secret), given);
	for (size_t i = 0; i < sizeof(given); i++)
		difference |= (unsigned char)(given[i] ^ known[i]);
	bool unknown = error || difference;
	sp_error_destroy(error);
	if (unknown)
		return sp_error_create(SP_ERROR_PERMISSION, "that is no token of this server");
	if (ret->revoked || (ret->expires && ret->expires <= store_now()))
		return sp_error_create(SP_ERROR_PERMISSION, "the token %s is %s", ret->id,
		                       ret->revoked ? "revoked" : "expired");
	return NULL;
}

struct sp_error *sp_store_token_revoke(struct sp_store *store, const char *id)
{
	return store_index_revoke_token(store->index, id);
}

struct sp_error *sp_store_token_list(struct sp_store *store, sp_store_tokens *ret)
{
	return store_index_list_tokens(store->index, ret);
}

bool sp_store_token_allows(const struct sp_store_token *token, const char *ns)
{
	size_t length = strlen(token->ns);
	if (!length)
		return false;
	if (token->ns[length - 1] == '*')
		return !strncmp(token->ns, ns, length - 1);
	return !strcmp(token->ns, ns);
}
