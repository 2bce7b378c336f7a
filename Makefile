# Everything is a target here; `make` lists them. A fresh machine needs Python 3.11 or newer and make.
# .venv is made and filled on first use; each target installs only what it needs.

PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Public data for tests and benchmarks; what needs it says so plainly where it is not there.
MIGSAW_DATA ?= $(abspath ../shared/data)
REFEREE ?= $(MIGSAW_DATA)/../referee
export MIGSAW_DATA

# Debian packages of the real servers that tests start on loopback; each test names its own where it is missing.
PARTS := prometheus postgresql

.PHONY: help demo test check parts fix bench soak referee schemas golden clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

demo: .venv/run  ## the whole job on a small built-in cluster
	$(BIN)/migsaw demo

test: .venv/test  ## all tests; the last lines name the real parts that are missing here
	$(BIN)/pytest -n $(JOBS)

check: .venv/check  ## format, lint, types, architecture, dependencies, spelling, schemas, rules
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/codespell
	$(BIN)/python tools/write_schemas.py --check
	$(BIN)/python tools/write_doctor.py --check

parts:  ## install the real servers that tests use, from Debian's packages (needs root)
	@dpkg -s $(PARTS) >/dev/null 2>&1 || { apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PARTS) >/dev/null; }

fix: .venv/check  ## format and mend what ruff can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/test  ## every benchmark, with --data $(MIGSAW_DATA)
	@for script in benchmarks/[a-z]*.py; do \
	  echo "== $$script"; $(BIN)/python $$script --data "$(MIGSAW_DATA)" || exit 1; \
	done

soak: .venv/test  ## the tests with many more random cases
	MIGSAW_SOAK=1 $(BIN)/pytest -n $(JOBS)

referee: .venv/run  ## the independent referees, where they lie beside this clone; fixed seeds, few cases
	@if [ -d "$(REFEREE)" ]; then set -e; \
	  $(BIN)/python $(REFEREE)/pack.py --migsaw $(BIN)/migsaw --seed 1 --cases 40; \
	  $(BIN)/python $(REFEREE)/cluster.py --migsaw $(BIN)/migsaw --seed 1 --cases 10; \
	else echo "no referee in $(REFEREE): nothing to do"; fi

schemas: .venv/run  ## write docs/reference/schemas from the value types, doctor.md from the rules
	$(BIN)/python tools/write_schemas.py
	$(BIN)/python tools/write_doctor.py

golden: .venv/test  ## write the golden files anew; look at the difference before you commit it
	MIGSAW_WRITE_GOLDEN=1 $(BIN)/pytest tests/test_end_to_end.py

clean:  ## remove .venv and every cache
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# --group needs pip 25.1
.venv/run: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --editable .
	@touch $@

.venv/test: .venv/run
	$(PIP) install --group test
	@touch $@

.venv/check: .venv/test
	$(PIP) install --group check
	@touch $@
