"""The wire types of the Coreason Agent Protocol, with the names of RFC 002, 004 and 005."""
