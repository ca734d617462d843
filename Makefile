# Two commands do all the set-up: `make demo` and `make test` create the virtual environment they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
ENGINE := build/compiled/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Five processes for two cores, as many tests wait for others; a file's tests stay in one process,
# as they share servers. ARGS come last, so `-n0` undoes it.
WORKERS = $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 5 + 1) / 2 )))
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=15
SAMPLED = $(shell grep -rlE '(import|prerequisites).*(samples|IS_THOROUGH)' tests --include='test_*.py')
DECIDING := tests/conformance tests/engine tests/laws tests/sim
FAST := tests/api tests/engine tests/placement tests/translate tests/test_layers.py

# Modules stay compiled, whatever the machine's variables say: the tests start Makeway many times.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo compiled test test-fast test-samples test-compiled test-kube test-crashes test-chaos test-integrations fuzz coverage check format docs conformance \
	simulate-faults laws replays bench bench-compiled bench-load bench-many bench-pages bench-kube constraints clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## two teams share GPUs: real jobs, queued, preempted, explained; half a minute
	@$(BIN)/python -m makeway.cli.main demo

compiled: $(ENGINE) ## Makeway with a compiled engine, for long simulations: build/compiled/bin/makeway; needs gcc
	@build/compiled/bin/makeway version

test: $(COMPILED) ## all tests, in parallel; ARGS=... goes to pytest
	$(PYTEST) $(ARGS)

test-fast: $(STAMP) ## the tests of what decides: api, engine, placement, translate, layers
	$(PYTEST) -n auto --dist worksteal $(FAST) $(ARGS)

test-samples: $(STAMP) ## all random worlds, seeds and examples of which `make test` takes a part
	MAKEWAY_SAMPLES=all $(PYTEST) -n auto --dist worksteal $(SAMPLED) $(ARGS)

# The same decisions by the compiled engine: recorded ones, stories, properties, laws, a replay.
test-compiled: $(ENGINE) ## the tests of what decides, on the compiled engine, and a replay on both; needs gcc
	build/compiled/bin/python -m pytest -n auto --dist worksteal -m 'not pure' $(DECIDING) $(ARGS)
	build/compiled/bin/python -m benchmarks.bench_compiled --quick

# Building the control plane takes a quarter of an hour the first time.
test-kube: $(STAMP) ## the tests that need a real Kubernetes control plane
	$(BIN)/python tools/kube_assets.py
	MAKEWAY_KUBE=1 $(BIN)/python -m pytest -m kube --durations=15 $(ARGS)

test-crashes: $(STAMP) ## kill -9 of makeway up while hundreds of jobs run; JOBS=300 ROUNDS=20 SEED=1
	@$(BIN)/python -m tests.embedded.test_crashes $(or $(JOBS),300) $(or $(ROUNDS),20) $(or $(SEED),1)

test-chaos: $(STAMP) ## full disks, no descriptors, hostile clients against makeway up; ROUNDS=20 SEED=1
	@$(BIN)/python -m tests.embedded.test_chaos $(or $(ROUNDS),20) $(or $(SEED),1)

# Each in a virtual environment of its own, which the first run installs: some hundred megabytes.
# Where it may be, in a PID namespace: Airflow's operator signals every shell of the account that it sees.
APART := unshare --pid --fork --mount-proc --kill-child
test-integrations: $(STAMP) ## Airflow, Prefect, Parsl and Snakemake, unmodified, on a real makeway up
	$$($(APART) true 2>/dev/null && echo $(APART)) $(BIN)/python -m pytest -m integrations --durations=5 tests/integrations $(ARGS)

# Programs of their own, which nothing else here needs. RUNS for each parser; schemathesis asks a server.
fuzz: $(STAMP) ## hostile texts for the parsers (atheris) and requests for the API (schemathesis); RUNS=200000
	@[ -d build/fuzz ] || $(PYTHON) -m venv build/fuzz
	build/fuzz/bin/python -m pip --quiet --disable-pip-version-check install -c constraints.txt -e .
	build/fuzz/bin/python -m pip --quiet --disable-pip-version-check install atheris schemathesis
	@set -e; for name in $$($(BIN)/python -c 'from tests.fuzz.parsers import PARSERS; print(*PARSERS)'); do \
		echo "$$name"; build/fuzz/bin/python -m tests.fuzz $$name $(or $(RUNS),200000); done
	$(BIN)/python -m tests.fuzz.requests build/fuzz/bin/schemathesis

coverage: $(STAMP) ## which lines of src no test runs: a table, and pages in build/coverage
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-report=html:build/coverage $(ARGS)

check: $(STAMP) ## what a reviewer would look at: format, lint, types, layers, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py tests/test_docs.py tests/cli/test_install.py

format: $(STAMP) ## format the code and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## write what is generated: pages, CRDs, deploy/; `make check` fails when it is stale
	$(BIN)/python -m tools.make_docs --write
	$(BIN)/python -m tools.make_crds
	$(BIN)/python -m tools.make_deploy

conformance: $(STAMP) ## replay recorded decisions; SCENARIOS=files or folders; GATES=OwnersFirst=true or each
	@$(BIN)/python -m tests.conformance $(SCENARIOS) $(if $(GATES),--gates $(GATES))

simulate-faults: $(STAMP) ## the whole system on virtual time with faults; SEEDS=0:300 SIZE=tiny|small|middle
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),0:300) --size $(or $(SIZE),tiny)

laws: $(STAMP) ## the laws over time on all small worlds; ARGS="random --seeds 0:20000 --size small|large"
	@$(BIN)/python -m tests.laws $(or $(ARGS),played --processes 2)

replays: $(STAMP) ## random stories are written down and replayed until so many decisions are equal; DECISIONS=100000
	@$(BIN)/python -m tests.journal.test_replay $(or $(DECISIONS),100000)

bench: $(STAMP) ## how cost grows in engine, placement, store and simulator; ARGS=--quick
	@$(BIN)/python -m benchmarks $(ARGS)

bench-compiled: $(ENGINE) ## simulations and forecasts, pure and compiled in turns; ARGS=--quick
	@build/compiled/bin/python -m benchmarks.bench_compiled $(ARGS)

bench-load: $(STAMP) ## makeway up under load, by the clock, on a quiet machine; ARGS=--quick
	@$(BIN)/python -m benchmarks.bench_load $(ARGS)

bench-many: $(STAMP) ## makeway up with 100 000 pending workloads; ARGS=--quick
	@$(BIN)/python -m benchmarks.bench_many $(ARGS)

bench-pages: $(STAMP) ## what readers of the dashboard cost makeway up under load, and a page its reader; ARGS=--page, --quick
	@$(BIN)/python -m benchmarks.bench_pages $(ARGS)

bench-kube: $(STAMP) ## the controller on a real API server; ARGS=--quick
	@$(BIN)/python tools/kube_assets.py
	@$(BIN)/python -m benchmarks.bench_kube $(ARGS)

# From a fresh environment, so that nothing left over from before gets in.
constraints: ## the versions that installs use, taken anew from pyproject.toml
	rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip --quiet --disable-pip-version-check install '.[dev]'
	(echo '# Made by `make constraints`; the versions that the tests ran with.'; \
		build/constraints/bin/python -m pip freeze --exclude makeway) > constraints.txt
	rm -rf build/constraints

clean: ## remove the virtual environment and every cache
	rm -rf $(VENV) .venv-integrations build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage

# What Makeway needs to run; then what its tests and checks need as well.
$(RUNTIME): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e .
	@touch $(RUNTIME)

# In an environment of its own, which has the libraries of .venv. Nothing is compiled into src.
$(ENGINE): setup.py pyproject.toml $(shell find src/makeway -type f -not -name '*.pyc') | $(STAMP)
	rm -rf build/compiled build/engine
	$(PYTHON) -m venv build/compiled
	MAKEWAY_COMPILED=1 build/compiled/bin/python -m pip --quiet --disable-pip-version-check install --no-deps .
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$(build/compiled/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/libraries.pth"
	@touch $(ENGINE)

# Each process of the first run would compile all tests for itself.
$(COMPILED): $(STAMP)
	$(BIN)/python -m pytest --collect-only -q > /dev/null
	@touch $(COMPILED)

$(STAMP): $(RUNTIME)
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $(STAMP)
