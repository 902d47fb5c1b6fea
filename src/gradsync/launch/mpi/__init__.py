"""mpiexec: starting ranks with it, and what it may leave behind."""
