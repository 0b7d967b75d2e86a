"""Speed: operations that TensorFlow has not, or not as fast, and fast forms of what the layers define."""
