#!/usr/bin/env bash
# The README's picture: the top of the demo's report. Run `make demo` first.
set -euo pipefail
cd "$(dirname "$0")/.."
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
profile=$(mktemp -d)
"$browser" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
  --hide-scrollbars --user-data-dir="$profile" --window-size=1100,900 \
  --screenshot=docs/img/demo.png "file://$PWD/demo/report.html" >/dev/null 2>&1
rm -rf "$profile"
