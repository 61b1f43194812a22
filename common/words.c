/* Quoting; see words.h. */
#include "common/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static bool needs_quotes(const char *word)
{
	return !*word || strpbrk(word, " \t\n\"'\\");
}

/* In '...', where only the quote itself is special: it is written '\''. */
static char *put_quoted(char *at, const char *word)
{
	*at++ = '\'';
	for (; *word; word++) {
		if (*word == '\'') {
			memcpy(at, "'\\''", 4);
			at += 4;
		} else {
			*at++ = *word;
		}
	}
	*at++ = '\'';
	return at;
}

char *sp_words_join(char *const *words)
{
	size_t size = 1;
	for (char *const *word = words; *word; word++)
		size += 4 * strlen(*word) + 3;
	char *text = malloc(size), *at = text;
	if (!text)
		return NULL;
	for (char *const *word = words; *word; word++) {
		if (word != words)
			*at++ = ' ';
		if (needs_quotes(*word)) {
			at = put_quoted(at, *word);
		} else {
			memcpy(at, *word, strlen(*word));
			at += strlen(*word);
		}
	}
	*at = '\0';
	return text;
}

char *sp_words_first(const char *text)
{
	char *word = malloc(strlen(text) + 1), *to = word, quote = 0;
	if (!word)
		return NULL;
	for (const char *at = text; *at && (quote || *at != ' '); at++) {
		bool escape = *at == '\\' && quote != '\'' && (at[1] == '"' || at[1] == '\'');
		if (escape)
			*to++ = *++at;
		else if (quote ? *at == quote : *at == '"' || *at == '\'')
			quote = quote ? 0 : *at;
		else
			*to++ = *at;
	}
	*to = '\0';
	return word;
}
