"""Who the server is and who may talk to it: a CA of its own, a certificate, a token, a kubeconfig.

All of it lies in the data folder, readable by its owner only. It is made once and kept, so that a
kubeconfig that somebody has copied stays good.
"""

import base64
import datetime
import ipaddress
import json
import os
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLUSTER = "makeway"  # name of cluster, user and context in the kubeconfig
_YEARS = 10
_RENEW_DAYS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    token: str
    ca_file: Path
    certificate_file: Path
    key_file: Path

    def tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate_file, self.key_file)
        except FileNotFoundError:
            raise DamagedIdentity(self.key_file, "is missing") from None
        except ssl.SSLError:
            raise DamagedIdentity(self.key_file, "does not fit its certificate") from None
        return context

    def kubeconfig(self, address: str) -> str:
        """The text of a kubeconfig for a server at `address`; JSON, which is YAML too."""
        cluster: dict[str, str] = {"server": address}
        if address.startswith("https://"):
            ca = base64.b64encode(self.ca_file.read_bytes()).decode()
            cluster["certificate-authority-data"] = ca
        context = {"cluster": CLUSTER, "user": CLUSTER, "namespace": "default"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CLUSTER, "cluster": cluster}],
            "users": [{"name": CLUSTER, "user": {"token": self.token}}],
            "contexts": [{"name": CLUSTER, "context": context}],
            "current-context": CLUSTER,
        }
        return json.dumps(config, indent=2) + "\n"


class DamagedIdentity(Exception):
    """A file of the identity is missing or broken; the text says what to do."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} {why}; restore it from a backup, or remove {path.parent} to have a new "
            "certificate and token made (copies of the kubeconfig have to be made anew then)"
        )


def identity_in(folder: Path) -> Identity:
    """Return the identity kept in a folder, made now if there is none."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    identity = Identity(
        token=_token(folder / "token"),
        ca_file=folder / "ca.crt",
        certificate_file=folder / "server.crt",
        key_file=folder / "server.key",
    )
    if not _is_good(identity.ca_file) or not _is_good(identity.certificate_file):
        _issue(identity, folder / "ca.key")
    return identity


def write_private(path: Path, content: bytes) -> None:
    """Write a file for its owner only, whole or not at all."""
    _write(path, content, 0o600)


def write_public(path: Path, content: bytes) -> None:
    """Write a file that everybody may read, whole or not at all."""
    _write(path, content, 0o644)


def _write(path: Path, content: bytes, mode: int) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # whatever the umask says
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def _token(path: Path) -> str:
    if path.exists():
        token = path.read_text().strip()
        if token:
            return token
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode() + b"\n")
    return token


def _is_good(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise DamagedIdentity(path, "is no certificate") from None
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return left.days > _RENEW_DAYS


def _issue(identity: Identity, ca_key_file: Path) -> None:
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "makeway-ca")])
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_ca=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    certificate = (
        _builder(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "makeway")]),
            ca_name,
            key.public_key(),
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    write_private(ca_key_file, _pem(ca_key))
    write_private(identity.key_file, _pem(key))
    write_private(identity.certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
    write_private(identity.ca_file, ca.public_bytes(serialization.Encoding.PEM))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
    )


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
