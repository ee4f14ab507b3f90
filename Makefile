# Two commands matter: `make demo` and `make test`. Both set everything up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# One BLAS thread a process: the tests run in parallel processes already.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test lint types layers unit fuzz docs bench clean system

$(VENV)/.core: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/pip install -q -c constraints.txt -e '.[test,api,anthropic,survival,ray,docs]'
	@touch $@

demo: $(VENV)/.core ## the main job on an embedded default: no network, no key
	$(BIN)/cje demo --out demo

system: ## system packages the tests need (a headless browser)
	@bash scripts/setup_system.sh

test: $(VENV)/.test system lint types layers unit ## everything that must hold

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy --strict src/

layers: $(VENV)/.test
	$(BIN)/lint-imports

unit: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile --doctest-modules tests src/cje

FUZZ_TARGETS := $(wildcard tests/robustness/test_fuzz_*.py) tests/data/test_fuzz.py \
	tests/estimators/test_direct_fuzz.py tests/survival/test_rubbish.py

fuzz: $(VENV)/.test ## 100,000 new examples for every public entry point: a night's work; EXAMPLES=1000 for less
	CJE_FUZZ_EXAMPLES=$(or $(EXAMPLES),100000) $(BIN)/python -m pytest -n auto --timeout 0 $(FUZZ_TARGETS)

docs: $(VENV)/.test ## the documentation site, strict
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.test ## benchmarks beside the peers; QUICK=1 for the short form
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick,)

clean:
	rm -rf $(VENV) .venvs demo site .pytest_cache .mypy_cache .ruff_cache
