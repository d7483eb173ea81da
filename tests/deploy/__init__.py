"""The files of `deploy`."""
