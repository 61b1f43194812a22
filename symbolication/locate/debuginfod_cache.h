/* The folder that debuginfod's clients share; layout and rules as in debuginfod_find_debuginfo(3). */
#ifndef SP_SYMBOLICATION_LOCATE_DEBUGINFOD_CACHE_H
#define SP_SYMBOLICATION_LOCATE_DEBUGINFOD_CACHE_H

#include "symbolication/locate/debuginfod.h"

/* $DEBUGINFOD_CACHE_PATH, else ~/.debuginfod_client_cache if it is there, else $XDG_CACHE_HOME/debuginfod_client, else
 * ~/.cache/debuginfod_client. The caller frees *ret. */
struct sp_error *sp_debuginfod_cache_folder(char **ret);

/* The path of a file; its folder is made if `make`. `id` is the build ID in hex. The caller frees *ret. */
struct sp_error *sp_debuginfod_cache_path(const char *cache, const char *id, enum sp_debuginfod_kind kind,
                                          const char *source, bool make, char **ret);

enum sp_debuginfod_cached { SP_DEBUGINFOD_UNKNOWN, SP_DEBUGINFOD_HAVE, SP_DEBUGINFOD_MISS };
/* What the cache knows. A miss holds for the seconds in the cache's file cache_miss_s (600) and is forgotten then. */
enum sp_debuginfod_cached sp_debuginfod_cache_look(const char *cache, const char *path);
/* Remembers that no server has it. */
void sp_debuginfod_cache_miss(const char *path);
/* Removes what was not used for max_unused_age_s (a week), at most once in cache_clean_interval_s (a day). */
void sp_debuginfod_cache_clean(const char *cache);

#endif
