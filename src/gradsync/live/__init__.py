"""A run in progress: its progress display, and event files for TensorBoard."""
