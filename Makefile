# One command for each thing a contributor does; `make` alone lists them.
SHELL := /bin/sh
PYTHON := .venv/bin/python
CODE := manage.py gpuplatform inventory units serverless tests
KUBERNETES := tests/cluster/controlplane/launcher.py
# Commands beside a running platform and checks without one are in development mode.
export GPUPLATFORM_DEV := 1
# What is compiled once need not be compiled by each of the many processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run recover test test-long test-pure test-cluster cluster check format lint \
	types contracts manifests docs pictures swagger golden requirements bench-pools bench-api \
	bench-units bench-serverless bench-simulator bench-admin demo-load fuzz model chaos-x1 chaos-x3 \
	chaos-x8 chaos-x9 chaos-x10 chaos-u41 ci

help:  ## list the targets
	@sed -n -E 's/^([a-z0-9-]+):[^#]*## (.*)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

setup:  ## make .venv with everything for development
	@sh requirements/install.sh dev

run:  ## start the whole platform (PORT, GPUPLATFORM_DATA, DATABASE_URL, REDIS_URL, KUBE_MODE, DEMO=0)
	@sh requirements/install.sh run
	@GPUPLATFORM_RUN_BY=make exec $(PYTHON) -m gpuplatform.dev.embedded

recover:  ## after the database was restored or replaced: take over what the cluster has
	@sh requirements/install.sh run
	@GPUPLATFORM_RUN_BY=make exec $(PYTHON) -m gpuplatform.dev.embedded recover

test:  ## the tests, on servers of their own, but for the long ones (PYTEST_ARGS)
	@sh requirements/install.sh test
	@$(PYTHON) -m pytest -n 3 --dist loadgroup -m "not long" $(PYTEST_ARGS)

test-long:  ## whole platforms that are killed, browsers, and a fault at every call
	@sh requirements/install.sh test
	@GPUPLATFORM_TEST_PODS=5000 $(PYTHON) -m pytest -n 3 --dist loadgroup -m long $(PYTEST_ARGS)

test-pure:  ## the tests of pure code
	@sh requirements/install.sh test
	@$(PYTHON) -m pytest tests/pure $(PYTEST_ARGS)

# Most of these tests wait now and then: more of them at once than processors keep those busy.
test-cluster:  ## the cluster tests on a real control plane (needs Go once, to build it)
	@sh requirements/install.sh test
	@$(PYTHON) $(KUBERNETES) --build-only
	@$(PYTHON) -m pytest tests/cluster --server controlplane -n 4 --dist loadgroup $(PYTEST_ARGS)

cluster:  ## run a real control plane with three played nodes until Ctrl-C
	@sh requirements/install.sh run
	@exec $(PYTHON) $(KUBERNETES) --nodes 3

check: lint types contracts  ## everything that needs no test: format, lint, types, imports, schema
	@$(PYTHON) manage.py check
	@# It also asks a database for its history, and there need not be one.
	@$(PYTHON) -W "ignore:Got an error checking" manage.py makemigrations --check --dry-run
	@$(PYTHON) manage.py export_crds --check
	@$(PYTHON) manage.py export_settings --check
	@$(PYTHON) manage.py export_reasons --check
	@$(PYTHON) manage.py export_rbac --check
	@mkdir -p .data && $(PYTHON) manage.py spectacular --validate --fail-on-warn --file .data/openapi.yaml
	@diff -u docs/openapi.yaml .data/openapi.yaml || { echo "The API changed: run 'make swagger'." >&2; exit 1; }

format: setup  ## format and sort
	@$(PYTHON) -m ruff format $(CODE)
	@$(PYTHON) -m ruff check --fix $(CODE)

lint: setup  ## format and lint, without changing anything
	@$(PYTHON) -m ruff format --check $(CODE)
	@$(PYTHON) -m ruff check $(CODE)

types: setup  ## mypy, strict
	@$(PYTHON) -m mypy --explicit-package-bases $(CODE)

contracts: setup  ## who may import whom
	@PYTHONPATH=. .venv/bin/lint-imports --no-logo

manifests: setup  ## write the CRDs, accounts and rights into deploy/
	@$(PYTHON) manage.py export_crds
	@$(PYTHON) manage.py export_rbac

docs: setup  ## write docs/configuration.md and docs/reasons.md
	@$(PYTHON) manage.py export_settings
	@$(PYTHON) manage.py export_reasons

pictures:  ## make the pictures of the README (the dashboard needs Chromium)
	@sh requirements/install.sh test
	@$(PYTHON) -m tests.pictures

swagger: setup  ## write docs/openapi.yaml
	@mkdir -p docs && $(PYTHON) manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

golden:  ## rewrite the reviewed files in tests/golden
	@sh requirements/install.sh test
	@$(PYTHON) -m pytest --update-golden tests/pure tests/contract

requirements: setup  ## compile the hashed lists; every list has the versions of dev
	@for list in dev test run base prod; do \
		constraint=$$([ $$list = dev ] || echo "-c dev.txt"); \
		(cd requirements && ../$(PYTHON) -m uv pip compile --quiet --universal --python-version 3.11 \
			--generate-hashes --no-emit-index-url --custom-compile-command "make requirements" \
			$$constraint $$list.in --output-file $$list.txt) || exit 1; \
	done

bench-pools:  ## how fast stock pools are made, and what the platform costs at rest
	@sh requirements/install.sh test
	@$(PYTHON) -m tests.benchmarks.pools

bench-api:  ## lists of 100,000 jobs, accepted requests a second, reconcile_all (ARGS)
	@sh requirements/install.sh test
	@$(PYTHON) -m tests.benchmarks.api $(ARGS)

bench-units:  ## how fast GPU units are handed over, and their cost at rest (PARTS)
	@sh requirements/install.sh test
	@$(PYTHON) $(KUBERNETES) --build-only
	@$(PYTHON) -m tests.benchmarks.units $(PARTS)

bench-admin:  ## queries and times of the admin's pages, on a running platform (ARGS)
	@sh requirements/install.sh test
	@$(PYTHON) -m tests.benchmarks.admin $(ARGS)

bench-simulator:  ## the embedded cluster's speed and memory, and what 1,000 played pods cost
	@sh requirements/install.sh test
	@$(PYTHON) -m tests.benchmarks.simulator

demo-load:  ## fill the rows of a running development platform (N=100000; N=0 removes them)
	@sh requirements/install.sh run
	@$(PYTHON) manage.py demo_load $(or $(N),100000)

bench-serverless:  ## how fast invocations reach a function, warm and from zero (PARTS)
	@sh requirements/install.sh test
	@$(PYTHON) -m tests.benchmarks.serverless $(PARTS)

fuzz:  ## every route with odd requests, made from the API's document (ARGS="--max-examples 50")
	@sh requirements/install.sh dev
	@$(PYTHON) -m tests.fuzz.run $(ARGS)

model:  ## every order of events of the hand-over (ARGS="stop2 --without waitabs")
	@sh requirements/install.sh test
	@$(PYTHON) -m tests.model.scenarios $(ARGS)

chaos-x1:  ## 2,000 operationIDs of two tenants, each sent 8 times at once (ARGS)
	@sh requirements/install.sh test
	@$(PYTHON) $(KUBERNETES) --build-only
	@$(PYTHON) -m tests.chaos.x1 $(ARGS)

chaos-x3:  ## workers killed every 2 s over 1,000 operations (ARGS)
	@sh requirements/install.sh test
	@$(PYTHON) $(KUBERNETES) --build-only
	@$(PYTHON) -m tests.chaos.x3 $(ARGS)

chaos-x8:  ## 64 callers over 500 stock units, with stale reads (ARGS)
	@sh requirements/install.sh test
	@$(PYTHON) $(KUBERNETES) --build-only
	@$(PYTHON) -m tests.chaos.x8 $(ARGS)

chaos-x9:  ## invocations while workers, activator, result store and queue are killed (ARGS)
	@sh requirements/install.sh test
	@$(PYTHON) -m tests.chaos.x9 $(ARGS)

chaos-x10:  ## a death before and after every write of every operation
	@sh requirements/install.sh test
	@$(PYTHON) -m pytest tests/chaos/x10.py $(PYTEST_ARGS)

chaos-u41:  ## all processes killed at once, 20 times, amid units and pools of every kind (ARGS)
	@sh requirements/install.sh test
	@$(PYTHON) -m tests.chaos.u41 $(ARGS)

ci: check test  ## what has to be green before a change is merged
