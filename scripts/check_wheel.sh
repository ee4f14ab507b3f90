#!/usr/bin/env bash
# Build wheel and sdist, install the wheel into an empty environment, run its demo outside the tree.
# Proves that the package data is in the wheel. Usage: check_wheel.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
case $python in /*) ;; *) python=$PWD/$python ;; esac
rm -rf dist
"$python" -m build --no-isolation --outdir dist . >/dev/null
tar -tzf dist/*.tar.gz >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install -q -c constraints.txt dist/*.whl
cd "$work"
"$work/venv/bin/cje" --version
"$work/venv/bin/cje" demo --out demo >demo.log
test -s demo/report.html
grep -q "cand-short is better than prod" demo.log
echo "wheel: installed in an empty environment, demo written"
