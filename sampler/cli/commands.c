/* The commands and options of sp. Names and defaults are samply's wherever it has the feature. */
#include "sampler/cli/options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define OPTION_FLAG(letter, name, help)                                    \
	{                                                                  \
		letter, name, NULL, SP_OPTION_FLAG, help, SP_COMPLETE_NONE \
	}
#define OPTION_VALUE(letter, name, value, help)                              \
	{                                                                    \
		letter, name, value, SP_OPTION_VALUE, help, SP_COMPLETE_NONE \
	}
#define OPTION_PATH(letter, name, value, help, completion)             \
	{                                                              \
		letter, name, value, SP_OPTION_VALUE, help, completion \
	}
#define OPTION_REFUSED(letter, name, why)                                    \
	{                                                                    \
		letter, name, NULL, SP_OPTION_REFUSED, why, SP_COMPLETE_NONE \
	}

/* Where symbols come from. */
#define SYMBOL_OPTIONS                                                                                               \
	{ 0,                                                                                                         \
	  "symbol-server",                                                                                           \
	  "URL",                                                                                                     \
	  SP_OPTION_LIST,                                                                                            \
	  "Server of sp serve, asked before all others, instead of $SP_SYMBOL_SERVER; may be given again",           \
	  SP_COMPLETE_NONE },                                                                                        \
	    { 0,                                                                                                     \
	      "symbol-dir",                                                                                          \
	      "DIR",                                                                                                 \
	      SP_OPTION_LIST,                                                                                        \
	      "Folder with symbol files: flat, by build ID, or in Breakpad's layout; may be given again",            \
	      SP_COMPLETE_FOLDER },                                                                                  \
	    { 0,                                                                                                     \
	      "debuginfod",                                                                                          \
	      "URL",                                                                                                 \
	      SP_OPTION_LIST,                                                                                        \
	      "debuginfod server to ask for what is not on this machine, instead of those in $DEBUGINFOD_URLS; may " \
	      "be given again",                                                                                      \
	      SP_COMPLETE_NONE },                                                                                    \
	    OPTION_VALUE(0, "symbol-path", "PATH",                                                                   \
	                 "Where PDBs and Windows binaries are, written as for $_NT_SYMBOL_PATH, which it replaces: " \
	                 "folders, stores and servers between ';'; srv*FOLDER*URL keeps downloads in the folder"),   \
	    { 0,                                                                                                     \
	      "windows-symbol-server",                                                                               \
	      "URL",                                                                                                 \
	      SP_OPTION_LIST,                                                                                        \
	      "Symbol server to ask for PDBs and Windows binaries; 'microsoft' is Microsoft's; may be given again",  \
	      SP_COMPLETE_NONE },                                                                                    \
	    OPTION_PATH(0, "windows-symbol-cache", "DIR",                                                            \
	                "Folder that keeps what symbol servers sent; default in sp's cache", SP_COMPLETE_FOLDER),    \
	    OPTION_FLAG(0, "offline", "Download nothing; what was downloaded before is used"),                       \
	    OPTION_VALUE(0, "engine", "NAME",                                                                        \
	                 "Reader of debug information: native, or libdwarf (slow, to compare); default native")

/* What `record` and `load` share: the viewer and where symbols are. */
#define VIEWER_OPTIONS                                                                                                \
	OPTION_FLAG('n', "no-open", "Serve, but do not open the browser: print the address"),                         \
	    OPTION_VALUE(0, "address", "ADDRESS", "Address to serve on; default 127.0.0.1"),                          \
	    OPTION_VALUE('P', "port", "PORT", "Port to serve on; 3000+ takes the first free one; default 3000+"),     \
	    OPTION_VALUE(0, "profiler-url", "URL",                                                                    \
	                 "Front-end to open the profile in; default $PROFILER_URL, else "                             \
	                 "https://profiler.firefox.com"),                                                             \
	    OPTION_PATH(0, "viewer-dir", "DIR", "Serve a built Firefox Profiler front-end from this folder: offline", \
	                SP_COMPLETE_FOLDER),                                                                          \
	    SYMBOL_OPTIONS,                                                                                           \
	    { 0,                                                                                                      \
	      "map-path",                                                                                             \
	      "FROM=TO",                                                                                              \
	      SP_OPTION_LIST,                                                                                         \
	      "Read source files whose path begins with FROM from TO instead; may be given again",                    \
	      SP_COMPLETE_NONE },                                                                                     \
	    OPTION_FLAG('v', "verbose", "Say more about what is done and why")

#define VIEWER_REFUSED                                                                              \
	OPTION_REFUSED(0, "breakpad-symbol-server", "symbol servers come with a later version"),    \
	    OPTION_REFUSED(0, "breakpad-symbol-dir", "give the folder to --symbol-dir"),            \
	    OPTION_REFUSED(0, "breakpad-symbol-cache", "symbol servers come with a later version"), \
	    OPTION_REFUSED(0, "simpleperf-binary-cache", "Android profiles are not read")

static const struct sp_option record_options[] = {
	OPTION_VALUE('r', "rate", "HZ", "Samples a second of CPU time; default 1000"),
	OPTION_VALUE('d', "duration", "SECONDS", "End the recording after this time; the command goes on"),
	OPTION_PATH('p', "pid", "PID", "Record a running process with its threads and children until Ctrl-C or its end",
	            SP_COMPLETE_PID),
	OPTION_PATH('o', "output", "FILE", "Where the profile goes; default profile.json.gz", SP_COMPLETE_FILE),
	OPTION_FLAG('s', "save-only", "Save the profile; do not serve it"),
	OPTION_FLAG(0, "serve", "Serve the profile afterwards also when stderr is no terminal"),
	OPTION_VALUE(0, "iteration-count", "N", "Run the command N times, all in one profile"),
	OPTION_FLAG('i', "ignore-exit-code", "Go on with the next iteration when the command fails"),
	OPTION_VALUE(0, "profile-name", "NAME", "Name of the profile; default the command"),
	OPTION_FLAG(0, "main-thread-only", "Keep only the main thread of each process"),
	OPTION_FLAG(0, "reuse-threads", "Join threads of later processes with earlier ones of the same name"),
	OPTION_FLAG(0, "fold-recursive-prefix", "Collapse repeated frames at the root of a stack into one"),
	{ 0, "include-args", "N", SP_OPTION_OPTIONAL, "Put the command's arguments (the first N) into process names",
	  SP_COMPLETE_NONE },
	OPTION_FLAG(0, "presymbolicate",
	            "Write names, inline frames and lines into the profile: it needs no sp to be read"),
	VIEWER_OPTIONS,
	OPTION_REFUSED('a', "all", "whole-system recordings come with a later version; use -p for a running process"),
	OPTION_REFUSED(0, "per-cpu-threads", "it comes with a later version"),
	OPTION_REFUSED(0, "jit-markers", "it comes with a later version"),
	OPTION_REFUSED(0, "cswitch-markers", "it comes with a later version"),
	OPTION_REFUSED(0, "unlink-aux-files", "sp leaves perf-PID.map files to their program"),
	OPTION_REFUSED(0, "coreclr", "it comes with a later version"),
	OPTION_REFUSED(0, "vm-hack", "it is for Windows"),
	OPTION_REFUSED(0, "keep-etl", "it is for Windows"),
	OPTION_REFUSED(0, "gfx", "it is for Windows"),
	OPTION_REFUSED(0, "browsers", "it is for Windows"),
	OPTION_REFUSED(0, "unknown-event-markers", "it is for Windows"),
	VIEWER_REFUSED,
};

static const struct sp_option load_options[] = {
	VIEWER_OPTIONS,
	VIEWER_REFUSED,
};

/* What import and filter share. */
#define TRACE_FILTERS                                                                                          \
	{ 'p', "pid", "PID", SP_OPTION_LIST, "Keep only this process; may be given again", SP_COMPLETE_NONE }, \
	    { 0,                                                                                               \
	      "name",                                                                                          \
	      "NAME",                                                                                          \
	      SP_OPTION_LIST,                                                                                  \
	      "Keep only processes of this name, with or without .exe; may be given again",                    \
	      SP_COMPLETE_NONE },                                                                              \
	    OPTION_FLAG(0, "children", "With --pid or --name: and all processes that these started"),          \
	    OPTION_VALUE(0, "time-range", "FROM,TO",                                                           \
	                 "Keep only this part, in seconds from the trace's start; one of the two may be left out")

static const struct sp_option import_options[] = {
	OPTION_PATH('o', "output", "FILE", "Where the profile goes; default profile.json.gz", SP_COMPLETE_FILE),
	OPTION_FLAG('s', "save-only", "Save the profile; do not serve it"),
	OPTION_FLAG(0, "serve", "Serve the profile afterwards also when stderr is no terminal"),
	OPTION_FLAG('l', "list", "Only list what the trace has: providers of events, processes, losses"),
	TRACE_FILTERS,
	OPTION_FLAG(0, "idle", "Keep the samples of idle CPUs"),
	{ 0, "markers", "PROVIDER", SP_OPTION_LIST,
	  "Show this provider's events as markers: its name, its GUID, or all; may be given again", SP_COMPLETE_NONE },
	OPTION_VALUE(0, "profile-name", "NAME", "Name of the profile; default the file's"),
	OPTION_FLAG(0, "presymbolicate",
	            "Write names, inline frames and lines into the profile: it needs no sp to be read"),
	VIEWER_OPTIONS,
	VIEWER_REFUSED,
};

static const struct sp_option filter_options[] = {
	TRACE_FILTERS,
	{ 0, "markers", "PROVIDER", SP_OPTION_LIST,
	  "Keep this provider's events too: its name, its GUID, or all; may be given again", SP_COMPLETE_NONE },
};

static const struct sp_option serve_options[] = {
	OPTION_VALUE(0, "address", "ADDRESS", "Address to serve on; default 127.0.0.1"),
	OPTION_VALUE('P', "port", "PORT", "Port to serve on, 0 = any free one; default 8100"),
	OPTION_VALUE(
	    0, "read", "WHO",
	    "Who may read: open (whoever reaches it) or token; must be given when --address is not this machine's"),
	{ 0, "host", "NAME", SP_OPTION_LIST, "Name that clients reach it by, besides addresses; may be given again",
	  SP_COMPLETE_NONE },
	OPTION_VALUE(0, "admin-port", "PORT", "Serve /healthz, /readyz and /metrics on this port of 127.0.0.1"),
	OPTION_FLAG('v', "verbose", "Say more about what is done and why"),
	OPTION_VALUE(0, "namespace", "NS",
	             "token create: where it may upload: release, branch/NAME or pr/NAME; a * at the end stands for "
	             "anything"),
	OPTION_FLAG(0, "can-read", "token create: it may read"),
	{ 0, "kind", "KIND", SP_OPTION_LIST,
	  "token create: what it may upload: object, pdb, breakpad or source; may be given again; default all",
	  SP_COMPLETE_NONE },
	OPTION_VALUE(0, "ref", "REF", "token create: the only --ref that its uploads may have"),
	OPTION_VALUE(0, "max-size", "MIB", "token create: size of its largest file"),
	OPTION_VALUE(0, "expires", "DAYS", "token create: how long it is good; default 365"),
	OPTION_VALUE(0, "label", "TEXT", "token create: a note for the list"),
};

static const struct sp_option upload_options[] = {
	OPTION_VALUE(0, "server", "URL", "The symbol server"),
	OPTION_VALUE(0, "namespace", "NS", "Where the files belong: release, branch/NAME or pr/NAME"),
	OPTION_VALUE(0, "ref", "REF", "Build or commit, to be noted with the files"),
	OPTION_FLAG(0, "sources",
	            "Send the source files that debug information names and that are on this machine, too"),
	OPTION_VALUE(0, "auth", "HOW", "Where the token is: env:NAME or file:PATH; default env:SP_UPLOAD_TOKEN"),
	OPTION_FLAG(0, "json", "Report on each file, as JSON on stdout"),
	OPTION_FLAG('v', "verbose", "Say more about what is done and why"),
};

static const struct sp_option setup_options[] = {
	OPTION_FLAG(0, "sysctl", "Let all programs of all users sample, by a file in /etc/sysctl.d"),
	OPTION_FLAG(0, "undo", "Take back what sp setup gave, and restore the settings that were before"),
	OPTION_FLAG(0, "status", "Change nothing; tell whether this user can sample, and what was set up"),
};

static const struct sp_option symbolicate_options[] = {
	OPTION_FLAG('r', "relative", "Addresses count from the file's base, as in profiles, not as nm prints them"),
	OPTION_FLAG('j', "json", "One JSON object a line for each address"),
	OPTION_PATH('o', "output", "FILE", "Where the copy of a profile goes", SP_COMPLETE_FILE),
	OPTION_FLAG(0, "addr2line",
	            "As the first option: take the options and input of GNU addr2line, and answer as it does"),
	OPTION_FLAG(0, "llvm-symbolizer", "As the first option: likewise for llvm-symbolizer"),
	SYMBOL_OPTIONS,
};

static const struct sp_option symbols_options[] = {
	OPTION_FLAG('r', "relative", "list: addresses count from the file's base, as in profiles"),
	OPTION_FLAG('j', "json", "One JSON object a line"),
	SYMBOL_OPTIONS,
};

const struct sp_command sp_commands[] = {
	{
	    .name = "record",
	    .usage = "[--] [VAR=value...] command [args...]",
	    .summary = "Record a program and look at the profile",
	    .description =
	        "Samples the command and all that it starts, writes a profile, and opens it in the Firefox Profiler. "
	        "Leading VAR=value words go into the command's environment. The command keeps its stdin, stdout and "
	        "terminal; sp ends with the command's own exit status. Without a terminal on stderr (or with "
	        "--save-only) the profile is only saved, for sp load.",
	    .options = record_options,
	    .option_count = COUNT(record_options),
	    .operands_end_options = true,
	    .operand_completion = SP_COMPLETE_FILE,
	},
	{
	    .name = "load",
	    .usage = "FILE",
	    .summary = "Look at a saved profile, with symbols, source and assembly from this machine",
	    .description =
	        "Serves the profile and its symbols on this machine until Ctrl-C, and opens the browser. A trace "
	        "(.etl, .etl.zip, .diagsession) is imported first, as sp import does.",
	    .options = load_options,
	    .option_count = COUNT(load_options),
	    .operand_completion = SP_COMPLETE_FILE,
	},
	{
	    .name = "symbolicate",
	    .usage = "FILE [ADDRESS...] | -o NEW PROFILE",
	    .summary = "Give the functions, lines and inlined functions of addresses",
	    .description =
	        "Looks addresses of a binary or debug file up: hexadecimal, as nm and objdump print them, or with "
	        "--relative as profiles hold them; in kernel modules also as section and offset, .init.text+0x10. "
	        "Without addresses they are read from stdin, one a line. Separate "
	        "debug "
	        "files are found as debuggers find them.\n\n"
	        "An answer begins with the address, then comes the innermost function with file, line and column, then "
	        "a line "
	        "for each function that it was inlined into. The status is 1 when something was no address.\n\nA saved "
	        "profile (.json, .json.gz) instead of a file is copied with names, lines and inlined "
	        "functions for the addresses in it: sp symbolicate -o new.json.gz profile.json.gz",
	    .options = symbolicate_options,
	    .option_count = COUNT(symbolicate_options),
	    .operand_completion = SP_COMPLETE_FILE,
	},
	{
	    .name = "import",
	    .usage = "TRACE [TRACE...]",
	    .summary = "Make a profile of a trace that another tool recorded",
	    .description =
	        "Reads Windows' ETW traces on any system: .etl files of WPR, xperf, UIforETW, etwprof and PerfView, "
	        "also inside of .etl.zip and .diagsession. Further files of the same recording (a user session beside "
	        "the kernel's) are merged in. Sampled stacks of the kernel and of programs, waits, hardware counters, "
	        "methods of .NET and JavaScript, and markers become a profile like one of sp record; what the trace "
	        "lost or lacks is told and shown. Without --pid and --name all processes are kept.",
	    .options = import_options,
	    .option_count = COUNT(import_options),
	    .operand_completion = SP_COMPLETE_FILE,
	},
	{
	    .name = "symbols",
	    .usage = "identify|list|why FILE...",
	    .summary = "Tell what files are, what symbols they have, and where symbols were looked for",
	    .description =
	        "identify: kind, architecture, debug ID and code ID of files of any known kind. list: the symbols "
	        "that name code, by address; of a portable PDB the methods, by token, with file and line. why: the "
	        "files that the symbols of a file come from, and every place "
	        "that was tried for them, with the result. The status is 1 when a file could not be read.",
	    .options = symbols_options,
	    .option_count = COUNT(symbols_options),
	    .operand_completion = SP_COMPLETE_FILE,
	},
	{
	    .name = "filter",
	    .usage = "IN.etl OUT.etl",
	    .summary = "Make a smaller trace with only some processes or some time in it",
	    .description =
	        "Writes a valid .etl file with the samples of the chosen processes and what these need: their stacks, "
	        "threads and images, the kernel's images, debug IDs, methods of .NET and JavaScript. Nothing of other "
	        "processes is in it, neither names nor command lines, so that it can be given away.",
	    .options = filter_options,
	    .option_count = COUNT(filter_options),
	    .operand_completion = SP_COMPLETE_FILE,
	},
	{
	    .name = "serve",
	    .usage = "DIR | token create DIR | token list DIR | token revoke DIR ID",
	    .summary = "Serve the symbols, binaries and sources that CI uploaded",
	    .description =
	        "A symbol server on one machine with no other service: what sp upload put into the folder is found by "
	        "its "
	        "ID by gdb, perf, lldb and other clients of debuginfod, by debuggers that ask Microsoft's or "
	        "Breakpad's "
	        "symbol servers, by the Firefox Profiler, and by sp itself. Every request is a line of JSON on stdout. "
	        "It "
	        "serves until Ctrl-C.\n\n"
	        "Files go into namespaces: release, branch/NAME and pr/NAME. Of several files with one ID the one that "
	        "knows most is served, from release before branches; what is under pr/NAME is seen only by who asks "
	        "for "
	        "http://SERVER/n/pr/NAME.\n\n"
	        "token create prints a token, which is kept nowhere else: clients send it as bearer token, as "
	        "password, or "
	        "in the path, http://SERVER/t/TOKEN. Uploads need one with --namespace, reading one with --can-read "
	        "where "
	        "the server has --read token. Tokens can be made and revoked while the server runs.",
	    .options = serve_options,
	    .option_count = COUNT(serve_options),
	    .operand_completion = SP_COMPLETE_FOLDER,
	},
	{
	    .name = "upload",
	    .usage = "FILE|FOLDER...",
	    .summary = "Send binaries, debug files and sources to a symbol server",
	    .description = "Finds ELF, PE, PDB and Breakpad files by content in the folders given, asks the server "
	                   "which it lacks, and "
	                   "sends those. A broken transfer goes on where it ended; the server gets up to eight "
	                   "tries.\n\nThe status is 0 "
	                   "when everything is on the server, also when it was there before, else 1. Files that "
	                   "nothing could find (without "
	                   "a build ID) are left out of folders and refused when they are named.",
	    .options = upload_options,
	    .option_count = COUNT(upload_options),
	    .operand_completion = SP_COMPLETE_FILE,
	},
	{
	    .name = "setup",
	    .usage = "",
	    .summary = "Let ordinary users record (run it with sudo)",
	    .description =
	        "Linux lets ordinary users sample only in part, on Debian and Ubuntu not at all "
	        "(kernel.perf_event_paranoid 3 and 4). sudo sp setup gives the sp binary the capabilities cap_perfmon, "
	        "cap_ipc_lock and cap_syslog, tries them as the user who called sudo, and where they have no effect "
	        "lets all programs sample, as --sysctl does.\n\n"
	        "The risk: sp can then see all processes of the machine and addresses in the kernel, whoever runs it; "
	        "it "
	        "shows those of the recorded command only. With --sysctl, every program can. --undo takes it back. The "
	        "status is 0 when ordinary users "
	        "(--status: this user) can sample all of a command's processes and the kernel, else 1.",
	    .options = setup_options,
	    .option_count = COUNT(setup_options),
	},
};
const size_t sp_command_count = COUNT(sp_commands);

const struct sp_documented sp_exit_codes[] = {
	{ "the command's", "sp record ends as the command did: its own code, or 128 + the signal that killed it" },
	{ "0", "success; sp record: --duration or -p ended as asked while the program goes on" },
	{ "2", "a command other than record was used wrongly" },
	{ "125",
	  "sp itself failed: wrong usage of record, no permission to sample, the recording or the profile could not be "
	  "written in full (a full disk), or nothing was sampled although the command used more CPU time than 50 ms "
	  "and "
	  "than 50 times what a sample stands for" },
	{ "126", "the command could not be run" },
	{ "127", "the command was not found" },
	{ "128 + N",
	  "signal N reached sp: the command was given 2 s to end, then ended; the profile was written. A second signal "
	  "ends the command at once; one more quits without a profile and says where the recording is kept" },
};
const size_t sp_exit_code_count = COUNT(sp_exit_codes);

const struct sp_documented sp_environment[] = {
	{ "PROFILER_URL", "front-end to open profiles in; --profiler-url goes before it" },
	{ "SP_SYMBOL_SERVER", "servers of sp serve, separated by blanks; --symbol-server goes before it" },
	{ "SP_UPLOAD_TOKEN", "token for sp upload" },
	{ "BROWSER", "command that opens a URL, instead of the desktop's opener" },
	{ "SP_CACHE_DIR", "where sp keeps what will not exist later (vdso, kernel symbols, deleted files); default "
	                  "$XDG_CACHE_HOME/sp, else ~/.cache/sp" },
};
const size_t sp_environment_count = COUNT(sp_environment);
