"""An hparams set and a model for t2t-lite; importing this registers them."""

from gru import hparams as hparams
from t2t_lite import registry

# The model's module imports Keras, which takes seconds: t2t-lite imports it when a run asks for the model.
registry.MODELS.register_lazily("gru", "gru.model")
