"""The Python interface: what `t2t_lite.load` and `t2t_lite.train` are."""
