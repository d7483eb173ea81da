"""The server against what the protocol requires, over every binding and on every log.

`drivers` are plain clients, one for each binding; `sites` are the servers, one for each log;
`shapes` knows what each object must look like. The requirements are in `../requirements.toml`.
"""
