"""Ready-made agents for the server kit; each module holds one, under the module's own name."""
