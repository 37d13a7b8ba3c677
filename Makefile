# Everything below works from a bare checkout with Python 3.11 or later and make.

PYTHON ?= python3
JOBS ?= 2
SCORE ?= 90
BIN := .venv/bin
# Some images forbid Python to write bytecode files. Hundreds of tests start a Python, and each would compile everything
# again, which takes minutes. Git ignores these files.
unexport PYTHONDONTWRITEBYTECODE
READY := .venv/ready
# Only folders that exist: a missing one would stop ruff and mypy.
CODE := $(wildcard src tests tools bench examples)
TYPED := $(wildcard src tests tools bench examples)
QUICK := tests/unit/core tests/unit/kernel tests/unit/faces tests/engines/memory tests/stories
COMPILE = $(BIN)/uv pip compile $(UPGRADE) --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate

LOCKS := requirements.lock requirements-runtime.lock tools/requirements-uv.lock tools/requirements-build.lock

.DEFAULT_GOAL := help
.PHONY: help setup run demo quick test fmt fmt-check lint types layers gen gen-check dashboard shots sim prove faults bench cover mutate lock image-check sbom changelog check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## build .venv exactly as locked

$(READY): requirements.lock pyproject.toml tools/requirements-uv.lock tools/sync_env.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdkit needs Python 3.11 or later: make PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python tools/sync_env.py
	@touch $@

run: $(READY) ## start server, sweeper, dashboard and sample traffic on SQLite (ARGS=--no-traffic: without traffic)
	@$(BIN)/python -m holdkit.server.trial $(ARGS)

demo: $(READY) ## play a flash sale in the terminal
	@$(BIN)/python -m holdkit.demo $(ARGS)

quick: $(READY) ## test core, kernel, faces and stories on memory and SQLite, in under a minute
	@HOLDKIT_EXAMPLES=$${HOLDKIT_EXAMPLES:-40} $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --quick $(QUICK) $(ARGS)

test: $(READY) ## run every test; says what was skipped and why
	@mkdir -p .build
	@$(BIN)/python tools/ensure_programs.py
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -rs --junitxml=.build/junit.xml $(ARGS)

fmt: $(READY) ## format, and fix what ruff can fix
	$(BIN)/ruff check --fix-only --quiet $(CODE)
	$(BIN)/ruff format $(CODE)

fmt-check: $(READY) ## check the format
	$(BIN)/ruff format --check $(CODE)

lint: $(READY) ## check ruff's rules and the changelog fragments
	$(BIN)/ruff check $(CODE)
	@$(BIN)/towncrier build --draft --version next >/dev/null

types: $(READY) ## check types: mypy --strict
	$(BIN)/mypy $(TYPED)

layers: $(READY) ## check that imports go down only
	$(BIN)/lint-imports

gen: $(READY) ## generate the _sync folders, the dashboard's types, and the table of settings in docs/operating.md
	$(BIN)/python -m tools.gen_sync
	$(BIN)/python -m tools.gen_types
	$(BIN)/python -m tools.gen_settings

gen-check: $(READY) ## check that the generated code is current
	$(BIN)/python -m tools.gen_sync --check
	$(BIN)/python -m tools.gen_types --check
	$(BIN)/python -m tools.gen_settings --check

dashboard: ## build the dashboard into the package (needs node 20 and npm; no other target does)
	cd dashboard && npm ci --no-audit --no-fund && npm run build

shots: $(READY) ## take the screenshots in docs/images again
	HOLDKIT_SHOTS=docs/images $(BIN)/python -m pytest -q -n 0 tests/integration/dashboard/test_make_run.py

sim: $(READY) ## simulate the log engine: 2,000 seeds, or one (SEED=7)
	$(BIN)/python -m holdkit.sim $(if $(SEED),--seed $(SEED)) $(ARGS)

prove: $(READY) ## run in full what `make test` samples: 2,000 simulated runs, a fault at every statement (about 4 minutes)
	$(BIN)/python -m holdkit.sim --jobs $(JOBS)
	@mkdir -p .build
	HOLDKIT_FAULTS=every $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/faults/test_statements.py

faults: $(READY) ## inject failovers, power cuts, crashes and full disks, with ledgers and canaries (ARGS='--only failovers --rounds 8')
	@$(BIN)/python tools/ensure_programs.py
	@$(BIN)/python -m tests.faults.campaign $(ARGS)

bench: $(READY) ## measure performance
	$(BIN)/python -m bench $(ARGS)

cover: $(READY) ## check that the core's tests reach every branch of the core
	@mkdir -p .build
	$(BIN)/coverage run -m pytest -q tests/unit/core
	$(BIN)/coverage report --include='src/holdkit/core/*' --fail-under=100

mutate: $(READY) ## check that the core's tests notice changed rules: a third of the mutants, by the commit (SCORE=90, ARGS='--part 1/1 --minutes 90': all)
	$(BIN)/python -m tools.mutation_score $(SCORE) --jobs $(JOBS) $(ARGS)

lock: $(READY) ## resolve the locked versions again (UPGRADE=--upgrade takes the newest)
	$(COMPILE) --extra cli --group dev pyproject.toml --output-file requirements.lock
	$(COMPILE) --extra cli --extra server --extra postgres pyproject.toml --output-file requirements-runtime.lock
	echo uv | $(COMPILE) - --output-file tools/requirements-uv.lock
	echo hatchling | $(COMPILE) - --output-file tools/requirements-build.lock
	@! grep -nE '://|^-' $(LOCKS) || { echo 'a lock file names a host'; exit 1; }

image-check: $(READY) ## run the steps of the Dockerfile here, without Docker, and its health check with and without TLS
	$(BIN)/python -m tools.image_steps

sbom: $(READY) ## write the SBOM of the server's image, CycloneDX, to .build/sbom.json
	@mkdir -p .build
	$(BIN)/cyclonedx-py requirements requirements-runtime.lock --pyproject pyproject.toml --output-reproducible --output-file .build/sbom.json

changelog: $(READY) ## show the next release's notes
	$(BIN)/towncrier build --draft --version next

check: fmt-check lint gen-check layers types cover test ## run what CI runs, without the mutants

clean: ## remove build results
	rm -rf .venv .build dist mutants .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
