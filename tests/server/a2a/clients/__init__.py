"""Clients that others have written, against our server.

a2a-sdk 1.3 is a development dependency and runs here. Its predecessor 0.3 and the JavaScript client
run in child processes; they are installed on demand, once for each environment (`installed`).
"""
