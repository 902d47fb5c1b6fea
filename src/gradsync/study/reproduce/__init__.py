"""Published reports repeated: their tables and figures next to ours, and a verdict on their claims."""
