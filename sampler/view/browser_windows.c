/* Opening a browser on Windows: the shell's "open", which takes the default browser. */
#include "internal.h"

#include <windows.h>

#include <shellapi.h>

bool view_open_browser(const char *url, bool *ret_remote)
{
	*ret_remote = false;
	return (INT_PTR)ShellExecuteA(NULL, "open", url, NULL, NULL, SW_SHOWNORMAL) > 32;
}
