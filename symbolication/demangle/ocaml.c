/* OCaml's native compiler: "caml", the module path with "__" for ".", and "$hh" for characters that no symbol may have.
 * The number at the end, which tells local functions apart, stays. */
#include "common/hex.h"
#include "symbolication/demangle/private.h"

#include <string.h>

/* Writes one character (Latin-1) as UTF-8. */
static size_t put_character(char *out, unsigned c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = (char)(0xc0 | c >> 6);
	out[1] = (char)(0x80 | (c & 0x3f));
	return 2;
}

bool sp_demangle_ocaml(const char *name, size_t length, struct sp_buffer *out)
{
	if (length < 5 || memcmp(name, "caml", 4) != 0 || name[4] < 'A' || name[4] > 'Z')
		return false;
	size_t before = out->size;
	for (size_t i = 4; i < length; i++) {
		char text[2] = { name[i] };
		size_t size = 1;
		if (name[i] == '_' && i + 1 < length && name[i + 1] == '_') {
			text[0] = '.';
			i++;
		} else if (name[i] == '$' && i + 2 < length && sp_hex_digit(name[i + 1]) >= 0 &&
		           sp_hex_digit(name[i + 2]) >= 0) {
			unsigned c = (unsigned)(sp_hex_digit(name[i + 1]) << 4 | sp_hex_digit(name[i + 2]));
			size = c ? put_character(text, c) : 0; /* a NUL would end the string */
			i += 2;
		}
		struct sp_error *error = sp_buffer_write(out, text, size);
		if (error) {
			sp_error_destroy(error);
			out->size = before;
			return false;
		}
	}
	return true;
}
