#!/usr/bin/env bash
# Run the demo of an installed package outside the tree. Usage: run_demo.sh BIN
set -euo pipefail
bin=$1
case $bin in /*) ;; *) bin=$PWD/$bin ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$bin/cje" --version
"$bin/cje" demo --out demo >demo.log 2>&1 || { cat demo.log >&2; exit 1; }
test -s demo/report.html
grep -q "cand-short is better than prod" demo.log
"$bin/cje" analyze demo/evals.csv --baseline prod >analyze.log
grep -q "cand-short is better than prod" analyze.log
