"""HTTP as plain data: apart from `llm`, the only package that imports an HTTP library."""
