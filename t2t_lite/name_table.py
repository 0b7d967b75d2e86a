"""Registry of things by name: lookup with a did-you-mean, import on first use."""

import ast
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from t2t_lite import other_names
from t2t_lite.errors import T2TError, UsageError, did_you_mean, place_in, reason

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def snake_case(name: str) -> str:
    """Returns 'my_problem' for 'MyProblem'."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


_failed: dict[str, str] = {}  # installed packages whose plug-in could not be imported, and why


def note_failed_plugin(package: str, why: str) -> bool:
    """Notes that a package's plug-in could not be imported; returns whether this is new."""
    is_new = package not in _failed
    _failed[package] = why
    return is_new


def failed_plugins() -> str:
    """Returns what to add to the error about a missing name if a package that may register it was not imported."""
    return "".join(f" {name}, which may register it, could not be imported: {why}." for name, why in _failed.items())


class Registry(Generic[T]):
    """A table of one kind of thing, by name.

    Args:
        kind: what the things are called in messages, such as "problem".
        modules: modules whose import registers the built-in names.
        lazy: module of each built-in name whose module is slow to import; only that module registers the name.
        suffixes: function of each suffix; NAME + suffix names what the function makes of the thing called NAME.
        names_things: whether a thing is given its name as its attribute `name`.
    """

    def __init__(
        self,
        kind: str,
        modules: tuple[str, ...] = (),
        lazy: Mapping[str, str] | None = None,
        suffixes: Mapping[str, Callable[[T], T]] | None = None,
        *,
        names_things: bool = False,
    ) -> None:
        self._kind = kind
        self._modules = modules
        self._lazy = dict(lazy or {})
        self._suffixes = dict(suffixes or {})
        self._names_things = names_things
        self._things: dict[str, T] = {}

    @overload
    def register(self, key: F) -> F: ...

    @overload
    def register(self, key: str | None = None) -> Callable[[F], F]: ...

    def register(self, key: Any = None) -> Any:
        """Decorator: @register, @register() or @register("name").

        Raises:
            UsageError: the name is taken, or ends in one of the suffixes.
        """
        if callable(key):
            return self._add(snake_case(key.__name__), key)
        return lambda thing: self._add(key or snake_case(thing.__name__), thing)

    def register_lazily(self, name: str, module: str) -> None:
        """Imports `module` when `name` is first looked up; the import must register `name`.

        For models: importing Keras takes seconds, and every command loads the plug-ins.

        Raises:
            UsageError: the name is taken.
        """
        there = self._things[name].__module__ if name in self._things else self._lazy.get(name, module)
        if there != module:
            raise self._clash(name, there, module)
        self._lazy[name] = module

    def _add(self, name: str, thing: Any) -> Any:
        there: Any = self._things.get(name)
        # The same thing again is a module imported twice (a reload), not a clash.
        if there is not None and full_name(there) != full_name(thing):
            raise self._clash(name, full_name(there), full_name(thing))
        if self._lazy.get(name, thing.__module__) != thing.__module__:
            raise self._clash(name, self._lazy[name], full_name(thing))
        if suffix := self._split(name)[1]:
            raise UsageError(
                f"The {self._kind} name {name!r} ends in {suffix!r}, which every {self._kind} can be given anyway; "
                f"give {full_name(thing)} another name."
            )
        self._things[name] = thing
        if self._names_things:
            thing.name = name
        return thing

    def _clash(self, name: str, there: str, new: str) -> UsageError:
        return UsageError(f"The {self._kind} name {name!r} is taken by {there}; give {new} another name.")

    def get(self, name: str) -> T:
        """Returns the thing called `name`; an unknown name raises UsageError with a did-you-mean."""
        self.check(name)
        name, suffix = self._split(name)
        if name not in self._things:
            self._import(name)
        if name not in self._things:
            raise UsageError(f"{self._lazy[name]} was to register the {self._kind} {name!r}, and does not.")
        thing = self._things[name]
        return self._suffixes[suffix](thing) if suffix else thing

    def __contains__(self, name: str) -> bool:
        """Whether something is called `name`; imports nothing slow."""
        return self._split(name)[0] in self.names()

    def check(self, name: str) -> None:
        """Raises UsageError if nothing is called `name`; imports nothing slow."""
        if name not in self:
            (base, suffix), names = self._split(name), self.names()
            answer = other_names.answer(self._kind, base, suffix)
            raise UsageError(
                f"There is no {self._kind} called {name!r}."
                f"{answer or did_you_mean(name, [known + suffix for known in names])} "
                f"Known: {', '.join(names)}. Your own are found with --usr_dir=DIR.{failed_plugins()}"
            )

    def names(self) -> list[str]:
        """All names, sorted."""
        self.load()
        return sorted(self._things.keys() | self._lazy.keys())

    def describe(self) -> list[tuple[str, str]]:
        """(name, first line of the docstring) of each thing, sorted; of a lazy one, its module's docstring."""
        return [(name, (self._docstring(name) or "").strip().partition("\n")[0]) for name in self.names()]

    def load(self) -> None:
        """Registers the built-in names, except the slow ones."""
        for module in self._modules:
            importlib.import_module(module)

    def _import(self, name: str) -> None:
        try:
            importlib.import_module(self._lazy[name])
        except T2TError:
            raise
        except Exception as error:
            spec = importlib.util.find_spec(self._lazy[name].partition(".")[0])
            folder = Path(spec.origin).parent if spec and spec.origin else Path()
            raise UsageError(
                f"The {self._kind} {name!r} cannot be imported: {place_in(folder, error)}: {reason(error)}."
            ) from error

    def _split(self, name: str) -> tuple[str, str]:
        """Returns (name, suffix); the suffix is "" where the name ends in none."""
        suffix = next(filter(name.endswith, self._suffixes), "")
        return name.removesuffix(suffix), suffix

    def _docstring(self, name: str) -> str | None:
        if name in self._things:
            return inspect.getdoc(self._things[name])
        spec = importlib.util.find_spec(self._lazy[name])
        source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
        try:
            return ast.get_docstring(ast.parse(source))
        except SyntaxError:  # an error where the name is used
            return None


def full_name(thing: Any) -> str:
    """Returns the module and the name of a class or a function."""
    return f"{thing.__module__}.{thing.__qualname__}"
