"""Sends the library's messages to Python's logger "koine"."""
from __future__ import annotations

import logging
from typing import Any

from ._handle import quiet_callback
from ._library import ffi, text, word_of

logger = logging.getLogger("koine")
_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}


@ffi.callback("void(void *, kn_log_level, const char *)")
def _write(_user: Any, level: int, message: Any) -> None:
    with quiet_callback():
        logger.log(_LEVELS[word_of("kn_log_level", int(level))], "%s", text(message))


def log_into(log: Any) -> None:
    """Sets a kn_logger that formats only the levels enabled for the logger "koine"."""
    shown = [number for number, name in enumerate(_LEVELS) if logger.isEnabledFor(_LEVELS[name])]
    log.write = _write
    log.level = max(shown, default=0)
