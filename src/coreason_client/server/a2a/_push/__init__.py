"""Push notifications: the events of a task, sent to the URL of a client."""
