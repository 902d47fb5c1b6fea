"""A run in progress: its progress display, and the trackers that it is logged to."""
