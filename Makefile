# First commands on a fresh machine: `make demo`, `make test`. Both need only python3 (3.11 or later), pip and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test test-slow lint types layers check clean

demo: $(VENV)/.package
	$(BIN)/wgfinn demo --out demo_output

test: $(VENV)/.developer
	$(BIN)/python -m pytest -q -n 2

test-slow: $(VENV)/.developer
	$(BIN)/python -m pytest -q -m slow

lint: $(VENV)/.developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.developer
	$(BIN)/pyright

layers: $(VENV)/.developer
	$(BIN)/lint-imports

check: lint types layers test

$(VENV)/.package: pyproject.toml constraints.txt
	@echo "creating $(VENV) and installing wgfinn (a few minutes, once)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable .
	touch $@

$(VENV)/.developer: $(VENV)/.package
	$(PIP) install --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) demo_output
