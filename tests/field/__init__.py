"""Real failures of other software, each with a small input and the right behaviour."""
