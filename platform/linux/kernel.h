/* Where the kernel and its modules lie, and their build IDs. */
#ifndef SP_PLATFORM_LINUX_KERNEL_H
#define SP_PLATFORM_LINUX_KERNEL_H

#include "common/error.h"
#include "sampler/event.h"

typedef struct sp_error *(*sp_kernel_module_fn)(void *context, const struct sp_event_map *module);

/* Calls `each` for the kernel's text ("[kernel.kallsyms]") and its modules ("[name]"); for nothing where addresses are
 * hidden from this user. */
struct sp_error *sp_kernel_list(sp_kernel_module_fn each, void *context);

/* The text of /proc/modules, which is changed. */
struct sp_error *sp_kernel_parse_modules(char *text, sp_kernel_module_fn each, void *context);

/* The GNU build ID in ELF notes; false when there is none. */
bool sp_kernel_parse_notes(const void *bytes, size_t size, uint8_t build_id[SP_BUILD_ID_MAX], uint8_t *ret_size);

#endif
