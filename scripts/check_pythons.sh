#!/usr/bin/env bash
# For each Python found (on the PATH or in pyenv): an environment of its own under .venvs/ with the
# wheel and the newest releases of its dependencies, the fast tests, the demo.
# Usage: check_pythons.sh PYTHON_THAT_BUILDS [pytest arguments]; VERSIONS="3.12 3.13" to choose
set -euo pipefail
cd "$(dirname "$0")/.."
builder=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

interpreter() { # the newest interpreter of a minor version, or nothing
  local found
  for found in "python$1" $(ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python 2>/dev/null | sort -Vr); do
    if "$found" -c "import sys; sys.exit(sys.version_info[:2] != tuple(map(int, '$1'.split('.'))))" 2>/dev/null; then
      echo "$found"
      return
    fi
  done
}

"$builder" -m build --no-isolation --wheel --outdir "$work" . >/dev/null
wheel=$(echo "$work"/*.whl)
failed=""
for version in ${VERSIONS:-3.11 3.12 3.13 3.14}; do
  python=$(interpreter "$version")
  if [ -z "$python" ]; then
    echo "== Python $version: not found on this machine"
    continue
  fi
  echo "== $("$python" --version) ($python)"
  venv=.venvs/python$version
  test -x "$venv/bin/python" || "$python" -m venv "$venv"
  "$venv/bin/pip" install -q --upgrade --upgrade-strategy eager "$wheel[test,api,anthropic]"
  "$venv/bin/pip" install -q --force-reinstall --no-deps "$wheel" # the version may be that of an older tree
  "$venv/bin/python" -m pytest "$@" && bash scripts/run_demo.sh "$venv/bin" || failed="$failed $version"
done
test -z "$failed" || { echo "failed on Python:$failed" >&2; exit 1; }
