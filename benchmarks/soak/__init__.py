"""A soak: many callers in many processes do mixed work for minutes, and every answer is checked."""
