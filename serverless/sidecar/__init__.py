"""Stands between the queue and the function in each worker: `python -m serverless.sidecar`.

It takes invocations while the function answers, posts each to it, says how it ended, and only then
acknowledges it. The function sees plain HTTP and no credentials. Nothing here knows Django.

| the function                      | the invocation                                             |
|-----------------------------------|------------------------------------------------------------|
| answers with 100 to 399           | Succeeded                                                  |
| answers with 400 to 499, not 429  | Failed, framework_error: it would be refused again         |
| answers with 429 or 500 and above | again after the back-off; the last time Failed             |
| breaks the connection off, dies   | again after the back-off; the last time Failed             |
| takes longer than the timeout     | Expired, framework_timeout                                 |
| is not asked: no invocation       | refused with the reason, dead-lettered                     |
| is left by a sidecar that dies    | another worker gets it once the ack wait is over           |

An invocation is delivered at least once; `X-Invocation-ID` and `X-Invocation-Attempt` let the
function tell a second time.
"""
