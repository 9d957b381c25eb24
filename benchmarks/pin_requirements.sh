#!/bin/sh
# Pins what the benchmarks, `make lint` and the debugger's tests need, with hashes: `make bench-requirements`, when something newer is wanted.
# usage: pin_requirements.sh PYTHON3 PYTHON3.13
set -eu
cd "$(dirname -- "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
pin() {
    environment=$place/$(basename "$2")
    "$1" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet pip-tools
    "$environment/bin/python" -m piptools compile --quiet --upgrade --allow-unsafe --generate-hashes --strip-extras \
        --no-emit-find-links --no-emit-index-url --output-file="$2.txt" "$2.in"
}
measured=$(realpath -- "$2")
pin "$1" benchmarks/requirements
pin "$1" benchmarks/requirements-browser
pin "$1" tools/requirements-lint
pin "$1" tests/debugger/requirements
# The benchmarks of pyperformance say what they need; the few in its list that cannot be built are not in it.
pin "$measured" benchmarks/requirements-pyperformance
