"""Files from outside: opened only where they are files, read within bounds, refused in one line.

A pipe or a device may never end, and a file may be larger than memory: neither is read. What is
wrong is said here, once; what to write instead is said by whoever asks for the file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from topo.error import KvfabricError


@dataclass(frozen=True, slots=True)
class Intake:
    """How files of one kind are opened.

    refuse: makes the error of a complaint.
    absent: what to write instead of a path where nothing is, or nothing that can be read.
    other: what to write instead of the path of a folder, a pipe or a device.
    """

    refuse: Callable[[str], KvfabricError]
    absent: str
    other: str

    def opened(self, path: Path) -> BufferedReader:
        """The file at its start.

        Refused: a path without a file, one that cannot be opened, and what is no file.
        """
        try:
            if path.exists() and not path.is_file():
                raise self.refuse(f"{path}: not a file; {self.other}")
            return path.open("rb")
        except FileNotFoundError:
            raise self.refuse(f"{path}: no such file; {self.absent}") from None
        except OSError as error:
            raise self.refuse(f"{path}: {error.strerror or error}; {self.absent}") from None
        except ValueError:
            raise self.refuse(f"{path}: not a path; {self.absent}") from None

    def content(self, path: Path, most_mib: int, *, large: str, encoding: str) -> str:
        """The whole file as text, without a byte-order mark.

        ``large`` and ``encoding`` say what to do about a file of more than ``most_mib`` MiB, and
        about bytes that are not UTF-8. Refused are these two, and what `opened` refuses.
        """
        with self.opened(path) as file:
            try:
                data = file.read((most_mib << 20) + 1)
            except OSError as error:
                raise self.refuse(f"{path}: {error.strerror}; {self.absent}") from None
        if len(data) > most_mib << 20:
            raise self.refuse(f"{path}: larger than {most_mib} MiB; {large}")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            byte = f"0x{data[error.start]:02x}"
            told = f"{path}:{line}: byte {byte} is not UTF-8 text; {encoding}"
            raise self.refuse(told) from None
