"""From a function to its tool schema, and from a model's raw arguments to checked ones. Pure: no input or output."""
