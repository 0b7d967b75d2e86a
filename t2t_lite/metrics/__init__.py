"""Scores of text against references; no TensorFlow."""
