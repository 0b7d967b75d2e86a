"""The hparams sets that come with t2t-lite; importing this package registers them."""

if __name__ != "t2t_lite.hparams":
    raise ImportError("Import this package as t2t_lite.hparams, not as hparams.")

from t2t_lite.hparams import parsing as parsing
from t2t_lite.hparams import rnn as rnn
from t2t_lite.hparams import table3 as table3
from t2t_lite.hparams import tensor2tensor as tensor2tensor
from t2t_lite.hparams import tiny as tiny
from t2t_lite.hparams import transformer as transformer
