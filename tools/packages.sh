# What building and testing need, and how to get it; sourced by tools/quickstart, tools/test and .ci/run.
#
# A list is lines of "PACKAGE PROBE": the package of Debian and Ubuntu, and how to see that what it brings is there
# (pc:MODULE of pkg-config, cmd:COMMAND, h:HEADER; A|B for either).
# shellcheck shell=bash disable=SC2034

build_packages='
gcc cmd:cc
g++ cmd:c++
libc6-dev h:stdio.h
cmake cmd:cmake
ninja-build cmd:ninja
pkg-config cmd:pkg-config
binutils cmd:objcopy
zlib1g-dev pc:zlib
libzstd-dev pc:libzstd
liblzma-dev pc:liblzma
libdeflate-dev pc:libdeflate
libcjson-dev pc:libcjson
libmicrohttpd-dev pc:libmicrohttpd
libelf-dev pc:libelf
libdwarf-dev h:libdwarf/libdwarf.h|h:libdwarf-0/libdwarf.h|h:libdwarf.h
libiberty-dev h:libiberty/demangle.h|h:demangle.h
libcapstone-dev pc:capstone
libminizip-dev pc:minizip
libsqlite3-dev pc:sqlite3
nettle-dev pc:nettle
'

# The compilers make test programs of every kind that sp reads; the rest are oracles.
test_packages='
libcmocka-dev pc:cmocka
libdw-dev pc:libdw
clang cmd:clang
lld cmd:ld.lld
llvm cmd:llvm-objcopy
gcc-aarch64-linux-gnu cmd:aarch64-linux-gnu-gcc
libc6-dev-arm64-cross h:stdio.h
musl-tools cmd:musl-gcc
dwz cmd:dwz
elfutils cmd:eu-strip
debuginfod cmd:debuginfod-find
gdb cmd:gdb
xz-utils cmd:xz
zstd cmd:zstd
groff-base cmd:groff
zsh cmd:zsh
fish cmd:fish
python3 cmd:python3
python3-venv cmd:python3
nodejs cmd:node
npm cmd:npm
'

say()
{
	printf '== %s\n' "$*" >&2
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Runs a command as root: directly, or by sudo, which may ask for a password on a terminal.
as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		say "sudo $*"
		sudo "$@"
	else
		die "this needs root and there is no sudo; run as root:  $*"
	fi
}

# Whether what a line of a list stands for is there, whoever installed it.
probe()
{
	case $1 in
	*'|'*) probe "${1%%|*}" || probe "${1#*|}" ;;
	pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
	cmd:*) command -v "${1#cmd:}" >/dev/null ;;
	h:*) echo "#include <${1#h:}>" | cc -E -xc - >/dev/null 2>&1 ;;
	esac
}

# On a distribution without apt nothing is installed: it must all be there.
check_without_apt()
{
	local package probe missing=''
	while read -r package probe; do
		if [ -n "$package" ] && ! probe "$probe"; then
			missing+="  ${probe#*:}  (in Debian: $package)"$'\n'
		fi
	done <<<"$1"
	[ -z "$missing" ] && return
	printf '%s\n' "This system has no apt-get, so nothing is installed here. These are missing:" "$missing" \
		"Install them with the system's package manager (they are ordinary, widely packaged libraries and tools," \
		"the libraries with their headers), then run this again." >&2
	exit 1
}

# install_packages LIST: installs what is missing; asks for nothing when all is there.
install_packages()
{
	local package probe missing=()
	if ! command -v apt-get >/dev/null; then
		check_without_apt "$1"
		return
	fi
	while read -r package probe; do
		[ -n "$package" ] || continue
		# A command may come from elsewhere than the package (node, npm); libraries are asked for by package.
		case $probe in
		cmd:node | cmd:npm) probe "$probe" && continue ;;
		esac
		[ "$(dpkg-query -Wf '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
	done <<<"$1"
	[ ${#missing[@]} -gt 0 ] || return 0
	say "installing ${missing[*]}"
	as_root apt-get -q -o DPkg::Lock::Timeout=600 update >&2 </dev/null ||
		say 'apt-get update failed; going on with the lists that are there'
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 install \
		--no-install-recommends "${missing[@]}" >&2 </dev/null ||
		die "apt-get could not install ${missing[*]} (on Ubuntu they are in universe: add-apt-repository universe)"
}

# Builds a preset of CMakePresets.json; further arguments go to the configuration.
build_preset()
{
	local preset=$1
	shift
	# A tree that was moved or copied has a cache that points elsewhere.
	cmake --preset "$preset" "$@" >&2 || cmake --fresh --preset "$preset" "$@" >&2
	cmake --build --preset "$preset" >&2
}
