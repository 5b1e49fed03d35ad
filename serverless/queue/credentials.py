"""Permissions in the queue. Pure.

Workers log in to a separate account, which has no streams and reaches three kinds of subject of
the platform's account. Each worker may fetch from its function's consumer, acknowledge its
messages and publish to its function's result subject.

Two accounts are needed because the server does not check permissions for replies: in one account,
a worker could name a subject of the JetStream API as reply subject, and an empty reply there would
delete a stream.
"""

from typing import Final

from gpuplatform.nats.keys import KeyPair
from gpuplatform.nats.tokens import Credentials, SharedSubject, server_accounts, user_credentials
from serverless.queue.names import INVOCATIONS, consumer_name, inbox_prefix, result_subject

_SHARED: Final = (
    SharedSubject(f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.*", has_many_responses=True),
    SharedSubject(f"$JS.ACK.{INVOCATIONS}.>"),
    SharedSubject("gpu.result.*.*"),
)


def server_configuration(account: KeyPair) -> str:
    """Return the part of a server's configuration that declares the platform's accounts."""
    return server_accounts(account, _workers(account), _SHARED)


def worker_credentials(account: KeyPair, tenant: str, function: int) -> Credentials:
    """Return new credentials for the workers of one function."""
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
    """Return new credentials for a platform process, which are never stored."""
    return user_credentials(account, "gpu-platform", publish=[">"], subscribe=[">"])


def _workers(account: KeyPair) -> KeyPair:
    """Return the account of all workers, derived from the platform's, which is the secret."""
    return account.derived("workers")
