"""A server for tests that answers as TensorFlow Serving does: REST and gRPC on loopback, from a SavedModel's folder.

    with serve(base_dir, "ende") as server:
        Translator(server.rest, "ende"), Translator(server.grpc, "ende", "grpc")

It runs the real graph, the real stubs and the rules of the stock server that a client meets (SERVING.md, sections 3 to
5); it does not batch requests. It can also run alone, as a process:

    python -m tests.serving.server --base=DIR --name=ende --label=stable=1
"""

import argparse
import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import tensorflow_text  # noqa: F401 (registers its ops, as the stock server does)

from tests.serving import grpc_front, rest_front
from tests.serving.served_model import ServedModel


class Server:
    """Addresses of the two endpoints, and the model behind both: its faults, delays and counts."""

    def __init__(self, model: ServedModel, rest_port: int, grpc_port: int) -> None:
        self.model = model
        self.rest, self.grpc = f"127.0.0.1:{rest_port}", f"127.0.0.1:{grpc_port}"

    def address(self, protocol: str) -> str:
        return {"rest": self.rest, "grpc": self.grpc}[protocol]


@contextlib.contextmanager
def serve(
    base: Path,
    name: str,
    *,
    labels: Mapping[str, int] = {},
    keep: str = "latest",
    rest_timeout: float = 30.0,
    rest_port: int = 0,
    grpc_port: int = 0,
) -> Iterator[Server]:
    """Serves BASE/<integer>/ as model `name` until the block ends.

    Args:
        labels: label -> version.
        keep: "latest" or "all" versions.
        rest_timeout: seconds; the server's --rest_api_timeout_in_ms.
        rest_port, grpc_port: 0 takes a free one.
    """
    model = ServedModel(Path(base), name, labels, keep)
    model.refresh()
    rest = rest_front.start(model, rest_port, rest_timeout)
    threading.Thread(target=rest.serve_forever, args=(0.05,), daemon=True).start()
    rpc, bound = grpc_front.start(model, grpc_port)
    try:
        yield Server(model, rest.server_address[1], bound)
    finally:
        rest.shutdown()
        rest.server_close()
        rpc.stop(grace=0).wait()


def _label(text: str) -> tuple[str, int]:
    name, _, version = text.partition("=")
    if not name or not version.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VERSION")
    return name, int(version)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="the folder of the version folders")
    parser.add_argument("--name", required=True)
    parser.add_argument("--rest_api_port", type=int, default=8501)
    parser.add_argument("--port", type=int, default=8500, help="gRPC")
    parser.add_argument(
        "--label",
        type=_label,
        action="append",
        default=[],
        metavar="NAME=VERSION",
        help="may be given again; with labels all versions are served, else the newest",
    )
    args = parser.parse_args()
    keep, ports = "all" if args.label else "latest", {"rest_port": args.rest_api_port, "grpc_port": args.port}
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(serve(args.base, args.name, labels=dict(args.label), keep=keep, **ports))
        except (OSError, RuntimeError) as error:  # no such folder, a port that is taken (gRPC's is a RuntimeError)
            parser.error(str(error))
        print(f"REST {server.rest}, gRPC {server.grpc}; end with Ctrl-C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)
                server.model.refresh()


if __name__ == "__main__":
    main()
