"""Beam search and the translation of lines, files and data sets."""
