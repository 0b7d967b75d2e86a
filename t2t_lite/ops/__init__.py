"""Fast operations that TensorFlow lacks, and fast forms of what the layers define."""
