"""The registries: names, did-you-mean, options, and plugins from a folder or an installed package."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import config, problem, registry
from t2t_lite.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def things() -> registry.Registry[Any]:
    """An empty registry."""
    return registry.Registry("thing", ())


@pytest.fixture
def rhymes() -> Iterator[type[problem.Problem]]:
    """A problem with options, registered as "rhymes" for one test."""

    @registry.register_problem("rhymes")
    class Rhymes(problem.Problem):
        """Lines of verse and their rhymes.

        Not in the list of names.
        """

        def __init__(self, folder: str, limit: int = 10) -> None:
            self.folder, self.limit = folder, limit

    yield Rhymes
    del registry.PROBLEMS._things["rhymes"]


def _known(things: registry.Registry[Any], *names: str) -> None:
    for name in names:
        things.register(name)(type(name, (), {}))


def test_a_decorator_takes_the_name_of_the_thing_or_the_one_it_is_given(things: registry.Registry[Any]) -> None:
    @things.register
    class OneThing: ...

    @things.register()
    class TwoThings: ...

    @things.register("three")
    class Another: ...

    assert things.names() == ["one_thing", "three", "two_things"]
    assert [things.get(name) for name in things.names()] == [OneThing, Another, TwoThings]


def test_an_unknown_name_gets_a_did_you_mean_and_the_list(things: registry.Registry[Any]) -> None:
    _known(things, "toy_ende", "toy_reverse", "wmt14_ende")
    with pytest.raises(UsageError) as caught:
        things.get("toy_end")
    assert str(caught.value).startswith("There is no thing called 'toy_end'. Did you mean 'toy_ende'")
    assert "Known: toy_ende, toy_reverse, wmt14_ende. Your own are found with --usr_dir=DIR." in str(caught.value)


def test_a_lazy_name_is_registered_by_its_module_when_it_is_asked_for(
    things: registry.Registry[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_things.py").write_text('"""Slow to import."""\n\n\nclass Fast: ...\n', encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    things.register_lazily("fast", "slow_things")
    things.register_lazily("fast", "slow_things")  # loaded twice
    assert things.names() == ["fast"]
    assert things.describe() == [("fast", "Slow to import.")]
    assert "slow_things" not in sys.modules
    with pytest.raises(UsageError, match="The thing name 'fast' is taken by slow_things; give other another"):
        things.register_lazily("fast", "other")
    with pytest.raises(UsageError, match="slow_things was to register the thing 'fast', and does not."):
        things.get("fast")
    slow = sys.modules.pop("slow_things")
    assert things.register("fast")(slow.Fast) is things.get("fast")
    with pytest.raises(UsageError, match="'fast' is taken by slow_things"):
        things.register_lazily("fast", "other")


def test_a_name_is_taken_once(things: registry.Registry[Any]) -> None:
    @things.register("same")
    def first() -> None: ...

    def second() -> None: ...

    assert things.register("same")(first) is first  # a module imported twice is no clash
    with pytest.raises(UsageError, match=r"The thing name 'same' is taken by .*first; give .*second another name"):
        things.register("same")(second)
    assert things.get("same") is first


def test_a_problem_gets_its_options_and_none_means_not_given(rhymes: type[problem.Problem]) -> None:
    made: Any = registry.problem("rhymes", folder="verses", limit=None, languages=None)
    assert (type(made), made.folder, made.limit) == (rhymes, "verses", 10)
    made = registry.problem("rhymes", folder="verses", limit=3)
    assert made.limit == 3


@pytest.mark.usefixtures("rhymes")
def test_an_option_that_the_problem_does_not_take() -> None:
    message = "The problem 'rhymes' has no option 'folders'; it takes folder, limit. Did you mean 'folder'"
    with pytest.raises(UsageError, match=re.escape(message)):
        registry.problem("rhymes", folder="verses", folders="x")


@pytest.mark.usefixtures("rhymes")
def test_an_option_that_the_problem_needs() -> None:
    with pytest.raises(UsageError, match="The problem 'rhymes' needs --folder"):
        registry.problem("rhymes")


def test_a_problem_that_does_not_derive_from_problem_is_refused() -> None:
    @registry.register_problem
    class Mine:
        """Has samples alone."""

    for name in ("mine", "mine_rev"):
        with pytest.raises(UsageError, match=r"Mine does not derive from t2t_lite\.problem\.Problem\."):
            registry.problem(name)


class _Direction(problem.Problem):
    """Words and numbers."""

    source_language, target_language = "en", "de"
    vocab_size = 77
    default_hparams = "tiny"
    clean_max_ratio = 2.5

    def __init__(self, folder: str, limit: int = 2) -> None:
        self.folder, self.limit, self.clean = folder, limit, True

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        return ((f"{self.source_language} {split} {i}", f"{self.target_language} {i}") for i in range(self.limit))

    def splits(self) -> tuple[str, ...]:
        return ("train", "dev")

    def options(self) -> dict[str, Any]:
        return {"folder": self.folder, "limit": self.limit}


@pytest.fixture
def numbers() -> Iterator[None]:
    registry.register_problem("numbers")(_Direction)
    yield
    del registry.PROBLEMS._things["numbers"]


@pytest.mark.usefixtures("numbers")
def test_rev_is_the_other_direction_of_any_problem() -> None:
    made = registry.problem("numbers_rev", folder="x", limit=1)
    assert list(made.samples("dev")) == [("de 0", "en dev 0")]
    assert (made.name, made.source_language, made.target_language) == ("numbers_rev", "de", "en")
    assert (made.splits(), made.options()) == (("train", "dev"), {"folder": "x", "limit": 1})
    assert (made.vocab_size, made.clean, made.clean_max_ratio) == (77, True, 2.5)
    assert registry.PROBLEMS.get("numbers_rev").default_hparams == made.default_hparams == "tiny"
    assert registry.problem(made.name, **made.options()).settings() == made.settings()
    changed = {"problem": "numbers_rev", "source_language": "de", "target_language": "en"}
    assert made.settings() == {**registry.problem("numbers", folder="x", limit=1).settings(), **changed}
    made = registry.problem("toy_ende_rev", train_size=1)
    assert [(b, a) for a, b in made.samples("train")] == list(
        registry.problem("toy_ende", train_size=1).samples("train")
    )


@pytest.mark.usefixtures("numbers")
def test_mistakes_with_rev() -> None:
    with pytest.raises(
        UsageError, match="The problem 'numbers_rev' has no option 'folders'; it takes folder, limit. Did"
    ):
        registry.problem("numbers_rev", folders="x")
    with pytest.raises(UsageError, match="no problem called 'number_rev'. Did you mean 'numbers_rev'"):
        registry.problem("number_rev")
    with pytest.raises(UsageError, match="no problem called 'numbers_rev_rev'. Did you mean 'numbers_rev'"):
        registry.problem("numbers_rev_rev")


def test_no_problem_of_its_own_ends_in_rev() -> None:
    with pytest.raises(
        UsageError, match="The problem name 'mine_rev' ends in '_rev', .* give .*_Direction another name"
    ):
        registry.register_problem("mine_rev")(_Direction)
    assert "mine_rev" not in registry.PROBLEMS.names()


def test_a_set_must_return_hparams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.HPARAMS._things, "empty", lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="The hparams set 'empty' returned None; it must return an HParams"):
        registry.hparams("empty")


def test_every_registered_thing_has_a_docstring() -> None:
    rows = registry.PROBLEMS.describe() + registry.HPARAMS.describe()
    assert [name for name, line in rows if not line] == []


PLUGIN = '''
from t2t_lite import config, problem, registry

@registry.register_problem
class MyRhymes(problem.Problem):
    """Lines of verse and their rhymes."""

    def samples(self, split):
        yield "moon", "June"

@registry.register_hparams
def my_tiny():
    """tiny, and half of it."""
    return config.replace(registry.hparams("tiny"), d_model=64)
'''
REPORT = """
print(registry.problem("my_rhymes").name, list(registry.problem("my_rhymes").samples("train")))
print(registry.hparams("my_tiny").d_model, dict(registry.PROBLEMS.describe())["my_rhymes"])
"""
REPORTED = "my_rhymes [('moon', 'June')]\n64 Lines of verse and their rhymes.\n"


def _run(code: str, *paths: Path) -> str:
    """Runs `code` in a fresh interpreter with `paths` on sys.path and returns its output."""
    start = f"import sys; sys.path[:0] = {[str(path) for path in (ROOT, *paths)]}\nfrom t2t_lite import registry\n"
    done = subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, check=False, timeout=60, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_usr_dir_with_loose_files(tmp_path: Path) -> None:
    (tmp_path / "helper_of_mine.py").write_text("WORD = 'moon'\n", encoding="utf-8")
    (tmp_path / "mine.py").write_text(PLUGIN.replace('"moon"', "helper_of_mine.WORD"), encoding="utf-8")
    with (tmp_path / "mine.py").open("a", encoding="utf-8") as file:
        file.write("\nimport helper_of_mine\n")
    assert _run(f"registry.load_plugins({str(tmp_path)!r})" + REPORT) == REPORTED


def test_usr_dir_with_files_that_are_no_modules(tmp_path: Path) -> None:
    (tmp_path / "my-rhymes.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / ".#my-rhymes.py").symlink_to("me@here.4711")  # Emacs' lock
    (tmp_path / "._my-rhymes.py").write_bytes(b"\0\5\x16\7")  # from macOS
    assert _run(f"registry.load_plugins({str(tmp_path)!r})" + REPORT) == REPORTED
    (tmp_path / "my.rhymes.py").write_text(PLUGIN, encoding="utf-8")
    package = tmp_path / "package.v2"
    package.mkdir()
    (package / "__init__.py").write_text(PLUGIN, encoding="utf-8")
    for folder in (tmp_path, package):
        with pytest.raises(
            UsageError, match=r"--usr_dir: .* cannot be imported: in '.*\..*', .* a name without dots\."
        ):
            registry.load_plugins(str(folder))


def test_usr_dir_that_is_a_package(tmp_path: Path) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("from my_package import rhymes\n", encoding="utf-8")
    (package / "rhymes.py").write_text(PLUGIN, encoding="utf-8")
    (package / "not_imported.py").write_text("raise RuntimeError('a package imports what it wants')\n")
    assert _run(f"registry.load_plugins({str(package)!r})" + REPORT) == REPORTED


def _install(folder: Path, code: str) -> None:
    """Puts a package with a plug-in into `folder`, as pip does."""
    (folder / "rhymes_plugin.py").write_text(code, encoding="utf-8")
    info = folder / "rhymes_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rhymes-plugin\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[t2t_lite.plugins]\nrhymes = rhymes_plugin\n", encoding="utf-8")


def test_an_installed_package_registers_by_its_entry_point(tmp_path: Path) -> None:
    _install(tmp_path, PLUGIN)
    assert _run("registry.load_plugins()" + REPORT, tmp_path) == REPORTED
    missing = "try: registry.problem('my_rhymes')\nexcept ValueError as error: print(str(error)[:40])"
    assert _run(missing, tmp_path) == "There is no problem called 'my_rhymes'. \n"


@pytest.mark.commit
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise SystemExit('needs\\nmore.')", "SystemExit: needs more"),
        ("x = = 1", "SyntaxError: invalid syntax"),
        (PLUGIN.replace("MyRhymes", "ToyEnde"), "The problem name 'toy_ende' is taken by t2t_lite.problems"),
    ],
    ids=["exit", "syntax", "clash"],
)
def test_an_installed_package_that_fails_is_left_out(tmp_path: Path, code: str, why: str) -> None:
    """Every command imports all plug-ins; most runs need none of them."""
    _install(tmp_path, code)
    report = (
        "import sys; sys.stderr = sys.stdout\n"
        "registry.load_plugins(); registry.load_plugins()\n"
        "print(registry.problem('toy_ende').name)\n"
        "try: registry.problem('rhymes')\nexcept ValueError as error: print(error)"
    )
    warning, found, error, end = _run(report, tmp_path).split("\n")
    assert warning.startswith(f"The plug-in of the package rhymes-plugin could not be imported, and is left out: {why}")
    assert (found, end) == ("toy_ende", "")
    assert "with --usr_dir=DIR. The plug-in of the package rhymes-plugin, which may register it, could not be" in error
    assert why in error


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("\nprint(y)", "mine.py, line 2 cannot be imported: NameError: name 'y' is not defined."),
        ("\n\nx = = 1", "mine.py, line 3 cannot be imported: SyntaxError: invalid syntax."),
        ("import parts.one", "parts/one.py, line 1 cannot be imported: FileNotFoundError: [Errno 2] No such file"),
    ],
)
def test_an_error_in_usr_dir_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.py").write_text("open('/absent/file')", encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        registry.load_plugins(str(tmp_path))
    assert str(raised.value).startswith(f"--usr_dir: {tmp_path / why}")


def test_an_error_in_a_module_that_is_imported_late_names_the_line(tmp_path: Path) -> None:
    package = tmp_path / "late_model"
    package.mkdir()
    register = "from t2t_lite import registry\nregistry.MODELS.register_lazily('late_{0}', 'late_model.{0}')\n"
    (package / "__init__.py").write_text(register.format("name") + register.format("syntax"))
    (package / "name.py").write_text("\n\nprint(y)")
    (package / "syntax.py").write_text("x = = 1")
    registry.load_plugins(str(package))
    assert dict(registry.MODELS.describe())["late_syntax"] == ""
    for name, line, why in (("name", 3, "NameError: name 'y' is not defined"), ("syntax", 1, "SyntaxError: invalid")):
        with pytest.raises(UsageError) as raised:
            registry.MODELS.get(f"late_{name}")
        where = package / f"{name}.py, line {line}"
        assert str(raised.value).startswith(f"The model 'late_{name}' cannot be imported: {where}: {why}")


def test_a_clash_with_a_built_in_name_asks_the_user_to_change_theirs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN.replace("MyRhymes", "ToyEnde"), encoding="utf-8")
    code = f"try: registry.load_plugins({str(tmp_path)!r}); registry.PROBLEMS.names()\n"
    out = _run(code + "except ValueError as error: print(error)")
    assert re.match(r"The problem name 'toy_ende' is taken by t2t_lite\.problems.*; give mine\.ToyEnde another", out)


def test_usr_dir_must_be_a_folder_with_python_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--usr_dir: .*absent is not a folder"):
        registry.load_plugins(str(tmp_path / "absent"))
    with pytest.raises(UsageError, match=r"--usr_dir: .* holds no \.py file"):
        registry.load_plugins(str(tmp_path))
    (tmp_path / "mine.py").write_text(PLUGIN, encoding="utf-8")
    with pytest.raises(UsageError, match=r"--usr_dir: .*mine.py is not a folder"):
        registry.load_plugins(str(tmp_path / "mine.py"))


def test_help_text_lists_each_kind_with_its_first_lines() -> None:
    text = registry.help_text()
    assert [line for line in text.split("\n") if line.endswith(":")] == [
        f"{kind}:" for kind in "Problems,Hparams sets,Models,Optimizers,Schedules,Samplers,Metrics,Callbacks".split(",")
    ]
    assert re.search(r"^  big +The paper's big model \(Table 3, row \"big\"\)", text, re.MULTILINE)
    assert re.search(r"^  transformer {2,}\S", text, re.MULTILINE)
    assert re.search(r"^  NAME_rev +Any of these, from target to source\.$", text, re.MULTILINE)


def test_an_hparams_set_knows_its_model() -> None:
    @registry.register_hparams("of_another", model="another")
    def of_another() -> config.HParams:
        return config.HParams()

    @registry.register_hparams()
    def of_the_transformer() -> config.HParams:
        return config.HParams()

    try:
        models = [registry.model_of(name) for name in ("of_another", "of_the_transformer", "base", "rnn_tiny", "luong")]
    finally:
        for name in ("of_another", "of_the_transformer"):
            del registry.HPARAMS._things[name]
    assert models == ["another", "transformer", "transformer", "rnn", "rnn"]
    with pytest.raises(UsageError, match=r"no hparams set called 'rnn_tin'. Did you mean 'rnn_tiny'"):
        registry.model_of("rnn_tin")


def test_a_set_with_settings_that_its_class_lacks_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.HPARAMS._things, "old", lambda: config.HParams(num_heads=2))  # type: ignore[arg-type, call-arg, return-value]
    with pytest.raises(UsageError, match=r"'old' cannot be made: .*'num_heads'.*TransformerHParams"):
        registry.hparams("old")
