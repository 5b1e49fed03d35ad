"""Operations: acceptance, idempotency, order, execution, cancellation and retry of requests."""
