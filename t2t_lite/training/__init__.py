"""Training: trainer, loop, step, gradients, loss, evaluation, the guard against numbers that are not finite."""
