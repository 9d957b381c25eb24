#!/bin/sh
# Pins what the benchmarks need, with hashes: `make bench-requirements`, when something newer is wanted.
# usage: pin_requirements.sh PYTHON3 PYTHON3.13
set -eu
cd "$(dirname -- "$0")"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
pin() {
    "$1" -m venv "$place/$2"
    "$place/$2/bin/python" -m pip install --quiet pip-tools
    "$place/$2/bin/python" -m piptools compile --quiet --upgrade --allow-unsafe --generate-hashes --strip-extras \
        --no-emit-find-links --no-emit-index-url --output-file="$2.txt" "$2.in"
}
measured=$(cd .. && realpath -- "$2")
pin "$1" requirements
pin "$1" requirements-browser
# The benchmarks of pyperformance say what they need; the few in its list that cannot be built are not in it.
pin "$measured" requirements-pyperformance
