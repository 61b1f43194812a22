/* sp in the place of addr2line and llvm-symbolizer: their options, their input, their output to the byte. What the two
 * share. */
#ifndef SP_SAMPLER_CLI_PEERS_H
#define SP_SAMPLER_CLI_PEERS_H

#include "common/error.h"
#include "common/vector.h"
#include "spsym.h"

/* argv[0] is the tool's name, for messages; the exit status is the tool's. */
int sp_peer_addr2line(int argc, char **argv);
int sp_peer_llvm_symbolizer(int argc, char **argv, bool addr2line);

/* Runs the tool whose name the program was called by ("addr2line", "x86_64-linux-gnu-addr2line", "llvm-symbolizer-14");
 * false when it is none of them. */
bool sp_peer_by_name(int argc, char **argv, int *ret_status);

/* A file that addresses are looked up in. */
struct sp_peer_file {
	char *name;             /* owned */
	spsym_module *module;   /* NULL: error */
	struct sp_error *error; /* owned */
	uint64_t base;
	const struct spsym_section *sections;
	size_t section_count;
	const struct spsym_raw_symbol *symbols; /* as in the table */
	size_t symbol_count;
	uint32_t *sorted; /* owned; numbers of symbols in an order of the tool's; NULL = not made */
	size_t sorted_count;
	SP_VECTOR(uint64_t) addresses; /* relative; of the batch */
	struct spsym_result result;    /* of the batch */
	uint32_t *discriminators;      /* owned; of the batch; NULL = not asked for */
};

/* All files asked for, each opened once. */
struct sp_peer_files {
	spsym_context *symbols;
	SP_VECTOR(struct sp_peer_file *) files; /* owned */
};
struct sp_error *sp_peer_files_init(struct sp_peer_files *files);
void sp_peer_files_deinit(struct sp_peer_files *files);
/* The file of a name; what is wrong with it is file->error. NULL without memory. */
struct sp_peer_file *sp_peer_file_get(struct sp_peer_files *files, const char *name);
/* Looks file->addresses up, with `discriminators` those too. */
struct sp_error *sp_peer_file_look_up(struct sp_peer_file *file, bool discriminators);

/* Whether a name is mangled; others are names of the language, maybe with scopes in front. */
bool sp_peer_is_mangled(const char *name);
/* A name without the scopes in front: "ns::f<a::b>" is "f<a::b>". */
const char *sp_peer_last_part(const char *name);
/* Prints a name, readable in the style when `demangle`. */
void sp_peer_print_name(const char *name, bool demangle, enum spsym_demangle_style style);
const char *sp_peer_base_name(const char *path);

#endif
