"""Who may do what in the queue.

Workers log in to an account of their own, which has no streams and reaches three kinds of subject
of the platform's account. Within it each may fetch from its own function's consumer, acknowledge
what it got, and speak on its own result subject: nothing else. The two accounts are what keeps a
worker from naming a subject of the platform as the place for a reply: the server sends replies
without asking who may send there, so that within one account an empty reply to a subject of the
API would delete a stream.

Pure. A worker reads its `.creds` file with `Credentials.from_file`.
"""

from typing import Final

from gpuplatform.nats.keys import KeyPair
from gpuplatform.nats.tokens import Credentials, Shared, server_accounts, user_credentials
from serverless.queue.names import (
    INVOCATIONS,
    consumer_name,
    inbox_prefix,
    result_subject,
)

_SHARED: Final = (
    Shared(f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.*", has_many_answers=True),
    Shared(f"$JS.ACK.{INVOCATIONS}.>"),
    Shared("gpu.result.*.*"),
)


def server_configuration(account: KeyPair) -> str:
    """Return what a server's configuration says of the accounts of this platform."""
    return server_accounts(account, _workers(account), _SHARED)


def worker_credentials(account: KeyPair, tenant: str, function: int) -> Credentials:
    """Make credentials for the workers of one function."""
    consumer = f"{INVOCATIONS}.{consumer_name(function)}"
    return user_credentials(
        _workers(account),
        consumer_name(function),
        publish=[
            f"$JS.API.CONSUMER.MSG.NEXT.{consumer}",
            f"$JS.ACK.{consumer}.>",
            result_subject(tenant, function),
        ],
        subscribe=[f"{inbox_prefix(function)}.>"],
    )


def platform_credentials(account: KeyPair) -> Credentials:
    """Make credentials for a process of the platform; they end with the process."""
    return user_credentials(account, "gpu-platform", publish=[">"], subscribe=[">"])


def _workers(account: KeyPair) -> KeyPair:
    """Return the account of all workers; it follows from the platform's, which is the secret."""
    return account.derived("workers")
