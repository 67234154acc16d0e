# Every target works on a machine with nothing but python3, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo check test faults bench docs lock clean

help: ## show what can be made
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## install everything into .venv (then: .venv/bin/mailwright)

$(STAMP): requirements.lock pyproject.toml client/pyproject.toml client/generate.py $(wildcard tools/assets/*.js*) tools/assets/hook.py
	@$(PYTHON) tools/setup.py $(VENV)
	@touch $@

demo: setup ## send sample mails through the whole road and serve the result
	@$(BIN)/mailwright demo

check: setup ## lint, format, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: setup ## the whole suite, on SQLite and on real PostgreSQL and Valkey, and in a browser
	@$(PYTHON) tools/browser.py
	$(BIN)/pytest -n auto --dist worksteal

faults: setup ## the long fault runs: kills, stops, lost databases (about half an hour)
	$(BIN)/python -m tests.faults

bench: setup ## the benchmarks beside their peers, as ratios
	$(BIN)/python -m bench

docs: setup ## write the pages of docs/ that are made from the code (OpenAPI, settings, commands)
	$(BIN)/python -m tools.docs

lock: setup ## resolve requirements.lock anew
	$(BIN)/python tools/lock.py

clean: ## remove what make has made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache var
