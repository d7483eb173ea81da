"""The wire types of the Coreason Agent Protocol, with the names of RFC 002, 004 and 005."""

# `coreason_client` checks it: another distribution may have a package of the same name.
DISTRIBUTION = "coreason-client"
