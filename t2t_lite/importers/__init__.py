"""Models of tensor2tensor, OpenNMT-tf and Marian as runs, and the vocabularies that such runs keep.

Nothing of the core imports this package; the registry loads it by name for the vocabularies.
"""

from t2t_lite.registry import VOCABULARIES, VOCABULARY_OPS

VOCABULARIES.register_lazily(".marian", "t2t_lite.importers.marian_vocabulary")
VOCABULARY_OPS.register_lazily(".marian", "t2t_lite.importers.marian_ops")
for _suffix in (".subwords", ".tokens", ".bytes", ".opennmt"):
    VOCABULARIES.register_lazily(_suffix, "t2t_lite.importers.vocabularies")
    VOCABULARY_OPS.register_lazily(_suffix, "t2t_lite.importers.vocabulary_ops")
