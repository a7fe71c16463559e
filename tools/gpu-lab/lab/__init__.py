"""Predicts how GPUs that you do not have would run Koine's kernels; see README.md."""
