# Everything a developer or CI runs. `make` alone prints this list.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Tests start hundreds of Python processes: without bytecode each compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=
export TANDEM_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tandem
UV := $(shell command -v uv 2>/dev/null || echo $(TANDEM_CACHE)/uv/bin/uv)
RUN := $(UV) run --frozen
PYTHON ?= python3

.PHONY: benchmark-promise benchmark-replay docs help demo test faults lint check release quickstart-test cluster-up cluster-down images prometheus crds fmt clean doctor engine-env test-tools

help: ## Print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(UV):
	@echo "==> uv (package manager) into $(TANDEM_CACHE)/uv"
	@$(PYTHON) -m venv $(TANDEM_CACHE)/uv && $(TANDEM_CACHE)/uv/bin/pip install --quiet --require-hashes -r images/uv.txt

.venv/ready: pyproject.toml uv.lock | $(UV)
	@echo "==> Python packages into .venv"
	@$(UV) sync --frozen --quiet && touch $@

demo: .venv/ready ## From nothing to a served, autoscaled pool on a kind cluster, with a report
	@$(RUN) python -m e2e.demo

test: .venv/ready ## Every test, with all the set-up it needs
	@$(RUN) python -m e2e.stages

faults: .venv/ready ## The fault matrix, results in build/faults (SEEDS=1-20, ONLY="decode api", WHERE=kind|simulator|api, QUICK=1), then docs/measurements/faults.md
	@if [ "$(WHERE)" != simulator ] && [ "$(WHERE)" != kind ]; then $(MAKE) --no-print-directory test-tools; fi
	@if [ "$(WHERE)" != simulator ] && [ "$(WHERE)" != api ]; then $(MAKE) --no-print-directory cluster-up images prometheus; fi
	@$(RUN) python -m e2e.faults $(ONLY) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(WHERE),--where $(WHERE)) $(if $(QUICK),--quick) $(ARGS); \
		status=$$?; $(RUN) python -m e2e.faults --table && exit $$status

benchmark-replay: ## Tandem against NVIDIA's planner in NVIDIA's simulator (QUICK=1: under 10 min; TRACES=folder of public traces)
	@$(PYTHON) benchmarks/replay/suite.py $(if $(QUICK),--quick) $(if $(TRACES),--traces $(TRACES)) $(ARGS)

benchmark-promise: .venv/ready ## Is attainment held, and at what cost; results in build/benchmarks/promise (QUICK=1: minutes; TRACES=folder of public traces; SAMPLE=2; ONLY='mmpp-*')
	@$(RUN) python -m benchmarks.promise $(if $(QUICK),--quick) $(if $(TRACES),--traces $(TRACES)) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(ONLY),--only '$(ONLY)') $(ARGS)

release: .venv/ready ## Images, charts, wheel, plugin, SBOMs and checksums of VERSION=0.1.0 in build/release (REGISTRY=registry.example.com/team DOWNLOADS=https://... PUSH=1 TRIAL=1 HELP=1)
	@$(RUN) python -m release --version '$(VERSION)' $(if $(REGISTRY),--registry '$(REGISTRY)') $(if $(DOWNLOADS),--downloads '$(DOWNLOADS)') $(if $(PUSH),--push) \
		$(if $(TRIAL),--trial) $(if $(HELP),--help)

quickstart-test: .venv/ready ## The three commands of the README, on a bare cluster and from a registry on loopback
	@$(RUN) python -m e2e.stages quickstart

cluster-up: ## Make the kind cluster, or repair it (KUBECONFIG=build/kubeconfig)
	@$(PYTHON) -m e2e.cluster up

cluster-down: ## Remove the kind cluster (images and cache stay)
	@$(PYTHON) -m e2e.cluster down

images: ## Build the images whose inputs changed and load them into the cluster
	@$(PYTHON) -m e2e.cluster images --load

prometheus: ## Install a Prometheus into the cluster (http://127.0.0.1:30090)
	@$(PYTHON) -m e2e.cluster prometheus

doctor: ## What this machine has, lacks, and what would be installed or built
	@$(PYTHON) -m e2e.cluster doctor

test-tools: .venv/ready
	@$(PYTHON) -m e2e.cluster tools >/dev/null
	@$(PYTHON) -m e2e.cluster controlplane-binaries >/dev/null
	@$(PYTHON) -m e2e.cluster policy-engine >/dev/null
	@$(PYTHON) -m e2e.cluster prometheus-binaries >/dev/null
	@$(PYTHON) -m e2e.cluster gitops-tool >/dev/null

engine-env: .venv/ready ## Real vLLM for tests and benchmarks on this machine, in the user's cache
	@$(RUN) python images/engine/environment.py $(UV) $(TANDEM_CACHE)

lint: .venv/ready
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	PYTHONPATH=contracts:operator:engine $(RUN) lint-imports
	$(RUN) python -m docs.lint
	$(RUN) zizmor --quiet --offline --strict-collection --pedantic .github/workflows manifests/github/*.yaml

check: lint docs ## Lint, types, import contracts, prose, the site and unit tests: two minutes on two cores
	$(RUN) pytest tests/unit tests/golden -m "not simulates" -n 4 --dist worksteal

crds: .venv/ready ## Make CRD, API reference and install manifest from models and charts
	$(RUN) python -m manifests.generate

fmt: .venv/ready ## Format the code and mend what the linter can
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

docs: export NO_MKDOCS_2_WARNING := 1
docs: .venv/ready ## The documentation site, into build/site
	@$(RUN) mkdocs build --strict --quiet
	@echo "build/site is ready; python3 -m http.server -d build/site shows it, search included"

clean: ## Remove what was built here (the cluster and the cache stay)
	rm -rf build dist .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
