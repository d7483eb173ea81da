"""The process that serves: sockets, connections, signals, the drain and worker processes."""
