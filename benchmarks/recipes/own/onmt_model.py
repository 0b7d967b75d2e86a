"""The Transformer of `multi30k`'s size for OpenNMT-tf, with its own dropout and order of layers."""

import opennmt


def model():
    """What onmt-main --model asks for."""
    return opennmt.models.Transformer(
        num_layers=4,
        num_units=128,
        num_heads=4,
        ffn_inner_dim=256,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )
