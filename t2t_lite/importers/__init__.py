"""Models that other toolkits trained, read as the weights of this one's."""
