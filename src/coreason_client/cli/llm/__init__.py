"""The commands `coreason llm`, `coreason llm models` and `coreason llm logs`."""

from ._ask import EPILOG, llm
from ._completion import complete_model
from ._logs import LOGS_EPILOG, logs
from ._models import MODELS_EPILOG, models

__all__ = ["EPILOG", "LOGS_EPILOG", "MODELS_EPILOG", "complete_model", "llm", "logs", "models"]
