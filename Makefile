# Two commands do everything on a fresh machine with Python 3.11+ and make:
#   make demo   sets up and runs the main job        (LIGHT=1: no torch, under 30 s)
#   make test   sets up and passes all tests

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIGHT ?=

.DEFAULT_GOAL := help
.PHONY: help setup frameworks kube demo kube-up kube-down check test e2e e2e-on-a-cluster e2e-here soak bench written lock format clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(BIN)/.ready  ## the project, editable, in .venv (so .venv/bin/tw works)

$(BIN)/.ready: pyproject.toml requirements/dev.txt tools/setup.sh
	@PYTHON=$(PYTHON) tools/setup.sh $(VENV)
	@touch $@

frameworks: setup  ## the real frameworks the examples and tests train with, several at once (about 9 GB)
	@$(BIN)/python tools/frameworks.py

demo: setup  ## run the static and the elastic PyTorchJob example (LIGHT=1: without torch)
ifeq ($(LIGHT),)
	@$(BIN)/python tools/frameworks.py torch
	@$(BIN)/tw demo
else
	@$(BIN)/tw demo --light
endif

kube-up: setup  ## a real Kubernetes on this machine with our operator and a node (first time: about 7 minutes)
	@$(BIN)/python tools/kube.py up

kube-down: setup  ## stop it and remove it
	@$(BIN)/python tools/kube.py down

check: setup  ## format, lint, types, imports and the quick tests: under 3 minutes
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto -m "not e2e"

kube: setup  ## the real control plane the tests use, and the operators they hand over from (about 12 minutes, once)
	@$(BIN)/python tools/kube.py build
	@$(BIN)/python -m tools.originals

# Each half waits for processes most of the time: side by side they take little longer than one of them.
ON_A_CLUSTER := tests/kube tests/contract tests/cluster

e2e: frameworks kube  ## real processes, real frameworks, a real control plane
	@$(MAKE) --no-print-directory -j2 e2e-on-a-cluster e2e-here

# Real programs on two crowded cores are late now and then. What fails is tried once more and said loudly; what fails
# twice is broken.
E2E = $(BIN)/pytest -q -m e2e -o cache_dir=.pytest_cache/$@

e2e-on-a-cluster: setup
	$(E2E) $(ON_A_CLUSTER) || { echo "$@: TRYING WHAT FAILED ONCE MORE"; $(E2E) --lf --lfnf=none $(ON_A_CLUSTER); }

e2e-here: setup
	$(E2E) $(ON_A_CLUSTER:%=--ignore=%) || \
	  { echo "$@: TRYING WHAT FAILED ONCE MORE"; $(E2E) --lf --lfnf=none $(ON_A_CLUSTER:%=--ignore=%); }

test: check e2e  ## everything

soak: frameworks kube  ## many repetitions of what can go wrong only sometimes
	TRAINWRIGHT_SOAK=1 $(BIN)/pytest -m "e2e or fault" --timeout 3600

bench: frameworks kube  ## measure what the docs claim
	-$(BIN)/python benchmarks/local.py
	-$(BIN)/python benchmarks/store.py
	-$(BIN)/python benchmarks/render.py
	-$(BIN)/python benchmarks/planner.py
	-$(BIN)/python benchmarks/simulate.py
	-$(BIN)/python benchmarks/mpi.py
	-$(BIN)/python benchmarks/client.py
	-$(BIN)/python benchmarks/operators.py
	-$(BIN)/python benchmarks/webhooks.py
	-$(BIN)/python benchmarks/web.py
	-$(BIN)/python benchmarks/serve.py
	-$(BIN)/python benchmarks/logs.py
	-$(BIN)/python benchmarks/scale.py

written: setup  ## write again what is written from the code: deploy/, docs/cli.md
	@$(BIN)/python -m tools.packaging
	@$(BIN)/python -m tools.cli_docs

format:  ## let ruff write the code as ruff wants it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock:  ## pin the dependencies again, with hashes
	@tools/lock.sh $(BIN)

clean:  ## remove what make made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
