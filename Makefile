# Two commands do all the set-up: `make demo` and `make test` create the virtual environment they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed

.PHONY: demo test test-kube check format bench bench-load bench-many bench-kube conformance docs clean simulate-faults test-crashes

demo: $(RUNTIME)
	@$(BIN)/python -m makeway.cli.main demo

test: $(STAMP)
	$(BIN)/python -m pytest $(ARGS)

# Tests that need a real Kubernetes control plane; building that takes a while the first time.
test-kube: $(STAMP)
	$(BIN)/python tools/kube_assets.py
	MAKEWAY_KUBE=1 $(BIN)/python -m pytest -m kube $(ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py tests/test_docs.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# SCENARIOS names files or folders of recorded decisions; by default all that lie beside the checkout.
conformance: $(STAMP)
	@$(BIN)/python -m tests.conformance $(SCENARIOS)

# The whole system on virtual time with faults, seed by seed; SEEDS=A:B, SIZE=tiny|small|middle.
simulate-faults: $(STAMP)
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),0:300) --size $(or $(SIZE),tiny)

# kill -9 of makeway up while hundreds of jobs run.
test-crashes: $(STAMP)
	@$(BIN)/python -m tests.embedded.test_crashes $(or $(JOBS),300) $(or $(ROUNDS),20) $(or $(SEED),1)

bench: $(STAMP)
	@$(BIN)/python -m benchmarks $(ARGS)

# The whole of `makeway up`, from a second process and by the clock: a quiet machine is needed.
bench-load: $(STAMP)
	@$(BIN)/python -m benchmarks.bench_load $(ARGS)

bench-many: $(STAMP)
	@$(BIN)/python -m benchmarks.bench_many $(ARGS)

# On a real API server; building that takes a while the first time.
bench-kube: $(STAMP)
	@$(BIN)/python tools/kube_assets.py
	@$(BIN)/python -m benchmarks.bench_kube $(ARGS)

# Writes the pages that are generated; `make check` fails when one of them is stale.
docs: $(STAMP)
	$(BIN)/python -m tests.generated_docs --write

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# What Makeway needs to run; then what its tests and checks need as well.
$(RUNTIME): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $(RUNTIME)

$(STAMP): $(RUNTIME)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)
