#!/usr/bin/env bash
# Run the fast tests against the newest or the oldest allowed release of every dependency, in an
# environment of their own under .venvs/. Usage: check_dependencies.sh newest|oldest PYTHON [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
which=$1
python=$2
shift 2
venv=.venvs/$which
test -x "$venv/bin/python" || "$python" -m venv "$venv"
if [ "$which" = newest ]; then
  "$venv/bin/pip" install -q --upgrade --upgrade-strategy eager -e '.[test,api,anthropic]'
else
  "$venv/bin/python" scripts/oldest_versions.py >"$venv/oldest.txt"
  "$venv/bin/pip" install -q -c "$venv/oldest.txt" -e '.[test,api,anthropic]'
fi
"$venv/bin/python" -m pytest "$@"
