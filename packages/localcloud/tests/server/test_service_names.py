"""The certificate by which hosts know AWS's services: good for their names, for whoever trusts its authority alone."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from localcloud.hosts.service_names import ServiceNames, service_names

EBS = "ebs.us-east-1.amazonaws.com"


@pytest.fixture(scope="module")
def names() -> ServiceNames:
    return service_names({EBS: "10.77.0.1"})


def shake_hands(names: ServiceNames, folder: Path, called: str, trusted: str) -> None:
    """A TLS handshake in memory. Raises ssl.SSLError."""
    context = ssl.create_default_context(cadata=trusted)
    # As Python does by itself since 3.13, and with it the hosts' image.
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=called)
    server = names.context(folder).wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        for one in list(waiting):
            try:
                one.do_handshake()
                waiting.remove(one)
            except ssl.SSLWantReadError:
                continue


def test_who_trusts_the_authority_reaches_the_service_by_its_name(
    names: ServiceNames, tmp_path: Path
) -> None:
    shake_hands(names, tmp_path / "tls", EBS, names.authority)
    assert (tmp_path / "tls").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "tls" / "key.pem").stat().st_mode & 0o777 == 0o600


def test_it_is_good_for_no_other_name(names: ServiceNames, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"ec2\.us-east-1"):
        shake_hands(names, tmp_path, "ec2.us-east-1.amazonaws.com", names.authority)


def test_another_cloud_s_authority_does_not_vouch_for_it(names: ServiceNames, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(names, tmp_path, EBS, service_names({EBS: "10.77.0.1"}).authority)
