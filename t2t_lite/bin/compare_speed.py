"""The process of a training whose speed t2t-lite-compare measures: runs the trainer until the command ends."""

from __future__ import annotations

import os
import sys
import threading

from t2t_lite.bin import trainer


def end_with_the_command() -> None:
    """Ends this process when the command that has started it is gone, however that has ended."""
    os.read(0, 1)  # returns when the other end of the pipe is closed
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with_the_command, daemon=True).start()
    sys.exit(trainer.main(sys.argv[1:]))
