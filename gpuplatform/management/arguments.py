"""Types of the commands' arguments: what they refuse is said as the usage error that it is."""

import math
from argparse import ArgumentTypeError


def seconds(text: str) -> float:
    """Return a length of time.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        length = float(text)
    except ValueError:
        length = math.nan
    if not 0 <= length < math.inf:
        msg = f"'{text}' is not a number of seconds: 0 or more"
        raise ArgumentTypeError(msg)
    return length
