"""JoeyNMT 2.3.0's command on a newer PyTorch, whose ReduceLROnPlateau no longer takes `verbose`."""

import os
import runpy

import joeynmt.builders


class _Plateau(joeynmt.builders.ReduceLROnPlateau):
    def __init__(self, *args, verbose=False, **settings):
        super().__init__(*args, **settings)


os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # JoeyNMT resumes from checkpoints with more than weights
joeynmt.builders.ReduceLROnPlateau = _Plateau
runpy.run_module("joeynmt", run_name="__main__")
