# The menu. `make play` on a fresh clone: a venv, everything installed, a server and a client.

PYTHON ?= python3
EXTRAS ?= server,client,bench,planner,matrix-game-2,dev
HOST ?= 127.0.0.1
PORT ?= 8765
URL ?= ws://127.0.0.1:$(PORT)/ws
VENV := .venv
PY := $(VENV)/bin/python
comma := ,
STAMP := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))

.PHONY: install play serve client client-install check test test-slow size clean

install: $(STAMP)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "WorldPager needs Python 3.11 or later: make PYTHON=python3.11 install")'
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing WorldPager [$(EXTRAS)] into $(VENV): a few minutes the first time."
	$(PY) -m pip install --disable-pip-version-check --progress-bar on --constraint constraints.txt --editable ".[$(EXTRAS)]"
	@touch $@

play: install
	@$(PY) -m server play $(ARGS)

serve: install
	@$(PY) -m server serve --host $(HOST) --port $(PORT) $(ARGS)

# the client alone installs no torch; a venv that has everything already serves it as well
client: | $(if $(wildcard $(VENV)/.installed-*),,client-install)
	@$(PY) -m client $(URL) $(ARGS)

client-install:
	@$(MAKE) --no-print-directory install EXTRAS=client

check: install
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/pyright
	$(VENV)/bin/lint-imports

test: install
	$(VENV)/bin/pytest

test-slow: install
	$(VENV)/bin/pytest -m slow

size:
	@for part in shared models server client bench tests; do \
	  printf '%-8s %6d lines\n' $$part $$(git ls-files "$$part/*.py" | xargs cat | wc -l); done

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
