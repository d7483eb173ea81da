"""The server behind `coreason inspect`, in front of real agents on loopback."""
