"""A real A2A server, made with the official SDK, that our clients talk to.

`server` is the program that runs in a separate process; `process` starts and ends it; the agent
behind it does what the text of the message says (`agent`).
"""
