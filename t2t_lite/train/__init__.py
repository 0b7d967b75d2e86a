"""Training: loss, schedule, optimizer, step, loop, checkpoints, reports."""
