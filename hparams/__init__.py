"""The hparams sets that come with t2t-lite; importing this package registers them."""

if __name__ != "t2t_lite.hparams":
    raise ImportError("Import this package as t2t_lite.hparams, not as hparams.")

from . import bytenet as bytenet
from . import convs2s as convs2s
from . import iwslt as iwslt
from . import marian as marian
from . import moe as moe
from . import parsing as parsing
from . import rnn as rnn
from . import student as student
from . import table3 as table3
from . import tensor2tensor as tensor2tensor
from . import tiny as tiny
from . import transformer as transformer
