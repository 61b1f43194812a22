/* spsym: symbols, inline frames and sources by debug ID.
 *
 * A context finds and keeps symbol files; a module is one binary with whatever symbol information was found for it.
 * Give an address relative to the module, get the symbol that covers it and the frames there, inlined functions
 * included.
 *
 * Relative addresses count from the module's base: ELF the virtual address of the first PT_LOAD, PE ImageBase, Mach-O
 * __TEXT; that is how the Firefox Profiler and Breakpad count. A relocatable object (kernel module) has its .text at 0.
 *
 * Errors: functions return NULL or an error that the caller destroys; results come through the last parameter.
 * Threads: a context and its modules may be used by any number of threads at once. */
#ifndef SPSYM_H
#define SPSYM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPSYM_VERSION "0.1.0"

/* ---- Errors ---- */
typedef struct sp_error spsym_error;
const char *spsym_error_message(const spsym_error *error);
void spsym_error_destroy(spsym_error *error);

/* ---- Identity ---- */
#define SPSYM_ID_MAX 128

/* What is known of a module; any field may be NULL or empty. Strings are borrowed for the call. */
struct spsym_identity {
	const char *name;       /* of the binary: "libc.so.6" */
	const char *path;       /* where the binary was */
	const char *debug_name; /* of the symbol file: "libc.so.6", "foo.pdb" */
	const char *debug_path;
	const char *debug_id; /* Breakpad form: 32 hex digits and the age */
	const char *code_id;  /* ELF: build ID in hex; PE: timestamp and size; Mach-O: UUID */
	const char *arch;     /* "x86_64", "arm64", ... */
};

enum spsym_kind {
	SPSYM_KIND_UNKNOWN,
	SPSYM_KIND_ELF,
	SPSYM_KIND_PE,
	SPSYM_KIND_MACHO,
	SPSYM_KIND_PDB,
	SPSYM_KIND_BREAKPAD,
	SPSYM_KIND_KALLSYMS,
	SPSYM_KIND_PORTABLE_PDB, /* of .NET: knows methods, not addresses */
};

/* What a file says of itself. */
struct spsym_file_info {
	enum spsym_kind kind;
	char arch[16];               /* "x86_64", "arm64", "x86", "arm"; "" = other */
	char debug_id[SPSYM_ID_MAX]; /* "" = none */
	char code_id[SPSYM_ID_MAX];  /* "" = none */
	uint64_t base;               /* virtual address of relative address 0 */
	bool has_symbols;            /* a full symbol table (not only dynamic symbols) */
	bool has_debug_info;         /* DWARF, PDB lines ... in the file itself */
	bool has_code;               /* the bytes of its code (false for separate debug files) */
};

/* The debug ID of a build ID (its first 16 bytes; byte order of the file). `ret` holds SPSYM_ID_MAX chars. */
void spsym_debug_id_from_build_id(const uint8_t *build_id, size_t size, bool big_endian, char *ret);

/* ---- Contexts ---- */
typedef struct spsym_context spsym_context;

enum spsym_engine {
	SPSYM_ENGINE_NATIVE,   /* own, fast, safe on hostile files */
	SPSYM_ENGINE_LIBDWARF, /* the reference, in a limited child process; Unix only */
};

struct spsym_options {
	const char *const
	    *symbol_folders; /* NULL-terminated; searched flat, by build ID and in Breakpad's layout; may be NULL */
	const char *const *debug_roots; /* NULL-terminated; default: /usr/lib/debug */
	const char *cache_folder;       /* for saved indexes and kept files; NULL = none is used */
	enum spsym_engine engine;
	size_t memory_limit; /* bytes of parsed tables kept; 0 = 1 GiB; least recently used modules go first */
	bool no_local_paths; /* never open paths that an identity or a file names (for servers) */
	bool no_demangling;  /* names as in the file */
	bool no_background;  /* start nothing that goes on after a call: see spsym_module_index() */

	/* debuginfod servers, asked for what is nowhere on this machine: URLs separated by blanks; NULL =
	 * $DEBUGINFOD_URLS, "" = none. Downloads are kept in the cache folder that debuginfod's clients share; its
	 * other environment variables hold, too. libcurl is loaded when the first download begins. */
	const char *debuginfod_urls;
	bool offline; /* use what was downloaded before, but download nothing */

	/* Where PDBs and Windows binaries are: folders, symbol stores and servers in the syntax of _NT_SYMBOL_PATH
	 * ("srv*cache*https://server;folder"); NULL = $_NT_SYMBOL_PATH and $_NT_ALT_SYMBOL_PATH, "" = none. */
	const char *symbol_path;
	/* Symbol servers that are asked after those: URLs separated by blanks; "microsoft" is Microsoft's. */
	const char *windows_symbol_servers;
	const char *windows_symbol_cache; /* where downloads of those are kept; NULL = a folder of sp's cache */

	/* Told of running downloads, in bytes (`total` 0 = unknown), by the thread that waits for one. False cancels.
	 * May be NULL. */
	bool (*progress)(void *context, const char *url, uint64_t done, uint64_t total);
	void *progress_context;
};

/* `options` may be NULL. */
spsym_error *spsym_context_create(const struct spsym_options *options, spsym_context **ret);
/* All modules must have been released. */
void spsym_context_destroy(spsym_context *context);

/* ---- Modules ---- */
typedef struct spsym_module spsym_module;

/* Finds the best symbol information for an identity, verified by ID, and opens it. Modules are shared and counted: the
 * same identity gives the same module. Fails with SP_ERROR_NOT_FOUND when nothing was found; the message names what was
 * tried. */
spsym_error *spsym_module_find(spsym_context *context, const struct spsym_identity *identity, spsym_module **ret);
/* Opens a given file, and the separate debug files that it refers to. */
spsym_error *spsym_module_open_path(spsym_context *context, const char *path, spsym_module **ret);
/* As open_path for a descriptor (duplicated) or bytes (borrowed until release). `name` is for messages and for finding
 * separate debug files. */
spsym_error *spsym_module_open_fd(spsym_context *context, int fd, const char *name, spsym_module **ret);
spsym_error *spsym_module_open_bytes(spsym_context *context, const void *bytes, size_t size, const char *name,
                                     spsym_module **ret);

/* A file that is somewhere else: on a server, in a container, in another process. */
struct spsym_reader {
	uint64_t size; /* of the file, in bytes */
	/* Reads `size` bytes at `offset`, which are inside of the file; false = it cannot. Called by one thread at a
	 * time, of those that use the module; it waits for the answer. */
	bool (*read)(void *context, uint64_t offset, void *buffer, size_t size);
	void (*close)(void *context); /* called once, when nothing is read any more; may be NULL */
	void *context;
};
/* As open_path for a reader, which is closed at release, or when this fails. Of an ELF file only what is asked for is
 * read: headers at first, then the sections that answers come from (symbols alone need the symbol table), each section
 * once and whole, code by the page. What is read stays in memory. Files of other kinds are read whole when their first
 * 4096 bytes are of a known kind; SP_ERROR_LIMIT when they have more than 4 GiB. No index of it is saved. */
spsym_error *spsym_module_open_reader(spsym_context *context, const struct spsym_reader *reader, const char *name,
                                      spsym_module **ret);
void spsym_module_release(spsym_module *module);

const struct spsym_file_info *spsym_module_info(const spsym_module *module);

/* Every place that was tried for the module's symbols, one a line, with the result: "why are there no symbols". For an
 * identity without module use spsym_explain(). The caller frees *ret with free(). */
spsym_error *spsym_module_explain(spsym_module *module, char **ret);
spsym_error *spsym_explain(spsym_context *context, const struct spsym_identity *identity, char **ret);

/* ---- Look-ups ---- */

/* One frame. Strings live as long as the module; NULL = unknown. */
struct spsym_frame {
	const char *function; /* demangled */
	const char *file;     /* as the debug information spells it, absolute where it says so */
	uint32_t line;        /* 0 = unknown */
	uint32_t column;      /* 0 = unknown */
};

struct spsym_symbol {
	const char *name; /* demangled; NULL = no symbol covers the address */
	uint64_t address; /* relative, of its first byte */
	uint64_t size;    /* bytes; 0 = unknown */
};

/* The answer for one address. `frames` go from the innermost inlined function to the outermost one; there may be
 * frames without a symbol and a symbol without frames. */
struct spsym_location {
	struct spsym_symbol symbol;
	const struct spsym_frame *frames; /* owned by the result */
	size_t frame_count;
};

/* Results of look-ups; reusable. Zeroed storage is empty. */
struct spsym_result {
	struct spsym_location *locations; /* one an address, in the order asked */
	size_t count;
	const char *debug_error; /* NULL, or why there are no frames: lives as long as the module */
	void *storage;           /* internal */
};
void spsym_result_deinit(struct spsym_result *result);

/* Looks up `count` relative addresses, in any order. */
spsym_error *spsym_lookup(spsym_module *module, const uint64_t *addresses, size_t count, struct spsym_result *ret);
/* The discriminators of lines (DWARF 4 and later: which of the blocks on one line), 0 = none, for `count` relative
 * addresses in any order. It decodes line tables anew: for tools that print them. */
spsym_error *spsym_discriminators(spsym_module *module, const uint64_t *addresses, size_t count, uint32_t *ret);
/* Only the symbol table: cheap, no debug information is touched; frames are empty. */
spsym_error *spsym_lookup_symbols(spsym_module *module, const uint64_t *addresses, size_t count,
                                  struct spsym_result *ret);

/* All symbols, sorted by address. The array is owned by the module. */
spsym_error *spsym_symbols(spsym_module *module, const struct spsym_symbol **ret, size_t *ret_count);

/* ---- The index ---- */

/* Addresses are answered from the debug information, a compilation unit at a time, until there is an index of the whole
 * module, which answers millions of addresses a second. A module that is asked for much gets one in the background (not
 * with no_background); this call makes it now, unless there is one, and returns when it is done. In a context with a
 * cache folder it is saved there, and found the next time by whoever opens the same files.
 * SP_ERROR_UNSUPPORTED: there is nothing to make an index of. */
spsym_error *spsym_module_index(spsym_module *module);

/* ---- Parts of the file, for recorders and tools ---- */

/* What the loader maps. Addresses are relative; one below the base wraps. */
struct spsym_segment {
	uint64_t address;
	uint64_t size; /* in memory */
	uint64_t file_offset, file_size;
	bool executable;
};

struct spsym_section {
	const char *name;
	uint64_t address; /* relative; 0 when not loaded */
	uint64_t size;
	uint64_t file_offset;
	bool executable, allocated; /* allocated: loaded with the program */
	bool no_bits;               /* has no bytes in the file */
};

/* Of the binary, or of the debug file where there is no binary. The arrays are owned by the module. A relocatable file
 * (kernel module) has no segments; its sections are laid out as the header says. */
spsym_error *spsym_segments(spsym_module *module, const struct spsym_segment **ret, size_t *ret_count);
spsym_error *spsym_sections(spsym_module *module, const struct spsym_section **ret, size_t *ret_count);
/* The bytes of a section by name (".eh_frame"), inflated where they are compressed; valid as long as the module. */
spsym_error *spsym_section_bytes(spsym_module *module, const char *name, const void **ret, size_t *ret_size);
/* The relative address of (section, offset), which is how addresses in kernel modules are told. */
spsym_error *spsym_section_address(spsym_module *module, const char *name, uint64_t offset, uint64_t *ret);

/* A symbol as it stands in the file's table; spsym_symbols() has those that name code, readable and without overlaps.
 */
struct spsym_raw_symbol {
	const char *name;
	const char
	    *file; /* source file as the linker notes it, of local symbols (in an object file of all); NULL = none */
	uint64_t address; /* relative; one below the base wraps */
	uint64_t size;
	uint32_t section; /* index into spsym_sections() of the same file; UINT32_MAX = none */
	uint8_t type;     /* as in ELF: 0 none, 1 data, 2 function, 6 thread-local, 10 indirect function */
	uint8_t binding;  /* 0 local, 1 global, 2 weak */
};
/* In the table's order, of the debug file, else of the binary. ELF only: SP_ERROR_UNSUPPORTED elsewhere. The array is
 * owned by the module. */
spsym_error *spsym_raw_symbols(spsym_module *module, const struct spsym_raw_symbol **ret, size_t *ret_count);

/* ---- Methods of .NET ---- */

/* A portable PDB has no addresses: a runtime tells which method, and which offset in its intermediate language (IL), an
 * address belongs to. Methods have tokens: 0x06000001 is the first. */
struct spsym_method_place {
	char *file;         /* NULL = unknown; the caller frees it with free() */
	uint32_t il_offset; /* where this place begins; it holds up to the next one */
	uint32_t line, column;
};

/* How many methods the module's debug file has. SP_ERROR_UNSUPPORTED: it is no portable PDB. */
spsym_error *spsym_method_count(spsym_module *module, uint32_t *ret);
/* The place in the source of an IL offset of a method. SP_ERROR_NOT_FOUND: there is no such method, or nothing of the
 * source is there. */
spsym_error *spsym_method_place(spsym_module *module, uint32_t token, uint32_t il_offset,
                                struct spsym_method_place *ret);

/* ---- Bytes of code, for a disassembler ---- */

/* Copies up to `size` bytes of code from a relative address; *ret_size is less at the end of a section. Finds (or
 * downloads) the binary when the module was opened from a separate debug file. */
spsym_error *spsym_code(spsym_module *module, uint64_t address, void *buffer, size_t size, size_t *ret_size);

/* ---- Names ---- */

enum spsym_demangle_style {
	SPSYM_DEMANGLE_PLAIN,    /* as in frames: C++ without return types, Rust, D, OCaml */
	SPSYM_DEMANGLE_BINUTILS, /* C++ and Rust as GNU binutils write them */
	SPSYM_DEMANGLE_LLVM,     /* C++ and Rust v0, spelled by GNU's rules */
};
/* The readable form of a mangled name; *ret is NULL when it is none. The caller frees *ret with free(). */
spsym_error *spsym_demangle(const char *name, enum spsym_demangle_style style, char **ret);

/* ---- Sources ---- */

/* Whether the debug information came from a server. Then the paths in it mean nothing on this machine and must not be
 * opened here. */
bool spsym_module_is_downloaded(const spsym_module *module);
/* Downloads a source file that the module's debug information names, from debuginfod servers. Gives the path of a copy
 * in the cache; the caller frees *ret with free(). */
spsym_error *spsym_module_fetch_source(spsym_module *module, const char *file, char **ret);

/* Calls `emit` with the path of every source file that the module's debug information has code of, as it spells it,
 * until it says false. Makes the module's index unless there is one. SP_ERROR_UNSUPPORTED: there is no debug
 * information. */
spsym_error *spsym_module_sources(spsym_module *module, bool (*emit)(void *context, const char *path), void *context);

/* ---- Files ---- */

/* Identifies a file of any known kind. */
spsym_error *spsym_identify_path(const char *path, struct spsym_file_info *ret);
spsym_error *spsym_identify_bytes(const void *bytes, size_t size, struct spsym_file_info *ret);

#ifdef __cplusplus
}
#endif

#endif
