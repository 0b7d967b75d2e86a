"""What a Keras model may have of t2t-lite's: its layers and models, which importing this module registers with Keras.

`keras.models.load_model` then finds them. TensorFlow is loaded only if it is Keras' backend.
"""

from __future__ import annotations

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.conv_attention import ConvAttention
from t2t_lite.layers.conv_embedding import ConvEmbedding
from t2t_lite.layers.dilated_convolution import DilatedConvolution
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward
from t2t_lite.layers.gated_convolution import GatedConvolution
from t2t_lite.layers.layer_norm import LayerNorm
from t2t_lite.layers.linear import Linear
from t2t_lite.layers.lstm import Lstm
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.layers.noisy_top_k import NoisyTopK
from t2t_lite.layers.positions import LearnedPositions
from t2t_lite.layers.projected_lstm import ProjectedLstm
from t2t_lite.layers.residual import Residual
from t2t_lite.layers.residual_block import ResidualBlock
from t2t_lite.layers.rnn_attention import RnnAttention
from t2t_lite.layers.weight_norm import WeightNormLinear
from t2t_lite.models.bytenet import ByteNet
from t2t_lite.models.bytenet_stacks import ByteNetDecoder, ByteNetEncoder
from t2t_lite.models.convs2s import ConvS2S
from t2t_lite.models.convs2s_stacks import ConvDecoder, ConvEncoder
from t2t_lite.models.decoder import Decoder, DecoderLayer
from t2t_lite.models.encoder import Encoder, EncoderLayer
from t2t_lite.models.moe import Moe
from t2t_lite.models.moe_stacks import MoeDecoder, MoeEncoder
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_decoder import RnnDecoder
from t2t_lite.models.rnn_encoder import RnnEncoder
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_moe import TransformerMoe

__all__ = [
    "ByteNet",
    "ByteNetDecoder",
    "ByteNetEncoder",
    "ConvAttention",
    "ConvDecoder",
    "ConvEmbedding",
    "ConvEncoder",
    "ConvS2S",
    "Decoder",
    "DecoderLayer",
    "DilatedConvolution",
    "Dropout",
    "Embedding",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "GatedConvolution",
    "GatedFeedForward",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "Lstm",
    "MixtureOfExperts",
    "Moe",
    "MoeDecoder",
    "MoeEncoder",
    "MultiHeadAttention",
    "NoisyTopK",
    "ProjectedLstm",
    "Residual",
    "ResidualBlock",
    "Rnn",
    "RnnAttention",
    "RnnDecoder",
    "RnnEncoder",
    "Transformer",
    "TransformerMoe",
    "WeightNormLinear",
]
