"""Run folders: checkpoints, averaging, the lock, logs and metrics, checks, how a run is opened again."""
