"""The documents: their code runs as printed, and the site is built from them."""
