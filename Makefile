# `make demo` and `make test` set everything up in .venv; running them again is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet

.PHONY: demo test lint bench clean

# Its runs, tables and page are in studies/compare; a second `make demo` shows them without training again.
demo: $(VENV)/.runtime
	$(BIN)/gradsync compare

# Most tests wait for processes to start: two at a time. Then, one by one, those that must have the machine for themselves.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -m 'not alone' -n 2 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest -m alone

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.runtime
	$(BIN)/python benchmarks/bare_ddp.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/watch.py
	$(BIN)/python benchmarks/before_after.py
	$(BIN)/python benchmarks/strategies.py
	$(BIN)/python benchmarks/partial_reads.py
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/data_share.py
	$(BIN)/python benchmarks/malloc.py
	$(BIN)/python benchmarks/memory_format.py
	$(BIN)/python benchmarks/proofs/ends.py
	$(BIN)/python benchmarks/proofs/fuzz.py
	$(BIN)/python benchmarks/proofs/fuzz_folders.py

clean:
	rm -rf $(VENV) build src/*.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

# torch first and by itself: the pinned version comes as a CPU build where there is one, without CUDA packages.
$(VENV)/.runtime: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt torch
	$(PIP) install --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	touch $@
