"""Keys in the text form of NATS."""

import base64

import pytest

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair


@pytest.mark.parametrize("kind", list(KeyKind))
def test_seed_round_trip(kind: KeyKind) -> None:
    pair = KeyPair.generate(kind)

    again = KeyPair.from_seed(pair.seed, kind)

    assert again.public == pair.public
    assert again.sign(b"x") == pair.sign(b"x")


@pytest.mark.parametrize(
    ("kind", "letter"), [(KeyKind.ACCOUNT, "A"), (KeyKind.USER, "U"), (KeyKind.OPERATOR, "O")]
)
def test_first_letter_is_that_of_kind(kind: KeyKind, letter: str) -> None:
    pair = KeyPair.generate(kind)

    assert pair.public.startswith(letter)
    assert pair.seed.startswith(f"S{letter}")
    assert (len(pair.public), len(pair.seed)) == (56, 58)


def test_seed_of_reference_is_decoded() -> None:
    # From the documentation of NATS: a user's seed and its public key.
    pair = KeyPair.from_seed(
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY", KeyKind.USER
    )

    assert pair.public == "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


@pytest.mark.parametrize(
    "seed",
    [
        "",
        "no",
        "ä",
        KeyPair.generate(KeyKind.USER).seed,
        KeyPair.generate(KeyKind.ACCOUNT).public,
        KeyPair.generate(KeyKind.ACCOUNT).seed[:-1],
        KeyPair.generate(KeyKind.ACCOUNT).seed.lower(),
        base64.b32encode(b"\0" * 36).decode(),
    ],
    ids=["empty", "short", "no ASCII", "of a user", "public", "cut", "lower case", "no prefix"],
)
def test_invalid_seed_is_refused_and_not_repeated(seed: str) -> None:
    with pytest.raises(BadKey) as caught:
        KeyPair.from_seed(seed, KeyKind.ACCOUNT)

    assert len(seed) < 10 or seed not in str(caught.value)


def test_changed_seed_is_refused() -> None:
    seed = KeyPair.generate(KeyKind.ACCOUNT).seed
    other = "A" if seed[20] != "A" else "B"

    with pytest.raises(BadKey):
        KeyPair.from_seed(seed[:20] + other + seed[21:], KeyKind.ACCOUNT)
