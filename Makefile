# Everything below works from a bare checkout with Python 3.11 or later and make.

PYTHON ?= python3
JOBS ?= 2
# A third of a test's time is waiting for disks and processes: three workers keep two processors busy.
TESTERS ?= 3
SCORE ?= 93
BIN := .venv/bin
# Some images forbid Python to write bytecode files. Hundreds of tests start a Python, and each would compile everything
# again, which takes minutes. Git ignores these files.
unexport PYTHONDONTWRITEBYTECODE
READY := .venv/ready
# Only folders that exist: a missing one would stop ruff and mypy.
CODE := $(wildcard src tests tools bench examples)
TYPED := $(wildcard src tests tools bench examples)
PROGRAMS := tests/integration/bench tests/integration/examples
# What `make test` samples and `make prove` tries whole, beside the statements and the bytes of a commit.
SAMPLED := tests/acceptance/clock_skew tests/integration/cli/test_backup_kills.py tests/integration/server/test_schemathesis.py \
	$(addprefix tests/integration/dashboard/test_,accessibility.py outage.py outage_views.py views.py) \
	tests/faults/test_server_kills.py tests/engines/test_archive_kills.py tests/engines/test_erasure_kills.py \
	tests/engines/sqlite/test_damaged_backups.py tests/unit/faces/sagas/test_fault_matrix.py \
	tests/acceptance/state_machine/test_machine.py tests/unit/engines
QUICK := tests/unit/core tests/unit/kernel tests/unit/faces tests/engines/memory tests/stories
COMPILE = $(BIN)/uv pip compile $(UPGRADE) --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate

LOCKS := requirements.lock requirements-runtime.lock tools/requirements-uv.lock tools/requirements-build.lock

.DEFAULT_GOAL := help
.PHONY: help setup run demo example quick test test-programs steady fmt fmt-check lint types layers gen gen-check dashboard docs docs-serve shots sim prove faults bench cover mutate lock image-check package-check django-newest sbom changelog release check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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

example: $(READY) ## start an example application: APP=ticket_shop, hotel_nights, llm_gateway or money_transfer (ARGS=9001: on that port)
	@$(BIN)/python -m examples.$(or $(APP),ticket_shop) $(ARGS)

quick: $(READY) ## test core, kernel, faces and stories on memory and SQLite, in under a minute
	@HOLDKIT_EXAMPLES=$${HOLDKIT_EXAMPLES:-40} $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --quick $(QUICK) $(ARGS)

test: $(READY) ## run every test of the library; says what was skipped and why
	@mkdir -p .build
	@$(BIN)/python tools/ensure_programs.py
	$(BIN)/python -m pytest -n $(TESTERS) --dist worksteal -rs --junitxml=.build/junit.xml \
		$(foreach part,$(PROGRAMS),$(if $(findstring $(part),$(ARGS)),,--ignore=$(part))) $(ARGS)

test-programs: $(READY) ## test the example applications in a browser, and the benchmarks
	@mkdir -p .build
	@$(BIN)/python tools/ensure_programs.py
	$(BIN)/python -m pytest -n $(TESTERS) --dist worksteal -rs --junitxml=.build/junit-programs.xml $(PROGRAMS) $(ARGS)

steady: $(READY) ## run `make test` twice while four processes keep the processors busy
	@$(BIN)/python -m tools.steady $(MAKE) test

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

gen: $(READY) ## generate the _sync folders, the dashboard's types, the table of settings in docs/operating.md, the diagrams, and lower bounds in tools/budget.json
	$(BIN)/python -m tools.gen_sync
	$(BIN)/python -m tools.gen_types
	$(BIN)/python -m tools.gen_settings
	$(BIN)/python -m tools.gen_api
	$(BIN)/python -m tools.gen_api --budget
	$(BIN)/python -m tools.gen_diagrams

gen-check: $(READY) ## check that the generated code is current
	$(BIN)/python -m tools.gen_sync --check
	$(BIN)/python -m tools.gen_types --check
	$(BIN)/python -m tools.gen_settings --check
	$(BIN)/python -m tools.gen_api --check
	$(BIN)/python -m tools.gen_diagrams --check

dashboard: ## build the dashboard into the package (needs node 20 and npm; no other target does)
	cd dashboard && npm ci --no-audit --no-fund && npm run build

docs: $(READY) ## build the documentation site into .build/site, without warnings
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=src:. $(BIN)/mkdocs build --strict --quiet
	@echo 'built: .build/site (serve it: its search needs a web server; make docs-serve does both)'

docs-serve: $(READY) ## show the documentation site, and build it again at each change
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=src:. $(BIN)/mkdocs serve

shots: $(READY) ## take the screenshots in docs/images again
	HOLDKIT_SHOTS=docs/images $(BIN)/python -m pytest -q -n 0 tests/integration/dashboard/test_make_run.py tests/integration/examples

sim: $(READY) ## simulate the kernel with faults: 2,000 seeds, or one (SEED=7; ARGS='--seeds 20000 --operations 500': more and longer ones)
	$(BIN)/python -m tests.simulation --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(ARGS)

prove: $(READY) ## run in full what `make test` samples: 2,000 simulated runs of 500 commands, a fault at every statement, a cut at every byte of a commit, a kill at every step of an erasure (about 8 minutes)
	$(BIN)/python -m tests.simulation --operations 500 --jobs $(JOBS)
	@mkdir -p .build
	HOLDKIT_FAULTS=every $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/faults/test_statements.py \
		tests/faults/postgres/test_cuts.py::test_cut_at_every_byte_of_the_commit_exchange \
		$(SAMPLED)

faults: $(READY) ## inject failovers, power cuts, crashes and full disks, with ledgers and canaries (ARGS='--only failovers --rounds 8')
	@$(BIN)/python tools/ensure_programs.py
	@$(BIN)/python -m tests.faults.campaign $(ARGS)

bench: $(READY) ## measure performance
	$(BIN)/python -m bench $(ARGS)

cover: $(READY) ## check that the core's tests reach every branch of the core
	@mkdir -p .build
	$(BIN)/coverage run -m pytest -q tests/unit/core
	$(BIN)/coverage report --include='src/holdkit/core/*' --fail-under=100

mutate: $(READY) ## check that the core's tests notice changed rules: a sixth of the mutants, by the commit (SCORE=93, ARGS='--part 1/1 --minutes 90': all)
	$(BIN)/python -m tools.mutation_score $(SCORE) --jobs $(JOBS) $(ARGS)

lock: $(READY) ## resolve the locked versions again (UPGRADE=--upgrade takes the newest)
	$(COMPILE) --extra cli --group dev pyproject.toml --output-file requirements.lock
	$(COMPILE) --extra cli --extra server --extra postgres pyproject.toml --output-file requirements-runtime.lock
	echo uv | $(COMPILE) - --output-file tools/requirements-uv.lock
	echo hatchling | $(COMPILE) - --output-file tools/requirements-build.lock
	@! grep -nE '://|^-' $(LOCKS) || { echo 'a lock file names a host'; exit 1; }

image-check: $(READY) ## run the steps of the Dockerfile here, without Docker, and its health check with and without TLS
	$(BIN)/python -m tools.image_steps

django-newest: $(READY) ## run the Django example on Django 6, on Python 3.12 or later, where that is found
	@$(BIN)/python -m tools.django_newest

package-check: $(READY) ## build wheel and sdist, and try them in clean environments: each extra, oldest and newest versions, every Python found
	$(BIN)/python -m tools.package_check $(ARGS)

sbom: $(READY) ## write the SBOM of the server's image, CycloneDX, to .build/sbom.json
	@mkdir -p .build
	$(BIN)/cyclonedx-py requirements requirements-runtime.lock --pyproject pyproject.toml --output-reproducible --output-file .build/sbom.json

changelog: $(READY) ## show the next release's notes
	$(BIN)/towncrier build --draft --version next

release: $(READY) ## prepare a release (VERSION=0.2.0) in a copy: version, changelog, packages, checks; WRITE=1 keeps it, and nothing is uploaded
	@test -n "$(VERSION)" || { echo 'make release VERSION=0.2.0 [WRITE=1]'; exit 2; }
	$(BIN)/python -m tools.release $(VERSION) $(if $(WRITE),--write)

check: fmt-check lint gen-check layers types cover test ## run the static checks, the coverage of the core and every test; CI runs more (.ci/run)

clean: ## remove build results
	rm -rf .venv .build dist mutants .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
