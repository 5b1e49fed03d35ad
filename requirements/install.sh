#!/bin/sh
# Create a virtual environment and install a list of requirements with hashes into it.
#   sh requirements/install.sh run|test|dev
# Environment: VENV, the directory of the virtual environment (default .venv);
# PYTHON, the interpreter that creates it (default: the first Python 3.11 or later on PATH).
# Idempotent. Packages are installed only if the list has changed.
set -eu

list=$1
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
name=${VENV:-.venv}
case $name in
/*) venv=$name ;;
*) venv=$root/$name ;;
esac
requirements=$root/requirements/$list.txt

fail() {
    echo "$1" >&2
    exit 1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    [ -z "${PYTHON:-}" ] ||
        fail "PYTHON=$PYTHON does not run Python 3.11 or later. Install it, or set PYTHON to another interpreter."
    found=$(python3 -c 'import platform; print("found: Python " + platform.python_version())' 2>/dev/null ||
        echo "none was found")
    fail "Python 3.11 or later is required ($found). Install it, or set PYTHON to its path."
}

create_venv() {
    python=$(find_python) || exit 1
    echo "Creating $name with $python."
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --clear --no-project --python "$(command -v "$python")" "$venv" && return
    fi
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "The venv module of Python is missing. Install it (Debian and Ubuntu: apt install python3-venv)."
    "$python" -m venv --clear "$venv"
}

install() {
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --compile-bytecode --require-hashes --python "$venv/bin/python" -r "$requirements"
    else
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
            --require-hashes -r "$requirements"
    fi || fail "The installation of requirements/$list.txt failed; see the error above."
}

# Each list contains the previous lists with the same versions (see `make requirements`).
is_installed() {
    for larger in run test dev; do
        [ "$larger" = "$list" ] && reached=yes
        [ "${reached:-no}" = yes ] &&
            cmp -s "$root/requirements/$larger.txt" "$venv/installed-$larger" && return 0
    done
    return 1
}

# Create the environment again if it was moved or its interpreter was removed.
if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    create_venv
fi
if ! is_installed; then
    echo "Installing requirements/$list.txt into $name. This takes about a minute."
    install
    cp "$requirements" "$venv/installed-$list"
fi
