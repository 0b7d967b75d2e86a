"""LSTM encoder-decoders with attention, of the model `rnn`: the paper's comparisons, and small ones."""

from t2t_lite import config
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.registry import register_hparams

from .tensor2tensor import BASIC_PARAMS1
from .tiny import MULTI30K_RUN, SMALL_RUN, TINY_RUN


@register_hparams(model="rnn")
def rnn_tiny() -> RnnHParams:
    """2 LSTM layers of 128 with attention: learns toy_reverse or toy_ende in a few minutes."""
    return RnnHParams(
        num_layers=2,
        d_model=128,
        dropout=0.0,
        clip_norm=5.0,
        learning_rate_factor=0.8,
        **TINY_RUN,
    )


@register_hparams(model="rnn")
def luong() -> RnnHParams:
    """Luong et al. (2015), En-De: 4 LSTM layers of 1000, general score, input feeding, dropout 0.2.

    Theirs was trained with plain gradient descent for 12 epochs, on 50,000 words of each language; here Adam is used.
    Its 221,082,000 parameters are those of the paper's equations, which have one bias for each gate. fairseq's module
    has 221,114,000, as torch's LSTM has two biases, of which only the sum matters.
    """
    return RnnHParams(
        num_layers=4,
        d_model=1000,
        share_embeddings=False,
        dropout=0.2,
        label_smoothing=0.0,
        clip_norm=5.0,
        batch_tokens=4096,
        max_length=64,
        beam_size=10,
        length_penalty=1.0,
    )


@register_hparams(model="rnn")
def gnmt() -> RnnHParams:
    """GNMT (Wu et al., 2016): 8 + 8 LSTM layers of 1024, the first of the encoder read both ways; 32,000 wordpieces.

    Their training began with Adam at 2e-4 and went on with plain gradient descent; then the error rate was minimised,
    too. Here Adam is used throughout. Their alpha was 0.2, with a penalty for untranslated parts, which is missing
    here. These numbers are from memory, except the sizes. The sizes give 280,858,880 parameters and 214.2M
    multiply-adds a step; Shazeer et al. (2017) say 278M and 214M.
    """
    return config.replace(
        luong(),
        num_layers=8,
        d_model=1024,
        encoder="gnmt",
        wiring="gnmt",
        attention_score="additive",
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        schedule="constant",
        learning_rate=2e-4,
        warmup_steps=1,
        max_length=128,
        length_penalty=0.2,
        train_steps=350000,
    )


@register_hparams(model="rnn")
def gnmt_nmt8() -> RnnHParams:
    """tensorflow/nmt's wmt16_gnmt_8_layer: gnmt_v2, gradient descent at a rate of 1, halved in the second half.

    Its luong10 first halves 17,000 updates after the middle, at 187,000 (nmt/model.py), so nine times in 340,000.
    Its loss is divided by sentences, ours by tokens. With 25 tokens a sentence, a rate of 25 and a clip_norm of 5 / 25
    give the same update for a batch of 128 sentences. Initial weights are ours, not uniform within 0.1 of 0.
    """
    return config.replace(
        luong(),
        num_layers=8,
        d_model=1024,
        encoder="gnmt",
        wiring="gnmt_v2",
        attention_score="normed_additive",
        softmax_bias=False,
        optimizer="sgd",
        schedule="halving",
        learning_rate=25.0,
        halve_after=187000,
        halve_every=17000,
        clip_norm=0.2,
        batch_tokens=128 * 25,
        max_length=51,  # 50, and the end symbol
        train_steps=340000,
    )


@register_hparams(model="rnn")
def gnmt_nmt4() -> RnnHParams:
    """tensorflow/nmt's wmt16_gnmt_4_layer: gnmt_nmt8 with 4 + 4 layers."""
    return config.replace(gnmt_nmt8(), num_layers=4)


@register_hparams(model="rnn")
def t2t_lstm() -> RnnHParams:
    """tensor2tensor's lstm_attention with lstm_seq2seq_attention_bidirectional_encoder: 2 + 2 layers of 128 and 256.

    From models/lstm.py and basic_params1, on one GPU. Two deviations: theirs attends to padding, too, and its learning
    rate first rises exponentially for 100 updates, ours linearly.
    """
    return RnnHParams(
        num_layers=2,
        d_model=128,
        encoder="bi",
        wiring="attention_wrapper",
        attention_score="additive",
        softmax_bias=False,
        share_embeddings=False,
        learning_rate=2e-4,  # 0.1, times 0.002 for Adam
        warmup_steps=100,
        batch_tokens=1024,
        train_steps=250000,
        **BASIC_PARAMS1,
    )


@register_hparams(model="rnn")
def vinyals() -> RnnHParams:
    """The parser of Vinyals et al. (2015) (Table 4): 3 LSTM layers of 256, the sentence read backwards.

    Size, attention score, order and beam are theirs. What they do not give, such as the dropout rate on WSJ alone, is a
    guess. No size of the embeddings gives their 34M parameters: with 90,000 words and 128 symbols there are 26,945,920
    here.
    """
    return RnnHParams(
        num_layers=3,
        d_model=256,
        encoder="reversed",
        wiring="vinyals",
        attention_score="additive",
        share_embeddings=False,
        dropout=0.2,
        label_smoothing=0.0,
        clip_norm=5.0,
        batch_tokens=4096,
        max_length=512,  # symbols; this and what decodes as in `parsing`
        train_steps=30000,
        eval_lines=500,
        beam_size=10,
        length_penalty=0.0,
        extra_length=300,
        decode_batch_tokens=512,
    )


@register_hparams(model="rnn")
def rnn_small() -> RnnHParams:
    """2 LSTM layers of 512, dropout 0.2: for a corpus of some 100,000 pairs of your own, as `small`."""
    return RnnHParams(
        num_layers=2,
        dropout=0.2,
        clip_norm=5.0,
        **SMALL_RUN,
    )


@register_hparams(model="rnn")
def multi30k_rnn() -> RnnHParams:
    """2 LSTM layers of 256, dropout 0.3: Multi30k En-De with the batches, updates and search of `multi30k`."""
    return RnnHParams(
        num_layers=2,
        d_model=256,
        dropout=0.3,
        clip_norm=5.0,
        **MULTI30K_RUN,
    )
