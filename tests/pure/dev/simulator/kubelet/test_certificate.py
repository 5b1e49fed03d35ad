"""The certificate of the kubelets' endpoint, as the TLS library reads it."""

import ssl

from gpuplatform.dev.simulator.kubelet.certificate import server_context


def test_the_certificate_is_valid_for_its_address() -> None:
    context = server_context("gpu-node-", bytes([127, 0, 0, 1]))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    client_context = ssl.create_default_context()
    client_context.check_hostname = False
    client_context.verify_mode = ssl.CERT_NONE
    client = client_context.wrap_bio(outgoing, incoming)

    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue

    assert client.getpeercert(binary_form=True)
    assert client.version() == "TLSv1.3"
