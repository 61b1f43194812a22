/* Loading of shared libraries; see library.h. */
#include "common/library.h"

#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

static void *open_library(const char *name)
{
#ifdef _WIN32
	return (void *)LoadLibraryA(name);
#else
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
#endif
}

/* C has no conversion between pointers to functions and to data. */
static bool find_function(void *library, const struct sp_library_function *function)
{
#ifdef _WIN32
	FARPROC found = GetProcAddress((HMODULE)library, function->name);
#else
	void *found = dlsym(library, function->name);
#endif
	memcpy(function->pointer, &found, sizeof(found));
	return found != NULL;
}

struct sp_error *sp_library_load(const char *const *names, const struct sp_library_function *functions, size_t count)
{
	void *library = NULL;
	for (size_t i = 0; names[i] && !library; i++)
		library = open_library(names[i]);
	if (!library)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "%s, which this needs, cannot be loaded: is it installed?",
		                       names[0]);
	for (size_t i = 0; i < count; i++) {
		if (!find_function(library, &functions[i]))
			return sp_error_create(SP_ERROR_UNSUPPORTED, "%s has no %s", names[0], functions[i].name);
	}
	return NULL;
}
