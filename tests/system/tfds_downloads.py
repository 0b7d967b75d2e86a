"""Puts archives of wmt14_translate/de-en into DATA_DIR/downloads as if TensorFlow Datasets had downloaded them.

The archives hold given pairs. The builder of TensorFlow Datasets finds them under its own names, and extracts, reads,
shuffles and writes them itself. Usage: python -m tests.system.tfds_downloads PAIRS.json DATA_DIR
"""

import io
import json
import sys
import tarfile
from pathlib import Path

from etils import epath
from tensorflow_datasets.core.download import resource
from tensorflow_datasets.translate.wmt import DATASET_MAP
from tensorflow_datasets.translate.wmt14 import Wmt14Translate


def main(pairs_file: str, data_dir: str) -> None:
    """Writes the archives from PAIRS.json, an object: corpus name, as in the builder -> [English, German] pairs."""
    archives: dict[str, dict[str, bytes]] = {}
    for name, pairs in json.loads(Path(pairs_file).read_text(encoding="utf-8")).items():
        corpus = DATASET_MAP[name]
        (url,) = corpus.get_url("de")
        german, english = corpus.get_path("de")
        for path, texts in zip((english, german), zip(*pairs, strict=True), strict=True):
            sgm = path.endswith(".sgm")
            lines = [f'<seg id="{i}">{text}</seg>' for i, text in enumerate(texts, start=1)] if sgm else texts
            archives.setdefault(url, {})[path] = "\n".join(lines).encode()
    infos = Wmt14Translate.url_infos
    for url, files in archives.items():
        path = Path(data_dir, "downloads", Wmt14Translate.name, resource.get_dl_fname(url, infos[url].checksum))
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:gz") as archive:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        resource.write_info_file(url, epath.Path(path), Wmt14Translate.name, url.rpartition("/")[2], infos[url])


if __name__ == "__main__":
    main(*sys.argv[1:])
