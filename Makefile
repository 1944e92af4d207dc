# What one does with a checkout. `make` alone prints this list.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.PHONY: help install demo check test test-docker fix readme wheel clean

SANDBOX_PYTHON := $(or $(CUDA_AGENT_PYTHON),.venv-sandbox/bin/python)

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

.venv/.installed: pyproject.toml scripts/install_host.sh
	@sh scripts/install_host.sh
	@touch $@

.venv/.dev: pyproject.toml scripts/install_host.sh
	@sh scripts/install_host.sh dev
	@touch $@ .venv/.installed

.venv-sandbox/.installed: scripts/install_sandbox.sh
	@sh scripts/install_sandbox.sh
	@mkdir -p .venv-sandbox && touch $@

.venv-sandbox/.dev: scripts/install_sandbox.sh
	@sh scripts/install_sandbox.sh pytest mypy ruff
	@mkdir -p .venv-sandbox && touch $@ .venv-sandbox/.installed

install: .venv/.installed .venv-sandbox/.installed ## make .venv (cuda-agent) and .venv-sandbox (torch)

demo: install ## optimise examples/diag_matmul with the builtin model: no key, no GPU, no Docker needed
	.venv/bin/cuda-agent optimize examples/diag_matmul/model.py

check: .venv/.dev .venv-sandbox/.dev ## formatting, lint, types, import directions
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	MYPYPATH=sandbox_image:tests/unit/judge $(SANDBOX_PYTHON) -m mypy --config-file /dev/null --strict \
		--explicit-package-bases sandbox_image/cuda_agent_judge tests/unit/judge/*.py
	.venv/bin/lint-imports

test: .venv/.dev .venv-sandbox/.dev ## all tests that this machine can run
	sh scripts/pytest.sh .venv/bin/python --ignore tests/unit/judge --ignore tests/gpu
	sh scripts/pytest.sh $(SANDBOX_PYTHON) tests/unit/judge
	sh scripts/pytest.sh $(SANDBOX_PYTHON) tests/gpu

test-docker: .venv/.dev ## the tests that need a Docker engine; starts one and builds the image where needed
	sh scripts/test_docker.sh

fix: .venv/.dev ## format, and mend what lint can mend
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

readme: install ## run the demo again and write its output into README.md
	.venv/bin/python scripts/readme_run.py

wheel: .venv/.dev ## build a wheel and try it outside the checkout
	sh scripts/wheel_smoke.sh

clean: ## remove environments and caches (runs/ stays)
	rm -rf .venv .venv-sandbox dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
