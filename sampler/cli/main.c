/* sp: the command. */
#include <stdio.h>

int main(void)
{
	printf("sp %s\n", SP_VERSION);
	return 0;
}
