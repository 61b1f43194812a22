/* Words of a command line as one text, from which they can be told apart again. */
#ifndef SP_COMMON_WORDS_H
#define SP_COMMON_WORDS_H

/* Joins words (NULL-terminated) with blanks. Those that are empty or hold blanks, quotes or backslashes are quoted as
 * for a shell. The caller frees the result; NULL without memory. */
char *sp_words_join(char *const *words);

/* The text of the first word, without quotes; what shells and Windows' own quoting have in common. The caller frees it;
 * NULL without memory. */
char *sp_words_first(const char *text);

#endif
