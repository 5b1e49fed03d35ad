"""The sidecar of each worker: connects the queue and the function; without Django.

`python -m serverless.sidecar` fetches invocations while the function is healthy, posts each to it,
reports the outcome, and then acknowledges the message. The function sees plain HTTP and no
credentials.

| the function                       | the invocation                                            |
|------------------------------------|-----------------------------------------------------------|
| answers with 100 to 399            | Succeeded                                                 |
| answers with 400 to 499, not 429   | Failed, framework_error: a retry would fail again         |
| answers with 429 or 500 and above  | retried after the backoff; Failed after the last attempt  |
| closes the connection, or crashes  | retried after the backoff; Failed after the last attempt  |
| exceeds the timeout                | Expired, framework_timeout                                |
| is not called: malformed message   | refused with the reason, dead-lettered                    |
| loses its sidecar                  | delivered to another worker after the ack wait            |

An invocation is delivered at least once. `X-Invocation-ID` and `X-Invocation-Attempt` let the
function recognise a repeated delivery.
"""
