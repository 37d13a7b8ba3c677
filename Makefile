# Everything below works from a bare checkout with Python 3.11 or later and make.

PYTHON ?= python3
JOBS ?= 2
SCORE ?= 90
BIN := .venv/bin
# Some images forbid Python to keep what it has compiled. Hundreds of tests start a Python, and each would compile everything
# anew: that is minutes. What it keeps is ignored by git.
unexport PYTHONDONTWRITEBYTECODE
READY := .venv/ready
# Folders appear as the project grows; naming one that is missing would stop ruff and mypy.
CODE := $(wildcard src tests tools bench examples)
TYPED := $(wildcard src tests tools bench examples)
QUICK := tests/unit/core tests/unit/kernel tests/unit/faces tests/engines/memory tests/stories
COMPILE = $(BIN)/uv pip compile $(UPGRADE) --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate

.DEFAULT_GOAL := help
.PHONY: help setup run demo quick test fmt fmt-check lint types layers gen gen-check dashboard shots sim prove faults bench cover mutate lock changelog check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## build .venv exactly as locked

$(READY): requirements.lock pyproject.toml tools/requirements-uv.lock tools/sync_env.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdkit needs Python 3.11 or later: make PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python tools/sync_env.py
	@touch $@

run: $(READY) ## server, sweeper, dashboard and a little traffic, on SQLite (ARGS=--no-traffic: without)
	@$(BIN)/python -m holdkit.server.trial $(ARGS)

demo: $(READY) ## a flash sale in the terminal
	@$(BIN)/python -m holdkit.demo $(ARGS)

quick: $(READY) ## under a minute: core, kernel, faces and stories, on memory and SQLite
	@HOLDKIT_EXAMPLES=$${HOLDKIT_EXAMPLES:-40} $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --quick $(QUICK) $(ARGS)

test: $(READY) ## every test; says what was skipped and why
	@mkdir -p .build
	@$(BIN)/python tools/ensure_programs.py
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -rs --junitxml=.build/junit.xml $(ARGS)

fmt: $(READY) ## format, and mend what ruff can mend
	$(BIN)/ruff check --fix-only --quiet $(CODE)
	$(BIN)/ruff format $(CODE)

fmt-check: $(READY) ## is everything formatted?
	$(BIN)/ruff format --check $(CODE)

lint: $(READY) ## ruff's rules, and the changelog fragments
	$(BIN)/ruff check $(CODE)
	@$(BIN)/towncrier build --draft --version next >/dev/null

types: $(READY) ## mypy --strict
	$(BIN)/mypy $(TYPED)

layers: $(READY) ## imports go down only
	$(BIN)/lint-imports

gen: $(READY) ## write the _sync folders from the _async folders
	$(BIN)/python -m tools.gen_sync

gen-check: $(READY) ## is the generated code current?
	$(BIN)/python -m tools.gen_sync --check

dashboard: ## build the dashboard into the package (needs node 20 and npm; nobody else does)
	cd dashboard && npm ci --no-audit --no-fund && npm run build

shots: $(READY) ## take the pictures of the dashboard in docs/images anew
	HOLDKIT_SHOTS=docs/images $(BIN)/python -m pytest -q -n 0 tests/integration/dashboard/test_make_run.py

sim: $(READY) ## simulate the log engine: 2,000 seeds, or one (SEED=7)
	$(BIN)/python -m holdkit.sim $(if $(SEED),--seed $(SEED)) $(ARGS)

prove: $(READY) ## what `make test` samples, in full: 2,000 simulated lives, a fault at every statement (some 4 minutes)
	$(BIN)/python -m holdkit.sim --jobs $(JOBS)
	@mkdir -p .build
	HOLDKIT_FAULTS=every $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/faults/test_statements.py

faults: $(READY) ## failovers, power cuts, crashes, full disks, with ledgers and canaries (ARGS='--only failovers --rounds 8')
	@$(BIN)/python tools/ensure_programs.py
	@$(BIN)/python -m tests.faults.campaign $(ARGS)

bench: $(READY) ## measure
	$(BIN)/python -m bench $(ARGS)

cover: $(READY) ## the core's tests must reach every branch of the core
	@mkdir -p .build
	$(BIN)/coverage run -m pytest -q tests/unit/core
	$(BIN)/coverage report --include='src/holdkit/core/*' --fail-under=100

mutate: $(READY) ## the core's tests must notice changed rules (SCORE=90; some 15 minutes)
	$(BIN)/python -m tools.mutation_score $(SCORE) --jobs $(JOBS)

lock: $(READY) ## resolve the locked versions anew (UPGRADE=--upgrade takes the newest)
	$(COMPILE) --extra cli --group dev pyproject.toml --output-file requirements.lock
	echo uv | $(COMPILE) - --output-file tools/requirements-uv.lock
	@! grep -nE '://|^-' requirements.lock tools/requirements-uv.lock || { echo 'a lock file names a host'; exit 1; }

changelog: $(READY) ## show the next release's notes
	$(BIN)/towncrier build --draft --version next

check: fmt-check lint gen-check layers types cover test ## what CI runs, without the mutants

clean: ## remove what was built
	rm -rf .venv .build dist mutants .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
