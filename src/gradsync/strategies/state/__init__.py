"""What a model keeps in addition to its parameters, and how workers share it."""
