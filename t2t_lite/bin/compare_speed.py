"""The process of a training whose speed t2t-lite-compare measures: runs the trainer until the command ends."""

from __future__ import annotations

import json
import os
import sys
import threading

from t2t_lite.bin import cli, trainer
from t2t_lite.runs.start_request import StartRequest


def end_with_the_command() -> None:
    """Ends this process when the command that has started it is gone, however that has ended."""
    os.read(0, 1)  # returns when the other end of the pipe is closed
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with_the_command, daemon=True).start()
    sys.exit(cli.run(lambda: trainer.run(StartRequest.from_dict(json.loads(sys.argv[1])))))
