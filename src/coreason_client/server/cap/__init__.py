"""The Coreason Agent Protocol over HTTP: routes, requests, responses, admission."""
