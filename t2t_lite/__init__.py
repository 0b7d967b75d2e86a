"""t2t-lite: the Transformer of "Attention Is All You Need" on TensorFlow 2 and Keras 3.

Importing this package loads no TensorFlow; the commands do that once they know what to run.
"""

__version__ = "0.1.0"
