# SPDX-License-Identifier: BSD-3-Clause
# Each target first sees to its set-up; the second time that takes no time.
PYTHON = .venv/bin/python

.PHONY: setup mnist test test-all fuzz bench lint abi sanitize docs wheel clean

mnist: setup
	$(PYTHON) -m torch_nntile.train_mnist --compare-torch --output-dir runs/mnist

test: setup
	$(PYTHON) -m pytest -m "not slow and not bench"

test-all: setup
	$(PYTHON) -m pytest -m "not bench"

SECONDS = 600
fuzz: setup
	PYTHONPATH=tests $(PYTHON) -m fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

bench: setup
	$(PYTHON) -m pytest -m bench -s

lint: setup
	@sh tools/lint.sh

abi: setup
	@sh tools/abi_gate.sh

sanitize: setup
	@sh tools/sanitize.sh

docs: setup
	@sh tools/docs.sh

wheel: setup
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PYTHON) -m pip wheel --no-build-isolation --no-deps -w dist .

setup:
	@sh tools/setup.sh

clean:
	rm -rf build dist .venv runs
