# `make demo` shows the whole job on this machine, `make test` runs the tests. Both do their own set-up.
.PHONY: help demo test test-storage check coverage model soak lint setup-dev setup-local setup-all clean faults bench bench-cold-start bench-forecast bench-prewarm bench-traffic \
	settings-reference aws-names requirements sbom

PYTHON := .venv/bin/python
# What is imported once is compiled once: a hundred processes would compile it again.
unexport PYTHONDONTWRITEBYTECODE

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

demo: setup-local  ## a load is forecast; two real MySQL replicas come up warm before its peak, and go after it (about 7 minutes)
	$(PYTHON) -m demo

test: setup-all  ## the tests, linters and the type check
	scripts/test

faults: setup-all  ## every fault at every state of the workflows, figures in build/bench/faults.json (about half an hour)
	$(PYTHON) -m bench.faults

test-storage: setup-storage  ## md and LVM layouts on a kernel that has them, in a virtual machine (10 to 20 minutes; ONLY=raid5,raid10)
	PEAKER_TEST_STORAGE=1 PYTHONPATH=tests/storage $(PYTHON) -m pytest tests/storage -x -s --timeout 0

soak: setup-all  ## a thousand random plans over two clusters, audited (make soak SEED=17: one again, shortened if it fails)
	$(PYTHON) -m bench.faults $(if $(SEED),--seed $(SEED),--only soak)

model: setup-all  ## the lease and ledger protocol in every order of events (bench/model/README.md), figures in build/bench/faults.json
	$(PYTHON) -m bench.model.check

check: setup-dev  ## what needs neither root nor Debian: linters, types, and the tests of decisions, documents and templates
	$(PYTHON) -m tests.side_by_side lint decisions templates simulation

coverage: setup-dev  ## how much of each file the cheap tests run, lines and branches (build/coverage/html has each line)
	-$(PYTHON) -m coverage run -m pytest tests/unit tests/host tests/faults
	$(PYTHON) -m coverage html -q
	$(PYTHON) -m coverage report

lint: setup-dev  ## ruff, mypy, import-linter
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	PYTHONPATH=functions:host:cli:packages/localcloud .venv/bin/lint-imports

bench-cold-start: setup-dev  ## processor seconds of a function's cold start, figures in build/bench/cold-start.json
	$(PYTHON) -m bench.cold_start

bench-forecast: setup-dev  ## the forecast, its decisions and its cost (about 10 minutes); figures in build/bench/forecast.json
	$(PYTHON) -m bench.forecast

bench-prewarm: setup-all  ## prewarm methods on cold volumes, figures in build/bench/prewarm.json
	$(PYTHON) -m bench.prewarm

bench-traffic: setup-all  ## joins, retirements and faults under load, figures in build/bench/traffic.json
	$(PYTHON) -m bench.traffic

bench: bench-forecast bench-prewarm bench-traffic  ## all of them (about an hour)

settings-reference: setup-dev  ## docs/settings.md from the models of the settings
	mkdir -p build
	$(PYTHON) -m environments.reference > build/settings.md && mv build/settings.md docs/settings.md

# The widest first: the others keep to its versions. What is in a file already stays (LOCK=--upgrade moves all).
LOCK :=
lock = .venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make requirements" $(LOCK)
requirements: setup-dev  ## requirements*.txt with a hash of every file, from the short requirements*.in
	$(lock) requirements-dev.in -o requirements-dev.txt
	$(lock) -c requirements-dev.txt requirements-local.in -o requirements-local.txt
	$(lock) -c requirements-dev.txt requirements.in -o requirements.txt
	$(lock) -c requirements-dev.txt functions/requirements.in -o functions/requirements.txt

sbom: setup-dev  ## what is in the functions' bundle, as CycloneDX, beside it in build/bundles/
	$(PYTHON) -m stacks.sbom

aws-names: setup-dev  ## the regions and instance types that settings are checked against, from the installed botocore
	$(PYTHON) -m environments.aws_names

clean:  ## remove what the local cloud left on this machine (processes, mounts, loop devices, namespaces)
	$(PYTHON) -m localcloud clean

setup-local:
	@scripts/setup local

setup-dev:
	@scripts/setup dev

setup-storage:
	@scripts/setup dev local storage

setup-all:
	@scripts/setup dev local
