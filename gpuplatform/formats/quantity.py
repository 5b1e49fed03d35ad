"""Kubernetes quantities: a strict subset of the grammar of `resource.ParseQuantity`. Pure.

It rejects text for which the API server hangs (huge exponents), changes the value (`Ki` and `.`
become 0, values are rounded up to nano precision and limited to 2^63-1) or trims whitespace.
"""

import re
from dataclasses import dataclass
from typing import Self

from gpuplatform.formats.text import quoted

MAX_LENGTH = 48
"""Longer than any meaningful quantity, and short enough to parse quickly."""

NANO = 10**9
MAX_VALUE = 2**63 - 1
"""The API server silently reduces larger values to this value."""

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_EXPONENT = 18
_SAMPLE = "Use a number with an optional unit, such as 16Gi, 512Mi or 500m."


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount, compared by value: `1Gi` equals `1024Mi`."""

    nanos: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the exact quantity.

        Raises:
            ValueError: If `text` is not a quantity or Kubernetes would change its value.
        """
        if len(text) > MAX_LENGTH:
            msg = f"{quoted(text)} is not a quantity: it has more than {MAX_LENGTH} characters."
            raise ValueError(msg)
        match = _QUANTITY.fullmatch(text)
        if match is None or not (match["whole"] or match["part"]):
            msg = f"{quoted(text)} is not a quantity. {_SAMPLE}"
            raise ValueError(msg)
        nanos = _nanos(match, text)
        return cls(-nanos if match["sign"] == "-" else nanos)

    @classmethod
    def parsed_or_zero(cls, amount: object) -> Self:
        """Return the quantity that another program wrote, or 0 if it is not a valid quantity."""
        try:
            return cls.parse(str(amount or "0"))
        except ValueError:
            return cls(0)

    def canonical(self) -> str:
        """Return the canonical form: the shorter of the binary and the decimal form.

        The API server stores both forms unchanged.
        """
        sign, amount = ("-", -self.nanos) if self.nanos < 0 else ("", self.nanos)
        return sign + min((_binary(amount), _decimal(amount)), key=len)

    def decimal(self) -> str:
        """Return the decimal form, to which the API server converts a number in a pod."""
        return ("-" if self.nanos < 0 else "") + _decimal(abs(self.nanos))

    @property
    def is_whole(self) -> bool:
        """Whether the amount is an integer."""
        return self.nanos % NANO == 0

    def __int__(self) -> int:
        """Return the amount as an integer, rounded up as in Kubernetes."""
        return -(-self.nanos // NANO)


def canonical(text: str) -> str:
    """Return the canonical form of a quantity. Equal values have the same canonical form.

    Raises:
        ValueError: If `Quantity.parse` rejects `text`.
    """
    return Quantity.parse(text).canonical()


def memory(text: str, *, minimum: str = "1Mi") -> str:
    """Return the canonical form of an amount of memory: whole bytes, at least `minimum`.

    Raises:
        ValueError: If `text` is not a quantity, not a whole number of bytes, or less than
            `minimum`.
    """
    amount = Quantity.parse(text)
    if amount < Quantity.parse(minimum):
        msg = f"{quoted(text)} is too little memory. The minimum is {minimum}."
        raise ValueError(msg)
    if not amount.is_whole:
        msg = (
            f"{quoted(text)} is not a whole number of bytes. Use a smaller unit, such as Mi or Ki."
        )
        raise ValueError(msg)
    return amount.canonical()


def cpu(text: str, *, maximum: str = "1M") -> str:
    """Return the canonical form of an amount of CPU: a multiple of 1m, at least 1m.

    Raises:
        ValueError: If `text` is not a quantity, not a multiple of 1m (the scheduler would round it
            up), less than 1m, or more than `maximum`, which is far below the kubelet's limit.
    """
    amount = Quantity.parse(text)
    if amount < Quantity.parse("1m"):
        msg = f"{quoted(text)} is too little CPU. The minimum is 1m."
        raise ValueError(msg)
    if amount > Quantity.parse(maximum):
        msg = f"{quoted(text)} is too much CPU. The maximum is {maximum}."
        raise ValueError(msg)
    if amount.nanos % (NANO // 1000):
        msg = f"{quoted(text)} is not a multiple of 1m, a thousandth of a CPU."
        raise ValueError(msg)
    return amount.canonical()


def whole(text: str, *, maximum: str = "1P") -> str:
    """Return the digits of an amount that is an integer of at least 1: `4k` is `4000`.

    Raises:
        ValueError: If the amount is not a quantity, not an integer, less than 1, or more than
            `maximum`. The API server computes with thousandths, which have at most 64 bits.
    """
    amount = Quantity.parse(text)
    if not amount.is_whole:
        msg = f"{quoted(text)} is not an integer. Kubernetes has no fractions of the resource."
        raise ValueError(msg)
    if amount.nanos < NANO:
        msg = f"{quoted(text)} is too little. The minimum is 1."
        raise ValueError(msg)
    if amount > Quantity.parse(maximum):
        msg = f"{quoted(text)} is too much. The maximum is {maximum}."
        raise ValueError(msg)
    return str(int(amount))


def _nanos(match: re.Match[str], text: str) -> int:
    part = match["part"] or ""
    digits = int((match["whole"] or "0") + part)
    suffix = match["suffix"] or ""
    binary = _BINARY.get(suffix, 0)
    power = 9 - len(part) + _exponent(match["exponent"], suffix, text)
    numerator = (digits << binary) * _ten_to(power)
    nanos, rest = divmod(numerator, _ten_to(-power))
    if rest:
        msg = f"{quoted(text)} is more precise than Kubernetes supports (nano). Round the value."
        raise ValueError(msg)
    if nanos > MAX_VALUE * NANO:
        msg = f"{quoted(text)} exceeds the maximum of Kubernetes (2^63 - 1)."
        raise ValueError(msg)
    return nanos


def _ten_to(power: int) -> int:
    return int(f"1{'0' * power}")  # 1 if the power is negative


def _exponent(exponent: str | None, suffix: str, text: str) -> int:
    if exponent is None:
        return _DECIMAL.get(suffix, 0)
    power = int(exponent)  # The text is short, so this is fast.
    if abs(power) > _MAX_EXPONENT:
        msg = f"{quoted(text)} has an exponent above {_MAX_EXPONENT}. {_SAMPLE}"
        raise ValueError(msg)
    return power


def _binary(nanos: int) -> str:
    if nanos == 0 or nanos % NANO:
        return _decimal(nanos)
    amount, unit = nanos // NANO, ""
    for suffix in _BINARY:
        if amount % 1024:
            break
        amount, unit = amount // 1024, suffix
    return f"{amount}{unit}"


def _decimal(nanos: int) -> str:
    amount, unit = nanos, "n"
    if amount == 0:
        return "0"
    for suffix in list(_DECIMAL)[1:]:
        if amount % 1000:
            break
        amount, unit = amount // 1000, suffix
    return f"{amount}{unit}"
