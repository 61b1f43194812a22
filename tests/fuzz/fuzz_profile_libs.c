/* Fuzz target: what the viewer reads of a profile's file: is it one, and which libraries are in it. */
#include "sampler/view/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	struct view_profile profile;
	struct view_libs libs = { 0 };
	int fd = memfd_create("profile", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	sp_error_destroy(view_profile_check(path, &profile));
	sp_error_destroy(view_libs_read(path, &libs));
	for (size_t i = 0; i < libs.identities.count; i++) {
		const struct spsym_identity *identity = &libs.identities.items[i];
		if (view_libs_find(&libs, identity->debug_name, identity->debug_id) != identity)
			abort();
	}
	view_libs_deinit(&libs);
	close(fd);
	return 0;
}
