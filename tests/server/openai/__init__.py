"""The OpenAI-compatible API, judged by the clients that people use."""
