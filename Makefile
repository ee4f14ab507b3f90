# Two commands matter: `make demo` and `make test`. Both set everything up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# One BLAS thread per process: the tests already run in parallel processes.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Processes that run the tests.
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test quick lint types layers unit pythons newest oldest dist system fuzz servers docs bench clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(VENV)/.core: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/pip install -q -c constraints.txt -e '.[test,api,anthropic,survival,local,ray,docs]'
	@touch $@

# The inner loop needs neither torch nor ray nor the documentation's packages.
$(VENV)/.quick: $(VENV)/.core
	$(BIN)/pip install -q -c constraints.txt -e '.[test,api,anthropic]'
	@touch $@

demo: $(VENV)/.core ## the whole journey on shipped data: no network, no key
	$(BIN)/cje demo --out demo

system: ## system packages: a headless browser for the tests
	@bash scripts/setup_system.sh

test: $(VENV)/.test system lint types layers unit dist ## everything that must hold

# Arguments of pytest: the tests that need neither torch, ray, a browser nor the documentation's packages.
QUICK_TESTS := -n $(JOBS) --dist loadfile -m "not slow and not browser and not ray" \
	$(addprefix tests/,analysis calibration classification data diagnostics estimators \
	inference judges kernels models policies report results) tests/test_public_surface.py

quick: $(VENV)/.quick ## lint, types, layers and the fast tests: under two minutes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src/
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(QUICK_TESTS)

lint: $(VENV)/.test ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test ## mypy --strict
	$(BIN)/mypy --strict src/

layers: $(VENV)/.test ## the import contracts
	$(BIN)/lint-imports

unit: $(VENV)/.test ## all tests, with their coverage of src/
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --doctest-modules --cov=cje --cov-report=term:skip-covered --cov-fail-under=95 tests src/cje

pythons: $(VENV)/.quick ## wheel, fast tests and demo on every Python found; VERSIONS="3.12 3.13" to choose
	@bash scripts/check_pythons.sh $(BIN)/python $(QUICK_TESTS)

newest: ## the fast tests with the newest release of every dependency
	@bash scripts/check_dependencies.sh newest $(PYTHON) $(QUICK_TESTS)

oldest: ## the fast tests with the oldest releases that pyproject.toml allows
	@bash scripts/check_dependencies.sh oldest $(PYTHON) $(QUICK_TESTS)

dist: $(VENV)/.test ## wheel and sdist, compared; the demo from the wheel in an empty environment
	@bash scripts/check_wheel.sh $(BIN)/python

FUZZ_TARGETS := $(wildcard tests/robustness/test_fuzz_*.py) tests/data/test_fuzz.py \
	tests/estimators/test_direct_fuzz.py tests/survival/test_rubbish.py

fuzz: $(VENV)/.test ## attacks on every entry point on a new, printed seed; MINUTES=30, SEED= to repeat
	$(BIN)/python scripts/fuzz.py --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED),) $(FUZZ_TARGETS)

servers: $(VENV)/.test ## real model servers beside exact log-probs; RECORD=1 renews the tests' recordings
	@bash scripts/servers/servers.sh $(BIN)/python

docs: $(VENV)/.test ## the documentation site, strict
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.test ## benchmarks beside the peers; QUICK=1 for the short form
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick,)

clean: ## remove environments, caches and outputs
	rm -rf $(VENV) .venvs demo site dist .pytest_cache .mypy_cache .ruff_cache
