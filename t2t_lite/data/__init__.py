"""From text files to batches: sources, prepare, store, plan, pipeline."""
