#!/bin/sh
# Makes the virtual environment .venv and installs one hashed list of requirements into it.
#   sh requirements/install.sh run|test|dev
# Repeatable: nothing happens while the list is unchanged. What the machine lacks is said in one sentence.
set -eu

list=$1
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
venv=$root/.venv
requirements=$root/requirements/$list.txt

fail() {
    echo "$1" >&2
    exit 1
}

find_python() {
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    found=$(python3 -c 'import platform; print("found is Python " + platform.python_version())' 2>/dev/null ||
        echo "no Python was found")
    fail "Python 3.11 or later is needed, and $found: install it, or set PYTHON to its path."
}

make_venv() {
    python=$(find_python) || exit 1
    echo "Making .venv with $python (once)."
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --clear --no-project --python "$(command -v "$python")" "$venv" && return
    fi
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "Python's venv module is missing: install it (on Debian and Ubuntu: apt install python3-venv)."
    "$python" -m venv --clear "$venv"
}

install() {
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --compile-bytecode --require-hashes --python "$venv/bin/python" -r "$requirements"
    else
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
            --require-hashes -r "$requirements"
    fi || fail "The packages of requirements/$list.txt could not be installed; the reason is above."
}

# Each list holds the ones before it, in the same versions (see `make requirements`).
is_installed() {
    for larger in run test dev; do
        [ "$larger" = "$list" ] && reached=yes
        [ "${reached:-no}" = yes ] &&
            cmp -s "$root/requirements/$larger.txt" "$venv/installed-$larger" && return 0
    done
    return 1
}

# An environment that was moved or whose Python is gone is made anew.
if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    make_venv
fi
if ! is_installed; then
    echo "Installing requirements/$list.txt into .venv (once, about a minute)."
    install
    cp "$requirements" "$venv/installed-$list"
fi
