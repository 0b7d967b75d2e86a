"""Constituency trees: read, written as symbols for a model, repaired, with the tags that their words may have."""
