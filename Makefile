# Targets for contributors. `make` without a target lists them.
# Each target installs the packages that it needs into $(VENV).
SHELL := /bin/sh
VENV ?= .venv
PY := $(VENV)/bin/python
INSTALL := VENV=$(VENV) sh requirements/install.sh
CODE := manage.py gpuplatform inventory units serverless tests
KUBERNETES := -m tests.cluster.controlplane.launcher
# The Python version of the image, such as 3.13.
IMAGE_PYTHON := $(shell sed -n -E 's/^FROM python:([0-9]+\.[0-9]+).*/\1/p' Dockerfile | head -n 1)
# Management commands and checks run in development mode.
export GPUPLATFORM_DEV := 1
# Store byte code, because many processes load the same modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help:  ## List the targets.
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' Makefile

##@ Run

.PHONY: setup run recover cluster demo-load
setup:  ## Create .venv with all packages for development (VENV, PYTHON).
	@$(INSTALL) dev

run:  ## Start the whole platform (PORT, GPUPLATFORM_DATA, DATABASE_URL, REDIS_URL, KUBE_MODE, DEMO=0).
	@$(INSTALL) run
	@GPUPLATFORM_RUN_BY=make exec $(PY) -m gpuplatform.dev.embedded

recover:  ## Import the state of the cluster after the database was restored or replaced.
	@$(INSTALL) run
	@GPUPLATFORM_RUN_BY=make exec $(PY) -m gpuplatform.dev.embedded recover

cluster:  ## Run a real control plane until Ctrl-C (needs Go): 3 simulated nodes, or 2 real ones with NODES=real.
	@$(INSTALL) run
	@exec $(PY) $(if $(filter real,$(NODES)),-m tests.node up,$(KUBERNETES) --nodes 3)

demo-load:  ## Create demo rows in a running development platform (N=100000; N=0 deletes them).
	@$(INSTALL) run
	@$(PY) manage.py demo_load $(or $(N),100000)

##@ Test

.PHONY: test test-pure test-long test-cluster test-node test-node-core test-image-python image-check fuzz model coverage golden
test:  ## Run all tests except the long ones (PYTEST_ARGS). The tests start their own servers.
	@$(INSTALL) test
	@$(PY) -m pytest -n 3 --dist loadgroup -m "not long and not node" $(PYTEST_ARGS)

test-pure:  ## Run the tests that need no server, with few examples of each property (PYTEST_ARGS).
	@$(INSTALL) test
	@GPUPLATFORM_TEST_EXAMPLES=10 $(PY) -m pytest -n 2 tests/pure $(PYTEST_ARGS)

test-long:  ## Run the long tests: processes, browsers, faults, properties (PYTEST_ARGS).
	@$(INSTALL) test
	@GPUPLATFORM_TEST_PODS=5000 $(PY) -m pytest -n 3 --dist loadgroup -m "long and not node" $(PYTEST_ARGS)
	@GPUPLATFORM_TEST_EXAMPLES=1000 $(PY) -m pytest -n 3 tests/pure $(PYTEST_ARGS)

# These tests mostly wait, so more workers than processors keep the processors busy.
test-cluster:  ## Run the cluster tests on a real control plane (needs Go; PYTEST_ARGS).
	@$(INSTALL) test
	@$(PY) $(KUBERNETES) --build-only
	@$(PY) -m pytest tests/cluster --server controlplane -n 4 --dist loadgroup $(PYTEST_ARGS)

# The tests and the platform's servers run in the network namespace of the nodes.
test-node:  ## Run the tests on real nodes with containers (needs root and Go; PYTEST_ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.node test -m "not long" $(PYTEST_ARGS)

test-node-core:  ## Run the core set of the tests on real nodes (WITHIN: seconds that it may take).
	@$(INSTALL) test
	@$(PY) -m tests.node core $(or $(WITHIN),3600) $(PYTEST_ARGS)

test-image-python:  ## Run `make test` on the Python version of the image, in .venv-image.
	@python=$$(sh requirements/python.sh $(IMAGE_PYTHON)) && \
		$(MAKE) --no-print-directory test VENV=.venv-image PYTHON="$$python"

image-check:  ## Build the image's files without a container engine and start its processes (IMAGE).
	@$(INSTALL) test
	@python=$$(sh requirements/python.sh $(IMAGE_PYTHON)) && \
		$(PY) -m tests.image --python "$$python" $(if $(IMAGE),--image $(IMAGE))

fuzz:  ## Send invalid and unusual requests to every route (ARGS="--max-examples 50").
	@$(INSTALL) dev
	@$(PY) -m tests.fuzz.run $(ARGS)

model:  ## Explore all orders of events in the hand-over (ARGS="stop2 --without waitabs").
	@$(INSTALL) test
	@$(PY) -m tests.model.scenarios $(ARGS)

coverage:  ## Measure the branch coverage of the image by `make test`: at least 95 %, 100 % in core/.
	@$(INSTALL) test
	@$(PY) -m tests.measured -n 3 --dist loadgroup -m "not long and not node" $(PYTEST_ARGS)
	@$(PY) -m coverage report --skip-covered
	@$(PY) -m coverage report --show-missing --skip-covered --include="*/core/*" --fail-under=100

golden:  ## Regenerate the reviewed files in tests/golden.
	@$(INSTALL) test
	@$(PY) -m pytest --update-golden tests/pure tests/contract tests/admin/test_texts.py

##@ Check

.PHONY: check lint format types contracts ci
check: lint types contracts  ## Check format, lint, types, imports and generated files, without tests.
	@$(PY) manage.py check
	@# makemigrations also reads the migration history of a database, which is not required here.
	@$(PY) -W "ignore:Got an error checking" manage.py makemigrations --check --dry-run
	@$(PY) manage.py export --check
	@mkdir -p .data && $(PY) manage.py spectacular --validate --fail-on-warn --file .data/openapi.yaml
	@diff -u docs/openapi.yaml .data/openapi.yaml || { echo "The API changed. Run 'make swagger'." >&2; exit 1; }
	@$(PY) -m pytest -q tests/contract/test_openapi.py

lint: setup  ## Check format and lint without changes.
	@$(PY) -m ruff format --check $(CODE)
	@$(PY) -m ruff check $(CODE)

format: setup  ## Format the code and apply the automatic fixes of ruff.
	@$(PY) -m ruff format $(CODE)
	@$(PY) -m ruff check --fix $(CODE)

types: setup  ## Check the types (mypy in strict mode).
	@$(PY) -m mypy $(CODE)

contracts: setup  ## Check the import contracts.
	@PYTHONPATH=. $(VENV)/bin/lint-imports --no-logo

ci: check test  ## Run the checks and the tests.

##@ Generate

.PHONY: manifests docs swagger pictures requirements
manifests: setup  ## Generate CRDs, RBAC, network policies and dashboards in deploy/.
	@$(PY) manage.py export crds rbac policies dashboards

docs: setup  ## Generate docs/configuration.md, docs/reasons.md and docs/permissions.md.
	@$(PY) manage.py export settings reasons permissions

swagger: setup  ## Generate docs/openapi.yaml.
	@mkdir -p docs && $(PY) manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

pictures:  ## Create the images of the README (needs Chromium).
	@$(INSTALL) test
	@$(PY) -m tests.pictures

requirements: setup  ## Compile the lists of requirements with hashes and the versions of dev.
	@for list in dev test run base prod; do \
		constraint=$$([ $$list = dev ] || echo "-c dev.txt"); \
		(cd requirements && $(abspath $(PY)) -m uv pip compile --quiet --universal --python-version 3.11 \
			--generate-hashes --no-emit-index-url --custom-compile-command "make requirements" \
			$$constraint $$list.in --output-file $$list.txt) || exit 1; \
	done

##@ Benchmark

.PHONY: bench-pools bench-units bench-node bench-serverless bench-api bench-admin bench-simulator bench-queue bench-nodes bench-doors bench-usage bench-fairness bench-audit
bench-pools:  ## Measure the creation of stock pools and the idle cost of the platform.
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.pools

bench-units:  ## Measure the hand-over of GPU units and their idle cost (PARTS).
	@$(INSTALL) test
	@$(PY) $(KUBERNETES) --build-only
	@$(PY) -m tests.benchmarks.units $(PARTS)

bench-node:  ## Measure the hand-over of GPU units on real nodes (needs root and Go; ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.node bench $(ARGS)

bench-serverless:  ## Measure the latency of invocations, warm and from zero workers (PARTS).
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.serverless $(PARTS)

bench-api:  ## Measure lists of 100,000 operations, accepted requests/s and reconcile_all (ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.api $(ARGS)

bench-admin:  ## Measure the queries and response times of admin pages (ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.admin $(ARGS)

bench-queue:  ## Measure grants and creates beside 1,000 requests; simulate over-subscribed days (ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.queue $(ARGS)

bench-nodes:  ## Measure the pages and lists of a cluster with 500 nodes and 4,000 pods (ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.nodes $(ARGS)

bench-doors:  ## Measure the web process during attacks: slow clients, logins, large lists (PARTS).
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.doors $(PARTS)

bench-usage:  ## Measure queries of usage over 10 million hourly records (ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.usage $(ARGS)

bench-fairness:  ## Measure a tenant beside the burst of another one, and the cost of rates (PARTS).
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.fairness $(PARTS)

bench-audit:  ## Measure accepted requests with and without audit entries, and the seals (ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.audit $(ARGS)

bench-simulator:  ## Measure speed and memory of the simulated cluster with 1,000 pods.
	@$(INSTALL) test
	@$(PY) -m tests.benchmarks.simulator

##@ Chaos

.PHONY: chaos-x1 chaos-x3 chaos-x8 chaos-x9 chaos-x10 chaos-u41
chaos-x1:  ## Send 2,000 requests of two tenants, each 8 times concurrently (ARGS).
	@$(INSTALL) test
	@$(PY) $(KUBERNETES) --build-only
	@$(PY) -m tests.chaos.x1 $(ARGS)

chaos-x3:  ## Kill workers every 2 s during 1,000 operations (ARGS).
	@$(INSTALL) test
	@$(PY) $(KUBERNETES) --build-only
	@$(PY) -m tests.chaos.x3 $(ARGS)

chaos-x8:  ## Run 64 callers on 500 stock units, with stale reads (ARGS).
	@$(INSTALL) test
	@$(PY) $(KUBERNETES) --build-only
	@$(PY) -m tests.chaos.x8 $(ARGS)

chaos-x9:  ## Kill workers, activator, result store and queue during invocations (ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.chaos.x9 $(ARGS)

chaos-x10:  ## Kill the process before and after every write of every operation (PYTEST_ARGS).
	@$(INSTALL) test
	@$(PY) -m pytest tests/chaos/x10.py $(PYTEST_ARGS)

chaos-u41:  ## Kill all processes 20 times while units and pools change (ARGS).
	@$(INSTALL) test
	@$(PY) -m tests.chaos.u41 $(ARGS)
