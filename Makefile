## make demo    install into .venv, train toy_ende with the hparams set tiny, translate and score
## make test    install into .venv with the tools of the tests, run every check that CI runs; the end names those that fail
## make test-nightly    the same with the tests marked nightly: half an hour to an hour
## make test-lowest    the tests with the lowest versions that setup.py allows, in .venv/lowest
## make docs    write the documentation site to dist/site; `python3 -m http.server -d dist/site` shows it
## make readme  run every command of README.md and of docs/commands.md, ... in a fresh clone and a fresh environment; ten to twenty minutes
## make lock    write requirements_lock.txt again: versions that still fit stay, each file with its hash
## make audit   look every locked version up in the public list of known holes; needs a network
## make sbom    write dist/sbom.json, what is locked as a CycloneDX bill of materials
## make clean   remove .venv, the demo's run and what the checks left; other runs stay
## PYTHON=/path/to/python3.11 chooses the interpreter, VENV=.venv/3.11 a folder other than .venv,
## VERSIONS=locked what requirements_lock.txt has instead of the newest versions.

PYTHON ?= python3
VENV = .venv
VERSIONS = newest
BIN = $(VENV)/bin
PACKAGING = setup.py pyproject.toml
# The first versions without a known hole (tests/test_requirements_lock.py has the list); venv brings older ones.
BUILD_TOOLS = 'pip>=26.2' 'setuptools>=83,<85' 'wheel>=0.46.2'
PIP_AUDIT = 'pip-audit>=2.10.1,<3'
CYCLONEDX = 'cyclonedx-bom>=7.5,<8'

PYTEST = -m pytest -n logical --maxprocesses=4 --dist=loadgroup --no-loadscope-reorder

.PHONY: help demo test test-nightly test-lowest docs readme lock audit sbom clean

help:
	@sed -n 's/^## //p' Makefile

demo: $(VENV)/.installed
	$(BIN)/t2t-lite-trainer --problem=toy_ende --hparams_set=tiny --output_dir=runs/toy

test: TESTS = -m 'not nightly'
# Bytecode is kept also where the environment says no: hundreds of processes import the same modules.
test test-nightly test-lowest: export PYTHONDONTWRITEBYTECODE =
# Each check runs, also after one that fails. pytest is the last, so that its summary stands at the end.
test test-nightly: $(VENV)/.installed-test
	@failed=; \
	check() { name=$$1; shift; echo "$(BIN)/$$*"; "$(BIN)/$$@" || failed="$$failed$${failed:+, }$$name"; }; \
	check 'ruff check' ruff check .; \
	check 'ruff format' ruff format --check .; \
	check mypy mypy; \
	check lint-imports lint-imports; \
	check pytest python $(PYTEST) $(TESTS); \
	[ -z "$$failed" ] || { echo "make test: failed: $$failed" >&2; exit 1; }

# Types are checked against the newest packages. Old ones call what newer ones beside them deprecate.
test-lowest:
	$(MAKE) VENV=$(VENV)/lowest VERSIONS=lowest $(VENV)/lowest/.installed-test
	$(VENV)/lowest/bin/python $(PYTEST) -m 'not nightly' -W default::DeprecationWarning

# The variable: MkDocs Material prints news of its successor in every run.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

readme:
	$(PYTHON) -m tests.readme

lock: $(VENV)/.uv
	$(BIN)/uv pip compile setup.py --all-extras --universal --python-version=3.11 --fork-strategy=fewest \
		--generate-hashes --no-emit-index-url --annotation-style=line $(BUILD_TOOLS:%=--upgrade-package=%) \
		--custom-compile-command='make lock' --quiet --output-file=requirements_lock.txt

# --strict: a version that could not be looked up is a failure.
audit: $(VENV)/.uv
	$(BIN)/uv tool run --from $(PIP_AUDIT) pip-audit --strict --disable-pip --require-hashes -r requirements_lock.txt

sbom: $(VENV)/.uv
	mkdir -p dist
	$(BIN)/uv tool run --from $(CYCLONEDX) cyclonedx-py requirements requirements_lock.txt --output-reproducible \
		--output-file=dist/sbom.json

clean:
	rm -rf $(VENV) dist runs/toy *.egg-info .pytest_cache .mypy_cache .ruff_cache

# A stamp is touched when its installation has succeeded, so an interrupted one starts again.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info < (3, 14); sys.exit(None if ok else "t2t-lite needs Python 3.11, 3.12 or 3.13; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.tools: $(VENV)/.created $(PACKAGING)
	$(BIN)/python -m pip install --disable-pip-version-check --upgrade $(BUILD_TOOLS)
	touch $@

$(VENV)/.uv: $(VENV)/.tools
	$(BIN)/python -m pip install --disable-pip-version-check 'uv>=0.13.9,<0.14'
	touch $@

$(VENV)/.installed: $(VENV)/.tools $(PACKAGING)
	$(BIN)/python -m pip install --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-docs: $(VENV)/.tools $(PACKAGING)
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[docs]'
	touch $@

# With uv, which takes less than half of pip's time. It compiles no modules: most of these are never imported.
UV_INSTALL = $(BIN)/uv pip install --python=$(BIN)/python
INSTALL_newest = $(UV_INSTALL) -e '.[test]'
INSTALL_lowest = $(UV_INSTALL) --resolution=lowest-direct -e '.[test]'
INSTALL_locked = $(UV_INSTALL) --require-hashes -r requirements_lock.txt && $(UV_INSTALL) --no-deps -e .
$(VENV)/.installed-test: $(VENV)/.uv $(PACKAGING)
	$(INSTALL_$(VERSIONS))
	touch $@
	touch $(VENV)/.installed $(VENV)/.installed-docs
