"""Operations of a graph that change a variable."""

from __future__ import annotations

from typing import Any

# The last is TensorFlow's random generator, whose state is a variable.
_WRITES = ("Assign", "ResourceScatter", "ResourceStridedSliceAssign", "RngReadAndSkip")


def variable_writes(graph: Any) -> list[str]:
    """Returns the names of the operations that change a variable, in loops and branches too, sorted.

    A name begins with those of the Keras layers that made the operation.

    Args:
        graph: of a concrete `tf.function`.
    """
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return sorted({node.name for node in nodes if node.op.startswith(_WRITES)})
