/* Reading what sudo left in the environment; see sudo.h. */
#include "common/sudo.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* A number that fits an id and is no special value. */
static bool read_id(const char *variable, unsigned *ret)
{
	const char *text = getenv(variable);
	if (!text || *text < '0' || *text > '9')
		return false;
	char *end;
	errno = 0;
	unsigned long value = strtoul(text, &end, 10);
	*ret = (unsigned)value;
	return !errno && !*end && value < UINT32_MAX;
}

bool sp_sudo_ids(uid_t *ret_uid, gid_t *ret_gid)
{
	unsigned uid, gid;
	if (geteuid() != 0 || !read_id("SUDO_UID", &uid) || !read_id("SUDO_GID", &gid) || !uid)
		return false;
	*ret_uid = uid;
	*ret_gid = gid;
	return true;
}
