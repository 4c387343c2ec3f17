# Everything a person types. Needs Python 3.11 or later, git and make; no Node, no browser.
#   make lab     JupyterLab on the first notebook, the panel open    LAB_ARGS="--no-browser --port 9000" adds arguments
#   make test    all tests, a real browser's included, and every branch of core/ is taken by one
#                PYTEST_ARGS="tests/core -x" narrows them, and then no branch is counted
#   make check   types, lint and format of both languages; make fix mends what a tool can mend

PYTHON ?= python3
VENV ?= .venv
LAB_ARGS ?=
COVERED := --cov=jupyter_ctx.core --cov-branch --cov-fail-under=100 --cov-report=term-missing:skip-covered
PYTEST_ARGS ?= -n 2 --dist loadfile $(COVERED)

BIN := $(abspath $(VENV))/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
NPM := PATH="$(BIN):$$PATH" $(BIN)/npm --silent --prefix labextension
ASSETS := jupyter_ctx/labextension jupyter_ctx/panel/static
FRONT := $(filter-out labextension/package-lock.json, \
  $(wildcard labextension/*.json labextension/vite.widget.config.js labextension/schema/* \
  labextension/style/* labextension/src/* labextension/src/*/*))

.PHONY: lab test check fix docs bench clean

lab: .make/lab
	@$(BIN)/jupyter-ctx lab notebooks/01_first_turn.ipynb \
	  $$([ "$$(id -u)" != 0 ] || echo --allow-root) $(LAB_ARGS)

test: .make/test .make/ipykernels
	@set -e; CHROMIUM="$$(.ci/chromium)"; export CHROMIUM; \
	$(NPM) test; \
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: .make/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(NPM) run check

fix: .make/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(NPM) run fix

docs: .make/test
	$(BIN)/python -m tests.docs

bench: .make/test
	$(BIN)/python -m tests.bench

# Leaves the virtual environment: remove .venv by hand to start from nothing.
clean:
	rm -rf .make build dist $(ASSETS) labextension/lib labextension/node_modules
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage test-results
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

.make/venv:
	@mkdir -p .make
	@PYTHON="$(PYTHON)" .ci/venv "$(VENV)"
	@touch $@

# The built front end is reused by an installation where it lies, so an old one goes first.
.make/lab: .make/venv pyproject.toml $(FRONT)
	@echo "Installing jupyter_ctx and building its front end: some minutes the first time."
	@rm -rf $(ASSETS)
	@$(PIP) install --editable '.[notebooks]'
	@touch $@

.make/test: .make/venv pyproject.toml $(FRONT)
	@echo "Installing jupyter_ctx with its tests and building its front end: some minutes the first time."
	@rm -rf $(ASSETS)
	@$(PIP) install --editable '.[test]'
	@touch .make/lab $@

# The versions of ipykernel that the panel is tested on, beside the environment's own.
.make/ipykernels: .make/test tests/panel/ipykernels.py
	@$(BIN)/python -m tests.panel.ipykernels $@
	@touch $@
