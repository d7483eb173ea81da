"""An agent over the OpenAI-compatible API: models, chat completions and responses."""

from ._errors import error_response
from ._routes import OpenAIRoutes
from ._settings import OpenAIAPI, settings_of
from ._shared import ServedModel, SharedRoutes

__all__ = [
    "OpenAIAPI",
    "OpenAIRoutes",
    "ServedModel",
    "SharedRoutes",
    "error_response",
    "settings_of",
]
