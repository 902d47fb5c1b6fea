"""The training loop, optimizers and learning-rate schedules, evaluation, precision, and the saved model."""
