"""Many runs and one table each."""
