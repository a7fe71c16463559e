"""What GPUs that are not here would make of Koine's kernels; README.md says how to use it."""
