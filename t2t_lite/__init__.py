"""t2t-lite: the Transformer of "Attention Is All You Need" on TensorFlow 2 and Keras 3.

Importing this package loads no TensorFlow; the commands do that once they know what to run.
"""

import os as _os

__version__ = "0.1.0"

# An installed package holds problems/ and hparams/; in a checkout both are beside it, and are found there.
_package = _os.path.dirname(__file__)
if not _os.path.isdir(_os.path.join(_package, "problems")):
    __path__.append(_os.path.dirname(_package))
