"""The problems that come with t2t-lite; importing this package registers them."""

if __name__ != "t2t_lite.problems":
    raise ImportError("Import this package as t2t_lite.problems, not as problems.")

from t2t_lite.problems import parsing as parsing
from t2t_lite.problems import text2text as text2text
from t2t_lite.problems import toy as toy
from t2t_lite.problems import wmt14 as wmt14
