"""What every study is, and how its runs are made, found and shown."""
