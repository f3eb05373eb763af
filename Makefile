# make demo: a first benchmark and its table.  make test: everything that must hold.  Needs Python 3.10+ and make.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
BIN := .venv/bin

.PHONY: setup demo test lint test-gpu clean

setup: .venv/.ready

.venv/.ready: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/puarena demo --out demo-results

lint: setup
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n auto

# What must be true on a GPU. Uses the Python that has a CUDA torch, not the project's own environment.
test-gpu:
	PUARENA_TEST_DEVICE=cuda PYTHONPATH=src:tests:$$PYTHONPATH $(PYTHON) -m pytest \
		tests/fleet tests/algorithms tests/networks \
		tests/data/test_image_views.py tests/bench/test_resume.py

clean:
	rm -rf .venv demo-results .pytest_cache .mypy_cache .ruff_cache
