# All but the demos and test-all runs in .venv, which the first target that needs it makes. Only Python 3.11+ is assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := supervisor workers tests bench examples packaging

.PHONY: check static mypy pyright test test-night flaky test-bench test-quick test-portable test-all bridges clients hosts hosts-newest hosts-page ratios fuzz demo demo-fleet bench soak soak-fleet system-calls simulate oracle docs release wheels format format-check lint types collect clean

check: static test ratios

# Type checkers use one core each; one of them ends before the other.
static: $(VENV)/.ready
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target format-check lint mypy pyright collect

$(VENV)/.ready: pyproject.toml
	@echo "making $(VENV) with what tests and checks need (once; it may take some minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

format: $(VENV)/.ready
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

format-check: $(VENV)/.ready
	$(BIN)/ruff format --check $(SOURCES)

lint: $(VENV)/.ready
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/python tests/language/lint.py

types: mypy pyright

mypy: $(VENV)/.ready
	$(BIN)/mypy

pyright: $(VENV)/.ready
	$(BIN)/pyright

# In a fresh checkout: what `make test` would else compile on one core before it begins, as pytest rewrites it.
collect: $(VENV)/.ready
	@said=$$($(BIN)/python -m pytest --collect-only --quiet) || { echo "$$said" | tail -n 60; exit 1; }

# Each run would read and rewrite the tests, and each process import what it imports, from the source alone.
unexport PYTHONDONTWRITEBYTECODE

# Everything but the real programs (`make hosts`), an engine that lies (`make soak-fleet`), and what `make test-night` runs.
# Most tests wait for processes: six at once keep two cores busy.  tests/conftest.py says which tests are kept together: those
# of a file, and those that would disturb each other.  What failed is run once more, alone: what passes then is listed as flaky.
JOBS ?= 6
test: $(VENV)/.ready
	$(BIN)/python tests/support/rerun.py -n $(JOBS) -m 'not hosts and not soak and not night'

# What costs much and changes rarely: the wheels of all machines, whose C libraries are compiled first, and each benchmark.
# `make test` has the wheel for any machine, two benchmarks, and the imports of the others.  CI runs it each night, a release too.
test-night: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 -m night tests/test_release.py tests/test_bench.py

# One test 50 times under load, as in `make flaky TEST=tests/test_rerun.py::test_a_run_without_a_failure_ends_as_pytest_does`: how many failed, and of what.
flaky: $(VENV)/.ready
	@test -n "$$TEST" || { echo "name a test: make flaky TEST=FILE::TEST" >&2; exit 2; }
	$(BIN)/python tests/support/flaky.py "$$TEST"

# That each benchmark runs, small, and writes what it says it does, as `make test-night` asks; how fast anything is, `make bench` says.
test-bench: $(VENV)/.ready
	$(BIN)/python -m pytest tests/test_bench.py

# What one runs while writing, in less than half a minute: the layers that do no I/O, and a real daemon.
test-quick: $(VENV)/.ready
	$(BIN)/python -m pytest -q -n 2 -m 'not slow' @.ci/quick-tests

# The daemon as it runs where Linux's own calls are missing: on the portable modules, under a filter that refuses those calls,
# without /proc and /sys.  First what it does with all the quick tests and those of processes, service, record and hosts, which
# tests/systems/play.py has it do; then what the modules of each system promise.
PORTABLE := tests/processes tests/service tests/record tests/hosts @.ci/quick-tests
test-portable: $(VENV)/.ready
	$(BIN)/python -m pytest -q -n $(JOBS) --portable -m 'not hosts and not soak' $(PORTABLE)
	$(BIN)/python -m pytest -q -n 2 tests/systems

# The clients in other languages: formatted, checked by their own compilers, and held to clients/conformance.jsonl and a
# real daemon (which `make test` does too).  A language without its toolchain is named and skipped.
clients: $(VENV)/.ready
	.ci/check-clients
	$(BIN)/python -m pytest -n $(JOBS) tests/clients tests/e2e/test_node_example.py

# The quick tests, and those of processes and commands, on each of Python 3.11 to 3.14 that is on this machine.
test-all:
	.ci/test-all

# The real programs, each headless with hooklatch installed, a model on loopback and no network.  `HOSTS` names some of them.
# The first run downloads about 700 MiB into .hosts.  Where one cannot be installed, its tests are skipped, and say so.
HOSTS ?=
hosts: $(VENV)/.ready
	-$(BIN)/python tests/real_hosts/install.py $(HOSTS)
	$(BIN)/python -m pytest -n 2 -m hosts $(if $(HOSTS),$(sort $(foreach host,$(HOSTS),$(firstword $(wildcard tests/real_hosts/test_$(subst -,_,$(host)).py) tests/real_hosts/test_speakers.py))),tests/real_hosts)

# The newest version of each program (or of those in HOSTS), played as the pinned one is, and its events compared with our tables.
hosts-newest: $(VENV)/.ready
	$(BIN)/python tests/real_hosts/newest.py $(HOSTS)

# The bridges into agents' SDKs, with the real packages: 690 MB, half of it Claude Code.  Their types are checked only here.
BRIDGES := $(addprefix supervisor/hooklatch/bridges/,claude_agent_sdk.py google_adk.py langchain.py openai_agents.py pydantic_ai.py strands.py)
bridges: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bridges]'
	$(BIN)/mypy $(BRIDGES)
	$(BIN)/pyright $(BRIDGES)
	$(BIN)/python -m pytest -n 2 tests/bridges

# Plays the programs that are here once more, and writes what came of it into docs/reference/hosts.md.
hosts-page: $(VENV)/.ready
	$(BIN)/python tests/real_hosts/page.py $(HOSTS)

# The pages of docs/ as a site in site/: open site/index.html.  A link or an anchor that leads nowhere ends it.
docs: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet --doctree-dir build/doctrees docs site

# dist/: a wheel with the forwarder as a program for each kind of machine, and one without.  It needs Python and an index,
# from which build/packager gets hatchling and a compiler (100 MB, once).
wheels:
	$(PYTHON) packaging/release.py wheels

# A release: the version and its notes from CHANGELOG.md, all checks, then what is published in dist/VERSION.
release: $(VENV)/.ready
	@test -n "$(VERSION)" || { echo "name a version: make release VERSION=1.2.3" >&2; exit 2; }
	$(BIN)/python packaging/release.py prepare $(VERSION)
	$(MAKE) --no-print-directory check test-night
	$(BIN)/python packaging/release.py build $(VERSION)

# Coverage-guided, two minutes a target; where atheris cannot be installed, `make test` fuzzes with Hypothesis all the same.
fuzz: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python tests/fuzz/coverage_guided.py

# In a venv of its own, with what hooklatch needs and no tool of its developers.
demo:
	@PYTHON=$(PYTHON) examples/demo.sh

# The same for a fleet: an engine (redis-server), three hosts, one policy, one record of decisions.
demo-fleet:
	@PYTHON=$(PYTHON) examples/demo.sh fleet

# A few seconds: whether a fire has become clearly slower than it was, beside a bare relay.
ratios: $(VENV)/.ready
	$(BIN)/python bench/check.py

# docs/explanation/performance.md says what each measures.  Rivals that cannot be installed are left out, by name.
BENCHES ?= run shapes deaths overload reload registration weight entries commands
bench: $(VENV)/.ready
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	bad=0; for name in $(BENCHES); do $(BIN)/python bench/$$name.py || bad=1; done; exit $$bad

MINUTES ?= 10
soak: $(VENV)/.ready
	$(BIN)/python tests/chaos/soak.py $(MINUTES)

# The whole daemon under fresh seeds, one on each core; docs/reference/simulation.md says how to read one that fails.
simulate: $(VENV)/.ready
	$(BIN)/python -m tests.simulation --minutes $(MINUTES) --fires 20000

# Each system call of the daemon fails once with each of its errors, each in a life of its own: most of an hour.
system-calls: $(VENV)/.ready
	$(BIN)/python tests/chaos/system_calls/night.py --page

# The same for a fleet: hosts in network namespaces (as root; else over a relay), a real redis-server, every fault of both.
soak-fleet: $(VENV)/.ready
	$(BIN)/python -m pytest -m soak tests/fleet/system
	$(BIN)/python tests/fleet/system/soak_fleet.py $(MINUTES)

# The reader of shell texts against bash, `bash --posix` and dash, as root, who becomes nobody: for so many minutes or TEXTS, from
# a SEED that is printed.  What it missed is in build/oracle/misses.jsonl, to be read and never to be given to a shell.
TEXTS ?=
SEED ?=
oracle: $(VENV)/.ready
	$(BIN)/python tests/guards/oracle/night.py $(if $(TEXTS),--texts $(TEXTS),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

clean:
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache clients/elixir/_build clients/rust/target clients/rust/Cargo.lock clients/typescript/node_modules
