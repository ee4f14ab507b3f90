#!/usr/bin/env bash
# Installs R with the survival packages that `python -m benchmarks values` compares with. Debian and
# Ubuntu only. The tests need no R: they read tests/survival/fixtures.
set -euo pipefail
if Rscript -e 'for (p in c("survival", "riskRegression", "cmprsk", "prodlim", "jsonlite")) library(p, character.only = TRUE)' >/dev/null 2>&1; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "no apt-get: install R with survival, riskRegression, cmprsk, prodlim and jsonlite by hand" >&2
  exit 1
fi
sudo=""; [ "$(id -u)" -eq 0 ] || sudo="sudo"
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends r-base-core \
  r-cran-survival r-cran-riskregression r-cran-cmprsk r-cran-prodlim r-cran-jsonlite >/dev/null
