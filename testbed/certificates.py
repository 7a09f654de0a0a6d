"""Keys and certificates for a control plane, made with the openssl program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from testbed import Unavailable

SERVICE_ADDRESS = "10.96.0.1"  # of the Service `kubernetes`: the first address of the service range
SERVER_NAMES = (
    "IP:127.0.0.1", f"IP:{SERVICE_ADDRESS}", "DNS:localhost",
    "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc",
)  # fmt: skip


def key(path: Path) -> Path:
    """Write a new elliptic-curve key."""
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path))
    return path


def public_key(private: Path, path: Path) -> Path:
    """Write the public half of a key."""
    _openssl("ec", "-in", str(private), "-pubout", "-out", str(path))
    return path


def authority(folder: Path) -> Path:
    """Make a certificate authority: `ca.key` and `ca.crt` in the folder. Returns the certificate."""
    certificate = folder / "ca.crt"
    _openssl(
        "req", "-x509", "-new", "-key", str(key(folder / "ca.key")), "-subj", "/CN=testbed", "-days", "3650",
        "-addext", "keyUsage=critical,keyCertSign", "-out", str(certificate),
    )  # fmt: skip
    return certificate


def server(folder: Path, *, valid_days: int = 3650) -> tuple[Path, Path]:
    """Make the API server's certificate and key, signed by the folder's authority. Returns their paths.

    A negative `valid_days` makes a certificate that expired that many days ago.
    """
    request, certificate, private = folder / "server.csr", folder / "server.crt", key(folder / "server.key")
    extensions = folder / "server.ext"
    extensions.write_text(
        "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
        f"authorityKeyIdentifier=keyid\nsubjectAltName={','.join(SERVER_NAMES)}\n"
    )
    _openssl("req", "-new", "-key", str(private), "-subj", "/CN=kube-apiserver", "-out", str(request))
    _openssl(
        "x509", "-req", "-in", str(request), "-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key"),
        "-CAcreateserial", "-days", str(valid_days), "-extfile", str(extensions), "-out", str(certificate),
    )  # fmt: skip
    return certificate, private


def _openssl(*arguments: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise Unavailable("the program openssl is not installed")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
