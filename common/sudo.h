/* Who is behind sudo. Unix only: file_unix.c gives files to that user, the recorder runs the command as that user, the
 * viewer opens that user's browser. */
#ifndef SP_COMMON_SUDO_H
#define SP_COMMON_SUDO_H

#include <stdbool.h>
#include <sys/types.h>

/* The ids in SUDO_UID and SUDO_GID. False when this process does not run as root under sudo, or root called it. */
bool sp_sudo_ids(uid_t *ret_uid, gid_t *ret_gid);

#endif
