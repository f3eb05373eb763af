# make demo: a first benchmark and its table.  make test: everything that must hold.  Needs Python 3.10+ and make.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
BIN := .venv/bin

.PHONY: setup demo test lint test-gpu replicate site clean

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

# Everything published in results/, run again, checked and put beside the paper: half an hour on one large GPU, about a day
# on a few cores. Interrupted, it goes on where it was.
REPLICATION ?= replication
replicate: setup
	for profile in definition released; do \
		$(BIN)/puarena run tabular --profile $$profile --out $(REPLICATION)/$$profile || exit 1; \
		$(BIN)/puarena publish $(REPLICATION)/$$profile --out $(REPLICATION)/results --name tabular-$$profile --replace || exit 1; \
		$(BIN)/puarena compare $(REPLICATION)/$$profile --csv $(REPLICATION)/compare-$$profile.csv || exit 1; \
	done

# The leaderboards of results/ as static files in site/leaderboard.
site: setup
	$(BIN)/puarena site results --out site/leaderboard

clean:
	rm -rf .venv demo-results .pytest_cache .mypy_cache .ruff_cache
