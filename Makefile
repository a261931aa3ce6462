# SPDX-License-Identifier: BSD-3-Clause
# Each target first sees to its set-up, of what it needs; the second time that takes no time.
PYTHON = .venv/bin/python
# ccache takes what a precompiled header hides, such as __TIME__, for an input that may change, and the
# locale, which Python sets for the compilers that pip starts.
export CCACHE_SLOPPINESS = pch_defines,time_macros,locale
# Nor does it matter in which folder of build/ an object was made: paths in it are relative.
export CCACHE_NOHASHDIR = 1
# Tests run in as many processes as there are cores; one may take 2 GB, so not in more than eight.
PROCESSES = $(shell cores=$$(nproc); echo $$((cores < 8 ? cores : 8)))
PARALLEL = -n $(PROCESSES) --dist worksteal

.PHONY: help setup setup-all build programs cuda test-cuda debug mnist test test-all one fuzz bench lint format stats goldens abi sanitize docs wheel sdist release clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

mnist: setup  ## train the example on 60,000 images, and compare it with CPU PyTorch
	$(PYTHON) -m torch_nntile.train_mnist --compare-torch --output-dir runs/mnist

test: programs  ## run the tests that take seconds each
	$(PYTHON) -m pytest $(PARALLEL) -m "not slow and not bench" --junit-xml build/tests.xml

one: setup-all  ## one file or test: TEST=tests/torch/test_rows.py or TEST="tests/torch -k gelu"
	$(PYTHON) -m pytest -x -q $(TEST)

test-all: programs  ## run the slow tests too: wheel, sanitizers, all of op_db
	$(PYTHON) -m pytest $(PARALLEL) -m "not bench"

SECONDS = 600
fuzz: setup-all  ## random programs against CPU PyTorch: SECONDS=600 SEED= MEMORY=8192 (bytes, with a disk)
	PYTHONPATH=tests $(PYTHON) -m fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(MEMORY),--memory $(MEMORY))

bench: setup-all  ## measure times beside CPU PyTorch, on a quiet machine
	$(PYTHON) -m pytest -m bench -s

lint: setup-all  ## style, types, and the project's own rules
	@sh tools/lint.sh

abi: setup-all  ## check that the C ABI matches the headers and the baseline
	@sh tools/abi_gate.sh

sanitize: setup-all  ## C++ tests with AddressSanitizer and ThreadSanitizer
	@sh tools/sanitize.sh

docs: setup  ## build the pages as a site in build/site
	@sh tools/docs.sh

wheel: setup-all  ## a wheel in dist/, for all versions of PyTorch or some: TORCH="2.13 2.14"
	@sh tools/wheel.sh $(TORCH)

sdist: setup-all  ## the source as an archive in dist/
	@sh tools/sdist.sh

release: setup-all  ## check that all is ready, and tag it: RELEASE=0.2.0, DRY=1 to check only
	$(PYTHON) tools/release.py $(RELEASE) $(if $(DRY),--dry)

build: setup  ## compile what has changed
	.venv/bin/ninja -C build/dev --quiet

programs: setup-all  ## compile the C and C++ tests too, so that test processes need not compile
	.venv/bin/ninja -C build/dev --quiet all meson-test-prereq

cuda: setup  ## the core with workers for GPUs, in build/cuda; needs no GPU
	@sh tools/cuda.sh

test-cuda: setup-all  ## kernels, layers and models on an emulated GPU
	@PROCESSES=$(PROCESSES) sh tools/test_cuda.sh

debug: setup  ## the core and its C++ tests without optimisation, in build/debug, for a debugger
	@sh tools/debug.sh

format: setup-all  ## format Python and C++ as lint expects
	@sh tools/format.sh

stats: setup  ## sizes of the house beside its goals: lines, places, files on the way of a call
	@$(PYTHON) tools/house_stats.py

goldens: setup-all  ## write all files that tests compare with: docs, tables, texts, the ABI baseline
	@sh tools/goldens.sh

setup:  ## install system packages, .venv, PyTorch, StarPU; build; skips what has not changed
	@sh tools/setup.sh

setup-all:  ## also what tests, lint and wheels need
	@sh tools/setup.sh all

clean:  ## remove the build
	rm -rf build dist .venv runs
