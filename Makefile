# What each target does: `make help`. The work is done by scripts; this file
# only says which script makes what.

ifeq ($(wildcard tools/build.py),)
$(error ferrule: make has to run in the clone: make -C $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST)))))
endif

PYTHON3 ?= python3
# With the `+` a make below has this one's job server; without it `make -n` runs nothing.
ONLY_SHOWS = $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
# No bytecode beside the tools: root installs from a user's clone, and who owns it could not remove what is root's.
BUILD = $(if $(ONLY_SHOWS),,+@)$(PYTHON3) -B -m tools.build
FERRULE = build/ferrule/python
STOCK = build/stock/python
RELEASE = build/release/python
STOCK_RELEASE = build/stock-release/python
DEBUG = build/debug/python
PGO = build/pgo/python
# What `make install` and `make altinstall` install.
VARIANT ?= ferrule

.PHONY: all stock release stock-release release-untuned stock-tuned pgo stock-pgo debug trace-refs free-threaded stock-free-threaded \
	run test test-release test-cpython \
	test-hooks test-leaks bench bench-quick bench-compare bench-resume bench-publish bench-requirements \
	bench-instructions-update bench-depth bench-calls bench-parts bench-evaluator bench-code-extra bench-hooks \
	bench-monitoring \
	bench-profilers clients install altinstall profile dist binary deb show deps deps-to-build fetch check-base patch-stat header check-header \
	lint clean distclean help

all: tools-present
	$(BUILD) make ferrule

stock: tools-present
	$(BUILD) make stock

release: tools-present
	$(BUILD) make release

stock-release: tools-present
	$(BUILD) make stock-release

release-untuned stock-tuned pgo stock-pgo debug trace-refs free-threaded stock-free-threaded: tools-present
	$(BUILD) make $@

# Those above start from the same source tree and would race for it; what
# each of them builds, it builds in parallel.
.NOTPARALLEL:

run: deps-to-build all
	@$(FERRULE) examples/tour.py

test: deps all stock
	@$(PYTHON3) tests/run.py --python $(FERRULE) --stock $(STOCK)

test-release: release stock-release
	@$(PYTHON3) tests/run.py --python $(RELEASE) --stock $(STOCK_RELEASE) --groups release

test-cpython: all
	@$(PYTHON3) tests/run.py --suite $(if $(REST),rest) --python $(FERRULE) --stock $(STOCK) --stock-command 'make stock'

test-hooks: all stock
	@$(PYTHON3) -m tests.hooked.run --python $(FERRULE) --stock $(STOCK) --hook copy --hook observe --hook pass \
		--hook watch --hook watch-python

test-leaks: debug
	@$(PYTHON3) tests/run.py --python $(DEBUG) --groups leaks

# Of the benchmarks' two environments, the one that measures is made with $(PYTHON3); see docs/benchmarks.md.
BENCH = @$(PYTHON3) benchmarks/run.py
LAYOUTS = 8
# A group of benchmarks alone.
GROUP = $(BENCH) --command 'make $@' --no-pyperformance --minutes 5 --base stock=$(STOCK_RELEASE) --python ferrule=$(RELEASE)

bench: release stock-release free-threaded stock-free-threaded
	$(BENCH) --command 'make bench' --layouts $(LAYOUTS) --base stock=$(STOCK_RELEASE) --python ferrule=$(RELEASE)

bench-quick: release stock-release
	$(BENCH) --command 'make bench-quick' --quick --base stock=$(STOCK_RELEASE) --python ferrule=$(RELEASE)

# With PYTHON=/path/to/python3.13, and Ferrule's pgo build where there is one: as distributions build theirs.
COMPARED = $(if $(wildcard $(PGO)),$(PGO),$(RELEASE))

bench-compare: $(if $(wildcard $(PGO)),pgo,release)
	@test -n '$(PYTHON)' || { echo 'usage: make bench-compare PYTHON=/path/to/python3.13' >&2; exit 2; }
	$(BENCH) --command 'make bench-compare PYTHON=$(PYTHON)' $(if $(QUICK),--quick) --base other=$(PYTHON) --python ferrule=$(COMPARED)

bench-resume:
	$(BENCH) --resume

# After `make bench` on a quiet machine: its plots go to docs/benchmarks/, its figures into docs/benchmarks.md.
bench-publish:
	$(BENCH) --publish

bench-requirements:
	@sh benchmarks/pin_requirements.sh $(PYTHON3) $(STOCK_RELEASE)

bench-instructions-update: release stock-release
	@$(PYTHON3) benchmarks/calls.py --update --base $(STOCK_RELEASE) --python $(RELEASE)

bench-depth: release stock-release
	$(GROUP) --only 'depth 3' --only 'depth 30' --only 'depth 300' --only descents

bench-calls: release stock-release
	$(GROUP) --layouts 6 --only calls

bench-parts: release stock-release release-untuned stock-tuned
	@$(PYTHON3) benchmarks/calls.py --base $(STOCK_RELEASE) --python build/stock-tuned/python
	@$(PYTHON3) benchmarks/calls.py --base $(STOCK_RELEASE) --python build/release-untuned/python
	@$(PYTHON3) benchmarks/calls.py --base $(STOCK_RELEASE) --python $(RELEASE)

bench-evaluator: release stock-release
	$(GROUP) --only calls

bench-code-extra: release stock-release
	$(GROUP) --layouts 6 --only 'code extra'

bench-hooks: release stock-release
	$(GROUP) --only hooks

bench-monitoring: release stock-release
	@$(PYTHON3) benchmarks/beside_monitoring.py --stock $(STOCK_RELEASE) --python $(RELEASE)

clients: all
	@$(PYTHON3) -B -m tools.clients --python $(FERRULE)

bench-profilers: release stock-release
	@$(PYTHON3) benchmarks/profilers.py --stock $(STOCK_RELEASE) --python $(RELEASE)

# What was built, and nothing else; DESTDIR= is taken from the environment, where make puts it.
install altinstall: tools-present
	$(BUILD) $@ '$(VARIANT)'

profile: tools-present
	@$(PYTHON3) -B -m tools.profile

dist: tools-present
	@$(PYTHON3) -B -m tools.release $@ $(if $(KEY),--key '$(KEY)')

binary: tools-present
	@$(PYTHON3) -B -m tools.binary

deb: tools-present
	@$(PYTHON3) -B -m tools.release deb $(if $(DEPS),--install)

show: tools-present
	@$(PYTHON3) -B -m tools.build show

deps:
	@sh tools/deps.sh

deps-to-build:
	@sh tools/deps.sh --no-tests

tools-present:
	@sh tools/check-python $(PYTHON3)
.PHONY: tools-present

fetch: tools-present
	$(BUILD) fetch

check-base: tools-present
	@$(PYTHON3) -B -m cpython.check_base

patch-stat: tools-present
	@$(PYTHON3) -m tools.patches stat

header:
	@build.rs-wrapper/run header

check-header:
	@build.rs-wrapper/run header --check

# The crate is linted with the bindings of build/ferrule, which `all` makes. PyO3 asks an interpreter of 3.13.
lint: export PYO3_PYTHON = $(CURDIR)/build/ferrule/python
lint: all
	@$(PYTHON3) -B -m tools.lint
	@cargo fmt --check
	@cargo clippy --quiet --locked --all-targets --target-dir build/cargo -- --deny warnings
	@FERRULE_BINDINGS='$(CURDIR)/build/ferrule/rust-core/bindings.rs' RUSTFLAGS='--cfg loom' \
		cargo clippy --quiet --locked --tests --manifest-path rust-core/interleavings/Cargo.toml --target-dir build/cargo-loom -- --deny warnings
	@cargo fmt --check --manifest-path rust-core/fuzz/Cargo.toml
	@# Nothing is linked, so libFuzzer, which is C++, need not be there.
	@FERRULE_BINDINGS='$(CURDIR)/build/ferrule/rust-core/bindings.rs' RUSTFLAGS='--cfg fuzzing' CUSTOM_LIBFUZZER_PATH=build/libFuzzer.a \
		cargo clippy --quiet --locked --manifest-path rust-core/fuzz/Cargo.toml --target-dir build/cargo-fuzz -- --deny warnings

clean: tools-present
	$(BUILD) clean

distclean: tools-present
	$(BUILD) distclean

help:
	@sed 's/^/  /' tools/make-help.txt
