#!/bin/sh
# Print the path of an interpreter of a Python version on PATH or from pyenv or uv.
#   sh requirements/python.sh 3.13
set -eu

version=$1

print_if_it_runs() {
    if "$1" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" >/dev/null 2>&1; then
        command -v "$1"
        exit 0
    fi
}

print_if_it_runs "python$version"
print_if_it_runs python3
if command -v pyenv >/dev/null 2>&1; then
    for found in "$(pyenv root)/versions/$version"*"/bin/python$version"; do
        print_if_it_runs "$found"
    done
fi
if command -v uv >/dev/null 2>&1; then
    found=$(uv python find --no-project --no-python-downloads "$version" 2>/dev/null) &&
        print_if_it_runs "$found"
fi
echo "Python $version was not found on PATH or in the versions of pyenv and uv. Install it." >&2
exit 1
