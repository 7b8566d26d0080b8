"""AWS's services by their own names, over TLS, as hosts call them that were given no other address.

One authority for each start of a local cloud: its hosts trust it, nobody else does.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

TLS_PORT = 443
_VALID = timedelta(days=30)
_UNENCRYPTED = serialization.NoEncryption()


@dataclass(frozen=True)
class ServiceNames:
    """`addresses` by name; `authority` is what hosts have to trust, PEM; `certificate` and `key` are the services'."""

    addresses: Mapping[str, str]
    authority: str
    certificate: str
    key: str

    def context(self, folder: Path) -> ssl.SSLContext:
        """For a server; the folder, root's alone, gets the files that OpenSSL reads."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in (("certificate.pem", self.certificate), ("key.pem", self.key)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o600)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        return context


def service_names(addresses: Mapping[str, str]) -> ServiceNames:
    """A new authority and a certificate of it for these names, valid from yesterday on."""
    names = list(addresses)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "local cloud")])
    authority = (
        _begun(issuer, issuer, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _begun(subject, issuer, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(issued_by, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, _UNENCRYPTED
    ).decode()
    return ServiceNames(dict(addresses), _pem(authority), _pem(certificate), private)


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    begin = datetime.now(UTC) - timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    """Python verifies as RFC 5280 says since 3.13, which asks an authority for this."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
