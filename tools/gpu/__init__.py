"""The parts of tools/gpu_check: see the first comment of each file."""
