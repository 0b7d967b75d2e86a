"""Client of TensorFlow Serving, over REST or gRPC."""
