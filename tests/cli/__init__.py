"""The command as people run it: in processes of its own, with pipes and terminals."""
