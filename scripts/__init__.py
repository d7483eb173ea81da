"""Scripts for the development of the project."""
