"""The Coreason Agent Protocol."""
