"""The rates of requests that the callers of the API may send."""

from dataclasses import dataclass

from pydantic import Field
from pydantic_settings import BaseSettings


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests per second by caller and kind of request. 0 means unlimited."""

    token_reads: int = 0
    token_writes: int = 0
    token_invocations: int = 0
    tenant_reads: int = 0
    tenant_writes: int = 0
    tenant_invocations: int = 0
    operator: int = 0
    address: int = 0
    burst_seconds: int = 1


class RateSettings(BaseSettings):
    """The settings of the rates, a part of `Environment`."""

    gpuplatform_rate_token_reads: int = Field(
        default=100, ge=0, description="Reads per second of a token. 0 means unlimited."
    )
    gpuplatform_rate_token_writes: int = Field(
        default=20, ge=0, description="Writes per second of a token. 0 means unlimited."
    )
    gpuplatform_rate_token_invocations: int = Field(
        default=100, ge=0, description="Invocations per second of a token. 0 means unlimited."
    )
    gpuplatform_rate_tenant_reads: int = Field(
        default=200,
        ge=0,
        description="Reads per second of all tokens of a tenant. 0 means unlimited.",
    )
    gpuplatform_rate_tenant_writes: int = Field(
        default=40,
        ge=0,
        description="Writes per second of all tokens of a tenant. 0 means unlimited.",
    )
    gpuplatform_rate_tenant_invocations: int = Field(
        default=200,
        ge=0,
        description="Invocations per second of all tokens of a tenant. 0 means unlimited.",
    )
    gpuplatform_rate_operator: int = Field(
        default=0,
        ge=0,
        description="Requests per second of a token with the permission `operator`, instead of the"
        " rates of tokens and tenants. 0 means unlimited.",
    )
    gpuplatform_rate_address: int = Field(
        default=100,
        ge=0,
        description="Requests per second without a valid token from one address. 0 means"
        " unlimited.",
    )
    gpuplatform_rate_burst_seconds: int = Field(
        default=5,
        ge=1,
        le=60,
        description="Duration in seconds over which a rate is averaged. A caller can send the"
        " requests of this duration at the same time.",
    )

    @property
    def rates(self) -> Rates:
        """The rates of requests."""
        return Rates(
            token_reads=self.gpuplatform_rate_token_reads,
            token_writes=self.gpuplatform_rate_token_writes,
            token_invocations=self.gpuplatform_rate_token_invocations,
            tenant_reads=self.gpuplatform_rate_tenant_reads,
            tenant_writes=self.gpuplatform_rate_tenant_writes,
            tenant_invocations=self.gpuplatform_rate_tenant_invocations,
            operator=self.gpuplatform_rate_operator,
            address=self.gpuplatform_rate_address,
            burst_seconds=self.gpuplatform_rate_burst_seconds,
        )
