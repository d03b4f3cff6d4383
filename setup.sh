#!/bin/sh
# Make the virtual environment named by the first argument, or say plainly what is missing.
set -eu
venv=$1

missing() {
    printf 'set-up: %s\n' "$1" >&2
    exit 1
}

python=
for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || missing "Python 3.11 or newer is needed; install it (Debian, Ubuntu: apt install python3 python3-venv)"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    missing "$python has no venv module; install it (Debian, Ubuntu: apt install python3-venv)"
found=
for compiler in ${CXX:-} c++ g++ clang++; do
    if command -v "$compiler" >/dev/null 2>&1; then
        found=$compiler
        break
    fi
done
[ -n "$found" ] || missing "a C++20 compiler is needed; install one (Debian, Ubuntu: apt install g++)"
"$python" -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' ||
    missing "the C headers of $python are needed; install them (Debian, Ubuntu: apt install python3-dev)"

printf '[1/3] making a virtual environment in %s with %s ...\n' "$venv" "$("$python" --version)"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
