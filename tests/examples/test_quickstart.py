"""examples/quickstart.ipynb: its code runs from top to bottom in a new process, and it is committed without outputs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
CODE = "\n".join("".join(cell["source"]) for cell in CELLS)
# What the notebook shows in its cells: the last values, and the curves as they were drawn.
SHOWN = """
import json
left, right = plt.figure(1).axes
lines = [line.get_ydata().tolist() for line in (*left.lines, *right.lines)]
served = t2t_lite.load(FOLDER / "run" / "export").translate([english(4321)])
print(json.dumps({"lines": lines, "pieces": plt.figure(2).axes[0].images[0].get_array().shape, "served": served}))
"""


def test_it_is_small_and_has_no_outputs() -> None:
    assert [cell["outputs"] for cell in CELLS] == [[]] * len(CELLS)
    assert NOTEBOOK.stat().st_size < 20_000


@pytest.mark.nightly
def test_it_runs_from_top_to_bottom(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE + SHOWN],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("  right\n") == 5
    shown = json.loads(done.stdout.splitlines()[-1])
    training, dev, score = shown["lines"]
    assert len(training) == 8
    assert len(dev) == len(score) == 4
    assert training[-1] < 0.5 * training[0]
    assert dev[-1] < 0.5 * dev[0]
    assert score[-1] > 95
    assert min(shown["pieces"]) > 2
    assert shown["served"] == ["viertausenddreihunderteinundzwanzig"]
