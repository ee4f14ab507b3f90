#!/usr/bin/env bash
# Installs the headless browser that the report tests drive. Debian and Ubuntu only; elsewhere
# install Chromium by hand (the browser tests say so when they find none).
set -euo pipefail
if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "no Chromium and no apt-get: install Chromium by hand to run the browser tests" >&2
  exit 0
fi
sudo=""; [ "$(id -u)" -eq 0 ] || sudo="sudo"
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
