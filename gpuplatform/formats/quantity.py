"""Kubernetes quantities: a strict subset of the grammar of `resource.ParseQuantity`. Pure.

It refuses text for which the API server hangs (huge exponents), changes the value (`Ki` and `.` as
0, more than nano precision rounded up, more than 2^63-1 capped) or trims blanks. `MAX_LENGTH`
bounds the work.
"""

import re
from dataclasses import dataclass
from typing import Self

from gpuplatform.formats.text import quoted

MAX_LENGTH = 48
"""Longer than any useful quantity, and short enough to parse quickly."""

NANO = 10**9
MAX_VALUE = 2**63 - 1
"""The API server silently caps larger values at this one."""

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
            ValueError: `text` is not a quantity, or Kubernetes would change its value.
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
        """Return the canonical text: the shorter of the binary and the decimal form.

        The API server stores both forms unchanged.
        """
        sign, amount = ("-", -self.nanos) if self.nanos < 0 else ("", self.nanos)
        return sign + min((_binary(amount), _decimal(amount)), key=len)

    @property
    def is_whole(self) -> bool:
        """Whether the amount has no fraction."""
        return self.nanos % NANO == 0

    def __int__(self) -> int:
        """Return the whole amount, rounded up as Kubernetes does."""
        return -(-self.nanos // NANO)


def canonical(text: str) -> str:
    """Return the canonical form of a quantity: equal values have equal texts.

    Raises:
        ValueError: see `Quantity.parse`.
    """
    return Quantity.parse(text).canonical()


def memory(text: str, *, minimum: str = "1Mi") -> str:
    """Return the canonical form of an amount of memory: whole bytes, at least `minimum`.

    Raises:
        ValueError: it is not a quantity, has a fraction of a byte, or is less than `minimum`.
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
    """Return the canonical form of an amount of CPU: whole thousandths, at least one of them.

    Raises:
        ValueError: it is not a quantity, not a multiple of 1m (the scheduler would round it up),
            less than 1m, or more than `maximum`, which is far below the kubelet's limit.
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


def _nanos(match: re.Match[str], text: str) -> int:
    part = match["part"] or ""
    digits = int((match["whole"] or "0") + part)
    suffix = match["suffix"] or ""
    binary = _BINARY.get(suffix, 0)
    power = 9 - len(part) + _exponent(match["exponent"], suffix, text)
    numerator = (digits << binary) * _ten_to(power)
    nanos, rest = divmod(numerator, _ten_to(-power))
    if rest:
        msg = f"{quoted(text)} is more precise than Kubernetes stores (one billionth)."
        raise ValueError(msg)
    if nanos > MAX_VALUE * NANO:
        msg = f"{quoted(text)} is larger than Kubernetes stores (2^63 - 1)."
        raise ValueError(msg)
    return nanos


def _ten_to(power: int) -> int:
    return int(f"1{'0' * power}")  # 1 for a negative power


def _exponent(exponent: str | None, suffix: str, text: str) -> int:
    if exponent is None:
        return _DECIMAL.get(suffix, 0)
    power = int(exponent)  # short: the whole text is
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
