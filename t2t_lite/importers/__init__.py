"""Models that other toolkits trained, read as the weights of this toolkit's models."""
