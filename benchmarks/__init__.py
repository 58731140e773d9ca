"""Measurements: ours, the same work by hand (the floor), and the peers, side by side in one run."""
