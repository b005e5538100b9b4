# One door to everything: `make` lists the recipes.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PORT   ?= 8000
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv downloads side by side and is three times as quick; it does not read pip's files, so where it cannot
# reach an index pip does it. PySpark has no wheel: one is built here, unpacked and thrown away, and compressing
# 450 MB for that would take as long as all else of the installation.
UV      = $(BIN)/uv pip install --quiet --python $(BIN)/python $${PIP_INDEX_URL:+--index-url "$$PIP_INDEX_URL"} \
  --config-settings-package pyspark:--build-option=--compression=stored
# Deno checks and formats the scripts of the console; what it remembers stays in the environment.
DENO   := DENO_DIR=$(VENV)/deno DENO_NO_UPDATE_CHECK=1 $(BIN)/deno

COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --strip-extras --no-emit-index-url --no-header \
  --universal --python-version 3.11
# One test process more than processors: many tests wait for servers, Spark and browsers.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
# What has neither Spark nor a browser nor takes seconds; conftest.py of both marks them.
QUICK  := not (slow or spark or browser)
# How long each load of the soak lasts, in seconds.
SOAK_S ?= 30
# What starts servers, kills them and waits for them, test by test.
LONG   := tests/journeys tests/faults tests/test_soak.py

# Images often forbid byte code. The tests start hundreds of Pythons, and each would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run java browser test check quick format format-check lint types imports spelling unit \
  faults soak bench pictures wheel lock clean

help: ## List the recipes
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Create .venv and install the pinned dependencies and development tools

$(VENV)/.server: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "The venv module is missing; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "Installing the pinned dependencies ..."
	@awk '/^uv==/ { on = 1 } on { print } on && !/\\$$/ { exit }' requirements.lock >$(VENV)/uv.txt
	@$(PIP) --require-hashes -r $(VENV)/uv.txt
	@$(UV) --require-hashes -r requirements.lock 2>/dev/null || $(PIP) --require-hashes -r requirements.lock
	@$(UV) --no-deps --no-build-isolation -e . 2>/dev/null || $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.ready: requirements-dev.lock $(VENV)/.server
	@echo "Installing the development tools ..."
	@$(UV) --require-hashes -r requirements-dev.lock 2>/dev/null || $(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

# Test processes that begin together would each compile all that tests import.
$(VENV)/.compiled: $(VENV)/.ready
	@$(BIN)/pytest --collect-only -qq >/dev/null || true  # what is wrong is told by the tests
	@touch $@

run: $(VENV)/.server java ## Start the server and its Spark archive on 127.0.0.1:8000, with the example configuration
	@$(BIN)/aviso-server serve --config examples/config.yaml --port $(PORT)

# Without Java the server runs all the same, and says what to install for the archive; the tests of
# the pipeline fail and say the same.
java: ## Install Java 17 for Spark, if it is missing and this is root on Debian or Ubuntu
	@PYTHONPATH=src $(PYTHON) -c 'import os; from aviso_server.pipeline.spark.java import find_java; find_java(os.environ)' \
	    2>/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0; \
	  echo "Installing Java for the Spark archive ..."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update && { apt-get install -y --no-install-recommends openjdk-17-jre-headless \
	    || apt-get install -y --no-install-recommends default-jre-headless; }; } >/dev/null 2>&1 \
	  || echo "apt-get could not install it; the server starts without the archive"; }

# Without Chromium the tests of the console fail, and say what to install.
browser: setup ## Install Chromium for the tests, if it is missing and this is root on Debian or Ubuntu
	@export PYTHONPATH=tests; $(BIN)/python -m support.browser 2>/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium for the tests of the console ..."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update && { apt-get install -y --no-install-recommends chromium \
	    || apt-get install -y --no-install-recommends chromium-browser; }; } >/dev/null 2>&1 \
	    || echo "apt-get could not install it"; \
	fi; \
	$(BIN)/python -m support.browser 2>&1 || true

test: ## Run every check and all tests
	@$(MAKE) --no-print-directory -j 2 setup java
	@$(MAKE) --no-print-directory browser check

# Types take as long as many tests: they are checked beside all else, and reported after it.
check: setup ## All of that but for what has to be installed
	@$(MAKE) --no-print-directory types >$(VENV)/types.log 2>&1 & types=$$!; \
	$(MAKE) --no-print-directory format-check lint imports spelling && $(MAKE) --no-print-directory unit; unit=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.log; exit $$((unit || types))

quick: $(VENV)/.compiled ## Run the quick tests: no Spark, no browser, no journeys, none that takes seconds
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -m "$(QUICK)" $(LONG:%=--ignore=%)

format: setup ## Format the code
	@$(BIN)/ruff format src tests bench examples tools
	@$(BIN)/ruff check --fix-only --quiet src tests bench examples tools
	@$(DENO) fmt --quiet

format-check: setup
	@$(BIN)/ruff format --check src tests bench examples tools
	@$(DENO) fmt --check

lint: setup ## Lint
	@$(BIN)/ruff check src tests bench examples tools
	@$(DENO) lint

types: setup ## Check types, strictly
	@$(BIN)/mypy
	@$(DENO) check --quiet src/aviso_server/http/static/console/main.js

imports: setup ## Check the direction of imports
	@$(BIN)/lint-imports

spelling: setup
	@$(BIN)/codespell src tests docs bench examples tools *.md

unit: $(VENV)/.compiled ## Run the tests, in parallel and in random order
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup

faults: setup java ## Inject every fault for longer, under several seeds, and count
	@AVISO_FAULTS=long $(BIN)/pytest -q -n 2 --dist loadgroup -p no:cacheprovider tests/faults tests/lake/test_outcome.py \
	  tests/journeys/jetstream/test_full_disk.py tests/journeys/jetstream/test_recover.py tests/journeys/jetstream/test_faults.py \
	  tests/journeys/jetstream/test_log_and_lake.py tests/pipeline/archive/test_outcomes.py \
	  tests/pipeline/spark/test_checkpoint.py tests/pipeline/archive/test_killed.py tests/pipeline/test_notebooks.py

soak: setup ## Fuzz for longer, with other examples in every run unless CI=true; then load a server for minutes
	@AVISO_FUZZ=long $(BIN)/pytest -q -n 2 --dist loadgroup -p no:cacheprovider --timeout 1800 tests/fuzz tests/http/test_fuzz.py \
	  tests/core/test_json.py tests/core/test_batch.py tests/core/test_wire.py tests/core/test_cursor.py tests/core/test_topic.py \
	  tests/core/fields tests/lake/test_record.py tests/lake/test_lake.py tests/relay/test_tiers.py tests/relay/test_seam.py tests/settings tests/backends/jetstream/test_messages.py tests/auth/test_token.py tests/telemetry
	@$(BIN)/python bench/run.py soak --seconds $(SOAK_S)

bench: setup ## Run the benchmarks, or PARTS of them; figures as a table and as JSON in bench/results
	@$(BIN)/python bench/run.py $(PARTS)

pictures: setup java browser ## Take the pictures of the console in docs/pictures again
	@PYTHONPATH=tests $(BIN)/python tools/pictures.py docs/pictures

wheel: setup ## Build the sdist and the wheel, and start a server from the wheel in an empty environment
	@rm -rf dist
	@$(BIN)/python -m hatchling build
	@$(BIN)/python tools/wheel.py

lock: setup ## Pin the newest dependencies that pyproject.toml allows
	@$(COMPILE) --upgrade --extra build --extra otlp --extra query --extra spark -o requirements.lock pyproject.toml
	@$(COMPILE) --upgrade --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml

clean: ## Remove what the recipes made
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
