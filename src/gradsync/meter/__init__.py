"""What the ranks measure while they train: stamps, the host, the network. They only record it."""
