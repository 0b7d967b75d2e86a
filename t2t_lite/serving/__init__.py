"""From a run to TensorFlow Serving: the exported model, and the client that asks a server for translations."""
