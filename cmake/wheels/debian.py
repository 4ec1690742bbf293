"""Unpacks packages of Debian releases into folders: older C libraries, and Pythons that this machine does not have.

Nothing is installed and nothing needs root: apt gets the packages, with lists and a cache of its own, and dpkg-deb
unpacks them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "MINNOW_DEBIAN_MIRROR"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def run(*command: str | Path, **options: object) -> str:
    """What a command writes to its standard output; the program ends if the command fails."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"wheels: exit code {done.returncode} of: {' '.join(map(str, command))}\n{done.stdout}")
    return str(done.stdout)


def mirror() -> str:
    """Where this machine gets Debian's packages."""
    if MIRROR in os.environ:
        return os.environ[MIRROR]
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            sys.exit(f"wheels: {tool} not found. `./dev wheels` needs Debian or Ubuntu.")
    if not KEYS.exists():
        sys.exit(
            f"wheels: {KEYS} not found, which proves where packages come from: apt-get install debian-archive-keyring"
        )
    for line in run("apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages").splitlines():
        label, _, address = line.partition(" ")
        if label == "Debian":
            return address
    sys.exit(f"wheels: apt knows no mirror of Debian. Set {MIRROR} to the address of one.")


class Release:
    """The packages of a release for one processor; `folder` keeps apt's lists of them."""

    def __init__(self, name: str, machine: str, folder: Path) -> None:
        self.name, self.folder = name, folder / f"{name}-{machine}"
        self.architecture = ARCHITECTURES[machine]
        for part in ("lists/partial", "cache/archives/partial"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()  # nothing is installed
        sources = self.folder / "sources.list"
        sources.write_text(f"deb [signed-by={KEYS}] {mirror()} {name} main\n")
        self.settings = {
            "Dir::Etc::SourceList": sources,
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null",
            "Dir::State::Lists": self.folder / "lists",
            "Dir::State::Status": self.folder / "status",
            "Dir::Cache": self.folder / "cache",
            "APT::Architecture": self.architecture,
            "APT::Architectures": self.architecture,
            "Acquire::Languages": "none",
            "Debug::NoLocking": "true",
            "APT::Sandbox::User": "root",  # the folders may be of somebody whose files the user _apt cannot read
        }
        self.apt("update")

    def apt(self, *arguments: str) -> None:
        options = [part for name, value in self.settings.items() for part in ("-o", f"{name}={value}")]
        run("apt-get", "-qq", *options, *arguments, cwd=self.folder)

    def unpack(self, packages: Sequence[str], folder: Path, dependencies: bool) -> None:
        """The packages, and with `dependencies` all that they need, down to the C library, as a tree below `folder`."""
        archives = self.folder / "cache/archives"
        for old in [*archives.glob("*.deb"), *self.folder.glob("*.deb")]:
            old.unlink()
        if dependencies:
            self.apt("--yes", "--no-install-recommends", "--download-only", "install", *packages)
        else:
            self.apt("download", *packages)
        folder.mkdir(parents=True, exist_ok=True)
        for archive in [*archives.glob("*.deb"), *self.folder.glob("*.deb")]:
            run("dpkg-deb", "--extract", archive, folder)
        keep_links_inside(folder)


def keep_links_inside(folder: Path) -> None:
    """Links to /lib/... lead to what is below `folder`, not to files of this machine."""
    for link in (path for path in folder.rglob("*") if path.is_symlink()):
        target = os.readlink(link)
        if target.startswith("/") and not target.startswith(str(folder)):
            link.unlink()
            link.symlink_to(os.path.relpath(folder / target.lstrip("/"), link.parent))
