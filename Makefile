# Everything runs on a fresh machine with Python >= 3.11, pip and git: each target makes .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Small tensors run fastest on one thread a process; tests run in several processes.
export OMP_NUM_THREADS ?= 1

.PHONY: help install demo test lint check wheel bench docs clean

help:
	@echo "make demo    train a language agent on WebShop and compare it with random, expert and BC"
	@echo "make test    run the tests"
	@echo "make lint    ruff, pyright, and the figures of README and docs"
	@echo "make check   lint, tests, the site, and the wheel in an empty environment"
	@echo "make bench   speed of environments and of credit assignment"
	@echo "make docs    build the documentation site, offline, into site/"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml setup.cfg constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[train,sb3,dev]'
	touch $@

demo: $(INSTALLED)
	OMP_NUM_THREADS=2 $(BIN)/agentgym train poad --config benchmarks/demo.yaml

test: $(INSTALLED)
	$(BIN)/python -m pytest -q -n auto --dist loadgroup

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python benchmarks/figures.py --check

check: lint test docs wheel

# The wheel, in an empty environment, from an empty folder, without a network.
wheel: $(INSTALLED)
	rm -rf build dist
	$(BIN)/python -m build --quiet --wheel
	$(PYTHON) -m venv build/venv
	build/venv/bin/python -m pip install --quiet dist/*.whl
	mkdir -p build/empty
	cd build/empty && ../venv/bin/python ../../tests/helpers/reset_every_id.py

bench: $(INSTALLED)
	$(BIN)/python benchmarks/env_speed.py
	$(BIN)/python benchmarks/credit_speed.py
	$(BIN)/python benchmarks/credit_oracle.py

# A notice about MkDocs 2, which the site does not use, is turned off.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

clean:
	rm -rf $(VENV) build dist runs site *.egg-info
