"""An encoder-decoder of two GRUs without attention (Cho et al., EMNLP 2014)."""

from keras import ops

from t2t_lite import registry
from t2t_lite.models import base
from t2t_lite.models.cost import CostPerSymbol


@registry.register_model
class Gru(base.Model):
    """One GRU reads the source; another writes the target and sees only the last state of the source."""

    def __init__(self, hparams, source_vocab_size, target_vocab_size, shared):
        super().__init__(hparams, source_vocab_size, target_vocab_size, shared, name="gru", autocast=False)
        units, shapes = hparams.units, {"softmax": (target_vocab_size, hparams.units)}
        self.units, self.built = units, True
        for side, size in (("source", source_vocab_size), ("target", target_vocab_size)):
            shapes |= {f"{side}_table": (size, units), f"{side}_W": (units, 3 * units), f"{side}_U": (units, 3 * units)}
        self.parts = {name: self.add_weight(name=name, shape=shape) for name, shape in shapes.items()}
        layer, softmax, kept = 12 * units**2, 2 * units * target_vocab_size, 14 * units
        self.cost_per_symbol = CostPerSymbol(layer, layer + softmax, source_values=kept, target_values=kept)

    @classmethod
    def from_hparams(cls, hparams, source_vocab_size, target_vocab_size, shared):
        return cls(hparams, source_vocab_size, target_vocab_size, shared)

    xla = False  # XLA cannot compile the gradients of ops.scan
    cost = property(lambda self: self.cost_per_symbol)

    def states(self, side, ids, h):
        """[B, T, units] for ids [B, T]: z, r = sigmoid(W x + U h); h' = z h + (1 - z) tanh(W x + r U h)."""
        table, *matrices = (self.parts[f"{side}_{name}"] for name in ("table", "W", "U"))
        w, u = (ops.cast(matrix, self.compute_dtype) for matrix in matrices)

        def after(h, x):
            (z, r, n), (hz, hr, hn) = ops.split(x, 3, -1), ops.split(ops.matmul(h, u), 3, -1)
            z = ops.sigmoid(z + hz)
            return 2 * (z * h + (1 - z) * ops.tanh(n + ops.sigmoid(r + hr) * hn),)

        x = ops.cast(ops.take(table, ops.transpose(ids), axis=0), self.compute_dtype)
        return ops.transpose(ops.scan(after, h, ops.matmul(x, w))[1], (1, 0, 2))

    def encode(self, batch, seed=None):
        zeros = ops.zeros((ops.shape(batch["source"])[0], self.units), self.compute_dtype)
        last = ops.maximum(ops.count_nonzero(batch["source"], axis=1), 1)[:, None, None] - 1
        return ops.take_along_axis(self.states("source", batch["source"], zeros), last, axis=1)[:, 0]

    def hidden(self, batch, seed=None):
        return self.states("target", ops.pad(batch["target"][:, :-1], ((0, 0), (1, 0))), self.encode(batch))

    def output(self):
        return self.parts["softmax"], None

    def start(self, memory, beam_size, steps):
        def step(ids, index, fixed, state):
            flat = self.states("target", ops.reshape(ids, (-1, 1)), ops.reshape(state, (-1, self.units)))
            state = ops.reshape(flat, (-1, beam_size, self.units))
            return self.logits(state), state

        return (), ops.repeat(memory[:, None], beam_size, axis=1), step
