"""Programs to run by hand; each docstring says how."""
