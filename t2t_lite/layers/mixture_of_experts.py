"""A mixture of experts: each position is given to k of n small networks (Shazeer et al., 2017, section 2).

Legend: N positions, D width, F inner size, n experts, k of them for a position, A = N k assignments, M blocks of b
rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.functions import current
from t2t_lite.layers.noisy_top_k import NoisyTopK
from t2t_lite.layers.recording import recorder

BLOCKS = 4  # of an expert if all are asked equally often: at most a fifth of the rows is computed in vain


class ExpertsSize(NamedTuple):
    """Sizes of a mixture: D, F, n and k."""

    width: int
    d_ff: int
    num_experts: int
    experts_per_token: int

    @property
    def products(self) -> int:
        """Multiply-adds for a position: gate, noise and k experts, without the empty rows of blocks."""
        return 2 * self.width * (self.num_experts + self.experts_per_token * self.d_ff)

    def kept_bytes(self, positions: int, bytes_per_value: int, *, in_blocks: bool) -> int:
        """Returns roughly the memory that the forward pass keeps for the backward pass.

        It counts gates, noise and, if x is cast, x in float32; the inputs and inner values of experts; and the outputs
        that positions receive.

        Args:
            in_blocks: experts are computed as in `expert_outputs`, with a copy of an expert's matrices for each block.
        """
        assignments, copies = positions * self.experts_per_token, 0
        rows = assignments
        if in_blocks:
            number, size = block_sizes(assignments, self.num_experts)
            rows, copies = number * size, 2 * number * self.width * self.d_ff
        values = rows * (self.width + self.d_ff) + assignments * self.width + copies
        of_gates = (6 + self.experts_per_token) * self.num_experts + (self.width if bytes_per_value < 4 else 0)
        return values * bytes_per_value + positions * of_gates * 4


def expert_outputs(rows: Any, experts: Any, kernels_1: Any, kernels_2: Any) -> Any:
    """E_i(x) = max(0, x W_i) V_i of the experts that each position asks.

    No position is dropped, however many ask for one expert. An expert's positions fill blocks of b rows; the last block
    may have empty rows, as in Gale et al. (2022). Sizes depend on the number of positions alone, as XLA requires. Each
    block has a copy of its expert's matrices.

    Args:
        rows: x, [N, D].
        experts: int32 [N, k].
        kernels_1, kernels_2: W [n, D, F] and V [n, F, D]; products are made in the dtype of x.

    Returns:
        [N, k, D].
    """
    width, k = rows.shape[-1], experts.shape[-1]
    kernels_1, kernels_2 = (ops.cast(kernels, rows.dtype) for kernels in (kernels_1, kernels_2))
    slots, of_blocks, size = blocks(ops.reshape(experts, (-1,)), kernels_1.shape[0])
    number = ops.shape(of_blocks)[0]
    # The position in each slot. Empty slots hold the first position, whose result nobody reads.
    positions = ops.arange(ops.shape(slots)[0], dtype="int32") // k
    filled = ops.scatter(slots[:, None], positions, (number * size,))
    given = ops.reshape(ops.take(rows, filled, axis=0), (number, size, width))
    inner = ops.relu(ops.matmul(given, ops.take(kernels_1, of_blocks, axis=0)))
    outputs = ops.matmul(inner, ops.take(kernels_2, of_blocks, axis=0))
    return ops.take(ops.reshape(outputs, (-1, width)), ops.reshape(slots, (-1, k)), axis=0)


def blocks(experts: Any, n: int) -> tuple[Any, Any, Any]:
    """Distributes assignments over blocks of b rows; each block belongs to one expert.

    Args:
        experts: int32 [A], the expert of each assignment.
        n: number of experts.

    Returns:
        The slot of each assignment, int32 [A] in [0, M b); the expert of each block, int32 [M]; and b. Both sizes
        depend on A and n alone, and M b <= A + n (b - 1).
    """
    number, size = block_sizes(ops.shape(experts)[0], n)
    asked = ops.one_hot(experts, n, dtype="int32")
    needed = (ops.sum(asked, axis=0) + size - 1) // size
    ends = ops.cumsum(needed)
    within = ops.sum((ops.cumsum(asked, axis=0) - 1) * asked, axis=1)  # how many before it have the same expert
    slots = ops.take(ends - needed, experts) * size + within
    after = ops.arange(number, dtype="int32")[:, None] >= ends[None]
    return slots, ops.minimum(ops.sum(ops.cast(after, "int32"), axis=1), n - 1), size


def block_sizes(assignments: Any, n: int) -> tuple[Any, Any]:
    """Returns M and b for A assignments."""
    size = assignments // (BLOCKS * n) + 1
    return (assignments + n * (size - 1)) // size, size


@keras.saving.register_keras_serializable("t2t_lite")
class MixtureOfExperts(keras.layers.Layer):
    """y = sum of G_i(x) E_i(x) over the k experts i that x is given to, equation (1). No position depends on another.

    Args:
        num_experts: n.
        experts_per_token: k.
        d_ff: F.
        fan_in: W and V are drawn within fan_in^-0.5, as in `FeedForward`; otherwise by Glorot and Bengio's rule.

    The `Gates` of each call may be recorded, for the losses that keep experts equally busy.

    Call arguments:
        x: [B, T, D].
        seed: int32 [3], or None for inference.

    Returns:
        [B, T, D].
    """

    def __init__(
        self, num_experts: int, experts_per_token: int, d_ff: int, *, fan_in: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_experts, self.d_ff, self.fan_in = num_experts, d_ff, fan_in
        self.gating = NoisyTopK(num_experts, experts_per_token, dtype=self.dtype_policy.name, name="gating")

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        self.gating.build(x_shape)

        def matrices(name: str, rows: Any, columns: Any) -> Any:
            bound = rows**-0.5 if self.fan_in else (6 / (rows + columns)) ** 0.5  # of one expert's matrix
            initializer = keras.initializers.RandomUniform(-bound, bound)
            return self.add_weight(name=name, shape=(self.num_experts, rows, columns), initializer=initializer)

        self.kernels_1 = matrices("kernels_1", x_shape[-1], self.d_ff)
        self.kernels_2 = matrices("kernels_2", self.d_ff, x_shape[-1])

    def call(self, x: Any, seed: Any = None) -> Any:
        gates = self.gating(x, seed=seed)
        if watch := recorder(self):
            watch(gates)
        k, width = gates.experts.shape[-1], x.shape[-1]
        rows, experts = ops.reshape(x, (-1, width)), ops.reshape(gates.experts, (-1, k))
        outputs = current(expert_outputs)(rows, experts, self.kernels_1, self.kernels_2)
        weights = ops.cast(ops.reshape(gates.weights, (-1, k, 1)), x.dtype)
        return ops.reshape(ops.sum(weights * outputs, axis=1), ops.shape(x))

    @property
    def size(self) -> ExpertsSize:
        return ExpertsSize(self.kernels_1.shape[1], self.d_ff, self.num_experts, self.gating.experts_per_token)
