"""t2t-lite-demo: a local web page that translates while you type."""

import argparse
import ipaddress
import socket
import sys

from t2t_lite.cli import common
from t2t_lite.cli.huge_pages import restart_with_huge_pages
from t2t_lite.groups import IN_SEARCH
from t2t_lite.verbosity import say


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    args = parser.parse(argv)
    _check_flags(parser)
    return common.run(lambda: _run(args), "interrupted; the page is no longer served.", args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-demo",
        description="Serves a web page on this machine that translates while you type, with the n-best list, the "
        "attention and the model card. Needs t2t-lite[demo].",
    )
    common.add_run_flags(parser, required=False)
    common.add_search_flags(parser, IN_SEARCH)
    common.add_language_flag(parser)
    parser.add_argument(
        "--saved_model", metavar="DIR", help="what t2t-lite-exporter wrote, instead of a run: a version, or all of them"
    )
    parser.add_argument("--server", metavar="HOST:PORT", help="TensorFlow Serving's REST API, such as localhost:8501")
    parser.add_argument("--model", metavar="NAME", help="the name that the server gives the model")
    parser.add_argument(
        "--split_sentences",
        action="store_true",
        help="translate each sentence of a line by itself, so that a line may be a paragraph",
    )
    page = parser.add_argument_group("the page")
    page.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1, this machine alone")
    page.add_argument("--port", type=_port, default=8600, metavar="N", help="default: 8600; 0 finds a free one")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 0 to 65535")
    return int(text)


def _check_flags(parser: common.Parser) -> None:
    """Ends the program with status 2 unless the flags name one model."""
    given = parser.given
    if sum(flag in given for flag in ("--output_dir", "--saved_model", "--server")) != 1:
        parser.error("give --output_dir=RUN, --saved_model=DIR, or --server=HOST:PORT with --model=NAME")
    if ("--server" in given) != ("--model" in given):
        parser.error("--server and --model go together")
    if "--server" in given:
        parser.refuse(["split_sentences"], "goes with --output_dir or --saved_model")
    if "--output_dir" not in given:
        parser.refuse(("checkpoint", "usr_dir", "trust_run", *IN_SEARCH), "goes with --output_dir")


def _run(args: argparse.Namespace) -> int:
    restart_with_huge_pages()
    from t2t_lite.demo import backends
    from t2t_lite.demo.app import check_installed, make_app
    from t2t_lite.demo.server import listen, serve

    # Before TensorFlow and the model, so that mistakes show at once.
    check_installed()
    how = {"split": args.split_sentences, "language": args.target_language}
    with listen(args.host, args.port) as listener:
        if args.server is not None:
            backend: backends.Backend = backends.Server(args.server, args.model, args.target_language)
        elif args.saved_model is not None:
            backend = backends.open_export(args.saved_model, **how)
        else:
            backend = backends.open_run(common.open_request(args), **how)
        backend.translate([backend.example])  # the first translation takes seconds: do it before the page is used
        _announce(args.host, listener)
        serve(make_app(backend, args.host), listener)
    return 0


def _announce(host: str, listener: socket.socket) -> None:
    address, port = listener.getsockname()[:2]
    ip = ipaddress.ip_address(address)
    if not ip.is_loopback:
        print(
            f"warning: --host={host} lets everybody who reaches this machine use the page, without a password.",
            file=sys.stderr,
        )
    name = socket.gethostname() if ip.is_unspecified else f"[{host}]" if ":" in host else host
    print(f"http://{name}:{port}/", flush=True)
    say("\nNext: open this address in a browser. Ctrl-C ends the page.")


if __name__ == "__main__":
    sys.exit(main())
