"""The fold of packets that all protocols use."""
