# Every verb needs python3 and make, nothing else: it makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CHAT_INSTALLED := $(VENV)/.installed-chat

export MESSAGE

.DEFAULT_GOAL := help
.PHONY: help install chat check sync test fuzz soak mutants bench build clean

help: ## show the verbs
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1	/' | expand -t 16

install: $(INSTALLED) ## make .venv with the package and the development tools

$(INSTALLED): pyproject.toml
	@echo "Installing the package and the development tools into $(VENV), which takes some minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@touch $@ $(CHAT_INSTALLED)

# Only what the command needs; the verbs of development add the rest.
$(CHAT_INSTALLED): pyproject.toml
	@echo "Installing the package into $(VENV), once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[cli,server]'
	@touch $@

chat: $(CHAT_INSTALLED) ## talk to the built-in agent; MESSAGE="..." asks once
	@if [ -n "$$MESSAGE" ]; then $(BIN)/coreason chat "$$MESSAGE"; else $(BIN)/coreason chat; fi

check: $(INSTALLED) ## ruff, mypy --strict, generated files, and who may import whom
	$(BIN)/python scripts/generate_sync.py --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_imports.py

sync: $(INSTALLED) ## generate the sync files from the async files
	$(BIN)/python scripts/generate_sync.py

test: $(INSTALLED) ## the whole test suite
	$(BIN)/pytest -q -n 3 $(PYTEST_ARGS)

fuzz: $(INSTALLED) ## a longer search for input that breaks something
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -q -n 2 --timeout 3600 tests/fuzz

soak: $(INSTALLED) ## replicas under load and faults, three seeds, about six minutes
	$(BIN)/python -m tests.soak --seed 1 2 3 $(SOAK_ARGS)

mutants: $(INSTALLED) ## break one rule at a time and see that a test notices; MUTANTS_ARGS="reader" picks
	$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

bench: ## ratios against peers, in an environment of its own
	@PYTHON=$(PYTHON) bench/run

build: $(INSTALLED) ## build the wheel and import from it in an empty environment
	@rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/python tests/wheel_smoke.py dist

clean: ## remove what the verbs made
	rm -rf $(VENV) .venv-bench dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
