"""Permissions in the queue. Pure.

Workers log in to a separate account, which has no streams and can use three kinds of subject of
the platform's account. A worker can fetch from the consumer of its function, acknowledge its
messages and publish to the result subject of its function.

Two accounts are necessary because the server does not check permissions for replies. In a shared
account, a worker could set the reply subject of a message to a subject of the JetStream API, and
an empty reply to that message would delete a stream.
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
    """Return the part of the server's configuration that declares the platform's accounts."""
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
    """Return new credentials for a platform process. They are not stored."""
    return user_credentials(account, "gpu-platform", publish=[">"], subscribe=[">"])


def _workers(account: KeyPair) -> KeyPair:
    """Return the account of all workers, derived from the secret account of the platform."""
    return account.derived("workers")
