"""HTTP as plain data: the only room that imports an HTTP library, the LLM side apart."""
