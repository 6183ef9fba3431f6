"""Generates a CA and a certificate for localhost."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def _signed(name, key, issuer, issuer_key, extension, critical):
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - datetime.timedelta(hours=1),
        not_valid_after=now + datetime.timedelta(days=1),
    )
    return builder.add_extension(extension, critical).sign(issuer_key, hashes.SHA256())


def make(folder):
    """Writes authority.pem, key.pem and certificate.pem."""
    name = lambda text: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    is_authority = x509.BasicConstraints(ca=True, path_length=0)
    authority = _signed(name("authority"), authority_key, name("authority"), authority_key, is_authority, True)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = _signed(name("localhost"), key, name("authority"), authority_key, names, False)
    pem = serialization.Encoding.PEM
    (folder / "authority.pem").write_bytes(authority.public_bytes(pem))
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
