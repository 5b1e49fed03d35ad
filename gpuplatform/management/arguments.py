"""Types of the commands' arguments; invalid values are usage errors."""

import math
from argparse import ArgumentTypeError


def seconds(text: str) -> float:
    """Return a number of seconds.

    Raises:
        ArgumentTypeError: The text is not a number of 0 or more.
    """
    try:
        length = float(text)
    except ValueError:
        length = math.nan
    if not 0 <= length < math.inf:
        msg = f"'{text}' is not a number of seconds: 0 or more"
        raise ArgumentTypeError(msg)
    return length
