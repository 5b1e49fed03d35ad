"""The sidecar of each worker, which connects the queue and the function. It does not use Django.

`python -m serverless.sidecar` fetches invocations while the function is healthy, posts each one to
the function, reports the outcome, and then acknowledges the message. The function receives plain
HTTP requests and no credentials.

| what the function does                  | what happens to the invocation                        |
|-----------------------------------------|-------------------------------------------------------|
| responds with 100 to 399                | Succeeded                                             |
| responds with more than 1 MiB           | Failed, result_too_large                              |
| responds with 400 to 499, except 429    | Failed, framework_error: a retry would fail again     |
| responds with 429, or 500 and above     | retried after the backoff; Failed after all attempts  |
| closes the connection, or crashes       | retried after the backoff; Failed after all attempts  |
| exceeds the timeout                     | Expired, framework_timeout                            |
| is not called: the invocation expired   | Expired, queue_timeout, if the platform confirms it   |
| is not called: the message is malformed | rejected with a reason, dead-lettered                 |
| loses its sidecar                       | delivered to another worker after the ack wait        |

An invocation is delivered at least once. The headers `X-Invocation-ID` and `X-Invocation-Attempt`
let the function recognize a repeated delivery.
"""
