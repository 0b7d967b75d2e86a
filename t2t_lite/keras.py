"""What a Keras model may have of t2t-lite's: its layers and models, which importing this module registers with Keras.

`keras.models.load_model` then finds them. TensorFlow is loaded only if it is Keras' backend.
"""

from t2t_lite.layers.attention import MultiHeadAttention as MultiHeadAttention
from t2t_lite.layers.conv_attention import ConvAttention as ConvAttention
from t2t_lite.layers.conv_embedding import ConvEmbedding as ConvEmbedding
from t2t_lite.layers.dilated_convolution import DilatedConvolution as DilatedConvolution
from t2t_lite.layers.dropout import Dropout as Dropout
from t2t_lite.layers.embedding import Embedding as Embedding
from t2t_lite.layers.feed_forward import FeedForward as FeedForward
from t2t_lite.layers.feed_forward import GatedFeedForward as GatedFeedForward
from t2t_lite.layers.gated_convolution import GatedConvolution as GatedConvolution
from t2t_lite.layers.layer_norm import LayerNorm as LayerNorm
from t2t_lite.layers.linear import Linear as Linear
from t2t_lite.layers.lstm import Lstm as Lstm
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts as MixtureOfExperts
from t2t_lite.layers.noisy_top_k import NoisyTopK as NoisyTopK
from t2t_lite.layers.positions import LearnedPositions as LearnedPositions
from t2t_lite.layers.projected_lstm import ProjectedLstm as ProjectedLstm
from t2t_lite.layers.residual import Residual as Residual
from t2t_lite.layers.residual_block import ResidualBlock as ResidualBlock
from t2t_lite.layers.rnn_attention import RnnAttention as RnnAttention
from t2t_lite.layers.weight_norm import WeightNormLinear as WeightNormLinear
from t2t_lite.models.bytenet import ByteNet as ByteNet
from t2t_lite.models.bytenet_stacks import ByteNetDecoder as ByteNetDecoder
from t2t_lite.models.bytenet_stacks import ByteNetEncoder as ByteNetEncoder
from t2t_lite.models.convs2s import ConvS2S as ConvS2S
from t2t_lite.models.convs2s_stacks import ConvDecoder as ConvDecoder
from t2t_lite.models.convs2s_stacks import ConvEncoder as ConvEncoder
from t2t_lite.models.decoder import Decoder as Decoder
from t2t_lite.models.decoder import DecoderLayer as DecoderLayer
from t2t_lite.models.encoder import Encoder as Encoder
from t2t_lite.models.encoder import EncoderLayer as EncoderLayer
from t2t_lite.models.moe import Moe as Moe
from t2t_lite.models.moe_stacks import MoeDecoder as MoeDecoder
from t2t_lite.models.moe_stacks import MoeEncoder as MoeEncoder
from t2t_lite.models.rnn import Rnn as Rnn
from t2t_lite.models.rnn_decoder import RnnDecoder as RnnDecoder
from t2t_lite.models.rnn_encoder import RnnEncoder as RnnEncoder
from t2t_lite.models.transformer import Transformer as Transformer
from t2t_lite.models.transformer_moe import TransformerMoe as TransformerMoe
