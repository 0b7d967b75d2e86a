"""The structure of the code: which module may import which, how long a file may be, what is forbidden."""

import ast
import itertools
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from t2t_lite import config, registry
from tests.commands import module_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "t2t_lite"
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
# The most fields of a recipe by group, "model" for each family of models; may only shrink. Of the Transformer's 25,
# eight (num_decoder_layers, source_vector, max_relative_position, attention_biases; norm_epsilon, source_end,
# start_vector, output_bias) are needed for weights that tensor2tensor or OpenNMT-tf trained; attention_score is for the
# comparison in section 3.2.1.
MAX_FIELDS = {"model": 25, "optimizer": 16, "batch": 5, "run": 13, "decode": 6}
LONG_FUNCTIONS: frozenset[str] = frozenset()  # "module.function"; may only shrink

# part of t2t_lite: (parts it may import besides itself, errors, version and the standard library; packages from
# outside).
# A "?", as in "tensorflow_text?", allows an import inside functions only. CONTRIBUTING.md has the rule in short.
LEAVES = (
    *("config", "cpus", "fields", "files", "ids", "languages", "progress", "recipe_text", "registry", "metrics"),
    "ops.threads",
)
RULES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (("api", "config", "problem", "registry"), ()),  # the package itself imports its names lazily
    "api": (
        ("bin", "config", "decoding", "distributed", "export", "groups", "insights", "ops", "runs", "samplers"),
        ("numpy?",),
    ),
    "errors": ((), ()),
    "version": ((), ()),
    "tensor2tensor_names": ((), ()),
    "fields": ((), ()),
    "groups": (("fields",), ()),
    "config": (("fields", "groups", "tensor2tensor_names"), ()),
    "recipe_text": (("config", "fields"), ()),
    "name_table": (("problem", "tensor2tensor_names"), ()),  # problem: to set the name of a registered class
    "registry": (("config", "name_table", "problem", "tensor2tensor_names"), ("numpy",)),
    "progress": ((), ("tqdm?",)),
    "languages": ((), ()),
    "metrics": (("languages",), ("numpy", "sacrebleu", "sacremoses")),
    "text": (("files", "ids"), ("numpy", "sentencepiece")),
    "layers": (("ids",), ("keras", "numpy")),
    "ops": (
        # layers.layer_norm, mixture_of_experts, scaled_dot_product: ops has a fast form of each; layers.dropout: for
        # the seeds of a shard's rows.
        (
            *("cpus", "layers.matrix", "layers.masks", "layers.dropout", "layers.layer_norm"),
            *("layers.mixture_of_experts", "layers.scaled_dot_product"),
        ),
        ("keras", "numpy", "tensorflow", "tensorflow?"),
    ),
    # registry: models register themselves; ops: for a search with the Transformer, imported when the search begins
    "models": (("ids", "layers", "ops", "config", "fields", "registry"), ("keras", "numpy")),
    "problem": (("text", "metrics"), ()),
    "cpus": ((), ()),
    "files": ((), ()),
    "ids": ((), ()),
    "signals": ((), ()),
    "data": (
        ("cpus", "files", "ids", "languages", "text", "problem"),
        ("numpy", "tensorflow?", "tensorflow_datasets?", "requests?", "zstandard?"),
    ),
    "samplers": (("registry", "ops.top_k"), ("tensorflow",)),
    "decoding": (("ops", "samplers", "text", *LEAVES), ("numpy", "tensorflow")),
    "distributed": (("signals", "ops.threads"), ("numpy", "tensorflow")),
    "schedules": (("registry",), ()),
    "optimizers": (("schedules", "config", "name_table", "recipe_text", "registry"), ("tensorflow",)),
    "runs": (
        (
            *("models", "ops", "data", "problem", "decoding", "text", "files", "signals"),
            *("distributed", "optimizers", "schedules", *LEAVES),
        ),
        ("keras", "numpy", "tensorboard?", "tensorflow", "tqdm"),
    ),
    "training": (
        (
            *("models", "ops", "data", "problem", "decoding", "text", "files", "signals"),
            *("distributed", "optimizers", "schedules", "runs", *LEAVES),
        ),
        ("keras", "numpy", "tensorflow", "tensorflow?"),
    ),
    "export": (
        # layers.positions: another engine is given the sinusoids as a table.
        ("models", "ops", "layers.positions", "decoding", "text", "problem", *LEAVES),
        ("keras", "numpy", "tensorflow", "ctranslate2?", "tensorflow_text?"),
    ),
    "client": ((), ("google", "grpc?")),
    "importers": (
        ("config", "registry", "models", "decoding", "text", "files", "runs", "optimizers", "tensor2tensor_names"),
        ("numpy", "tensorflow"),
    ),
    "insights": (
        ("models", "ops.experts", "decoding", "text", "problem", *LEAVES),
        ("numpy", "tensorflow", "matplotlib?"),
    ),
    "demo": (
        ("decoding", "insights", "export", "client"),
        ("numpy", "flask?", "tensorflow?", "waitress?", "werkzeug?"),
    ),
    "bin": (
        (
            *("models", "ops", "data", "problem", "decoding", "text", "files", "signals", "distributed"),
            *(
                "groups",
                "optimizers",
                "runs",
                "samplers",
                "training",
                "export",
                "client",
                "insights",
                "demo",
                "importers",
                *LEAVES,
            ),
            "tensor2tensor_names",
        ),
        # Inside functions only, so that --help answers at once.
        ("argcomplete?", "tensorflow?", "tqdm?"),
    ),
    "problems": (
        (
            *("registry", "config", "problem", "text", "metrics"),
            *(
                f"data.{module}"
                for module in ("cleaning", "corpora", "corpus_files", "held_out", "keep_whole", "sources", "tfds")
            ),
        ),
        ("numpy",),
    ),
    # models.*_hparams: the fields of a model family; this import loads no Keras
    "hparams": (
        (
            *("registry", "config", "problem", "text", "metrics"),
            *(f"models.{family}_hparams" for family in ("bytenet", "convs2s", "moe", "rnn")),
            *("models.transformer_hparams", "models.transformer_moe_hparams"),
        ),
        ("numpy",),
    ),
}
# Forbidden in comments, docstrings, messages and pages; may only grow.
BANNED = (
    *(r"\bmend(s|ed|ing)?\b", r"\btold\b", r"\bparted\b", r"\banew\b", r"\bafresh\b", r"\bforetell", r"\bhitherto\b"),
    *("what came of", "whatever it raises", r"\bthereof\b", r"\bwhereupon\b", r"\bbethink\b", r"\bheretofore\b"),
)
HEAVY = ("tensorflow", "keras", "jax", "tensorflow_text", "tensorflow_datasets", "sacrebleu")


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return name if parts[0] == PACKAGE.name else f"{PACKAGE.name}.{name}"


SOURCES: dict[str, Path] = {
    _module_name(path): path
    for folder in (PACKAGE, ROOT / "problems", ROOT / "hparams")
    for path in sorted(folder.rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}
COMMANDS = sorted(
    name.removeprefix("t2t_lite.bin.")
    for name in SOURCES
    if name.startswith("t2t_lite.bin.") and any(getattr(node, "name", "") == "main" for node in TREES[name].body)
)


def _imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[str, bool]]:
    """Yields (full name of the import, whether it is at the module's top level)."""
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.Lambda)) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: None if is_package and node.level == 1 else is_package - node.level]
                base = ".".join([*parents, base] if base else parents)
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield name, id(node) not in inside


def _violations(tree: ast.Module, module: str, is_package: bool = False) -> list[str]:
    """Returns the imports of `module` that RULES forbids."""
    part = [*module.split("."), ""][1]
    ours, theirs = RULES.get(part, ((), ()))
    found = []
    for name, top in _imports(tree, module, is_package):
        first, _, rest = name.partition(".")
        if first in sys.stdlib_module_names:
            continue
        if first == "t2t_lite":
            allowed = any(f"{rest}.".startswith(f"{other}.") for other in ("version", "errors", part, *ours))
        else:
            allowed = first in theirs or (f"{first}?" in theirs and not top)
        if not allowed:
            found.append(f"{module} imports {name}{' at its top' if top else ''}")
    return found


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_imports_point_one_way(module: str) -> None:
    part = [*module.split("."), ""][1]
    assert module == "t2t_lite" or part in RULES, f"{part} has no row in RULES"
    assert _violations(TREES[module], module, SOURCES[module].name == "__init__.py") == []


def test_no_two_parts_may_import_each_other() -> None:
    """The parts have an order, so there is no import cycle over other parts either."""
    order = TopologicalSorter({part: {name.split(".")[0] for name in ours} for part, (ours, _) in RULES.items()})
    assert len(list(order.static_order())) >= len(RULES)


@pytest.mark.parametrize(
    ("module", "source", "ok"),
    [
        ("t2t_lite.layers.x", "import tensorflow as tf", False),
        ("t2t_lite.layers.x", "def f():\n    from tensorflow import math", False),
        ("t2t_lite.layers.x", "from keras import ops", True),
        ("t2t_lite.models.x", "from t2t_lite import layers", True),
        ("t2t_lite.models.x", "from t2t_lite import data", False),
        ("t2t_lite.models.x", "from ..training import loop", False),
        ("t2t_lite.models.x", "from . import encoder", True),
        ("t2t_lite.export.x", "import tensorflow_text", False),
        ("t2t_lite.export.x", "def f():\n    import tensorflow_text", True),
        ("t2t_lite.bin.x", "import numpy", False),
        ("t2t_lite.bin.x", "import t2t_lite.problems.toy", False),
        ("t2t_lite.training.x", "from t2t_lite.hparams import tiny", False),
        ("t2t_lite.runs.x", "from t2t_lite.training import loop", False),
        ("t2t_lite.problems.x", "from t2t_lite.data import sources", True),
        ("t2t_lite.problems.x", "from t2t_lite.data import prepare", False),
        ("t2t_lite.problems.x", "from t2t_lite.training import loop", False),
        ("t2t_lite.errors", "from t2t_lite import config", False),
    ],
)
def test_the_import_rule_sees_what_it_should(module: str, source: str, ok: bool) -> None:
    assert (_violations(ast.parse(source), module) == []) is ok


def test_only_the_registry_names_problems_and_hparams_as_text() -> None:
    """A module name in a string is an import in disguise."""
    found = [
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in ("t2t_lite.problems", "t2t_lite.hparams")
        if name not in ("t2t_lite.registry", node.value)
    ]
    assert found == []


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_files_and_functions_are_short(module: str) -> None:
    assert SOURCES[module].read_text(encoding="utf-8").count("\n") <= MAX_FILE_LINES
    long = [
        f"{module}.{node.name}"
        for node in ast.walk(TREES[module])
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert set(long) - LONG_FUNCTIONS == set()


def test_the_list_of_long_functions_has_no_stale_name() -> None:
    lengths = {
        f"{module}.{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name for name in LONG_FUNCTIONS if lengths.get(name, 0) <= MAX_FUNCTION_LINES} == set()


def _forbidden(tree: ast.Module) -> Iterator[str]:
    """Yields what the package must not contain: user errors as asserts, code in data, lines split at U+2028."""
    for node in ast.walk(tree):
        match node:
            case ast.Assert():
                yield f"line {node.lineno}: assert"
            case ast.Attribute(attr="splitlines"):
                yield f"line {node.lineno}: splitlines"
            case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
                yield f"line {node.lineno}: {name}"
            case ast.keyword(arg="allow_pickle", value=value) if not (
                isinstance(value, ast.Constant) and value.value is False
            ):
                yield f"line {value.lineno}: allow_pickle"
            case ast.Import(names=names) if any(a.name in ("pickle", "dill", "shelve", "marshal") for a in names):
                yield f"line {node.lineno}: pickle"
            case ast.ImportFrom(module="pickle" | "dill" | "shelve" | "marshal"):
                yield f"line {node.lineno}: pickle"


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_nothing_forbidden(module: str) -> None:
    assert list(_forbidden(TREES[module])) == []


@pytest.mark.parametrize(
    "source",
    [
        "assert x",
        "text.splitlines()",
        "eval(text)",
        "import pickle",
        "from pickle import loads",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
    ],
)
def test_the_rule_finds_what_is_forbidden(source: str) -> None:
    assert len(list(_forbidden(ast.parse(source)))) == 1


def _field_reads(tree: ast.Module) -> set[str]:
    """Names read as hparams.NAME, hp.NAME or x.hparams.NAME."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        if getattr(node.value, "attr", getattr(node.value, "id", "")) in ("hparams", "hp", "_hparams")
    }


def _readers() -> dict[str, set[str]]:
    """Field of HParams -> modules outside config and hparams/ that read it; all models count as one."""
    readers = defaultdict(set)
    for module, tree in TREES.items():
        if module != "t2t_lite.config" and not module.startswith("t2t_lite.hparams"):
            for name in _field_reads(tree):
                readers[name].add("t2t_lite.models" if module.startswith("t2t_lite.models.") else module)
    for name in _asked_for():
        readers[name].add("t2t_lite.optimizers.choices")
    return readers


def _asked_for() -> set[str]:
    """Returns the fields that constructors of optimizers and schedules take; optimizers/choices.py passes them."""
    arguments = {
        argument.arg
        for module, tree in TREES.items()
        if module.startswith(("t2t_lite.optimizers.", "t2t_lite.schedules."))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        for argument in node.args.args
    }
    return arguments & {name for name, field in config.fields(config.HParams).items() if field.meta.read_by}


def test_field_reads_are_found() -> None:
    source = "hparams.d_ff + hp.seed + self.run.hparams.jit + registry.hparams(name) + self._hparams.norm + other.d_k"
    assert _field_reads(ast.parse(source)) == {"d_ff", "seed", "jit", "norm"}


def test_each_hparams_field_is_read_in_exactly_one_module() -> None:
    sets = [registry.hparams(name) for name in registry.HPARAMS.names()]
    names = sorted({name for values in sets for name in config.fields(type(values))})
    readers = _readers()
    assert {name: sorted(readers[name]) for name in names if len(readers[name]) != 1} == {}


def test_each_group_of_fields_stays_small() -> None:
    registry.HPARAMS.load()
    assert len(config.families()) >= 2
    for cls in config.families().values():
        if not cls.__module__.startswith("t2t_lite."):
            continue  # from an example, which another test of this process loaded
        counts = Counter(field.group for field in config.fields(cls).values())
        assert counts.keys() == MAX_FIELDS.keys()
        assert {group: count for group, count in counts.items() if count > MAX_FIELDS[group]} == {}, cls


def test_no_two_hparams_sets_are_equal() -> None:
    sets = {name: registry.hparams(name) for name in registry.HPARAMS.names()}
    assert len(sets) >= 2
    assert [(a, b) for a, b in itertools.combinations(sets, 2) if sets[a] == sets[b]] == []


def test_the_tree_has_no_symlinks() -> None:
    """A checkout must also run where there are no symlinks, as on Windows or in an archive."""
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this tree is no checkout of git")
    assert [line for line in listed.stdout.split("\n") if line.startswith("120000")] == []


@pytest.mark.parametrize("name", ["problems", "hparams"])
def test_problems_and_hparams_refuse_another_name(name: str) -> None:
    done = _python(f"import {name}")
    assert done.returncode == 1
    assert f"Import this package as t2t_lite.{name}, not as {name}." in done.stderr


def _python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a fresh interpreter at the root of the tree."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def _loads_nothing_heavy(code: str) -> str:
    """Runs `code`, checks that it loaded no TensorFlow or the like, and returns its output."""
    done = _python(f"{code}\nimport sys\nprint('heavy:', sorted(set({HEAVY}) & set(sys.modules)))")
    assert done.returncode == 0, done.stderr
    assert "heavy: []" in done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import t2t_lite",
        "from t2t_lite import registry; registry.PROBLEMS.names(); registry.HPARAMS.names()",
        "from t2t_lite import registry; print(registry.help_text())",
    ],
)
def test_importing_and_listing_names_loads_no_tensorflow(code: str) -> None:
    _loads_nothing_heavy(code)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_loads_no_tensorflow(command: str) -> None:
    out = _loads_nothing_heavy(
        f"from t2t_lite.bin import {command}\ntry: status = {command}.main(['--help'])\n"
        "except SystemExit as stop: status = stop.code\nif status: raise SystemExit(status)"
    )
    assert re.match(r"usage: t2t-lite-", out)


def test_every_command_of_setup_has_a_module_with_an_entry() -> None:
    listed = re.search(
        r"^COMMANDS = \((.*?)\)$", (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert listed is not None
    names = [module_of(name) for name in re.findall(r'"([\w-]+)"', listed[1])]
    assert sorted(names) == COMMANDS
    for name in names:
        tree = TREES[f"t2t_lite.bin.{name}"]
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert "main" in functions, name


def _prose() -> Iterator[Path]:
    """Yields files with text for people: code and pages, without the word tables of made-up languages."""
    yield from (path for path in SOURCES.values() if not path.stem.startswith("toy"))
    yield from ROOT.glob("*.md")
    yield from (path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*.md"))


@pytest.mark.parametrize("path", sorted(_prose()), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_banned_phrase(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [found[0] for phrase in BANNED for found in re.finditer(phrase, text, re.IGNORECASE)] == []
