# Everything runs from .venv, which is made on first use and brought up to date when pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

JOBS ?= 2
ARGS ?=

# How many random compositions of transforms `make fuzz-transforms` compares.
COMPOSITIONS ?= 10000
# How many random programs are scripted, and how many changed archives read, by `make fuzz-jit`.
FUZZ_SCRIPT ?= 5000
FUZZ_ARCHIVE ?= 5000

# How many random programs with aliases and writes `make fuzz-aot` compares.
FUZZ_AOT ?= 20000
# How many random graphs `make fuzz-graphs` compares.
FUZZ_GRAPHS ?= 20000
# How many random Python programs `make fuzz-capture` compares.
FUZZ_CAPTURE ?= 10000
# The first of them: another number makes other programs.
FUZZ_FIRST ?= 100

# How often each fault of a process is repeated by `make faults`.
FAULTS ?= 50

# make conformance SEED=autograd,trace K="hook and not cuda"
KIT ?= ../shared/conformance
SEED ?= autograd
K ?=

# A Python that has PyTorch, for `make reference`.
ORACLE ?= python3

.PHONY: help venv demo test test-all fuzz-transforms fuzz fuzz-aot fuzz-capture fuzz-graphs fuzz-jit sweep-export python314 faults laws lint conformance bench libraries reference docs site index clean

help:
	@echo "make venv         set up .venv"
	@echo "make demo         train a small GPT on sonnets (a minute), let it write"
	@echo "make test         run the tests            (ARGS='-k schema', JOBS=2)"
	@echo "make test-all     the same with the slow ones and every sample of every operator: an hour"
	@echo "make fuzz-transforms  random compositions of transforms (COMPOSITIONS=10000): a quarter of an hour"
	@echo "make laws         the laws of transforms about every operator: some minutes"
	@echo "make fuzz         random programs, compiled and eager (FUZZ_AOT=20000): twenty minutes"
	@echo "make fuzz-capture random Python programs, captured and native (FUZZ_CAPTURE=10000): half an hour"
	@echo "make fuzz-graphs  random graphs, compiled and eager (FUZZ_GRAPHS=20000): an hour"
	@echo "make fuzz-jit     random programs, scripted and traced, and changed archives (FUZZ_SCRIPT=5000, FUZZ_ARCHIVE=5000): half an hour"
	@echo "make sweep-export  every sample of every operator, exported and over core aten: three minutes"
	@echo "make python314    capture on CPython 3.14, under node: two minutes"
	@echo "make lint         ruff, mypy, import layers, file lengths"
	@echo "make conformance  run the conformance kit  (KIT, SEED=autograd, K='hook')"
	@echo "make bench        overhead, transforms, tracing, memory, scripting, models, training, import time beside PyTorch"
	@echo "make libraries    programs with some ninety libraries, in an environment of their own: half an hour"
	@echo "make reference    record reference values  (ORACLE=python with PyTorch)"
	@echo "make docs         write docs/ops.md and docs/errors.md"
	@echo "make faults       killed, hung and mistaken processes, each fault FAULTS=50 times: an hour"
	@echo "make site         build the documentation site into build/site: a minute"
	@echo "make index        write rushlight/opset/where.py: which module defines which name"
	@echo "make clean        remove .venv and caches"

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Rushlight needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[compile,test]'
	@touch $@

venv: $(STAMP)

demo: $(STAMP)
	$(BIN)/rushlight run examples/train_gpt.py --out build/loss.png

test: $(STAMP)
	$(BIN)/python -m pytest -q -n $(JOBS) $(ARGS)

test-all: $(STAMP)
	RUSHLIGHT_ALL_SAMPLES=1 $(BIN)/python -m pytest -q -n $(JOBS) -m "slow or not slow" $(ARGS)

fuzz-transforms: $(STAMP)
	RUSHLIGHT_COMPOSITIONS=$(COMPOSITIONS) $(BIN)/python -m pytest -q -n $(JOBS) tests/func/test_compositions.py $(ARGS)

laws: $(STAMP)
	$(BIN)/python -m pytest -q -n auto -m "slow or not slow" tests/laws $(ARGS)

fuzz: fuzz-aot fuzz-capture fuzz-graphs fuzz-jit

fuzz-graphs: $(STAMP)
	FUZZ_GRAPHS=$(FUZZ_GRAPHS) FUZZ_FIRST=$(FUZZ_FIRST) $(BIN)/python -m pytest -q -n $(JOBS) -m slow tests/codegen/test_random_graphs.py $(ARGS)

fuzz-capture: $(STAMP)
	FUZZ_CAPTURE=$(FUZZ_CAPTURE) FUZZ_FIRST=$(FUZZ_FIRST) $(BIN)/python -m pytest -q -n $(JOBS) -m slow tests/capture/test_fuzz.py $(ARGS)

# CPython 3.14 without NumPy, under node: what of capture depends on the bytecode.
python314: $(STAMP)
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "node and npm are needed: CPython 3.14 comes as an npm package"; exit 1; }
	npm install --silent --no-audit --no-fund --prefix build/python314 pyodide@314
	$(BIN)/python -m pytest -q tests/capture/test_other_pythons.py $(ARGS)

fuzz-aot: $(STAMP)
	FUZZ_AOT=$(FUZZ_AOT) FUZZ_AOT_FROM=$(FUZZ_FIRST) $(BIN)/python -m pytest -q -n $(JOBS) -m slow -k test_many_programs tests/aot/test_aliasing.py $(ARGS)

fuzz-jit: $(STAMP)
	FUZZ_SCRIPT=$(FUZZ_SCRIPT) FUZZ_ARCHIVE=$(FUZZ_ARCHIVE) $(BIN)/python -m pytest -q -n $(JOBS) -m slow -k test_many tests/jit $(ARGS)

# Every sample of every operator as a program, and as one over core aten.
sweep-export: $(STAMP)
	$(BIN)/python -m pytest -q -n $(JOBS) -m "slow or not slow" tests/export/test_ops.py $(ARGS)

faults: $(STAMP)
	RUSHLIGHT_FAULTS=$(FAULTS) $(BIN)/python -m pytest -q tests/distributed/test_faults.py $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_lengths.py

conformance: $(STAMP)
	@test -f $(KIT)/run.py || \
	  { echo "The conformance kit is not at $(KIT). Say where it is: make conformance KIT=path/to/conformance"; exit 1; }
	$(BIN)/python $(KIT)/run.py --impl rushlight --path . --seed "$(SEED)" -k "$(K)" $(ARGS)

bench: $(STAMP)
	@$(BIN)/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' || \
	  { echo "The benchmarks compare with PyTorch, which is not in $(VENV). Install it: $(BIN)/pip install torch"; exit 1; }
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/drawing.py
	$(BIN)/python benchmarks/transforms.py
	$(BIN)/python benchmarks/compiled.py
	$(BIN)/python benchmarks/calls.py
	$(BIN)/python benchmarks/tracing.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/scripting.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/import_time.py

libraries: $(STAMP)
	$(BIN)/python tools/libraries.py $(ARGS)

reference:
	@$(ORACLE) -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' || \
	  { echo "$(ORACLE) has no PyTorch. Name one that has: make reference ORACLE=path/to/python"; exit 1; }
	$(ORACLE) tools/record_reference.py

index: $(STAMP)
	$(BIN)/python tools/write_op_index.py

docs: $(STAMP)
	$(BIN)/python tools/write_ops_page.py
	$(BIN)/python tools/write_errors_page.py

site: $(STAMP)
	@$(BIN)/python -c 'import mkdocs, matplotlib' 2>/dev/null || $(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
