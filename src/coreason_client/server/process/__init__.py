"""The server process: sockets, connections, signals, the drain and worker processes."""
