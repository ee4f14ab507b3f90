#!/usr/bin/env bash
# Run the fast tests against the newest or the oldest allowed release of every dependency, in an
# environment of their own under .venvs/. Usage: check_dependencies.sh newest|oldest [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
which=$1
python=${2:-python3}
venv=.venvs/$which
test -x "$venv/bin/python" || "$python" -m venv "$venv"
pip=("$venv/bin/pip" install -q --upgrade)
if [ "$which" = newest ]; then
  "${pip[@]}" --upgrade-strategy eager -e '.[test,api]'
else
  "$venv/bin/python" scripts/oldest_versions.py >"$venv/oldest.txt"
  "${pip[@]}" -r "$venv/oldest.txt"
  "$venv/bin/pip" install -q -c "$venv/oldest.txt" -e '.[test,api]'
fi
"$venv/bin/python" -m pytest -n 2 --dist loadfile -m "not slow and not browser and not ray" \
  tests/analysis tests/calibration tests/data tests/diagnostics tests/estimators tests/inference \
  tests/kernels tests/models tests/results tests/classification
