"""The wire types of the Coreason Agent Protocol, as RFC 002, 004 and 005 name them."""
