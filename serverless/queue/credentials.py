"""Who may do what in the queue.

A function's worker may fetch from its own consumer, acknowledge what it got, and speak on its own
result subject: nothing else, so that the code of one tenant cannot reach another's invocations.
Pure. A worker reads its `.creds` file with `Credentials.from_file`.
"""

from gpuplatform.nats.keys import KeyPair
from gpuplatform.nats.tokens import Credentials, user_credentials
from serverless.queue.names import (
    INVOCATIONS,
    consumer_name,
    inbox_prefix,
    result_subject,
)


def worker_credentials(account: KeyPair, tenant: str, function: int) -> Credentials:
    """Make credentials for the workers of one function."""
    consumer = f"{INVOCATIONS}.{consumer_name(function)}"
    return user_credentials(
        account,
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
