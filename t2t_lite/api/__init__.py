"""The Python interface: `t2t_lite.load` and `t2t_lite.train`."""
