import sys

# The server of the SDK imports it for a store of tasks that no test uses, which takes half a second
# in each process. Without it the SDK works as it does where its extra is not installed.
sys.modules.setdefault("sqlalchemy", None)  # type: ignore[arg-type]
