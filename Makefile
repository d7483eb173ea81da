# Every target needs only python3 and make: it creates .venv and installs what it needs.
# PYTHON=python3.13 runs any of them with another Python, in a separate environment.
PYTHON ?= python3
ifeq ($(PYTHON),python3)
VENV := .venv
else
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(VERSION),)
$(error PYTHON must be a Python that can be run, got $(PYTHON))
endif
VENV := .venv-$(VERSION)
endif
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CHAT_INSTALLED := $(VENV)/.installed-chat
DOCS_INSTALLED := $(VENV)/.installed-docs

export MESSAGE
# Compiled files let the many processes of the tests start faster; some environments turn them off.
export PYTHONDONTWRITEBYTECODE =

# What judges source files, tests, files for deployment and documents, whose programs run: `check` runs these.
STATIC = tests/docs tests/deploy tests/llm/test_types.py tests/mutants/test_mutant.py \
	tests/test_class_sizes.py tests/test_imports.py tests/test_measure_code.py tests/test_portability.py \
	tests/test_requirements.py

# Rules without servers and browsers.
QUICK = tests/test_public_names.py tests/test_drive.py tests/test_retry.py tests/sse tests/definitions \
	tests/cap/test_resume.py tests/a2a/test_resubscribe.py tests/llm/test_answer_machine.py tests/llm/test_attempts.py \
	tests/server/cap/test_decision.py tests/server/log/test_rules.py tests/server/log/test_memory_records.py \
	tests/server/durable/test_replay.py tests/server/durable/test_journal.py

# Searches outside tests/fuzz, of which a normal run does a part.
SEARCHES = tests/server/durable/test_properties.py tests/server/durable/test_cancelled_properties.py \
	tests/server/durable/test_start_over.py tests/server/test_cut_back_properties.py tests/server/log/test_contract.py \
	tests/server/a2a/test_once.py

COLLECT = ($(BIN)/pytest -q --collect-only >$(VENV)/collected || (tail -40 $(VENV)/collected; false))

.DEFAULT_GOAL := help
.PHONY: help install chat page check platforms sync proto browser postgres test quick test-for picture fuzz soak mutants tck docs bench build clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 16

install: $(INSTALLED) ## create .venv with the package and the development tools

$(INSTALLED): pyproject.toml
	@echo "Installing the package and the development tools into $(VENV), this takes some minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@touch $@ $(CHAT_INSTALLED) $(DOCS_INSTALLED)

# Only what the command needs; the development targets add the rest.
$(CHAT_INSTALLED): pyproject.toml
	@echo "Installing the package into $(VENV); later runs skip this step."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[cli,server]'
	@touch $@

$(DOCS_INSTALLED): pyproject.toml
	@echo "Installing the tools for the documentation into $(VENV); later runs skip this step."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group docs
	@touch $@

chat: $(CHAT_INSTALLED) ## talk to the built-in agent; MESSAGE="..." asks one question
	@if [ -n "$$MESSAGE" ]; then $(BIN)/coreason chat "$$MESSAGE"; else $(BIN)/coreason chat; fi

page: $(CHAT_INSTALLED) ## talk to the built-in agent in a browser, and cut its connections
	@$(BIN)/coreason serve --port 0 --open --chaos

check: $(INSTALLED) browser postgres ## run ruff, mypy --strict, and the checks of generated files, imports, deployment and documents
	$(BIN)/python scripts/generate_sync.py --check
	$(BIN)/python scripts/generate_proto.py --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Beside mypy, on another core: all tests can be imported, and are compiled for the test run.
	$(COLLECT) & $(BIN)/mypy && wait $$!
	$(BIN)/pytest -q -n 4 --dist worksteal $(STATIC)

platforms: $(INSTALLED) ## type-check the source as on Windows and macOS, a minute the first time
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 src
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin src

sync: $(INSTALLED) ## generate the sync files from the async files
	$(BIN)/python scripts/generate_sync.py

proto: $(INSTALLED) ## generate the descriptors of the gRPC messages from the proto files
	$(BIN)/python scripts/generate_proto.py

browser: $(INSTALLED) ## install Chromium and axe-core for the browser tests, if they are missing
	@$(BIN)/python -m tests.browser.install

postgres: $(INSTALLED) ## install Postgres and PgBouncer for the tests, if they are missing
	@$(BIN)/python -m tests.server.log.install_postgres

test: $(INSTALLED) browser postgres ## run all tests but those of `make check`; both together are everything
	@# Each process takes a run of neighbouring files, so few of them start the same servers.
	$(BIN)/pytest -q -n 4 --dist worksteal $(if $(PYTEST_ARGS),$(PYTEST_ARGS),$(addprefix --ignore=,$(STATIC)))

picture: $(INSTALLED) browser ## take the picture of the README again, after the page has changed
	PICTURE=1 $(BIN)/pytest -q tests/browser/test_picture.py

quick: $(INSTALLED) ## run ruff and the tests of rules, in half a minute: for each edit
	$(BIN)/ruff check -q .
	$(BIN)/pytest -q -n 2 $(QUICK)

test-for: $(INSTALLED) ## run the tests of one source file: FILE=src/coreason_client/cap/_resume.py
	@tests=$$($(BIN)/python scripts/tests_for.py $(FILE)) && $(BIN)/pytest -q -n 2 $$tests

fuzz: $(INSTALLED) ## run the fuzz tests with more examples
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -q -n 2 --timeout 3600 tests/fuzz $(SEARCHES)

soak: $(INSTALLED) ## test replicas under load and faults with three seeds, about 35 minutes
	$(BIN)/python -m tests.soak --seed 1 2 3 $(SOAK_ARGS)

mutants: $(INSTALLED) ## change one rule at a time; a test must fail. MUTANTS_ARGS="reader" selects
	$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

frameworks: $(INSTALLED) ## run the programs of docs/other-frameworks.md; installs 700 MB
	FRAMEWORKS=1 $(BIN)/pytest -q -n 2 tests/e2e/test_other_frameworks.py

tck: $(INSTALLED) ## run the official A2A conformance kit in the folder DIR; TCK_ARGS are for the kit
	@$(BIN)/python scripts/tck.py "$(DIR)" $(TCK_ARGS)

docs: $(DOCS_INSTALLED) ## build the documentation site into site/, offline
	@$(BIN)/python scripts/build_docs.py

bench: ## compare the speed with other libraries, in a separate environment
	@PYTHON=$(PYTHON) bench/run

build: $(INSTALLED) ## build the wheel and test it in an empty environment
	@rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/python tests/wheel_smoke.py dist

clean: ## remove everything that the targets created
	rm -rf .venv .venv-* dist site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
