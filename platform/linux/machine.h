/* Facts about this machine for the meta data of a recording. */
#ifndef SP_PLATFORM_LINUX_MACHINE_H
#define SP_PLATFORM_LINUX_MACHINE_H

/* See sp_backend_ops.describe. */
void sp_machine_describe(void (*emit)(void *context, const char *key, const char *value), void *context);

#endif
