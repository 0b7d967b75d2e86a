"""An S3 server on this machine (moto's), for whole processes; a bucket in it that counts what is written."""

import contextlib
import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MISSING = [name for name in ("moto", "s3fs") if importlib.util.find_spec(name) is None]
_PUT = re.compile(r'"PUT /bucket/(\S+?)(?:\?\S*)? HTTP')
_SECONDS = 120  # for the server to start


class Bucket:
    """s3://bucket of a server.

    Attributes:
        env: the environment of processes that use it.
    """

    def __init__(self, address: str, log: Path) -> None:
        self._log, self._read, self._written = log, 0, list[str]()
        self.env = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address,
        }

    def written(self) -> list[str]:
        """The names of the objects that were written so far, in order; leases are left out."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            lines = file.read().rpartition(b"\n")[0]
        self._read += len(lines)
        found = _PUT.findall(lines.decode(errors="replace"))
        self._written += [name for name in found if not name.endswith(".lease")]
        return list(self._written)

    def put(self, name: str, text: str) -> None:
        """Writes an object."""
        self._files().pipe_file(f"bucket/{name}", text.encode())

    def _files(self) -> Any:
        """The bucket's server, by the package of the store alone."""
        import fsspec

        how = {"endpoint_url": self.env["AWS_ENDPOINT_URL"], "key": "x", "secret": "x"}
        return fsspec.filesystem("s3", **how, skip_instance_cache=True, use_listings_cache=False)

    def download(self, name: str, folder: Path) -> Path:
        """Copies what is under a name to a folder."""
        fs = self._files()
        for path in fs.find(f"bucket/{name}"):
            target = folder / str(path).removeprefix(f"bucket/{name}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(fs.cat_file(path))
        return folder


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[Bucket]:
    """Context with a server that is new and empty but for the bucket; its log is in `folder`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log, address = folder / "s3.log", f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            end = time.monotonic() + _SECONDS
            while True:
                try:
                    request = urllib.request.Request(f"{address}/bucket", method="PUT")
                    urllib.request.urlopen(request, timeout=10).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > end:
                        raise RuntimeError(log.read_text(errors="replace")) from None
                    time.sleep(0.2)
            yield Bucket(address, log)
        finally:
            process.kill()
