# make demo: a first benchmark and its table. make test: lint and all tests. Needs Python 3.11+.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
# text needs a newer numpy than the oldest that is supported: with constraints/oldest.txt EXTRAS=dev.
EXTRAS ?= dev,text
BIN := .venv/bin

.PHONY: setup demo test lint test-gpu replicate site docs dist clean

setup: .venv/.ready

.venv/.ready: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e '.[$(EXTRAS)]'
	touch $@

demo: setup
	$(BIN)/puarena demo --out demo-results
	@echo "for the next commands: source $(BIN)/activate"

lint: setup
	$(BIN)/ruff check src tests benchmarks examples docs/make
	$(BIN)/ruff format --check src tests benchmarks examples docs/make
	$(BIN)/mypy

# Types are those of the newest releases: with older ones, make test LINT=
LINT ?= lint
test: setup $(LINT)
	$(BIN)/python -m pytest -n auto
# One thread for each process: several wait for one another, which took twice the processor time.
test: export OMP_NUM_THREADS = 1

# The tests that need a GPU, with a Python that has a CUDA torch instead of the project's own .venv.
test-gpu:
	PUARENA_TEST_DEVICE=cuda PYTHONPATH=src:tests:$$PYTHONPATH $(PYTHON) -m pytest \
		tests/training tests/algorithms tests/networks \
		tests/datasets/test_image_views.py tests/experiments/test_resume.py \
		tests/experiments/test_out_of_memory.py

# Runs everything published in results/ again and compares it with the paper: a quarter of an hour
# on one large GPU, many hours on a few cores. After an interruption, it continues.
REPLICATION ?= replication
replicate: setup
	$(BIN)/python benchmarks/repeat.py --out $(REPLICATION)
	$(BIN)/python benchmarks/replication.py --results $(REPLICATION)/results

# The leaderboards of results/ as static files in site/leaderboard.
site: setup
	$(BIN)/puarena site results --out site/leaderboard

# The whole site in site/, with the leaderboards. Warnings are errors; nothing is downloaded.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The source archive and the wheel, in dist/. A test builds both, and installs and uses the wheel.
dist: setup
	$(BIN)/python -m hatchling build --clean -d dist

clean:
	rm -rf .venv demo-results dist .pytest_cache .mypy_cache .ruff_cache
