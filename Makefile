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
STATIC = tests/docs tests/deploy tests/js/test_package.py tests/llm/test_types.py \
	tests/mutants/test_mutant.py tests/release tests/test_class_sizes.py tests/test_imports.py \
	tests/test_measure_code.py tests/test_portability.py tests/test_requirements.py

# Searches outside tests/fuzz, of which a normal run does a part.
SEARCHES = tests/server/durable/test_properties.py tests/server/durable/test_cancelled_properties.py \
	tests/server/durable/test_start_over.py tests/server/test_cut_back_properties.py tests/server/log/test_contract.py \
	tests/server/a2a/test_once.py

COLLECT = ($(BIN)/pytest -q --collect-only >$(VENV)/collected || (tail -40 $(VENV)/collected; false))

# What `make lowest` runs beside the quick tests: clients, servers, stores and the command, over loopback.
LOWEST = tests/cap tests/http tests/llm/tools tests/server/observe/test_spans.py tests/cli/test_serve.py \
	tests/cli/test_live.py tests/server/log/test_valkey_primary.py tests/llm/router/test_soak.py

# The time in the built files: that of the commit, so that everybody builds the same bytes.
EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 1577836800)

RELEASE = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/coreason_client/_version.py)

# Versions that are a week old or more: a poisoned release is usually found within days.
COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --exclude-newer '7 days' --custom-compile-command 'make lock'
IMAGE_EXTRAS = cli server llm valkey postgres metrics fast

.DEFAULT_GOAL := help
.PHONY: help lock install chat page check platforms sync proto browser postgres deploy-tools test quick test-for apidiff lowest release-files picture fuzz soak mutants tck docs bench build clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 16

install: $(INSTALLED) ## create .venv with the package and the development tools; LOCKED=1 uses requirements-dev.txt

$(INSTALLED): pyproject.toml
	@echo "Installing the package and the development tools into $(VENV), this takes some minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifdef LOCKED
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
else
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
endif
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

check: $(INSTALLED) browser postgres deploy-tools ## run ruff, mypy --strict, and the checks of generated files, imports, deployment and documents
	$(BIN)/python scripts/generate_sync.py --check
	$(BIN)/python scripts/generate_proto.py --check
	$(BIN)/python scripts/check_release.py
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

lock: $(INSTALLED) ## write the lock files again: for developers and releases, and for the image
	$(COMPILE) --all-extras --group dev --output-file requirements-dev.txt pyproject.toml
	$(COMPILE) $(addprefix --extra ,$(IMAGE_EXTRAS)) --output-file deploy/requirements.txt pyproject.toml
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
		$(COMPILE) --output-file deploy/requirements-build.txt -

postgres: $(INSTALLED) ## install Postgres and PgBouncer for the tests, if they are missing
	@$(BIN)/python -m tests.server.log.install_postgres

deploy-tools: $(INSTALLED) ## unpack promtool and nginx for the tests of deploy, if they are missing
	@$(BIN)/python -m tests.deploy.install

test: $(INSTALLED) browser postgres ## run all tests but those of `make check`; both together are everything
	@# Each process takes a run of neighbouring files, so few of them start the same servers.
	$(BIN)/pytest -q -n 4 --dist worksteal $(if $(PYTEST_ARGS),$(PYTEST_ARGS),$(addprefix --ignore=,$(STATIC)))

picture: $(INSTALLED) browser ## take the pictures of the README and of the site's first page again, after they have changed
	$(BIN)/python scripts/record_chat.py
	PICTURE=1 $(BIN)/pytest -q tests/browser/test_picture.py

quick: $(INSTALLED) ## run ruff and the tests of rules, in half a minute: for each edit
	$(BIN)/ruff check -q .
	$(BIN)/pytest -q -n 2 @tests/quick.txt

test-for: $(INSTALLED) ## run the tests of one source file: FILE=src/coreason_client/cap/_resume.py
	@tests=$$($(BIN)/python scripts/tests_for.py $(FILE)) && $(BIN)/pytest -q -n 2 $$tests

fuzz: $(INSTALLED) ## run the fuzz tests with more examples
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -q -n 2 --timeout 3600 tests/fuzz $(SEARCHES)

soak: $(INSTALLED) ## test replicas under load and faults with three seeds, about 35 minutes
	$(BIN)/python -m tests.soak --seed 1 2 3 $(SOAK_ARGS)

mutants: $(INSTALLED) ## change one rule at a time; a test must fail. MUTANTS_ARGS="reader" selects
	$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

frameworks: $(INSTALLED) ## run the programs for other frameworks in docs/howto; installs 1.5 GB
	FRAMEWORKS=1 $(BIN)/pytest -q -n 2 tests/e2e/test_other_frameworks.py

tck: $(INSTALLED) ## run the official A2A conformance kit in the folder DIR; TCK_ARGS are for the kit
	@$(BIN)/python scripts/tck.py "$(DIR)" $(TCK_ARGS)

docs: $(DOCS_INSTALLED) ## build the documentation site into site/, offline
	@$(BIN)/python scripts/build_docs.py

bench: ## compare the speed with other libraries, in a separate environment
	@PYTHON=$(PYTHON) bench/run

apidiff: $(INSTALLED) ## compare the public API with the last release; fails if the version does not allow a change
	@$(BIN)/python scripts/api_diff.py

lowest: $(INSTALLED) ## run the fast tests with the lowest versions that pyproject.toml allows
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	$(BIN)/uv pip install --quiet --python .venv-lowest --resolution lowest-direct --editable '.[all]' --group test
	@# Old versions use what newer ones of their own dependencies call deprecated.
	.venv-lowest/bin/pytest -q -n 2 -W ignore::DeprecationWarning @tests/quick.txt $(LOWEST)

build: $(INSTALLED) ## build the wheel and the sdist, and test the wheel in an empty environment
	@rm -rf dist
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m build --quiet --no-isolation
	@# What a release is tested with must not be able to change it: known versions only.
	@mkdir -p .cache && sed -nE 's/^([^ #]+==[^ ]+)( ;[^\\]*)? \\$$/\1\2/p' requirements-dev.txt >.cache/constraints.txt
	$(if $(LOCKED),PIP_CONSTRAINT=$(CURDIR)/.cache/constraints.txt) $(BIN)/python tests/wheel_smoke.py dist

release-files: build ## build all that is published into dist, with a list of the components (SBOM)
	@rm -rf .cache/npm && cp -R js .cache/npm
	@# npm compares the repository with the provenance; a copy, because the sdist has the file too.
	cd .cache/npm && $(if $(GITHUB_REPOSITORY),npm pkg set repository.type=git repository.directory=js \
		'repository.url=git+https://github.com/$(GITHUB_REPOSITORY).git' &&) npm pack --silent --pack-destination ../../dist
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-sbom
	$(BIN)/uv pip install --quiet --python .venv-sbom --constraint requirements-dev.txt "$$(ls dist/*.whl)[all]"
	@sed 's/^dynamic = .*/version = "$(RELEASE)"/' pyproject.toml >.cache/pyproject.toml
	$(BIN)/cyclonedx-py environment --pyproject .cache/pyproject.toml --output-reproducible --mc-type library \
		--output-file dist/coreason-client-$(RELEASE).cdx.json .venv-sbom

clean: ## remove everything that the targets created
	rm -rf .venv .venv-* dist site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
