"""Slurm: the job script, starting a job, and how it ended."""
