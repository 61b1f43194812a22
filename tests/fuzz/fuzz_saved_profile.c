/* Fuzz target: names for a saved profile. No file that it names is opened, so this is about the profile: its tables are
 * read and written again; with symbols from a folder that holds a .sym file there are inlined functions, too. */
#include "sampler/output/output.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/sp-fuzz-saved-XXXXXX", symbol_file[64];

static void remove_folder(void)
{
	unlink(symbol_file);
	rmdir(folder);
}

/* A folder with the symbols of "lib.so"; made once. */
static const char *symbol_folder(void)
{
	static const char symbols[] = "MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 lib.so\nFILE 0 /a.c\n"
	                              "INLINE_ORIGIN 0 in\nINLINE_ORIGIN 1 deeper\nFUNC 0 100 0 out\n"
	                              "INLINE 0 1 0 0 10 40\nINLINE 1 2 0 1 20 8\n0 100 7 0\n";
	static bool made;
	if (made || !mkdtemp(folder))
		return folder;
	made = true;
	atexit(remove_folder);
	snprintf(symbol_file, sizeof(symbol_file), "%s/lib.so", folder);
	FILE *file = fopen(symbol_file, "w");
	if (file) {
		fwrite(symbols, 1, sizeof(symbols) - 1, file);
		fclose(file);
	}
	return folder;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *const folders[] = { symbol_folder(), NULL };
	struct spsym_options options = {
		.symbol_folders = folders, .no_background = true, .no_local_paths = true, .debuginfod_urls = ""
	};
	struct sp_symbolicate_summary summary;
	spsym_context *context;
	char path[64];
	int fd = memfd_create("profile", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || spsym_context_create(&options, &context)) {
		close(fd);
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	spsym_error_destroy(sp_profile_symbolicate(path, "/dev/null", context, NULL, &summary));
	spsym_context_destroy(context);
	close(fd);
	return 0;
}
