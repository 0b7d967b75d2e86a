"""Spoken English to written: a problem, an hparams set and a model for t2t-lite; importing this registers them."""

from spoken_to_written import hparams as hparams
from spoken_to_written import problem as problem
from t2t_lite import registry

# The model's module imports Keras, which takes seconds: t2t-lite imports it when a run asks for the model.
registry.MODELS.register_lazily("cyclic_transformer", "spoken_to_written.model")
