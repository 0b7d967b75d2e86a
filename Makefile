## make demo    install into .venv, train toy_ende with the hparams set tiny, translate and score
## make test    install into .venv with the tools of the tests, run every check that CI runs
## make readme  run every command of README.md in a fresh clone and a fresh environment; ten to twenty minutes
## make clean   remove .venv, the demo's run and what the checks left; other runs stay
## PYTHON=/path/to/python3.11 chooses the interpreter for .venv.

PYTHON ?= python3
VENV = .venv
BIN = $(VENV)/bin
PACKAGING = setup.py pyproject.toml

.PHONY: help demo test readme clean

help:
	@sed -n 's/^## //p' Makefile

demo: $(VENV)/.installed
	$(BIN)/t2t-lite-trainer --problem=toy_ende --hparams_set=tiny --output_dir=runs/toy

test: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n logical --maxprocesses=4 --dist=loadgroup --no-loadscope-reorder

readme:
	$(PYTHON) -m tests.readme

clean:
	rm -rf $(VENV) dist runs/toy *.egg-info .pytest_cache .mypy_cache .ruff_cache

# A stamp is touched when its installation has succeeded, so an interrupted one starts again.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info < (3, 14); sys.exit(None if ok else "t2t-lite needs Python 3.11, 3.12 or 3.13; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.created $(PACKAGING)
	$(BIN)/python -m pip install --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.created $(PACKAGING)
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[test]'
	touch $@
	touch $(VENV)/.installed
