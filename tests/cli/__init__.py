"""The command as people run it: in separate processes, with pipes and terminals."""
