/* Facts about this machine, for the profile's meta data. */
#ifndef SP_PLATFORM_LINUX_MACHINE_H
#define SP_PLATFORM_LINUX_MACHINE_H

/* Calls `emit` with SP_META_* keys (sampler/profile/model.h); strings are valid during the call. */
void sp_linux_describe(void (*emit)(void *context, const char *key, const char *value), void *context);

#endif
