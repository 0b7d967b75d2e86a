"""Writes given pairs to DATA_DIR/wmt14_translate/de-en/1.0.0 as the builder of TensorFlow Datasets does.

Features, splits, file format and names are the builder's own.
Usage: python -m tests.system.tfds_builder PAIRS.json DATA_DIR
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets.core import registered
from tensorflow_datasets.translate.wmt14 import Wmt14Translate


def main(pairs_file: str, data_dir: str) -> None:
    """Builds the data set from PAIRS.json: an object of splits, each a list of pairs."""
    pairs = json.loads(Path(pairs_file).read_text(encoding="utf-8"))
    with registered.skip_registration():

        class Fabricated(Wmt14Translate):
            name = "wmt14_translate"

            def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
                return {split: self._generate_examples(split) for split in pairs}

            def _generate_examples(self, split: str) -> Iterator[tuple[int, dict[str, str]]]:
                for number, (source, target) in enumerate(pairs[split]):
                    yield number, {"en": source, "de": target}

    with tfds.testing.disable_gcs_access():
        Fabricated(config="de-en", data_dir=data_dir).download_and_prepare()


if __name__ == "__main__":
    main(*sys.argv[1:])
