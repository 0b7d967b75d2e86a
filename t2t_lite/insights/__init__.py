"""Attention weights of a sentence; the page and the picture that show them."""
