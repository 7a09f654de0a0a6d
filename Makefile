# Commands of the project. `make demo` and `make test` need only python3 (3.11 or later) with pip; everything else comes by itself.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
UV := $(shell command -v uv 2>/dev/null || echo $(VENV)/bootstrap/bin/uv)
CLUSTER ?= sim

$(READY): requirements.lock pyproject.toml
	@command -v uv >/dev/null || { python3 -m venv $(VENV)/bootstrap && $(VENV)/bootstrap/bin/pip install -q uv; }
	@test -x $(PY) || $(UV) venv -q --allow-existing --python ">=3.11" $(VENV)
	@VIRTUAL_ENV=$(VENV) $(UV) pip sync -q --require-hashes requirements.lock
	@VIRTUAL_ENV=$(VENV) $(UV) pip install -q --no-deps -e .
	@touch $@

.PHONY: help setup demo test test-unit test-sim test-cluster lint format lock generate testbed clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY) ## make the virtual environment

demo: $(READY) ## bare nodes to allocatable chips, in a terminal (CLUSTER=sim or real)
	@$(PY) -m npu_operator.cli.entry demo --cluster $(CLUSTER)

test: lint test-unit test-sim test-cluster ## everything

test-unit: $(READY) ## pure tests, under a minute
	$(PY) -m pytest tests/unit

test-sim: $(READY) ## the operator against the simulated cluster, virtual time
	$(PY) -m pytest tests/sim tests/contract -m 'not cluster'

test-cluster: $(READY) ## the operator against a real control plane (built once, cached outside the tree)
	$(PY) -m pytest tests/cluster tests/contract -m cluster

testbed: $(READY) ## build the real control plane
	$(PY) -m testbed.build

lint: $(READY) ## style, types, layers, drift of generated files
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

format: $(READY) ## rewrite the sources in the common format
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

generate: $(READY) ## write the generated files in deploy/ anew
	$(VENV)/bin/npu-operator crds --out deploy/crds
	$(VENV)/bin/npu-operator manifests --out deploy/manifests

lock: ## refresh requirements.lock
	$(UV) pip compile -q pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --upgrade -o requirements.lock

clean: ## remove what the commands above made in the tree
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants
