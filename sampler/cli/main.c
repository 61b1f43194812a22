/* sp: the command. */
#include "sampler/cli/cmd.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "setup"))
		return sp_cmd_setup(argc - 1, argv + 1);
	printf("sp %s\n", SP_VERSION);
	return 0;
}
