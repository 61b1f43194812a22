/* Which source paths can be fetched from the web, and how the front-end wants them named: "hg:repo:path:rev",
 * "git:repo:path:rev", "s3:bucket:digest/path:", "cargo:registry:crate-version:path". Everything else stays as it is.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* A part of a path, not NUL-terminated. */
struct part {
	const char *start;
	size_t length;
};

static bool is_slash(char c)
{
	return c == '/' || c == '\\';
}

/* Takes a literal off the front; a slash in it fits a backslash too. */
static bool take(const char **at, const char *literal)
{
	const char *c = *at;
	for (; *literal; literal++, c++) {
		if (*c != *literal && !(*literal == '/' && *c == '\\'))
			return false;
	}
	*at = c;
	return true;
}

/* Takes what comes before the next slash, and the slash; false when there is none or it is empty. */
static bool take_part(const char **at, struct part *ret)
{
	size_t length = strcspn(*at, "/\\");
	if (!length || !(*at)[length])
		return false;
	*ret = (struct part){ *at, length };
	*at += length + 1;
	return true;
}

/* The whole rest, up to a query; false when it is empty or could not be told apart in the result. */
static bool take_rest(const char *at, struct part *ret)
{
	*ret = (struct part){ at, strcspn(at, "?") };
	return ret->length && !memchr(at, ':', ret->length);
}

static bool is_hex(struct part part, size_t least)
{
	return part.length >= least && strspn(part.start, "0123456789abcdefABCDEF") >= part.length;
}

/* Joins parts, with slashes in `path` made forward ones. */
static const char *join(struct sp_arena *arena, const struct part *parts, size_t count)
{
	size_t length = 0, at = 0;
	for (size_t i = 0; i < count; i++)
		length += parts[i].length;
	char *joined = sp_arena_alloc(arena, length + 1);
	if (!joined)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		memcpy(joined + at, parts[i].start, parts[i].length);
		at += parts[i].length;
	}
	joined[length] = 0;
	for (char *c = joined; *c; c++) {
		if (*c == '\\')
			*c = '/';
	}
	return joined;
}

#define TEXT(literal) ((struct part){ literal, sizeof(literal) - 1 })
#define JOIN(arena, ...)                                  \
	join(arena, (const struct part[]){ __VA_ARGS__ }, \
	     sizeof((const struct part[]){ __VA_ARGS__ }) / sizeof(struct part))

/* /rustc/<rev>/library/… */
static const char *rust_library(struct sp_arena *arena, const char *path)
{
	struct part rev, rest;
	if (!take(&path, "/rustc/") || !take_part(&path, &rev) || !is_hex(rev, 7) || !take_rest(path, &rest))
		return NULL;
	return JOIN(arena, TEXT("git:github.com/rust-lang/rust:"), rest, TEXT(":"), rev);
}

/* …/.cargo/registry/src/<registry>/<crate>-<version>/<path> */
static const char *cargo_crate(struct sp_arena *arena, const char *path)
{
	struct part registry, crate, rest;
	if (!strstr(path, ".cargo")) /* all paths come by here */
		return NULL;
	for (; *path; path++) {
		const char *at = path;
		if (!is_slash(*at) || !take(&at, "/.cargo/registry/src/"))
			continue;
		if (!take_part(&at, &registry) || !take_part(&at, &crate) || !take_rest(at, &rest) ||
		    !memchr(crate.start, '-', crate.length))
			return NULL;
		return JOIN(arena, TEXT("cargo:"), registry, TEXT(":"), crate, TEXT(":"), rest);
	}
	return NULL;
}

/* raw.githubusercontent.com/<owner>/<name>/<rev>/<path> */
static const char *github(struct sp_arena *arena, const char *url)
{
	struct part owner, name, rev, rest;
	if (!take(&url, "raw.githubusercontent.com/") || !take_part(&url, &owner) || !take_part(&url, &name) ||
	    !take_part(&url, &rev) || !take_rest(url, &rest))
		return NULL;
	return JOIN(arena, TEXT("git:github.com/"), owner, TEXT("/"), name, TEXT(":"), rest, TEXT(":"), rev);
}

/* <host>/<repo…>/raw-file/<rev>/<path> */
static const char *mercurial(struct sp_arena *arena, const char *url)
{
	const char *at = strstr(url, "/raw-file/");
	struct part repo = { url, at ? (size_t)(at - url) : 0 }, rev, rest;
	if (!at || !take(&at, "/raw-file/") || !take_part(&at, &rev) || !is_hex(rev, 7) || !take_rest(at, &rest))
		return NULL;
	return JOIN(arena, TEXT("hg:"), repo, TEXT(":"), rest, TEXT(":"), rev);
}

/* <host>.googlesource.com/<repo…>[.git]/+/<rev>/<path>[?format=TEXT] */
static const char *gitiles(struct sp_arena *arena, const char *url)
{
	const char *at = strstr(url, "/+/");
	struct part repo = { url, at ? (size_t)(at - url) : 0 }, rev, rest;
	const char *host = strstr(url, ".googlesource.com/");
	if (!at || !host || host > at || memchr(url, '/', (size_t)(host - url)))
		return NULL;
	at += 3;
	if (!take_part(&at, &rev) || !is_hex(rev, 7) || !take_rest(at, &rest))
		return NULL;
	if (repo.length > 4 && !memcmp(repo.start + repo.length - 4, ".git", 4))
		repo.length -= 4;
	return JOIN(arena, TEXT("git:"), repo, TEXT(":"), rest, TEXT(":"), rev);
}

/* <bucket>.s3.amazonaws.com/<digest>/<path> */
static const char *s3_object(struct sp_arena *arena, const char *url)
{
	const char *at = strstr(url, ".s3.amazonaws.com/");
	struct part bucket = { url, at ? (size_t)(at - url) : 0 }, digest, rest;
	if (!at || !bucket.length || memchr(url, '/', bucket.length))
		return NULL;
	at += strlen(".s3.amazonaws.com/");
	if (!take_part(&at, &digest) || !is_hex(digest, 32) || !take_rest(at, &rest))
		return NULL;
	return JOIN(arena, TEXT("s3:"), bucket, TEXT(":"), digest, TEXT("/"), rest, TEXT(":"));
}

const char *api_shown_path(struct sp_arena *arena, const char *path)
{
	const char *shown = NULL, *url = path;
	if (take(&url, "https://")) {
		static const char *(*const kinds[])(struct sp_arena *, const char *) = { github, gitiles, s3_object,
			                                                                 mercurial };
		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && !shown; i++)
			shown = kinds[i](arena, url);
	} else {
		shown = rust_library(arena, path);
		if (!shown)
			shown = cargo_crate(arena, path);
	}
	return shown ? shown : path;
}
