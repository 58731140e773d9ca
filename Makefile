# Everything a person or CI runs. Needs Python 3.11 or later and, the first time, a network.
.DEFAULT_GOAL := help
BIN := .venv/bin
SETUP := .venv/setup-done
BENCH := .venv/bench-done
RECENT = -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do $$p $(RECENT) && echo $$p && break; done)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input

.PHONY: help setup demo test check format bench soak clean

help: ## Show what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) ## Make .venv with everything that development needs

$(SETUP): pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) $(RECENT) || { \
		echo "toolstash needs Python 3.11 or later: install it, or run make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "setting up .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv
	@$(INSTALL) -e '.[dev]'
	@touch $@

$(BENCH): $(SETUP)
	@$(INSTALL) -e '.[dev,bench]'
	@touch $@

demo: $(SETUP) ## Run the main job on an embedded server
	@$(BIN)/python examples/01_quickstart.py

test: check ## Check the code and run every test, real servers included
	@$(BIN)/python -m pytest -q -n logical --maxprocesses 8

check: $(SETUP) ## Lint, format and types
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/pyright --warnings

format: $(SETUP) ## Put the code into its format
	@$(BIN)/ruff check --fix --quiet
	@$(BIN)/ruff format --quiet

bench: $(BENCH) ## Print the benchmark tables (make bench TABLES="P1 P2")
	@$(BIN)/python -m benchmarks $(TABLES)

soak: $(SETUP) ## Many callers in many processes for minutes, every answer checked (make soak MINUTES=0.5)
	@$(BIN)/python -m benchmarks.soak $(if $(MINUTES),--minutes $(MINUTES))

clean: ## Remove what the commands above made
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis benchmarks/results
