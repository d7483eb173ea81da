"""Recordings of HTTP exchanges: the file, its secrets, the recorder and the replay."""
