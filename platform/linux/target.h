/* Looking into a live process: its files, memory, paths, names. The functions of sp_backend_ops of the same names. */
#ifndef SP_PLATFORM_LINUX_TARGET_H
#define SP_PLATFORM_LINUX_TARGET_H

#include "sampler/backend.h"

struct sp_error *sp_target_open_mapped_file(struct sp_backend *backend, uint32_t pid, const struct sp_event_map *map,
                                            int *ret_fd);
struct sp_error *sp_target_read_memory(struct sp_backend *backend, uint32_t pid, uint64_t address, void *buffer,
                                       size_t size);
struct sp_error *sp_target_path(struct sp_backend *backend, uint32_t pid, const char *path, char **ret);
uint32_t sp_target_pid(struct sp_backend *backend, uint32_t pid);
char *sp_target_command_line(struct sp_backend *backend, uint32_t pid);

#endif
