"""Shell completion of flags, problems, hparams sets and hparams, by argcomplete: the extra t2t-lite[completion]."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from t2t_lite import config, registry
from t2t_lite.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
COMMANDS = tuple(
    f"t2t-lite-{name}"
    for name in (
        *("trainer", "datagen", "decoder", "synthesize", "eval"),
        *("avg-checkpoints", "exporter", "query", "insights", "demo", "shortlist"),
        "import",
        "compare",
    )
)


def shell_code(shell: str) -> str:
    """Returns the code that a shell of SHELLS runs at its start to complete all commands.

    Raises:
        UsageError: argcomplete is not installed.
    """
    try:
        import argcomplete
    except ImportError:
        raise UsageError("Completion needs argcomplete: pip install 't2t-lite[completion]'.") from None
    return argcomplete.shellcode(COMMANDS, shell=shell)


def answer(parser: argparse.ArgumentParser, actions: Iterable[type[argparse.Action]]) -> None:
    """Writes the completions of the line that the shell asks about, and ends the process.

    Args:
        actions: classes of the parser's actions that argcomplete does not know.
    """
    try:
        import argcomplete
    except ImportError:
        raise SystemExit(1) from None  # during typing: complete nothing and print nothing
    completers: dict[str, Any] = {name: _names(function) for name, function in _NAMES.items()}
    others = _OTHERS.get(parser.prog, ())
    argcomplete.safe_actions.update(actions)  # so that names may depend on the flags before
    for action in parser._actions:
        if action.dest in completers and action.dest not in others:
            action.completer = completers[action.dest]  # type: ignore[attr-defined]
        elif action.metavar == "DIR":
            action.completer = argcomplete.completers.DirectoriesCompleter()  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options="long")


def _names(function: Callable[[str, argparse.Namespace], Iterable[str]]) -> Callable[..., list[str]]:
    def completer(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        registry.load_plugins(getattr(parsed_args, "usr_dir", None))
        return list(function(prefix, parsed_args))

    return completer


def _hparams(prefix: str, args: argparse.Namespace) -> list[str]:
    before, comma, _ = prefix.rpartition(",")
    classes = [*config.families().values(), config.HParams]
    if getattr(args, "hparams_set", None) in registry.HPARAMS.names():
        classes = [type(registry.hparams(args.hparams_set))]
    return [f"{before}{comma}{name}=" for name in dict.fromkeys(name for cls in classes for name in config.fields(cls))]


# Flags that take other names: those of a server, of tensor2tensor or of OpenNMT-tf.
_OTHERS: dict[str, tuple[str, ...]] = {
    "t2t-lite-query": ("model",),
    "t2t-lite-demo": ("model",),
    "t2t-lite-import": ("hparams_set", "hparams"),
}
_NAMES: dict[str, Callable[[str, argparse.Namespace], Iterable[str]]] = {
    "problem": lambda *_: registry.PROBLEMS.names(),
    "hparams_set": lambda *_: registry.HPARAMS.names(),
    "model": lambda *_: registry.MODELS.names(),
    "hparams": _hparams,
    "metric": lambda _, args: [*registry.METRICS.names(), *(("ter", "evalb", "all") if "sgm" in args else ())],
}
