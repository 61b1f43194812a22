/* The user behind sudo; see sudo_user.h. */
#include "platform/linux/sudo_user.h"

#include "common/sudo.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sp_error *find_groups(struct sp_sudo_user *user)
{
	int count = 0;
	if (user->name)
		getgrouplist(user->name, user->gid, NULL, &count);
	if (count < 1)
		count = 1;
	user->groups = calloc((size_t)count, sizeof(*user->groups));
	if (!user->groups)
		return sp_error_no_memory();
	user->groups[0] = user->gid;
	user->group_count = 1;
	if (user->name && getgrouplist(user->name, user->gid, user->groups, &count) > 0)
		user->group_count = (size_t)count;
	return NULL;
}

struct sp_error *sp_sudo_user_init(struct sp_sudo_user *user, bool *ret_found)
{
	*user = (struct sp_sudo_user){ 0 };
	*ret_found = false;
	if (!sp_sudo_ids(&user->uid, &user->gid))
		return NULL;
	const struct passwd *entry = getpwuid(user->uid);
	if (entry) {
		user->name = strdup(entry->pw_name);
		user->home = strdup(entry->pw_dir);
		if (!user->name || !user->home) {
			sp_sudo_user_deinit(user);
			return sp_error_no_memory();
		}
	}
	struct sp_error *error = find_groups(user);
	if (error)
		sp_sudo_user_deinit(user);
	*ret_found = !error;
	return error;
}

void sp_sudo_user_deinit(struct sp_sudo_user *user)
{
	free(user->groups);
	free(user->name);
	free(user->home);
	*user = (struct sp_sudo_user){ 0 };
}

int sp_sudo_user_become(const struct sp_sudo_user *user)
{
	if (setgroups(user->group_count, user->groups) || setresgid(user->gid, user->gid, user->gid) ||
	    setresuid(user->uid, user->uid, user->uid))
		return errno;
	return 0;
}
