"""What people look at, made from run folders; never needs torch."""
