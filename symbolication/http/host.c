/* The Host header against DNS rebinding: a page of another site can make its own name point to this machine, but then
 * the browser sends that name as Host. Literal addresses cannot be made to point elsewhere. */
#include "internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* The name or address in "name:port", "[v6]:port", without brackets. */
static size_t host_part(const char *host, const char **ret)
{
	if (*host == '[') {
		const char *end = strchr(host, ']');
		*ret = host + 1;
		return end && (!end[1] || end[1] == ':') ? (size_t)(end - host - 1) : 0;
	}
	*ret = host;
	return strcspn(host, ":");
}

static bool is(const char *host, size_t length, const char *name)
{
	return strlen(name) == length && !strncasecmp(host, name, length);
}

/* Four numbers and dots, or in brackets hex digits and colons: nothing that a name server could answer for. */
static bool is_literal(const char *host, size_t length, bool brackets)
{
	size_t dots = 0;
	for (size_t i = 0; i < length; i++) {
		if (brackets ? !isxdigit((unsigned char)host[i]) && host[i] != ':' && host[i] != '.'
		             : !isdigit((unsigned char)host[i]) && host[i] != '.')
			return false;
		dots += host[i] == '.';
	}
	return length && (brackets || dots == 3);
}

bool sp_http_is_loopback(const char *address)
{
	return !strncmp(address, "127.", 4) || !strcmp(address, "::1") || !strcmp(address, "[::1]") ||
	       !strcmp(address, "localhost");
}

bool http_host_is_ours(const struct sp_http *http, const char *host)
{
	if (!host)
		return false;
	const char *name;
	size_t length = host_part(host, &name);
	if (!length)
		return false;
	if (is(name, length, http->address) || is(name, length, "127.0.0.1") || is(name, length, "::1") ||
	    is(name, length, "localhost"))
		return true;
	for (const char *const *known = http->options.hosts; known && *known; known++) {
		if (is(name, length, *known))
			return true;
	}
	return http->wildcard && is_literal(name, length, *host == '[');
}
