"""Argument types of the commands. argparse reports invalid values as usage errors."""

import math
from argparse import ArgumentTypeError


def seconds(text: str) -> float:
    """Return a number of seconds.

    Raises:
        ArgumentTypeError: If the text is not a number of at least 0.
    """
    try:
        length = float(text)
    except ValueError:
        length = math.nan
    if not 0 <= length < math.inf:
        msg = f"'{text}' is not a valid number of seconds. Use a number of at least 0."
        raise ArgumentTypeError(msg)
    return length
