/* Keeps sp alive when a file that it has mapped is truncated by someone else. */
#ifndef SP_SAMPLER_CLI_MAPPED_FILES_H
#define SP_SAMPLER_CLI_MAPPED_FILES_H

/* Installs the handler of SIGBUS for the process: pages that a mapped file no longer has read as zeros. Readers of
 * object files take those for what they are, damage. */
void sp_mapped_files_guard(void);

#endif
