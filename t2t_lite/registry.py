"""Registries by name: PROBLEMS, HPARAMS, MODELS, OPTIMIZERS, SCHEDULES, SAMPLERS, METRICS, CALLBACKS.

Things are registered by decorator and looked up by name. The modules that register the built-in names are imported on
the first look-up, so importing this module is cheap.

    @register_problem              # MyProblem -> "my_problem"
    class MyProblem(problem.Problem): ...

    @register_hparams("my_base")   # or a name of your own
    def my_base():
        return config.replace(registry.hparams("base"), dropout=0.2)

    @register_hparams(model="my_model")  # a recipe of another model than the Transformer
    def my_model_base(): ...
"""

import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, overload

from t2t_lite import config
from t2t_lite.errors import T2TError, UsageError, check_options, place_in, reason
from t2t_lite.metrics.names import METRICS as METRICS
from t2t_lite.name_table import Registry, note_failed_plugin, snake_case
from t2t_lite.name_table import failed_plugins as failed_plugins
from t2t_lite.problem import COMMON_OPTIONS, Problem, check_problem, reverse
from t2t_lite.text.any_vocabulary import AnyVocabulary

F = TypeVar("F", bound=Callable[..., Any])

_log = logging.getLogger("t2t_lite")


def _own_files(folder: str, *names: str) -> dict[str, str]:
    """The module of each of `names` in a folder of this package; without names, of each file that registers its own."""
    files = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / folder)])]
    return {
        name: f"t2t_lite.{folder}.{name}"
        for name in names or files
        if name not in ("base", "choices", "ema", "loss_scale")
    }


PROBLEMS: Registry[type[Problem]] = Registry(
    "problem", ("t2t_lite.problems",), suffixes={"_rev": reverse}, names_things=True
)
HPARAMS: Registry[Callable[[], config.HParams]] = Registry("hparams set", ("t2t_lite.hparams",))
MODELS: Registry[type] = Registry(
    "model", lazy=_own_files("models", "bytenet", "convs2s", "moe", "rnn", "transformer", "transformer_moe")
)
OPTIMIZERS: Registry[type] = Registry("optimizer", lazy=_own_files("optimizers"))
SCHEDULES: Registry[type] = Registry("schedule", lazy=_own_files("schedules"))
SAMPLERS: Registry[type] = Registry("sampler", lazy=_own_files("samplers"))
CALLBACKS: Registry[Callable[[], Any]] = Registry("callback", lazy=_own_files("callbacks"))
# Kinds of vocabularies besides SentencePiece's, by the ending of their files, and the same inside an exported graph.
VOCABULARIES: Registry[type[AnyVocabulary]] = Registry("vocabulary", ("t2t_lite.importers",))
VOCABULARY_OPS: Registry[type] = Registry("vocabulary of a graph", ("t2t_lite.importers",))

register_problem = PROBLEMS.register
register_model = MODELS.register
register_optimizer = OPTIMIZERS.register
register_schedule = SCHEDULES.register
register_sampler = SAMPLERS.register
register_metric = METRICS.register
register_callback = CALLBACKS.register

DEFAULT_MODEL = "transformer"  # of hparams sets that name no model, and whose class names none
_models_of_sets: dict[str, str] = {}


@overload
def register_hparams(key: F) -> F: ...


@overload
def register_hparams(key: str | None = None, *, model: str | None = None) -> Callable[[F], F]: ...


def register_hparams(key: Any = None, *, model: str | None = None) -> Any:
    """Decorator, as `Registry.register`.

    Args:
        model: the model to build from the recipe unless --model says otherwise; default: `model` of its class.
    """
    if callable(key):
        return HPARAMS.register(key)

    def register(function: F) -> F:
        name = key or snake_case(function.__name__)
        HPARAMS.register(name)(function)
        if model is not None:
            _models_of_sets[name] = model
        return function

    return register


def model_of(hparams_set: str) -> str:
    """Returns the name of the model that an hparams set is a recipe of."""
    HPARAMS.check(hparams_set)
    return _models_of_sets.get(hparams_set) or hparams(hparams_set).model or DEFAULT_MODEL


def problem(name: str, **options: Any) -> Problem:
    """Returns the problem called `name`, or raises UsageError; `options` that are None are left out."""
    cls = PROBLEMS.get(name)
    check_problem(cls)
    given = {key: value for key, value in options.items() if value is not None}
    known, others = options_of(cls)
    common = {key: given.pop(key) for key in COMMON_OPTIONS if key in given and key not in known}
    if not others:
        check_options(f"The problem {name!r}", given, known)
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in given:
            raise UsageError(f"The problem {name!r} needs --{key}.")
    made = cls(**given)
    made.given_options = given
    for key, value in common.items():
        setattr(made, key, value)
    return made


def options_of(made: Any, *, eval_str: bool = False) -> tuple[dict[str, inspect.Parameter], bool]:
    """Returns a constructor's parameters by name, without *args and **kwargs, and whether it takes any other name.

    Args:
        eval_str: annotations become types; NameError where that fails.
    """
    parameters = inspect.signature(made, eval_str=eval_str).parameters.values()
    known = {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    return known, any(p.kind is p.VAR_KEYWORD for p in parameters)


def check_class(where: str, made: Any, base: type) -> None:
    """Raises UsageError, beginning with `where`, unless `made` is a subclass of `base` without abstract methods."""
    if not (isinstance(made, type) and issubclass(made, base)):
        raise UsageError(f"{where} is no {base.__name__}; derive it from {base.__module__}.{base.__name__}.")
    if missing := inspect.getattr_static(made, "__abstractmethods__", None):
        raise UsageError(
            f"{where} lacks {', '.join(sorted(missing))}, which each {base.__name__.lower()} has; see "
            f"{base.__module__}."
        )


def hparams(name: str) -> config.HParams:
    """Returns the hparams set called `name`; UsageError where there is none, or what is registered makes none."""
    make = HPARAMS.get(name)
    try:
        values = make()
    except TypeError as error:
        raise UsageError(
            f"The hparams set {name!r} cannot be made: {error}. config.HParams has what all models read; what the "
            "Transformer alone reads, such as num_heads, is in t2t_lite.models.transformer_hparams.TransformerHParams."
        ) from error
    if not isinstance(values, config.HParams):
        raise UsageError(f"The hparams set {name!r} returned {values!r}; it must return an HParams.")
    return values


def recipe_class(hparams_set: str, model: str) -> type[config.HParams]:
    """Returns the class of a recipe for `model` that starts from `hparams_set`."""
    of_set = type(hparams(hparams_set))
    return of_set if model == model_of(hparams_set) else config.recipe_class(model) or of_set


def load_plugins(usr_dir: str | None = None) -> None:
    """Imports plug-ins, which register names: entry points of the group "t2t_lite.plugins", then `usr_dir`.

    Args:
        usr_dir: a folder; imported as a package if it has an __init__.py, else each of its .py files is imported, but
            for hidden ones, such as the lock of an editor.

    Raises:
        UsageError: `usr_dir` is no folder, holds no Python file, or one that cannot be imported.
    """
    # The built-in names first: if a user's name clashes with one, the error asks for another name for the user's.
    PROBLEMS.load()
    HPARAMS.load()
    for point in importlib.metadata.entry_points(group="t2t_lite.plugins"):
        _load(point)
    if usr_dir is None:
        return
    if not os.path.isdir(usr_dir):  # False where Path.is_dir raises, as for a name that is too long
        raise UsageError(f"--usr_dir: {usr_dir} is not a folder.")
    folder = Path(usr_dir).resolve()
    if (folder / "__init__.py").is_file():
        _import(folder.name, folder / "__init__.py", folder.parent)
        return
    files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("."))
    if not files:
        raise UsageError(f"--usr_dir: {usr_dir} holds no .py file.")
    for file in files:
        _import(file.stem, file, folder)


def _load(point: importlib.metadata.EntryPoint) -> None:
    """Imports an installed plug-in; a warning says if that fails, as most runs need none of its names."""
    try:
        point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too
        package = f"The plug-in of the package {point.dist.name if point.dist else point.value}"
        why = reason(error)
        if note_failed_plugin(package, why):
            _log.warning("%s could not be imported, and is left out: %s. Update or uninstall it.", package, why)


def _import(name: str, file: Path, search: Path) -> None:
    """Imports `file` as the module `name`, which can import its neighbours in `search`."""
    if "." in name:
        raise UsageError(
            f"--usr_dir: {file} cannot be imported: in {name!r}, Python reads what stands before the dot as a package. "
            "Give it a name without dots."
        )
    if str(search) not in sys.path:
        sys.path.append(str(search))  # last, so that no file of the user's hides a library
    try:
        module = importlib.import_module(name)
    except (T2TError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, too
        raise UsageError(f"--usr_dir: {place_in(file.parent, error)} cannot be imported: {reason(error)}.") from error
    if Path(module.__file__ or "").resolve() != file.resolve():
        raise UsageError(
            f"--usr_dir: {file} cannot be imported, {name!r} being {module.__file__}; give it another name."
        )


TABLES: dict[str, Registry[Any]] = {  # by title; nothing else lists them
    "Problems": PROBLEMS,
    "Hparams sets": HPARAMS,
    "Models": MODELS,
    "Optimizers": OPTIMIZERS,
    "Schedules": SCHEDULES,
    "Samplers": SAMPLERS,
    "Metrics": METRICS,
    "Callbacks": CALLBACKS,
}
KINDS = tuple(title.lower().replace(" ", "_") for title in TABLES)


def listed(kinds: Iterable[str] = KINDS) -> dict[str, dict[str, str]]:
    """Returns the first line of the docstring of each registered name, by kind; `kinds` are some of KINDS."""
    found = {kind: dict(table.describe()) for kind, table in zip(KINDS, TABLES.values(), strict=True) if kind in kinds}
    if "problems" in found:
        found["problems"]["NAME_rev"] = "Any of these, from target to source."
    return found


def help_text(kinds: Iterable[str] = KINDS) -> str:
    """Returns the same as text."""
    titles, parts = dict(zip(KINDS, TABLES, strict=True)), []
    for kind, rows in listed(kinds).items():
        width = max(map(len, rows), default=0)
        lines = (f"  {name:<{width}}  {line}".rstrip() for name, line in rows.items())
        parts.append(f"{titles[kind]}:\n" + "\n".join(lines))
    return "\n\n".join(parts)
