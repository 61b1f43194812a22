/* Makes the man page and the shell completions from the tables in commands.c, at build time:
 * generate man|bash|zsh|fish > FILE */
#include "sampler/cli/options.h"

#include <stdio.h>
#include <string.h>

/* ---- man ---- */

/* Text for roff: backslashes, dashes and leading dots are escaped. */
static void roff(const char *text)
{
	bool line_start = true;
	for (; *text; text++) {
		if (line_start && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
		line_start = *text == '\n';
	}
}

static void roff_option(const struct sp_option *option)
{
	fputs(".TP\n", stdout);
	if (option->letter)
		printf("\\fB\\-%c\\fR, ", option->letter);
	fputs("\\fB\\-\\-", stdout);
	roff(option->name);
	fputs("\\fR", stdout);
	if (option->value_name)
		printf(option->kind == SP_OPTION_OPTIONAL ? "[=\\fI%s\\fR]" : " \\fI%s\\fR", option->value_name);
	putchar('\n');
	roff(option->help);
	fputs(".\n", stdout);
}

static void roff_command(const struct sp_command *command)
{
	fputs(".SS sp ", stdout);
	roff(command->name);
	fputs(" [options] ", stdout);
	roff(command->usage);
	putchar('\n');
	roff(command->description ? command->description : command->summary);
	putchar('\n');
	for (size_t i = 0; i < command->option_count; i++) {
		if (command->options[i].kind != SP_OPTION_REFUSED)
			roff_option(&command->options[i]);
	}
}

static void roff_documented(const char *title, const struct sp_documented *items, size_t count)
{
	printf(".SH %s\n", title);
	for (size_t i = 0; i < count; i++) {
		fputs(".TP\n\\fB", stdout);
		roff(items[i].name);
		fputs("\\fR\n", stdout);
		roff(items[i].help);
		fputs(".\n", stdout);
	}
}

static void make_man(void)
{
	printf(
	    ".TH SP 1 \"\" \"sp %s\" \"User Commands\"\n.SH NAME\nsp \\- sampling profiler for the Firefox Profiler\n"
	    ".SH SYNOPSIS\n",
	    SP_VERSION);
	for (size_t i = 0; i < sp_command_count; i++) {
		printf("\\fBsp %s\\fR [options] ", sp_commands[i].name);
		roff(sp_commands[i].usage);
		fputs("\n.br\n", stdout);
	}
	fputs(
	    "\\fBsp help\\fR [command]\n.br\n\\fBsp \\-\\-version\\fR\n.SH DESCRIPTION\n"
	    "Samples programs and shows where their time goes, in the Firefox Profiler, with symbols, inline frames,\n"
	    "source and assembly.\n.SH COMMANDS\n",
	    stdout);
	for (size_t i = 0; i < sp_command_count; i++)
		roff_command(&sp_commands[i]);
	roff_documented("EXIT STATUS", sp_exit_codes, sp_exit_code_count);
	roff_documented("ENVIRONMENT", sp_environment, sp_environment_count);
}

/* ---- completions ---- */

static const char *bash_action(enum sp_option_completion completion)
{
	switch (completion) {
	case SP_COMPLETE_FILE:
		return "COMPREPLY=($(compgen -f -- \"$cur\"))";
	case SP_COMPLETE_FOLDER:
		return "COMPREPLY=($(compgen -d -- \"$cur\"))";
	case SP_COMPLETE_PID:
		return "COMPREPLY=($(compgen -W \"$(ps -eo pid=)\" -- \"$cur\"))";
	case SP_COMPLETE_NONE:
		break;
	}
	return "COMPREPLY=()";
}

/* One case arm for each option that takes a value: "record --rate"|"record -r") ...;; */
static void bash_option_arms(const struct sp_command *command)
{
	for (size_t i = 0; i < command->option_count; i++) {
		const struct sp_option *option = &command->options[i];
		if (option->kind != SP_OPTION_VALUE && option->kind != SP_OPTION_LIST)
			continue;
		printf("\t\"%s --%s\"", command->name, option->name);
		if (option->letter)
			printf(" | \"%s -%c\"", command->name, option->letter);
		printf(")\n\t\t%s\n\t\treturn\n\t\t;;\n", bash_action(option->completion));
	}
}

static void bash_words(const struct sp_command *command)
{
	for (size_t i = 0; i < command->option_count; i++) {
		if (command->options[i].kind != SP_OPTION_REFUSED)
			printf("--%s ", command->options[i].name);
	}
	fputs("--help", stdout);
}

static void make_bash(void)
{
	fputs("# bash completion for sp\n_sp()\n{\n\tlocal cur=${COMP_WORDS[COMP_CWORD]}\n"
	      "\tlocal prev=${COMP_WORDS[COMP_CWORD - 1]}\n\tif [ \"$COMP_CWORD\" -eq 1 ]; "
	      "then\n\t\tCOMPREPLY=($(compgen -W \"",
	      stdout);
	for (size_t i = 0; i < sp_command_count; i++)
		printf("%s ", sp_commands[i].name);
	fputs("help --version\" -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase \"${COMP_WORDS[1]} $prev\" in\n", stdout);
	for (size_t i = 0; i < sp_command_count; i++)
		bash_option_arms(&sp_commands[i]);
	fputs("\tesac\n\tcase \"${COMP_WORDS[1]} $cur\" in\n", stdout);
	for (size_t i = 0; i < sp_command_count; i++) {
		printf("\t\"%s -\"*)\n\t\tCOMPREPLY=($(compgen -W \"", sp_commands[i].name);
		bash_words(&sp_commands[i]);
		fputs("\" -- \"$cur\"))\n\t\t;;\n", stdout);
	}
	fputs("\t\"help \"*)\n\t\tCOMPREPLY=($(compgen -W \"", stdout);
	for (size_t i = 0; i < sp_command_count; i++)
		printf("%s ", sp_commands[i].name);
	fputs("\" -- \"$cur\"))\n\t\t;;\n\t*)\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\t\t;;\n\tesac\n}\n"
	      "complete -o filenames -F _sp sp\n",
	      stdout);
}

/* Text inside a zsh '[...]' explanation, itself in single quotes. */
static void zsh_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (*text == '[' || *text == ']' || *text == ':')
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static const char *zsh_action(enum sp_option_completion completion)
{
	switch (completion) {
	case SP_COMPLETE_FILE:
		return "_files";
	case SP_COMPLETE_FOLDER:
		return "_files -/";
	case SP_COMPLETE_PID:
		return "_pids";
	case SP_COMPLETE_NONE:
		break;
	}
	return "";
}

static void zsh_option(const struct sp_option *option)
{
	static const char *const forms[] = {
		[SP_OPTION_FLAG] = "",
		[SP_OPTION_VALUE] = "=",
		[SP_OPTION_OPTIONAL] = "=-",
		[SP_OPTION_LIST] = "=",
	};
	fputs("\t\t\t'", stdout);
	if (option->kind == SP_OPTION_LIST)
		putchar('*');
	printf("--%s%s[", option->name, forms[option->kind]);
	zsh_text(option->help);
	putchar(']');
	if (option->value_name)
		printf("%s:%s:%s", option->kind == SP_OPTION_OPTIONAL ? ":" : "", option->value_name,
		       zsh_action(option->completion));
	fputs("' \\\n", stdout);
	if (!option->letter)
		return;
	printf("\t\t\t'-%c%s[", option->letter, option->value_name ? "+" : "");
	zsh_text(option->help);
	putchar(']');
	if (option->value_name)
		printf(":%s:%s", option->value_name, zsh_action(option->completion));
	fputs("' \\\n", stdout);
}

static void make_zsh(void)
{
	fputs("#compdef sp\n_sp() {\n\tlocal -a commands\n\tcommands=(\n", stdout);
	for (size_t i = 0; i < sp_command_count; i++) {
		printf("\t\t'%s:", sp_commands[i].name);
		zsh_text(sp_commands[i].summary);
		fputs("'\n", stdout);
	}
	fputs("\t\t'help:Say how to use a command'\n\t)\n\tif (( CURRENT == 2 )); then\n"
	      "\t\t_describe command commands\n\t\treturn\n\tfi\n\tlocal command=$words[2]\n\tshift words\n"
	      "\t(( CURRENT-- ))\n\tcase $command in\n",
	      stdout);
	for (size_t i = 0; i < sp_command_count; i++) {
		const struct sp_command *command = &sp_commands[i];
		printf("\t%s)\n\t\t_arguments -s -S \\\n", command->name);
		for (size_t k = 0; k < command->option_count; k++) {
			if (command->options[k].kind != SP_OPTION_REFUSED)
				zsh_option(&command->options[k]);
		}
		fputs("\t\t\t'(-h --help)'{-h,--help}'[Print this]' \\\n", stdout);
		fputs(command->operands_end_options ? "\t\t\t'*::command:_normal'\n" : "\t\t\t'*:file:_files'\n",
		      stdout);
		fputs("\t\t;;\n", stdout);
	}
	fputs("\thelp)\n\t\t_describe command commands\n\t\t;;\n\tesac\n}\n_sp \"$@\"\n", stdout);
}

/* Text in single quotes for fish. */
static void fish_text(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('\'');
}

static void fish_option(const struct sp_command *command, const struct sp_option *option)
{
	printf("complete -c sp -n '__fish_seen_subcommand_from %s' -l %s", command->name, option->name);
	if (option->letter)
		printf(" -s %c", option->letter);
	if (option->kind == SP_OPTION_VALUE || option->kind == SP_OPTION_LIST) {
		switch (option->completion) {
		case SP_COMPLETE_FILE:
			fputs(" -r -F", stdout);
			break;
		case SP_COMPLETE_FOLDER:
			fputs(" -x -a '(__fish_complete_directories)'", stdout);
			break;
		case SP_COMPLETE_PID:
			fputs(" -x -a '(__fish_complete_pids)'", stdout);
			break;
		case SP_COMPLETE_NONE:
			fputs(" -x", stdout);
			break;
		}
	}
	fputs(" -d ", stdout);
	fish_text(option->help);
	putchar('\n');
}

static void make_fish(void)
{
	for (size_t i = 0; i < sp_command_count; i++) {
		const struct sp_command *command = &sp_commands[i];
		printf("complete -c sp -f -n __fish_use_subcommand -a %s -d ", command->name);
		fish_text(command->summary);
		putchar('\n');
		for (size_t k = 0; k < command->option_count; k++) {
			if (command->options[k].kind != SP_OPTION_REFUSED)
				fish_option(command, &command->options[k]);
		}
		printf("complete -c sp -n '__fish_seen_subcommand_from %s' -l help -s h -d 'Print this'\n",
		       command->name);
	}
	fputs("complete -c sp -f -n __fish_use_subcommand -a help -d 'Say how to use a command'\n", stdout);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(void);
	} makers[] = { { "man", make_man }, { "bash", make_bash }, { "zsh", make_zsh }, { "fish", make_fish } };
	for (size_t i = 0; argc == 2 && i < sizeof(makers) / sizeof(makers[0]); i++) {
		if (!strcmp(makers[i].name, argv[1])) {
			makers[i].make();
			return ferror(stdout) || fflush(stdout) ? 1 : 0;
		}
	}
	fputs("usage: generate man|bash|zsh|fish\n", stderr);
	return 2;
}
