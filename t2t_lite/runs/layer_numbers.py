"""Names of unnamed layers that do not depend on what else a process has made.

Keras numbers them by counters of the process: embedding, embedding_1. So the weights of a model that is made a second
time, as for `t2t_lite.load` after `t2t_lite.train`, would not have the paths that the checkpoints have.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator

# Keras has no other way than clear_session, which also takes from a program whatever else it has set there.
from keras.src.backend.common import global_state

_COUNTERS = "object_name_uids"


@contextlib.contextmanager
def numbered_afresh() -> Iterator[None]:
    """Within it, Keras' counters begin at 0; after it, they go on as if nothing had been made."""
    before = global_state.get_global_attribute(_COUNTERS)
    global_state.set_global_attribute(_COUNTERS, collections.defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute(_COUNTERS, before)
