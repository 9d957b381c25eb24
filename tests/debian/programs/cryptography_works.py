# needs: python3-cryptography
"""An extension in Rust (PyO3): encryption, signatures, a certificate."""
import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

box = Fernet(Fernet.generate_key())
print(box.decrypt(box.encrypt(b"text")))
key = ec.generate_private_key(ec.SECP256R1())
signed = key.sign(b"data", ec.ECDSA(hashes.SHA256()))
key.public_key().verify(signed, b"data", ec.ECDSA(hashes.SHA256()))
try:
    key.public_key().verify(signed, b"other", ec.ECDSA(hashes.SHA256()))
except InvalidSignature:
    print("refused")
name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example")])
day = datetime.datetime(2026, 1, 1)
made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
        .not_valid_before(day).not_valid_after(day + datetime.timedelta(1)).sign(key, hashes.SHA256()))
print(made.subject.rfc4514_string(), made.serial_number)
