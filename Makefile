# Every target works on a machine that has only python3, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Tests start many processes, which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-all faults bench docs manual wheel dist typescript deploy-check image-test install-test nightly lock clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## install everything into .venv (then: .venv/bin/mailwright)

$(STAMP): requirements.lock pyproject.toml client/pyproject.toml client/generate.py docs/openapi.json $(wildcard tools/assets/*.js* tools/assets/composer/*.js) tools/assets/hook.py tools/manual.py
	@$(PYTHON) tools/setup.py $(VENV)
	@touch $@

demo: setup ## send sample emails into a local mailbox and serve the dashboard
	@$(BIN)/python tools/manual.py
	@$(BIN)/mailwright demo

check: setup ## lint, format, types, import layers, wording, sizes and translations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/language.py
	$(BIN)/python tools/structure.py
	$(BIN)/python -m tools.translations --check

test: setup ## run the whole suite on SQLite, PostgreSQL and Valkey, and in a browser
	@$(PYTHON) tools/programs.py
	@$(BIN)/python tools/manual.py
	$(BIN)/pytest -n auto --dist worksteal -rfER

test-all: setup ## run the suite, and the tests of pages, routes and doors on PostgreSQL too
	@$(PYTHON) tools/programs.py
	@$(BIN)/python tools/manual.py
	$(BIN)/pytest -n auto --dist worksteal -rfER --both-engines

faults: setup ## run the long fault tests: kills, stops, lost databases, many generated examples (an hour)
	$(BIN)/python -m tests.faults
	HYPOTHESIS_PROFILE=many $(BIN)/pytest -n auto --dist worksteal --timeout 3600 -m 'hypothesis or many'

bench: setup ## run the benchmarks beside their peers
	$(BIN)/python -m bench

nightly: setup ## run test-all, faults and bench, and write var/nightly/DATE.md; none stops the others (hours)
	$(BIN)/python -m tools.nightly

docs: setup ## generate the reference pages (settings, commands, OpenAPI) and the client
	$(BIN)/python -m tools.docs

manual: setup ## build the manual that `mailwright serve` shows at /manual
	$(BIN)/python tools/manual.py

wheel: setup ## build the wheel with the browser files and the manual into dist/
	$(BIN)/python -m hatchling build --target wheel

dist: setup ## build wheels and sdists of mailwright and its client, with SBOMs and checksums, into dist/
	$(BIN)/python -m tools.distributions

typescript: setup ## build the npm package of the TypeScript client into dist/
	$(BIN)/python -m tools.typescript_client

deploy-check: setup ## validate the files of deploy/ with the validators of compose and Kubernetes too, start the proxies
	$(BIN)/python -m pip install --quiet compose-spec kubernetes-validate
	$(BIN)/pytest -rs tests/unit/test_deploy_files.py tests/acceptance/test_proxies.py

image-test: setup ## build the container image without a registry, start it and send an email (root, minutes)
	@$(BIN)/python tools/manual.py
	MAILWRIGHT_IMAGE_TEST=1 $(BIN)/pytest -rs tests/acceptance/test_image.py

install-test: setup ## install the built wheels with pip and uvx from the package index, and start the demo
	MAILWRIGHT_INSTALL_TEST=1 $(BIN)/pytest -rs tests/acceptance/test_install.py

lock: setup ## resolve requirements.lock again
	$(BIN)/python tools/lock.py

clean: ## remove everything that make created
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache var
