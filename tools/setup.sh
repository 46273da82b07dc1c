#!/bin/sh
# Makes .venv with what a target needs: setup.sh pipeline | dev. Does nothing when it is there already.
# Needs only python3 (>= 3.11); where the venv module is missing it is installed if root or sudo allow.
set -eu
extra=$1
cd "$(dirname "$0")/.."
want=$(cat pyproject.toml constraints.txt | cksum | tr ' ' -)
for done_for in "$extra" dev; do
    [ "$(cat ".venv/.ready-$done_for" 2>/dev/null)" = "$want" ] && exit 0
done

say() { printf '%s\n' "$*" >&2; }
python=${PYTHON:-}
if [ -z "$python" ]; then
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            python=$name
            break
        fi
    done
fi
[ -n "$python" ] || { say "setup: no Python >= 3.11 found; install one (Debian: apt-get install python3) or set PYTHON=..."; exit 1; }

if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    package=python3-venv
    if [ "$(id -u)" = 0 ]; then root=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then root="sudo -n"
    else say "setup: this Python has no venv module; run: sudo apt-get install $package"; exit 1
    fi
    command -v apt-get >/dev/null || { say "setup: this Python has no venv module; install it for $python"; exit 1; }
    say "setup: installing $package"
    { $root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $root apt-get install -qq -y --no-install-recommends "$package"; } >/dev/null ||
        { say "setup: apt-get could not install $package; install it and try again"; exit 1; }
fi

[ -x .venv/bin/python ] || "$python" -m venv .venv
say "setup: installing headrace[$extra] into .venv (about 0.7 GB downloaded the first time, which takes minutes)"
.venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[$extra]"
# Where the environment forbids Python to write bytecode, each start would compile all of it again.
.venv/bin/python -m compileall -q src
# Compiled once here, not in the middle of somebody's first read.
.venv/bin/headrace arrow warm >&2 || say "setup: the first headrace.arrow call will compile, or run in plain Python"
printf '%s\n' "$want" > ".venv/.ready-$extra"
say "setup: done; the command is .venv/bin/headrace"
