/* The user behind sudo. */
#ifndef SP_PLATFORM_LINUX_SUDO_USER_H
#define SP_PLATFORM_LINUX_SUDO_USER_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sp_sudo_user {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* owned; all supplementary groups */
	size_t group_count;
	char *name, *home; /* owned; NULL where the user is not in the password database */
};

/* Finds the user that called sudo: *ret_found is false when sp does not run as root under sudo, or root called it. */
struct sp_error *sp_sudo_user_init(struct sp_sudo_user *user, bool *ret_found);
void sp_sudo_user_deinit(struct sp_sudo_user *user);

/* Becomes that user for good: groups, gid, uid; all capabilities go. Async-signal-safe. 0, or an errno. */
int sp_sudo_user_become(const struct sp_sudo_user *user);

#endif
