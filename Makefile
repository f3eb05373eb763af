# make demo: a first benchmark and its table.  make test: everything that must hold.  Needs Python 3.11+ and make.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
BIN := .venv/bin

.PHONY: setup demo test lint test-gpu replicate site docs dist clean

setup: .venv/.ready

.venv/.ready: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/puarena demo --out demo-results

lint: setup
	$(BIN)/ruff check src tests benchmarks examples docs/make
	$(BIN)/ruff format --check src tests benchmarks examples docs/make
	$(BIN)/mypy

# Types are those of the newest releases: with older ones, make test LINT=
LINT ?= lint
test: setup $(LINT)
	$(BIN)/python -m pytest -n auto

# What must be true on a GPU. Uses the Python that has a CUDA torch, not the project's own environment.
test-gpu:
	PUARENA_TEST_DEVICE=cuda PYTHONPATH=src:tests:$$PYTHONPATH $(PYTHON) -m pytest \
		tests/training tests/algorithms tests/networks \
		tests/datasets/test_image_views.py tests/experiments/test_resume.py

# Everything published in results/, run again, and put beside the paper: a quarter of an hour on one large GPU, many hours
# on a few cores. Interrupted, it goes on where it was.
REPLICATION ?= replication
replicate: setup
	$(BIN)/python benchmarks/repeat.py --out $(REPLICATION)
	$(BIN)/python benchmarks/replication.py --results $(REPLICATION)/results

# The leaderboards of results/ as static files in site/leaderboard.
site: setup
	$(BIN)/puarena site results --out site/leaderboard

# The whole site in site/, the leaderboards in it; every warning is an error. Nothing is fetched.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The source archive and the wheel, in dist/. A test builds them too, installs the wheel elsewhere and uses it there.
dist: setup
	$(BIN)/python -m hatchling build --clean -d dist

clean:
	rm -rf .venv demo-results dist .pytest_cache .mypy_cache .ruff_cache
