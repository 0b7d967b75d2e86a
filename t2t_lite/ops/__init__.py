"""Operations that TensorFlow has not, or not as fast: the cache of keys and values, many small products, top k."""
