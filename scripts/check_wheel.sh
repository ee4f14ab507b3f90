#!/usr/bin/env bash
# Build sdist and wheel into dist/ (the wheel from the sdist, as an installer would), compare it with
# one built from the tree, install it into an empty environment and run its demo outside the tree.
# Proves that package data and entry points are there. Usage: check_wheel.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
case $python in /*) ;; *) python=$PWD/$python ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf dist
"$python" -m build --no-isolation --outdir dist . >/dev/null
"$python" -m build --no-isolation --wheel --outdir "$work/tree" . >/dev/null
"$python" scripts/compare_wheels.py dist/*.whl "$work"/tree/*.whl
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install -q -c constraints.txt dist/*.whl
bash scripts/run_demo.sh "$work/venv/bin"
echo "wheel: equal to the tree, installed in an empty environment, demo written"
