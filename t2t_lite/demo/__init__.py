"""A local web page to try a model."""
