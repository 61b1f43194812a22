/* The commands of sp. Each takes the arguments after its name as argv[1 .. argc), and gives sp's exit status. */
#ifndef SP_SAMPLER_CLI_CMD_H
#define SP_SAMPLER_CLI_CMD_H

int sp_cmd_setup(int argc, char **argv);

#endif
