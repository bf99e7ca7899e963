# Every target prepares $(VENV) by itself; the second call finds the stamp and starts at once.

PYTHON ?= python3
VENV   ?= .venv
# Parallel test processes: a number, "auto" for one per core, 0 for none.
JOBS   ?= auto
# SLOW=1 adds the slow tests and searches property tests more widely.
SLOW   ?= 0
# Further arguments for pytest, the demo or the benchmarks.
ARGS   ?=
# Which paper `make reproduce` is about; empty for all.
PAPER  ?=

BIN    := $(VENV)/bin
STAMP  := $(VENV)/.everlearn-dev
BENCH_STAMP := $(VENV)/.everlearn-bench

# With several test processes one BLAS thread each is faster than all of them competing.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
TEST_ENV   := $(if $(filter 0,$(JOBS)),,$(ONE_THREAD)) \
              $(if $(filter 1,$(SLOW)),HYPOTHESIS_PROFILE=nightly)
TEST_ARGS  := $(if $(filter 0,$(JOBS)),,-n $(JOBS) --dist worksteal) \
              $(if $(filter 1,$(SLOW)),,-m "not slow")

.DEFAULT_GOAL := help
.PHONY: help demo test coverage lint format bench reproduce clean distclean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "  Variables: PYTHON=python3.12  JOBS=2  SLOW=1  PAPER=name  ARGS=\"...\""

demo: $(STAMP)  ## learn digits and docstrings as streams and write an HTML report
	$(BIN)/everlearn demo $(ARGS)

test: lint  ## style, types, import contracts and all tests (SLOW=1 for the long ones)
	$(strip $(TEST_ENV) $(BIN)/python -m pytest $(TEST_ARGS) $(ARGS))

coverage: $(STAMP)  ## branch coverage of the tests, compiled kernels left out
	$(strip $(TEST_ENV) $(BIN)/python -m pytest $(TEST_ARGS) --cov --cov-report=term:skip-covered $(ARGS))

lint: $(STAMP)  ## style, types and import contracts only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(STAMP)  ## let ruff put the files into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BENCH_STAMP)  ## measure speed and quality on this machine
	$(BIN)/python -m benchmarks $(ARGS)

reproduce: $(BENCH_STAMP)  ## repeat the experiments of a paper (PAPER=name)
	$(BIN)/python -m benchmarks.reproduce $(PAPER) $(ARGS)

clean:  ## remove caches, compiled kernels and build products, keep the environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -path './$(VENV)' -prune -o -path ./.git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
	find . -path './$(VENV)' -prune -o -path ./.git -prune -o -name '*.nb[ic]' -exec rm -f {} +

distclean: clean  ## remove the environment too
	rm -rf $(VENV)

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || \
	  { echo "No '$(PYTHON)' on the PATH; name another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "everlearn needs Python 3.11 or newer, and '$(PYTHON)' is" \
	         "$$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.12"; exit 1; }
	@echo "Preparing $(VENV) (once; takes a minute or two)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e ".[dev]"
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@echo "Adding what measurements need (once)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e ".[bench]"
	@touch $@
