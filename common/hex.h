/* Hexadecimal digits. */
#ifndef SP_COMMON_HEX_H
#define SP_COMMON_HEX_H

/* The value of a digit of either case; -1 for what is none. */
static inline int sp_hex_digit(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
