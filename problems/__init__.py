"""The problems that come with t2t-lite; importing this package registers them."""

if __name__ != "t2t_lite.problems":
    raise ImportError("Import this package as t2t_lite.problems, not as problems.")

from . import imported as imported
from . import iwslt14 as iwslt14
from . import parsing as parsing
from . import text2text as text2text
from . import toy as toy
from . import wmt14 as wmt14
