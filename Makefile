# One line of command for a person and for CI. Every target installs what it needs into .venv, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --require-hashes -r

# Folders that hold Python; the ones that are not there yet are skipped.
SOURCES := $(wildcard src tests benchmarks examples)
LOCKS := core build spark dev pipelines fuzz lock

# Bounds: workers for `test`, wall-clock seconds for `soak`.
TEST_WORKERS ?= 2
SOAK_SECONDS ?= 1800

STAMP_VENV := $(VENV)/.stamp-venv
STAMP_CORE := $(VENV)/.stamp-core
STAMP_SPARK := $(VENV)/.stamp-spark
STAMP_DEV := $(VENV)/.stamp-dev
STAMP_FUZZ := $(VENV)/.stamp-fuzz
STAMP_LOCK := $(VENV)/.stamp-lock

.DEFAULT_GOAL := help
.NOTPARALLEL:
.SUFFIXES:
.PHONY: help demo demo-log serve test check bench soak lock clean

help: ## Show this list
	@echo "FlowMesh: make <target>"
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP_SPARK) ## The tour: a node, a Spark pipeline, the archive, time travel, a caught tamperer (2 minutes)
	$(BIN)/python -m examples.demo_tour

demo-log: $(STAMP_CORE) ## Kill a writer, flip a bit, forge a history; see it all found (core requirements only)
	$(BIN)/python examples/demo_log.py

serve: $(STAMP_CORE) ## Run a node on this machine; its data go to ./flowmesh-data (core requirements only)
	$(BIN)/flowmesh serve $(SERVE_OPTIONS)

test: $(STAMP_DEV) ## Run the tests, the long ones left out
	$(BIN)/python -m pytest -n $(TEST_WORKERS) -m "not soak" --ignore=tests/tidy tests

check: $(STAMP_DEV) ## Lint, format, types, layers and house rules
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy $(SOURCES)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/tidy

bench: $(STAMP_DEV) ## Measure log, node and Spark on this machine
	$(BIN)/python -m benchmarks

soak: $(STAMP_FUZZ) ## Run the long and random tests, for SOAK_SECONDS at most (default 1800)
	$(BIN)/python -m pytest -m soak --hypothesis-profile=soak --timeout=$(SOAK_SECONDS) --session-timeout=$(SOAK_SECONDS) tests

lock: $(STAMP_LOCK) ## Recompile the hashed requirements (UPGRADE=1 moves to the newest versions)
	@cd requirements && for name in $(LOCKS); do \
	    echo "locking $$name.txt"; \
	    ../$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url \
	        --no-emit-find-links --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
	        --output-file $$name.txt $$name.in >/dev/null || exit 1; \
	done

clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment ---------------------------------------------------------

$(STAMP_VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "error: FlowMesh needs Python 3.11 or newer, and '$(PYTHON)' is not that." >&2; \
	    echo "       Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "error: '$(PYTHON)' cannot make virtual environments (modules venv, ensurepip)." >&2; \
	    echo "       On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "==> making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMP_CORE): $(STAMP_VENV) requirements/core.txt requirements/build.txt pyproject.toml
	@echo "==> installing what FlowMesh needs to run"
	@$(INSTALL) requirements/core.txt -r requirements/build.txt
	@echo "==> installing FlowMesh itself, editable"
	@$(PIP) install --quiet --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(STAMP_SPARK): $(STAMP_CORE) requirements/spark.txt
	@echo "==> installing Spark (the first time some 500 MB; this takes a minute or two)"
	@$(INSTALL) requirements/spark.txt
	@touch $@

$(STAMP_DEV): $(STAMP_SPARK) requirements/dev.txt requirements/pipelines.txt
	@echo "==> installing the development tools"
	@$(INSTALL) requirements/dev.txt
	@$(INSTALL) requirements/pipelines.txt
	@touch $@

$(STAMP_FUZZ): $(STAMP_DEV) requirements/fuzz.txt
	@echo "==> installing the fuzzer"
	@$(INSTALL) requirements/fuzz.txt
	@touch $@

$(STAMP_LOCK): $(STAMP_VENV) requirements/lock.in
	@echo "==> installing the resolver"
	@if [ -f requirements/lock.txt ]; then $(INSTALL) requirements/lock.txt; else $(PIP) install -r requirements/lock.in; fi
	@touch $@
