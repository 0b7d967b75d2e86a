"""The Transformer of `multi30k` for OpenNMT-tf: size, dropout and order of layers."""

import opennmt


def model():
    """What onmt-main --model asks for."""
    return opennmt.models.Transformer(
        num_layers=4,
        num_units=128,
        num_heads=4,
        ffn_inner_dim=256,
        dropout=0.3,
        attention_dropout=0.0,
        ffn_dropout=0.0,
        pre_norm=False,
        output_layer_bias=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )
