# Two commands do everything on a fresh Linux machine with Python 3.11+, a C++ compiler and make:
#   make demo    sets up, compares fabrics and policies, prints the verdict, writes the report
#   make test    sets up, runs every test
# Everything lives in VENV (an environment of its own) and OUT (results); nothing else is touched.

VENV ?= .venv
OUT ?= out
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
BIN := $(VENV)/bin
CORE := $(wildcard emulate/engine/*.?pp emulate/engine/live/*.?pp) emulate/CMakeLists.txt
# An editable install lists the modules it found: a folder that is new asks for another.
ROOMS := $(wildcard */__init__.py */*/__init__.py)
SAY = @printf '%s\n'

.PHONY: demo test test-frames frames check format clean help vm-test

help:
	$(SAY) 'make demo    set up, compare fabrics and policies, write $(OUT)/first-look/report.html'
	$(SAY) 'make test    set up and run every test but those on real frames'
	$(SAY) 'make frames  as root: the same hand-offs as frames of a Mininet network, beside packets and fluid'
	$(SAY) 'make test-frames  as root: the tests on real frames, one after the other'
	$(SAY) 'make vm-test  the tests of the kernel'\''s own queues, or CMD, under a distribution kernel in QEMU'
	$(SAY) 'make check   linters and type checkers'
	$(SAY) 'make format  rewrite the sources in the house format'
	$(SAY) 'make clean   remove the environment, builds and results'

demo: $(VENV)/.installed
	$(BIN)/kvfabric compare scenarios/first-look.yaml --out $(OUT)/first-look --jobs $(JOBS)

test: $(VENV)/.developed
	$(BIN)/pytest -q -n $(JOBS) -m 'not root'

# Nothing else may run beside real frames: they are late then, and the guard says so.
test-frames: $(VENV)/.developed
	$(BIN)/pytest -q -rs -n 0 -m root $(AGAIN) tests/emulate tests/kvfabric

frames: $(VENV)/.framed
	$(BIN)/kvfabric crosscheck scenarios/real-frames.yaml --out $(OUT)/real-frames

vm-test: $(VENV)/.developed
	@python3 vm/boot.py --results $(OUT)/vm -- $(or $(CMD),$(BIN)/pytest -q -rs -p no:cacheprovider -o faulthandler_timeout=420 -n 0 -m vm tests/vm)

check: $(VENV)/.developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy vm/boot.py
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(VENV)/.developed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

$(VENV)/bin/pip:
	@sh setup.sh '$(VENV)'

$(VENV)/.installed: $(VENV)/bin/pip pyproject.toml $(CORE) $(ROOMS)
	$(SAY) '[2/3] installing the libraries and building the C++ core (a minute or two) ...'
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable . \
	  || { printf '%s\n' 'set-up failed: see the lines above; a network connection to a Python package index is needed once' >&2; exit 1; }
	$(SAY) '[3/3] ready.'
	@touch $@

$(VENV)/.framed: $(VENV)/.installed
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[mininet]'
	@touch $@

$(VENV)/.developed: $(VENV)/.installed
	$(SAY) '[dev] installing the test and check tools ...'
	@$(BIN)/pip install --quiet --disable-pip-version-check --group dev
	@touch $@

clean:
	rm -rf $(VENV) build $(OUT) .pytest_cache .mypy_cache .ruff_cache .hypothesis
