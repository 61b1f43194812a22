/* Reading /proc: what processes there are and what they have mapped. */
#ifndef SP_PLATFORM_LINUX_PROC_H
#define SP_PLATFORM_LINUX_PROC_H

#include "common/error.h"
#include "sampler/event.h"

#include <stdbool.h>
#include <stdint.h>

/* A numbered entry of a folder of /proc. */
typedef struct sp_error *(*sp_proc_number_fn)(void *context, uint32_t number);

/* Calls `each` for every numeric name in `folder` ("/proc", "/proc/7/task"). A missing folder has none. */
struct sp_error *sp_proc_numbers(const char *folder, sp_proc_number_fn each, void *context);

/* The parent's pid of a process; false when it is gone. */
bool sp_proc_parent(uint32_t pid, uint32_t *ret);

/* A thread's name, as comm gives it; false when it is gone. */
bool sp_proc_name(uint32_t pid, uint32_t tid, char *buffer, size_t size);

/* Calls `each` for the mappings of a process, in order of address. Strings live for the call. A process that is gone
 * has none. */
typedef struct sp_error *(*sp_proc_map_fn)(void *context, const struct sp_event_map *map);
struct sp_error *sp_proc_maps(uint32_t pid, sp_proc_map_fn each, void *context);

/* One line of /proc/PID/maps without its newline, NUL-terminated; false when it is none. The path is unescaped in
 * place. */
bool sp_proc_parse_map(char *line, struct sp_event_map *ret);

/* The value of a line "Name:\tvalue" of /proc/PID/status (pid 0: of sp itself); false when there is none. */
bool sp_proc_status_field(uint32_t pid, const char *name, char *buffer, size_t size);

#endif
